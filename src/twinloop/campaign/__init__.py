"""Many runs at once: threads, processes, Dask; bounded, in order, resumable.

>>> from twinloop.campaign import coordinator
>>> with coordinator("threads", workers=2) as workers:
...     [outcome.value for outcome in workers.map(abs, range(-3, 1))]
[3, 2, 1, 0]
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twinloop.campaign.blackbox import BlackBox as BlackBox
    from twinloop.campaign.blackbox import BlackBoxError as BlackBoxError
    from twinloop.campaign.blackbox import Command as Command
    from twinloop.campaign.blackbox import Function as Function
    from twinloop.campaign.blackbox import black_box as black_box
    from twinloop.campaign.coordinators import Coordinator as Coordinator
    from twinloop.campaign.coordinators import coordinator as coordinator
    from twinloop.campaign.journal import Journal as Journal
    from twinloop.campaign.outcome import Outcome as Outcome

# Each name is fetched when it is first used: a worker process needs next to nothing of them, and
# so starts at once.
_HOME = {
    "BlackBox": "blackbox",
    "BlackBoxError": "blackbox",
    "Command": "blackbox",
    "Coordinator": "coordinators",
    "Function": "blackbox",
    "Journal": "journal",
    "Outcome": "outcome",
    "black_box": "blackbox",
    "coordinator": "coordinators",
}

__all__ = [*_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'twinloop.campaign' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"twinloop.campaign.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
