"""The base of the policies that the core has built in."""

from __future__ import annotations

from types import MappingProxyType
from typing import ClassVar, Final

from twinloop.description import Description

#: What the core is told where a policy does not say otherwise.
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
        "pick": "first",
    }
)


class BuiltInPolicy(Description):
    """A policy that the core has built in: its fields are its options."""

    #: What scenarios call it.
    name: ClassVar[str]

    def native_settings(self, seed: int = 0) -> dict[str, object]:
        """What the core is told: every setting of every built-in policy, and the seed.

        >>> from twinloop.policy import make_policy
        >>> told = make_policy("easy", depth=50).native_settings(seed=7)
        >>> told["kind"], told["backfill"], told["depth"], told["seed"]
        ('batch', 'easy', 50, 7)
        """
        return {**DEFAULT_SETTINGS, **self._settings(), "seed": seed}

    def _settings(self) -> dict[str, object]:
        raise NotImplementedError
