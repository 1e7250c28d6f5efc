"""Law: a coordinator gives the values of the function in order, also if workers die."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.campaign.conftest import PATIENCE, Script, until
from tests.campaign.functions import Shared, doubled, dying, identified, touchy
from tests.examples import examples
from twinloop.campaign import Command, Coordinator, coordinator
from twinloop.campaign.processes import ProcessCoordinator
from twinloop.description.errors import InputError

pytestmark = pytest.mark.real

HERE = ("serial", "threads", "processes")


@pytest.fixture(scope="module", params=HERE)
def workers(request: pytest.FixtureRequest) -> Iterator[Coordinator]:
    with coordinator(request.param, workers=1 if request.param == "serial" else 2) as made:
        yield made


@pytest.fixture(scope="module")
def processes() -> Iterator[ProcessCoordinator]:
    with ProcessCoordinator(2) as made:
        yield made


def expected(number: int) -> tuple[float | None, str | None]:
    if number % 5 == 3:
        return None, f"ValueError: {number} is no good, for {number}"
    if number % 7 == 4:
        return None, f"SystemExit: {number}, for {number}"
    return 1.0 / (number + 0.1), None


@examples(3)
@given(numbers=st.lists(st.integers(0, 50), max_size=12), outstanding=st.none() | st.integers(1, 5))
def test_values_and_errors_come_in_order(
    workers: Coordinator, numbers: list[int], outstanding: int | None
) -> None:
    outcomes = list(workers.map(touchy, numbers, outstanding=outstanding))
    assert [(one.value, one.error) for one in outcomes] == [expected(number) for number in numbers]
    assert all(one.seconds >= 0.002 * (n % 3) for one, n in zip(outcomes, numbers, strict=True))


@pytest.mark.parametrize("outstanding", [None, 1, 3])
def test_no_more_items_are_pulled_than_may_be_outstanding(
    workers: Coordinator, outstanding: int | None
) -> None:
    pulled = 0

    def endless() -> Iterator[int]:
        nonlocal pulled
        while True:
            pulled += 1
            yield pulled

    most = outstanding or 2 * workers.workers
    outcomes = workers.map(abs, endless(), outstanding=outstanding)
    assert pulled == 0
    for count in range(1, 20):
        assert next(outcomes).value == count
        assert pulled - (count - 1) <= most
    outcomes.close()  # type: ignore[attr-defined]


def test_an_error_of_whoever_gives_the_items_is_not_swallowed(workers: Coordinator) -> None:
    def items() -> Iterator[int]:
        yield 1
        raise LookupError("no more")

    with pytest.raises(LookupError, match="no more"):
        list(workers.map(abs, items()))
    assert next(workers.map(abs, [-2])).value == 2


def test_the_function_goes_to_each_worker_once(
    processes: ProcessCoordinator, tmp_path: Path
) -> None:
    log = tmp_path / "loaded"
    values = [outcome.value for outcome in processes.map(Shared(log), range(50))]
    assert values == [3_000_000 + item for item in range(50)]
    loads = log.read_text().split()
    assert 1 <= len(loads) == len(set(loads)) <= processes.workers


def test_large_items_and_large_values_pass(processes: ProcessCoordinator) -> None:
    items = [bytes([n]) * 1_000_000 for n in range(6)]
    values = [outcome.value for outcome in processes.map(doubled, items)]
    assert values == [item + item for item in items]


def test_what_cannot_travel_is_said(processes: ProcessCoordinator) -> None:
    lock = threading.Lock()
    with pytest.raises(InputError, match="cannot be sent to a worker"):
        processes.map(lambda item: lock, [1])
    (outcome,) = processes.map(str, [lock])
    assert outcome.error is not None
    assert outcome.error.endswith("which cannot be sent to a worker")
    (outcome,) = processes.map(lambda item: (n for n in item), [[1]])
    assert outcome.error is not None
    assert outcome.error.endswith("which cannot be sent back")


def test_a_worker_that_dies_loses_only_what_it_was_doing(
    processes: ProcessCoordinator, tmp_path: Path
) -> None:
    numbers = [*range(1, 6), 10, 12, 14]
    outcomes = list(processes.map(partial(dying, tmp_path), numbers))
    assert [outcome.value for outcome in outcomes] == [-1, -2, -3, -4, -5, None, -12, -14]
    ended = "the worker process was ended by SIGKILL, then by SIGKILL, for 10"
    assert outcomes[5].error == ended
    assert len(processes.pids) <= processes.workers


def test_a_worker_that_is_killed_from_outside_is_replaced(tmp_path: Path) -> None:
    with ProcessCoordinator(2) as workers:
        outcomes = workers.map(identified, range(30))
        first = next(outcomes).value
        assert first is not None
        os.kill(first[0], signal.SIGKILL)
        rest = [outcome.value for outcome in outcomes]
        assert [first[1], *(n for _, n in rest)] == list(range(30))
        left = workers.pids
    assert not any(Path(f"/proc/{pid}").exists() for pid in left)


def test_a_script_needs_no_guard_of_main_and_its_workers_end_with_it(
    script: Callable[[str], Script],
) -> None:
    """Functions of the script are sent with it; the output of workers goes to stderr."""
    one = script(
        "import time\n"
        "from twinloop.campaign import coordinator\n"
        "class Pair:\n"
        "    def __init__(self, item): self.item = item\n"
        "def pair(item):\n"
        "    print('working on', item, flush=True)\n"
        "    return Pair(item)\n"
        "with coordinator(workers=1) as workers:\n"
        "    values = [outcome.value for outcome in workers.map(pair, [1, 2])]\n"
        "    print([type(value) is Pair and value.item for value in values], flush=True)\n"
        "    next(workers.map(time.sleep, [300]))\n"
    )
    assert one.process.stdout is not None
    assert one.process.stdout.readline() == "[1, 2]\n"
    assert len(one.others()) == 1
    one.process.kill()
    assert until(lambda: not one.others())
    out, err = one.said()
    assert (out, err.splitlines()) == ("", ["working on 1", "working on 2"])


SLEEPING = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs the tests may ignore it
from twinloop.campaign import Command, coordinator, processes
processes._PATIENCE = 240  # however busy the machine: here a worker that cleans up is not killed
box = Command(command=["sh", "-c", "sleep 300 & sleep 300; echo {n}"])
try:
    with coordinator("processes", workers=1) as workers:
        for outcome in workers.map(box, [{"n": n} for n in range(9)]):
            print(outcome)
except KeyboardInterrupt:
    print("interrupted")
    sys.exit(130)
"""


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def asleep(one: Script) -> set[int]:
    """Who of its descendants sleeps."""
    found = set()
    for pid in one.others():
        with suppress(OSError):
            if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"sleep\0"):
                found.add(pid)
    return found


def test_a_kill_of_a_worker_and_an_interrupt_leave_nothing(
    script: Callable[[str], Script], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The black box of a worker that is killed ends with it; what it did is tried again.

    Its scratch folder is removed by the worker that takes its place.
    """
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    one = script(SLEEPING)
    assert until(lambda: len(asleep(one)) == 2)
    first = asleep(one)
    (worker,) = {pid for pid in one.others() if parent(pid) == one.process.pid}
    (left,) = scratch.iterdir()
    os.kill(worker, signal.SIGKILL)
    assert until(lambda: len(asleep(one) - first) == 2 and not left.exists())
    one.process.send_signal(signal.SIGINT)
    out, err = one.said()
    assert (one.process.returncode, out, err) == (130, "interrupted\n", "")
    assert one.others() == set()
    assert list(scratch.iterdir()) == []


def test_threads_run_no_black_box_after_they_were_closed() -> None:
    began = threading.Event()
    seen = []

    def stubborn(item: int) -> None:
        for _ in range(3):
            began.set()
            try:
                Command(command=["sleep", "300"])({})
            except Exception as error:
                seen.append(str(error))

    with coordinator("threads", workers=1) as workers:
        outcomes = workers.map(stubborn, [1], outstanding=1)
        threading.Thread(target=lambda: next(outcomes, None), daemon=True).start()
        assert began.wait(PATIENCE)
    assert len(seen) == 3
    assert seen[-1] == "sleep 300: the campaign is over"


@pytest.mark.parametrize(
    ("on", "workers", "message"),
    [
        ("process", None, "on: there is no coordinator 'process' .did you mean 'processes'"),
        ("serial", 2, "workers: serial has one worker, not 2"),
        ("threads", 0, "workers: must be 1 or more, not 0"),
        ("tcp://127.0.0.1:1", 2, "workers: the scheduler .* has its own workers"),
    ],
)
def test_a_place_that_cannot_be_is_refused(on: str, workers: int | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        coordinator(on, workers=workers)


def test_nothing_can_be_outstanding_is_refused(workers: Coordinator) -> None:
    with pytest.raises(InputError, match="outstanding: must be 1 or more, not 0"):
        workers.map(abs, [1], outstanding=0)
