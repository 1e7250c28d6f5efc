"""Prices of a cloud: of time, of reservations, of data, and of a spot market."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from twinloop.description.description import Description, FilePath
from twinloop.description.errors import InputError
from twinloop.description.quantities import DURATION, MAX_PRICE, Count, Price
from twinloop.platform.time_series import SERIES_SCHEMAS, read_series

#: Prices of data are those of decimal gigabytes.
BYTES_PER_GB: Final = 1e9
#: Shortest unit of time (s): with a shorter one, numbers of units and bills may not be finite.
MIN_UNIT: Final = 1e-3
_UnitSeconds = Annotated[
    float,
    Field(ge=MIN_UNIT),
    BeforeValidator(DURATION.read),
    WithJsonSchema(DURATION.schema(minimum=MIN_UNIT)),
]


def _read_price(value: Any) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    if not 0 <= value <= MAX_PRICE:
        raise InputError(
            f"a price must be from 0 to {MAX_PRICE:g}, not {value:g}",
            kind="out-of-range",
            remedy="such as 0.03",
        )
    return float(value)


def _read_prices(value: Any) -> Any:
    remedies = ("give pairs of time and price, or a file", "such as [6h, 0.03]")
    return read_series(value, "price", _read_price, remedies)


class ReservedInstances(Description):
    """Reserved instances: the first ones that are requested have their own price.

    >>> ReservedInstances(instances=2, price=0.04, upfront=10).upfront
    10.0
    """

    instances: Count = Field(description="instances that are reserved at the same time")
    price: Price = Field(description="price of one unit of a reserved instance of any type")
    upfront: Price = Field(
        0.0, description="price of each reservation, once per run, also if it is not used"
    )


class TransferPrices(Description):
    """Prices of the files that tasks on instances read from shared stores and write to them.

    >>> TransferPrices.from_dict({"out": 0.09}).out
    0.09
    """

    # `in` is a keyword, so that the field cannot be written as an ordinary one.
    __annotations__["in"] = "Price"
    vars()["in"] = Field(
        0.0, description="price of a gigabyte (1e9 bytes) that enters a shared store"
    )
    out: Price = Field(0.0, description="price of a gigabyte (1e9 bytes) that leaves one")

    @property
    def incoming(self) -> float:
        """The price of data that enters a store, the field `in`."""
        value: float = getattr(self, "in")
        return value


class Billing(Description):
    """The billing of instances: a price for every begun unit of time of an instance.

    >>> billing = Billing.from_dict({"unit": "1h", "price": 0.10, "from": "start"})
    >>> billing.unit, billing.counted_from
    (3600.0, 'start')
    """

    unit: _UnitSeconds = Field(
        3600.0, description="unit of time (s), from 1 ms on; a begun unit is billed"
    )
    price: Price = Field(description="price of one unit of one instance; types can have their own")
    # `from` is a keyword, so that the field cannot be written as an ordinary one.
    __annotations__["from"] = "Literal['request', 'start']"
    vars()["from"] = Field(
        "request", description="request: from the request of the instance; start: from its boot"
    )

    reserved: ReservedInstances | None = Field(
        None, description="reserved instances, with their own price; by default none"
    )
    transfer: TransferPrices | None = Field(
        None, description="prices of the data of tasks; by default it is not billed"
    )

    @property
    def counted_from(self) -> Literal["request", "start"]:
        """The event from which an instance is billed, the field `from`."""
        value: Literal["request", "start"] = getattr(self, "from")
        return value


class SpotMarket(Description):
    """A price over time, at which instances with a bid are rented while it is not above the bid.

    >>> SpotMarket(prices=[[0, 0.03], ["1h", 0.05]]).prices
    ((0.0, 0.03), (3600.0, 0.05))
    """

    prices: Annotated[
        FilePath | tuple[tuple[float, float], ...],
        BeforeValidator(_read_prices),
        WithJsonSchema({"anyOf": [*SERIES_SCHEMAS]}),
    ] = Field(
        description="price of one unit of the billing from each time on: pairs of time and price, "
        "or a CSV file with the columns price and t (s) or unix_ms; the first price also holds "
        "before"
    )
    interrupted_unit: Literal["free", "billed"] = Field(
        "free", description="the unit in which the provider takes an instance back"
    )
