"""Quantities: hand-computed values, and texts that are none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinloop.description import InputError
from twinloop.description.quantities import (
    DURATION,
    FREQUENCY,
    MEMORY,
    POWER,
    Unit,
    memory_to_text,
    number_to_text,
)

HAND_COMPUTED = [
    (FREQUENCY, "2400MHz", 2400.0),
    (FREQUENCY, "2.1 GHz", 2100.0),
    (FREQUENCY, 2400, 2400.0),
    (FREQUENCY, " 2400 ", 2400.0),
    (FREQUENCY, "800000 kHz", 800.0),
    (FREQUENCY, "1000000Hz", 1.0),
    (FREQUENCY, "1e3 MHz", 1000.0),
    (MEMORY, "64GiB", 68719476736.0),
    (MEMORY, "16 GB", 16e9),
    (MEMORY, "1KiB", 1024.0),
    (MEMORY, "1kB", 1000.0),
    (MEMORY, "1KB", 1000.0),
    (MEMORY, "0.5 MiB", 524288.0),
    (MEMORY, "2TiB", 2199023255552.0),
    (MEMORY, 512, 512.0),
    (POWER, "350 W", 350.0),
    (POWER, "1.2kW", 1200.0),
    (POWER, "500mW", 0.5),
    (POWER, "2MW", 2e6),
    (POWER, 25.5, 25.5),
    (DURATION, "1h30m", 5400.0),
    (DURATION, "60s", 60.0),
    (DURATION, "5 min", 300.0),
    (DURATION, "60min", 3600.0),
    (DURATION, "800ms", 0.8),
    (DURATION, "1d 12h", 129600.0),
    (DURATION, "1w", 604800.0),
    (DURATION, "1 h 2 min 3 s", 3723.0),
    (DURATION, 0, 0.0),
    (DURATION, "1.5", 1.5),
    (DURATION, "-5s", -5.0),
]


@pytest.mark.parametrize(("unit", "text", "value"), HAND_COMPUTED)
def test_quantities_are_read_in_the_unit_of_their_field(
    unit: Unit, text: str | float, value: float
) -> None:
    assert unit.read(text) == value


@pytest.mark.parametrize(
    ("unit", "text", "said"),
    [
        (FREQUENCY, "2400mhz", "did you mean 'MHz'?"),
        (FREQUENCY, "2GHz 100MHz", "must be a frequency"),
        (FREQUENCY, "GHz", "must be a frequency"),
        (FREQUENCY, "", "must be a frequency"),
        (FREQUENCY, True, "must be a frequency"),
        (FREQUENCY, None, "must be a frequency, not null"),
        (FREQUENCY, [1], "must be a frequency, not a list"),
        (MEMORY, "16 gb", "did you mean 'GB'?"),
        (MEMORY, "16G", "not a unit for an amount of memory"),
        (MEMORY, "1e999 B", "out of range"),
        (MEMORY, 10**400, "out of range"),
        (POWER, "12 J", "not a unit for a power"),
        # A unit of another kind is no misspelling of one that differs only by case.
        (DURATION, "200 W", "not a unit for a duration (write a number in s, or"),
        (POWER, "3 w", "not a unit for a power (write a number in W, or"),
        (FREQUENCY, "3 ghz", "(did you mean 'GHz'?)"),
        (DURATION, "1:30:00", "must be a duration"),
        (DURATION, "1h30", "a number without a unit"),
        (DURATION, "1 year", "not a unit for a duration"),
        (DURATION, "1" * 5000, "must be a duration"),
        (DURATION, "1e5000s", "out of range"),
    ],
)
def test_an_invalid_quantity_is_rejected(unit: Unit, text: object, said: str) -> None:
    with pytest.raises(InputError) as caught:
        unit.read(text)
    assert said in str(caught.value)


@given(st.floats(min_value=0, allow_nan=False, allow_infinity=False))
def test_a_number_survives_as_a_text(number: float) -> None:
    assert float(number_to_text(number)) == number


@given(st.floats(min_value=1, max_value=1e18) | st.integers(1, 2**60).map(float))
def test_an_amount_of_memory_survives_as_a_text(amount: float) -> None:
    assert MEMORY.read(memory_to_text(amount)) == amount
