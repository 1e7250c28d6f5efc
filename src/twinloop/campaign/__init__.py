"""Many runs at once: threads, processes, Dask; bounded, in order, resumable.

>>> from twinloop.campaign import coordinator
>>> with coordinator("threads", workers=2) as workers:
...     [outcome.value for outcome in workers.map(abs, range(-3, 1))]
[3, 2, 1, 0]
"""

from typing import TYPE_CHECKING

from twinloop._deferred import defer_imports

if TYPE_CHECKING:
    from twinloop.campaign.coordinators import Coordinator, coordinator
    from twinloop.campaign.external_simulator import (
        BlackBox,
        BlackBoxError,
        Command,
        Function,
        black_box,
    )
    from twinloop.campaign.journal import Journal
    from twinloop.campaign.outcome import Outcome

__all__ = [
    "BlackBox",
    "BlackBoxError",
    "Command",
    "Coordinator",
    "Function",
    "Journal",
    "Outcome",
    "black_box",
    "coordinator",
]

defer_imports(__name__)
