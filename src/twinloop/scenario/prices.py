"""Prices of cores and energy."""

from __future__ import annotations

from pydantic import Field

from twinloop.description import Description
from twinloop.description.quantities import Name, Price


class Prices(Description):
    """Prices of cores and energy.

    >>> Prices(core_hour=0.02, kwh=0.25)
    Prices(core_hour=0.02, kwh=0.25, currency='EUR')
    """

    core_hour: Price = Field(0.0, description="price of one core for one hour")
    kwh: Price = Field(0.0, description="price of one kilowatt-hour")
    currency: Name = Field("EUR", description="currency of the prices, for reports")
