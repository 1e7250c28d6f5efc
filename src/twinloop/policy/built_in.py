"""The base class of the scheduling policies that the native engine implements."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import ClassVar, Final

from twinloop.description import Description

#: Default settings of the native scheduler, which a policy overrides.
DEFAULT_SETTINGS: Final = MappingProxyType(
    {
        "kind": "batch",
        "order": "arrival",
        "backfill": "none",
        "compress": False,
        "depth": 0,
        "age": 0.0,
        "half_life": 604800.0,
        "share_by": "user",
        "preempt": "no",
        "filters": (),
        "weighers": (),
        "subset": 1,
        "skip": False,
        "queue": "blocking",
        "waits": False,
        "pick": "first",
    }
)


class BuiltInPolicy(Description):
    """Base class of the policies that the native engine implements; the fields are its options."""

    #: The name of the policy in scenarios.
    name: ClassVar[str]

    def native_settings(self, seed: int = 0) -> dict[str, object]:
        """Return the settings of the native scheduler for this policy, including the seed.

        >>> from twinloop.policy import make_policy
        >>> settings = make_policy("easy", depth=50).native_settings(seed=7)
        >>> [settings[name] for name in ("kind", "backfill", "depth", "seed")]
        ['batch', 'easy', 50, 7]
        """
        return {**DEFAULT_SETTINGS, **self._settings(), "seed": seed}

    def _settings(self) -> dict[str, object]:
        raise NotImplementedError

    @property
    def latest_end(self) -> float:
        """The time at which all tasks are to have ended (s); infinite: no option says so.

        >>> from twinloop.policy import make_policy
        >>> make_policy("deadline", deadline="1h").latest_end, make_policy("asap").latest_end
        (3600.0, inf)
        """
        return math.inf
