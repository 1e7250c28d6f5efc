"""Money: what the cores held and the energy cost."""

from __future__ import annotations

import math
from dataclasses import dataclass

from twinloop.metrics.energy_and_carbon import JOULES_PER_KWH, energy
from twinloop.metrics.weighted_intervals import find_core_intervals
from twinloop.scenario import Prices
from twinloop.trace.trace import Trace, require_trace


@dataclass(frozen=True, slots=True)
class Cost:
    """The price of a run: of the cores held, of the energy, of both.

    None where something has a price and is not known.

    >>> Cost(cores=2.0, energy=0.5, currency="EUR").total
    2.5
    """

    cores: float | None
    energy: float | None
    #: The currency of the prices.
    currency: str

    @property
    def total(self) -> float | None:
        """The price of both."""
        return None if self.cores is None or self.energy is None else self.cores + self.energy


def cost(trace: Trace, prices: Prices, start: float = -math.inf, end: float = math.inf) -> Cost:
    """What the cores held and the energy between two moments cost.

    >>> import polars as pl
    >>> trace = Trace(placements=pl.DataFrame({"task": ["a"], "cores": [4.0], "start": [0.0],
    ...     "end": [7200.0]}))
    >>> cost(trace, Prices(core_hour=0.05)).total
    0.4
    """
    held, _ = find_core_intervals(require_trace(trace))
    return compute_cost(prices, held.area(start, end) if held else None, energy(trace, start, end))


def compute_cost(prices: Prices, core_seconds: float | None, joules: float | None) -> Cost:
    """The cost of core-seconds and joules.

    >>> compute_cost(Prices(kwh=0.3), None, 7.2e6).total
    0.6
    """
    return Cost(
        _price(prices.core_hour, core_seconds, 3600),
        _price(prices.kwh, joules, JOULES_PER_KWH),
        prices.currency,
    )


def _price(of_one: float, amount: float | None, per: float) -> float | None:
    if of_one == 0:
        return 0.0
    return None if amount is None else amount / per * of_one
