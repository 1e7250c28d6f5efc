"""Cost of a run: price of the allocated cores and of the energy."""

from __future__ import annotations

import math
from dataclasses import dataclass

from twinloop.metrics.energy_and_carbon import JOULES_PER_KWH, energy
from twinloop.metrics.weighted_intervals import find_core_intervals
from twinloop.scenario import Prices
from twinloop.trace.trace import Trace, require_trace


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of a run: of the allocated cores, of the energy, and the total.

    A cost is None if its quantity has a price but is unknown.

    >>> Cost(cores=2.0, energy=0.5, currency="EUR").total
    2.5
    """

    cores: float | None
    energy: float | None
    #: The currency of the prices.
    currency: str

    @property
    def total(self) -> float | None:
        """The total cost."""
        return None if self.cores is None or self.energy is None else self.cores + self.energy


def cost(trace: Trace, prices: Prices, start: float = -math.inf, end: float = math.inf) -> Cost:
    """Compute the cost of the allocated cores and the energy between two times.

    >>> import polars as pl
    >>> trace = Trace(placements=pl.DataFrame({"task": ["a"], "cores": [4.0], "start": [0.0],
    ...     "end": [7200.0]}))
    >>> cost(trace, Prices(core_hour=0.05)).total
    0.4
    """
    allocated, _ = find_core_intervals(require_trace(trace))
    return compute_cost(
        prices, allocated.area(start, end) if allocated else None, energy(trace, start, end)
    )


def compute_cost(prices: Prices, core_seconds: float | None, joules: float | None) -> Cost:
    """Compute the cost of core-seconds and joules.

    >>> compute_cost(Prices(kwh=0.3), None, 7.2e6).total
    0.6
    """
    return Cost(
        _multiply_price(prices.core_hour, core_seconds, 3600),
        _multiply_price(prices.kwh, joules, JOULES_PER_KWH),
        prices.currency,
    )


def _multiply_price(
    unit_price: float, amount: float | None, amount_per_unit: float
) -> float | None:
    if unit_price == 0:
        return 0.0
    return None if amount is None else amount / amount_per_unit * unit_price
