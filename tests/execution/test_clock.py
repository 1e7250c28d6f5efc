"""The clock of a run: its epoch is exact to half a millisecond, also on a busy machine."""

import time

import pytest

from twinloop.execution.clock import RunClock

BOOT_NS = 1_794_947_000_123_456_789  # Unix time of the start of a machine


class PausedMachine:
    """Clocks of a machine that takes the processor away before given readings (ns)."""

    def __init__(self, pauses: dict[int, int]) -> None:
        self.pauses = pauses
        self.readings = 0
        self.up = 10**12

    def read(self, clock: int) -> int:
        self.up += 100 + self.pauses.get(self.readings, 0)
        self.readings += 1
        return self.up + (BOOT_NS if clock == time.CLOCK_REALTIME else 0)


@pytest.fixture(params=[{}, {1: 30_000_000}, {2: 30_000_000, 4: 7_000_000}], ids=str)
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "clock_gettime_ns", PausedMachine(request.param).read)


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("zero_ns", [0, 999_500_000_000, 999_990_000_000, 10**12])
def test_the_epoch_is_the_unix_time_of_zero(zero_ns: int) -> None:
    clock = RunClock(zero_ns)
    assert abs(clock.epoch_ms * 10**6 - (BOOT_NS + zero_ns)) <= 500_000 + 100
    assert clock.offset == pytest.approx(BOOT_NS / 1e9, abs=1e-6)


@pytest.mark.usefixtures("machine")
def test_a_clock_begins_at_its_first_reading() -> None:
    clock = RunClock()
    unix = time.clock_gettime_ns(time.CLOCK_REALTIME)
    now = clock.now()
    assert 0 < now < 0.001
    assert clock.epoch_ms / 1e3 + now == pytest.approx(unix / 1e9, abs=0.0006)
