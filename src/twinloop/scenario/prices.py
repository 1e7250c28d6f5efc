"""What a run costs."""

from __future__ import annotations

from pydantic import Field

from twinloop.description import Description
from twinloop.description.quantities import Name, NotNegative


class Prices(Description):
    """What is paid for cores and for energy.

    >>> Prices(core_hour=0.02, kwh=0.25)
    Prices(core_hour=0.02, kwh=0.25, currency='EUR')
    """

    core_hour: NotNegative = Field(0.0, description="price of one core for one hour")
    kwh: NotNegative = Field(0.0, description="price of one kilowatt-hour")
    currency: Name = Field("EUR", description="currency of the prices, for the reader")
