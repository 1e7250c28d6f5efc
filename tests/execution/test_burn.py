"""Laws of `twinloop-burn`: equal work gives equal figures, and takes the stated CPU time."""

import json
import math
import os
import resource
import signal
import struct
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.execution.child_processes import PATIENCE, until
from twinloop.description import InputError
from twinloop.execution import burn_program
from twinloop.execution.burn_program import (
    RATES_VARIABLE,
    find_burn_program,
    make_rate_environment,
    measure_rates,
)

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(os.name != "posix", reason="the program is for Linux and macOS"),
]

#: Upper bound of the steps per second of a core: each waits for the previous step or for memory.
FASTEST = 1e10
#: Error of the clocks of the kernel (s).
TICK = 0.01


def call_burn(*words: Any, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != RATES_VARIABLE}
    return subprocess.run(
        [find_burn_program(), *map(str, words)],
        env=environment | variables,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def burn(*words: Any, **variables: str) -> dict[str, Any]:
    done = call_burn(*words, **variables)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def checksum(*words: Any) -> int:
    return int(burn(*words)["checksum"], 16)


def as_double(bits: int) -> float:
    return float(struct.unpack(">d", struct.pack(">Q", bits))[0])


def workload_function(steps: int) -> float:
    """Evaluate equation 15 directly (source: core/burn/recurrence.cpp)."""
    value = 1.0
    for i in range(1, steps + 1):
        value = value * i if i % 2 == 0 else value / i
    return value


@pytest.mark.parametrize("kind", ["cpu", "memory"])
@pytest.mark.parametrize("steps", [0, 1, 2, 3, 4, 1000, 12_345])
def test_the_recurrence_is_evaluated_step_by_step(kind: str, steps: int) -> None:
    assert as_double(checksum(kind, "--work", steps)) == workload_function(steps)


def test_the_recurrence_stays_in_range() -> None:
    """W(2k) / sqrt(pi k) tends to 1 (Wallis), for any number of steps."""
    half = 20_000_000
    assert as_double(checksum("cpu", "--work", 2 * half)) == pytest.approx(
        math.sqrt(math.pi * half), rel=1e-6
    )


@settings(max_examples=30)
@given(seed=st.integers(0, 2**53), steps=st.integers(0, 20_000))
def test_a_seed_scales_the_recurrence_and_storing_does_not_change_it(seed: int, steps: int) -> None:
    kept = checksum("cpu", "--work", steps, "--seed", seed)
    assert kept == checksum("memory", "--work", steps, "--seed", seed)
    scale = as_double(kept) / workload_function(steps)
    assert 1.0 - 1e-9 <= scale <= 2.0 + 1e-9


@pytest.mark.parametrize(
    ("kind", "work"), [("cpu", 100_001), ("memory", 100_001), ("stream", 10), ("io", 2)]
)
def test_threads_do_the_work_of_as_many_seeds(kind: str, work: int) -> None:
    def of(seed: int, threads: int = 1) -> int:
        return checksum(kind, "--work", work, "--seed", seed, "--threads", threads)

    assert of(5, threads=3) == (of(5) + of(6) + of(7)) % 2**64


@pytest.mark.parametrize("kind", ["cpu", "memory", "stream", "cache", "io"])
def test_the_checksum_depends_on_seed_and_work_only(kind: str) -> None:
    work = 2 if kind == "io" else 4_321
    first = burn(kind, "--work", work, "--seed", 3)
    assert first["kind"] == kind
    assert (first["units"], first["threads"], first["seed"]) == (work, 1, 3)
    assert burn(kind, f"--work={work}", "--seed=3")["checksum"] == first["checksum"]
    assert checksum(kind, "--work", work, "--seed", 4) != int(first["checksum"], 16)
    assert checksum(kind, "--work", work + 1, "--seed", 3) != int(first["checksum"], 16)


def test_the_memory_accesses_are_one_cycle_through_all_lines() -> None:
    """Every line once, then the first again: no shorter cycle that a smaller cache would hold."""
    index = Path("/sys/devices/system/cpu/cpu0/cache/index2")
    if not (index / "size").exists() or (index / "level").read_text().strip() != "2":
        pytest.skip("this machine does not say how large its L2 cache is")
    size = (index / "size").read_text().strip()
    lines = 2 * int(size.rstrip("KM")) * (2**20 if size.endswith("M") else 2**10) // 64
    for seed in (0, 1):
        at = {step: checksum("cache", "--work", step, "--seed", seed) for step in range(12)}
        assert len(set(at.values())) == len(at)
        for rounds in (1, 3):
            step = rounds * lines + 7
            assert checksum("cache", "--work", step, "--seed", seed) == at[7]
        divisors = {lines // factor for factor in (2, 3, 4, 5, 7)}
        assert all(checksum("cache", "--work", d, "--seed", seed) != at[0] for d in divisors)


KINDS = pytest.mark.parametrize(
    ("kind", "work"),
    [("cpu", 10_000_000), ("memory", 25_000_000), ("stream", 100_000_000), ("cache", 6_000_000)],
)


@KINDS
def test_all_the_work_is_done_and_counted(kind: str, work: int) -> None:
    """On any machine, the kernel counts at least the CPU time that the fastest core would need.

    The cost of twice the work depends on other processes: `make verify` tests it.
    """
    report, usage = measure_usage(kind, "--work", str(work))
    assert report["units"] == work
    assert work / FASTEST <= report["cpu_s"] <= sum_cpu_time(usage) + TICK


@pytest.mark.long
@KINDS
def test_twice_the_work_costs_twice_the_cpu_time(kind: str, work: int) -> None:
    """Other processes can slow down a run, so the fastest of several is used."""
    once = twice = math.inf
    for attempt in range(12):
        once = min(once, burn(kind, "--work", work)["cpu_s"])
        twice = min(twice, burn(kind, "--work", 2 * work)["cpu_s"])
        if attempt > 0 and 1.6 < twice / once < 2.6:
            return
    raise AssertionError(f"{work} units cost {once} s, {2 * work} units {twice} s")


def test_seconds_are_cpu_seconds_at_the_rates_of_this_machine() -> None:
    rate = measure_rates(["cpu"])["cpu"]
    done = burn("cpu", "--seconds", 0.3, "--threads", 2, **{RATES_VARIABLE: f"cpu={rate!r}"})
    assert done["units"] == round(0.3 * rate)
    # Two threads, each on one CPU at a time, at most at the speed of the fastest.
    assert 2 * done["units"] / FASTEST <= done["cpu_s"] <= 2 * done["wall_s"] + TICK


@pytest.mark.long
def test_measured_rates_are_reached_by_a_run() -> None:
    rate = measure_rates(["cpu"])["cpu"]
    done = burn("cpu", "--seconds", 0.3, "--threads", 2, **{RATES_VARIABLE: f"cpu={rate!r}"})
    # Other processes may have slowed down the machine at one of both times.
    later = measure_rates(["cpu"])["cpu"]
    speed = 2 * done["units"] / done["cpu_s"]
    # Two cores that share their arithmetic, or a clock that falls, cost up to twice as much.
    assert min(rate, later) / 3 < speed < 2 * max(rate, later)


def measure_usage(*words: str) -> tuple[dict[str, Any], resource.struct_rusage]:
    """Run the program; return its report, and its resource usage by the kernel."""
    process = subprocess.Popen([find_burn_program(), *words], stdout=subprocess.PIPE)
    assert process.stdout is not None
    report = json.loads(process.stdout.read())
    process.stdout.close()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return report, usage


def sum_cpu_time(usage: resource.struct_rusage) -> float:
    """Return the CPU seconds of a resource usage."""
    return usage.ru_utime + usage.ru_stime


@pytest.mark.long
@pytest.mark.parametrize("kind", ["cpu", "memory", "stream", "cache"])
def test_the_reported_cpu_time_is_that_of_the_kernel(kind: str) -> None:
    """Apart from the start and the end of the process."""
    report, usage = measure_usage(kind, "--work", "10000000")
    assert sum_cpu_time(usage) <= 1.5 * report["cpu_s"] + 0.2


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc on this machine")
@pytest.mark.parametrize(("kind", "least", "most"), [("cpu", 0, 16), ("memory", 64, 80)])
def test_values_are_stored_or_not(kind: str, least: int, most: int) -> None:
    """The 64 MiB are filled completely, and no more for any duration."""
    process = subprocess.Popen(
        [find_burn_program(), kind, "--seconds", "300", "--rates", "cpu=1e9,memory=1e9"],
        stdout=subprocess.DEVNULL,
    )
    try:
        # Nine million steps have filled it once: a tenth of a second of CPU time, or less.
        until(lambda: peak_of(process.pid) >= least and cpu_time(process.pid) >= 0.3)
        peak = peak_of(process.pid)
    finally:
        process.kill()
        process.wait(PATIENCE)
    assert least <= peak < most


def peak_of(pid: int) -> float:
    """Return the peak memory of a process (MiB)."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def cpu_time(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_rates_come_from_the_command_then_the_variable_then_a_measurement() -> None:
    given = {RATES_VARIABLE: "cpu=1000,cache=2e3"}
    assert burn("cpu", "--seconds", 2, **given)["units"] == 2000
    assert burn("cache", "--seconds", 2, **given)["units"] == 4000
    assert burn("cpu", "--seconds", 2, "--rates", "cpu=7", **given)["units"] == 14
    measured = call_burn("memory", "--seconds", 0.001, **given)
    assert "no rate of memory was given; measured memory=" in measured.stderr
    assert measured.returncode == 0
    assert call_burn("cpu", "--seconds", 2, **given).stderr == ""


def test_sleeping_takes_time_and_gives_up_the_cpu() -> None:
    done, usage = measure_usage("sleep", "--seconds", "0.3", "--threads", "4")
    assert done["wall_s"] >= 0.3
    assert usage.ru_nvcsw >= 4  # each thread sleeps, and none polls the clock
    assert done["cpu_s"] <= sum_cpu_time(usage) + TICK


def test_mixed_work_is_computation_sleep_and_storage() -> None:
    done = burn("mixed", "--seconds", 2, "--rates", "cpu=1000,memory=500")
    assert done["units"] == 0.4 * 2 * 1000 + 0.4 * 2 * 500
    assert done["wall_s"] >= 0.2 * 2
    alone = [checksum("cpu", "--work", 800), checksum("memory", "--work", 400)]
    assert int(done["checksum"], 16) == sum(alone) % 2**64


def test_io_keeps_its_rate_and_leaves_no_file(tmp_path: Path) -> None:
    done = burn("io", "--seconds", 0.5, "--threads", 2, TMPDIR=str(tmp_path))
    assert done["units"] == 10
    assert done["wall_s"] >= 0.5
    assert list(tmp_path.iterdir()) == []
    refused = call_burn("io", "--seconds", 1, TMPDIR=str(tmp_path / "nowhere"))
    assert refused.returncode == 1
    assert "nowhere" in refused.stderr
    assert refused.stdout == ""


def open_files(pid: int) -> list[str]:
    """List the open files of a process, as far as they are visible now."""
    found = []
    with suppress(OSError):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                found.append(str(link.readlink()))
    return found


@pytest.mark.parametrize("kind", ["cpu", "memory", "sleep", "io", "mixed"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_it_at_once(kind: str, number: signal.Signals, tmp_path: Path) -> None:
    words = [find_burn_program(), kind, "--seconds", "300", "--rates", "cpu=1e9,memory=1e9"]
    process = subprocess.Popen(
        words, env=os.environ | {"TMPDIR": str(tmp_path)}, stdout=subprocess.PIPE
    )
    if kind == "io":  # its file has no name once it is open
        until(lambda: any(str(tmp_path) in link for link in open_files(process.pid)))
        until(lambda: not list(tmp_path.iterdir()))
    process.send_signal(number)
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == -number
    assert output == b""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give one kind of work"),
        (["cpu"], "give either --seconds or --work"),
        (["cpu", "--seconds", "1", "--work", "1"], "give either --seconds or --work"),
        (["gpu", "--seconds", "1"], "kind 'gpu': must be one of cpu, memory"),
        (["cpu", "memory", "--work", "1"], "give one kind of work"),
        (["cpu", "--seconds"], "--seconds needs a value"),
        (["cpu", "--seconds", "-1"], "must be a number of seconds"),
        (["cpu", "--seconds", "nan"], "must be a number of seconds"),
        (["cpu", "--seconds", "inf"], "must be a number of seconds"),
        (["cpu", "--seconds", "1e10"], "at most 1e9"),
        (["cpu", "--seconds", "1e9", "--rates", "cpu=1e300"], "more than 2^53 units"),
        (["cpu", "--seconds", ""], "must be a number of seconds"),
        (["cpu", "--work", "1.5"], "must be a whole number of units"),
        (["cpu", "--work", "1e17"], "must be a whole number of units"),
        (["cpu", "--work", "0x10"], "must be a whole number of units"),
        (["cpu", "--work", "1", "--threads", "0"], "must be from 1 to 4096"),
        (["cpu", "--work", "1", "--threads", "5000"], "must be from 1 to 4096"),
        (["cpu", "--work", "1", "--seed", "-3"], "must be a whole number"),
        (["cpu", "--work", "1", "--sede", "3"], "unknown option --sede"),
        (["cpu", "--work", "1", "--rates", "gpu=1"], "'gpu=1': a rate is one of"),
        (["cpu", "--work", "1", "--rates", "sleep=1"], "'sleep=1': a rate is one of"),
        (["cpu", "--work", "1", "--rates", "cpu"], "written as cpu=2.5e8"),
        (["cpu", "--work", "1", "--rates", "cpu=0"], "written as cpu=2.5e8"),
        (["sleep", "--work", "1"], "sleep is measured in time"),
        (["mixed", "--work", "1"], "mixed is measured in time"),
        (["--calibrate", "--work", "1"], "not --seconds or --work"),
    ],
)
def test_invalid_arguments_are_reported(words: Sequence[str], message: str) -> None:
    done = call_burn(*words)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stdout == ""


def test_an_invalid_variable_is_reported() -> None:
    done = call_burn("cpu", "--seconds", 1, **{RATES_VARIABLE: "cpu=fast"})
    assert done.returncode == 2
    assert done.stderr.startswith("twinloop-burn: TWINLOOP_BURN_RATES 'cpu=fast'")


def test_help_names_every_kind() -> None:
    done = call_burn("--help")
    assert done.returncode == 0
    assert "cpu memory stream cache mixed sleep io" in done.stdout


def test_the_rates_of_a_kind_are_those_of_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(RATES_VARIABLE, raising=False)
    assert measure_rates(["sleep", "io"]) == {}
    found = measure_rates(["mixed", "cache"])
    assert set(found) == {"cpu", "memory", "cache"}
    # From one step per microsecond to several per nanosecond: the range of all machines.
    assert all(1e6 < rate < 1e10 for rate in found.values())
    with pytest.raises(InputError, match="no kind 'gpu' of work"):
        measure_rates(["gpu"])
    monkeypatch.setenv(RATES_VARIABLE, "cpu=fast")
    with pytest.raises(InputError, match="TWINLOOP_BURN_RATES 'cpu=fast'"):
        measure_rates(["cpu"])


@pytest.mark.long
@pytest.mark.parametrize("kind", ["cpu", "memory"])
def test_a_calibration_can_be_repeated(kind: str) -> None:
    """A process on the same core halves its speed at most; new memory costs far more."""
    one = other = 0.0
    for _ in range(8):
        one, other = (max(best, burn("--calibrate", kind)[kind]) for best in (one, other))
        if max(one, other) < 2.5 * min(one, other):
            return
    raise AssertionError(f"{one:g} or {other:g} units a second")


@pytest.mark.long
def test_storing_costs_little_more_than_computing() -> None:
    """The stores overlap with the wait of the next step, once the memory is allocated.

    Other processes may slow down either, so the best of several is used.
    """
    best = {"cpu": 0.0, "memory": 0.0}
    for _ in range(8):
        found = burn("--calibrate", "cpu", "memory")
        best = {kind: max(rate, found[kind]) for kind, rate in best.items()}
        if best["memory"] > best["cpu"] / 4:
            return
    raise AssertionError(best)


def test_warnings_about_a_rate_are_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script replaces the program: a noisy machine cannot be produced at will."""
    script = tmp_path / "twinloop-burn"
    script.write_text("#!/bin/sh\necho 'no two runs' >&2\necho '{\"cpu\": 5}'\n")
    script.chmod(0o755)
    monkeypatch.setattr(burn_program, "find_burn_program", lambda: script)
    monkeypatch.delenv(RATES_VARIABLE, raising=False)
    warnings: list[str] = []
    assert measure_rates(["cpu"], warnings.append) == {"cpu": 5.0}
    assert warnings == ["no two runs"]
    make_rate_environment([["twinloop-burn", "cpu", "--seconds", "1"]], warnings.append)
    assert warnings[1:] == ["first: twinloop-burn --calibrate cpu", "no two runs"]


@pytest.mark.long
def test_a_run_measures_the_rates_of_its_commands_unless_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(RATES_VARIABLE, raising=False)

    def named(*commands: list[str]) -> set[str]:
        text = make_rate_environment(commands).get(RATES_VARIABLE, "")
        return {pair.partition("=")[0] for pair in text.split(",") if pair}

    assert named(["sleep", "1"], ["twinloop-burn", "cpu", "--work", "5"]) == set()
    assert named(["twinloop-burn", "sleep", "--seconds", "5"]) == set()
    assert named(["twinloop-burn", "cpu", "--seconds", "5", "--rates", "cpu=1"]) == set()
    assert named(["/a/b/twinloop-burn", "--seconds=5", "cpu"]) == {"cpu"}
    assert named(["twinloop", "burn", "mixed", "--seconds", "5"]) == {"cpu", "memory"}
    everything = {"cpu", "memory", "stream", "cache"}
    assert named(["twinloop-burn", "{kind}", "--seconds", "{run_time}"]) == everything
    monkeypatch.setenv(RATES_VARIABLE, "cpu=5")
    assert make_rate_environment([["twinloop-burn", "cpu", "--seconds", "1"]]) == {
        RATES_VARIABLE: "cpu=5"
    }
    both = make_rate_environment([["twinloop-burn", "mixed", "--seconds", "1"]])[RATES_VARIABLE]
    assert both.startswith("cpu=5,memory=")
    assert burn("mixed", "--seconds", 0.01, **{RATES_VARIABLE: both})["kind"] == "mixed"


def test_a_missing_program_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(burn_program, "PROGRAM", "twinloop-burn-that-nobody-built")
    with pytest.raises(InputError, match="install Twinloop again"):
        find_burn_program()


COMMAND = "import typer; from twinloop.cli.burn import burn; typer.run(burn)"


@pytest.mark.long
def test_the_command_becomes_the_program() -> None:
    def command(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", COMMAND, *words],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    words = ["cache", "--work", "999", "--threads", "2", "--seed", "8"]
    done = command(*words, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["checksum"] == burn(*words)["checksum"]
    assert command("sleep", "--work", "1").returncode == 2
    assert set(json.loads(command("--calibrate", "cpu").stdout)) == {"cpu"}
