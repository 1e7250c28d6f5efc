"""The start time of a scenario: date and time of t = 0."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

from twinloop.description.errors import InputError
from twinloop.description.quantities import quote_value

_REMEDY = "give a date, or a date and time: 2024-07-01, 2024-07-01T08:00+02:00"


def _parse_start(value: Any) -> Any:
    """Convert a date and time to an ISO 8601 text in UTC; without a time zone it is UTC."""
    if isinstance(value, str):
        try:
            start = datetime.fromisoformat(value.strip())
        except ValueError:
            raise InputError(
                f"is not a date: {quote_value(value)}", kind="invalid-date", remedy=_REMEDY
            ) from None
    elif isinstance(value, datetime):
        start = value
    elif isinstance(value, date):
        start = datetime.combine(value, time())
    elif value is None:
        return None
    else:
        raise InputError(
            f"is not a date: {quote_value(value)}", kind="invalid-date", remedy=_REMEDY
        )
    if start.tzinfo is None:
        start = start.replace(tzinfo=UTC)
    try:
        return start.astimezone(UTC).isoformat().replace("+00:00", "Z")
    except OverflowError:
        raise InputError(
            f"is not a date: {quote_value(value)}", kind="invalid-date", remedy=_REMEDY
        ) from None


#: A date and time as an ISO 8601 text in UTC.
StartTime = Annotated[
    str,
    BeforeValidator(_parse_start),
    WithJsonSchema({"type": "string", "pattern": "^[0-9]{4}-?[0-9]{2}-?[0-9]{2}([T ].*)?$"}),
]


def start_to_epoch_ms(start: str) -> int:
    """Convert a start time to Unix time in milliseconds.

    >>> start_to_epoch_ms("2024-01-01T00:00:00Z")
    1704067200000
    """
    return round(datetime.fromisoformat(start).timestamp() * 1000)
