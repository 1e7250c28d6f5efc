"""The start of a scenario: the date and time of its t = 0."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

from twinloop.description.errors import InputError
from twinloop.description.quantities import quote_value

_REMEDY = "a date, or a date and time: 2024-07-01, 2024-07-01T08:00+02:00"


def _read(value: Any) -> Any:
    """The same moment as a text in UTC."""
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value.strip())
        except ValueError:
            raise InputError(f"is no date: {quote_value(value)}", remedy=_REMEDY) from None
    elif isinstance(value, datetime):
        moment = value
    elif isinstance(value, date):
        moment = datetime.combine(value, time())
    elif value is None:
        return None
    else:
        raise InputError(f"is no date: {quote_value(value)}", remedy=_REMEDY)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    try:
        return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
    except OverflowError:
        raise InputError(f"is no date: {quote_value(value)}", remedy=_REMEDY) from None


#: A moment, kept as an ISO 8601 text in UTC.
StartTime = Annotated[
    str,
    BeforeValidator(_read),
    WithJsonSchema({"type": "string", "pattern": "^[0-9]{4}-?[0-9]{2}-?[0-9]{2}([T ].*)?$"}),
]


def start_to_epoch_ms(start: str) -> int:
    """A start as Unix time in milliseconds.

    >>> start_to_epoch_ms("2024-01-01T00:00:00Z")
    1704067200000
    """
    return round(datetime.fromisoformat(start).timestamp() * 1000)
