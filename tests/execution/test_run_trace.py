"""Laws of traces from journals: possible usage, recorded ends, and one cause for each task."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import twinloop as tl
from tests.examples import every
from tests.execution.runs import scenario, statuses, task
from twinloop.execution import execute
from twinloop.execution.run_journal import read_entries
from twinloop.execution.run_trace import trace_from_journal
from twinloop.trace import Manifest, Trace

# --- CPU time between two samples -----------------------------------------------------------------


class Account(NamedTuple):
    """Readings of one part: times, and the CPU time used until then."""

    cores: float
    start: float
    reads: list[tuple[float, float]]
    #: None: the record is truncated.
    closing: tuple[float, float] | None

    def journal(self, number: int) -> Iterator[dict[str, Any]]:
        where = {"task": number, "attempt": 0, "machine": number}
        yield {"e": "start", "t": self.start, **where, "cores": self.cores, "pid": 1 + number}
        for t, cpu in self.reads:
            yield {"e": "use", "t": t, "rows": [[number, 0, number, cpu, 1e6, t]]}
        if self.closing is None:
            return
        t, cpu = self.closing
        counts = {"switches": [1, 1], "faults": [0, 0], "counters": {}, "peak": 1e6, "left": 0}
        yield {"e": "end", "t": t, **where, "code": 0, "reason": "completed", "cpu": cpu, **counts}
        yield {"e": "over", "t": t, "task": number, "status": "completed", "why": None}

    def points(self) -> list[tuple[float, float]]:
        return [*self.reads, self.closing] if self.closing is not None else self.reads


@st.composite
def accounts(draw: st.DrawFn) -> Account:
    """Counters that only grow, in ticks or not, read at any time."""
    cores = draw(st.sampled_from([0.5, 1.0, 2.0, 64.0]))
    start = draw(st.sampled_from([0.0, 0.1, 1 / 3, 1e6 / 7]))
    points, t, cpu = [], start, 0.0
    for _ in range(draw(st.integers(1, 8))):
        t += draw(st.sampled_from([0.05, 0.2, 1.0]) | st.floats(0.02, 2.0))
        cpu += draw(st.just(0.0) | st.sampled_from([0.01, 0.05, 0.2]) | st.floats(0.0, 3.0))
        cpu = round(cpu, draw(st.sampled_from([2, 17])))
        points.append((t, max(cpu, points[-1][1] if points else 0.0)))
    if draw(st.booleans()):
        return Account(cores, start, points, None)
    return Account(cores, start, points[:-1], points[-1])


def limit_usage(account: Account) -> list[Fraction]:
    """Return the exact usage until each time, with excess usage moved to neighbouring windows.

    This is the definition, step by step: no window has more than its cores allow. Only if the sum
    is impossible, the first window has the rest.
    """
    points = account.points()
    times = [Fraction(t) for t in (account.start, *(t for t, _ in points))]
    rooms = [Fraction(account.cores) * (b - a) for a, b in pairwise(times)]
    used = [Fraction(cpu) for _, cpu in points]
    before = Fraction(0)
    for i in range(len(used) - 1):
        before = used[i] = min(used[i], before + rooms[i])
    for i in range(len(used) - 1, 0, -1):
        used[i - 1] = max(used[i - 1], used[i] - rooms[i])
    return used


HELD = {"nodes": {"isolation": "cgroup2"}}


def make_plan(given_: list[Account], facts: dict[str, Any] = HELD) -> Trace:
    numbers = range(len(given_))
    return Trace(
        manifest=Manifest(kind="recorded", sampling_period=1.0, facts=facts),
        tasks=pl.DataFrame({"id": [f"t{n}" for n in numbers], "requested_cores": 1.0}),
        nodes=pl.DataFrame(
            {"node": [f"n{n}" for n in numbers], "cores": [a.cores for a in given_]}
        ),
    )


def make_trace(given_: list[Account], facts: dict[str, Any] = HELD) -> Trace:
    numbers = range(len(given_))
    log = [
        {"e": "begin", "t": 0.0, "epoch_ms": 0},
        *({"e": "submit", "t": 0.0, "task": n} for n in numbers),
        *(entry for n in numbers for entry in given_[n].journal(n)),
    ]
    if all(account.closing is not None for account in given_):
        log.append({"e": "finish", "t": max(entry["t"] for entry in log), "facts": {}})
    return trace_from_journal(make_plan(given_, facts), log)


def test_a_sum_of_which_a_part_is_unknown_is_unknown() -> None:
    log: list[dict[str, Any]] = [{"e": "begin", "t": 0.0, "epoch_ms": 0}]
    counts = {"switches": [1, 1], "faults": [0, 0], "counters": {}, "left": 0}
    for machine, (cpu, peak) in enumerate([(1.5, None), (None, 4096.0)]):
        where = {"task": 0, "attempt": 0, "machine": machine}
        log.append({"e": "start", "t": 0.0, **where, "cores": 1.0, "pid": 7 + machine})
        figures = {"cpu": cpu, "peak": peak, "code": 0, "reason": "completed"}
        log.append({"e": "end", "t": 2.0, **where, **figures, **counts})
    log.append({"e": "over", "t": 2.0, "task": 0, "status": "completed", "why": None})
    log.append({"e": "finish", "t": 2.0, "facts": {}})
    trace = trace_from_journal(make_plan([Account(1.0, 0.0, [], None)] * 2), log)
    assert trace.tasks.select("cpu_time", "memory_used", "minor_faults").row(0) == (None, None, 0)
    # The known values of the other part are kept.
    assert trace.usage.select("cpu", "rss").rows() == [(1.5, None)]


@given(st.lists(accounts(), min_size=1, max_size=3))
def test_usage_equals_the_readings_as_far_as_possible(given_: list[Account]) -> None:
    trace = make_trace(given_)
    least = most = 0
    for number, account in enumerate(given_):
        usage = trace.usage.filter(task=f"t{number}")
        points, exact = account.points(), limit_usage(account)
        moved = [float(abs(u - Fraction(c))) for u, (_, c) in zip(exact, points, strict=True)]
        least += sum(by > 2e-9 for by in moved)
        most += sum(by > 5e-10 for by in moved)
        windows = usage["cpu"].to_list()
        assert usage["t"].to_list() == [t for t, _ in points]
        assert min(windows) >= 0
        # The sum is complete.
        assert sum(windows) == pytest.approx(points[-1][1], rel=1e-12, abs=1e-12)
        differences = [float(b - a) for a, b in pairwise([Fraction(0), *exact])]
        assert windows == pytest.approx(differences, abs=3e-9)
        for place, (dt, cpu) in enumerate(usage.select("dt", "cpu").iter_rows()):
            if place or exact[-1] <= Fraction(account.cores) * Fraction(
                points[-1][0] - account.start
            ):
                assert cpu <= account.cores * dt + 3e-9
        # Usage is moved only if necessary: idle windows stay idle.
        read = [0.0, *(cpu for _, cpu in points)]
        for place, cpu in enumerate(windows):
            if max(moved[max(0, place - 1) : place + 1]) < 5e-10:
                assert cpu == read[place + 1] - read[place]
        if account.closing is not None:
            assert trace.tasks["cpu_time"][number] == account.closing[1]
    repaired = [n.count for n in trace.manifest.cleaned if n.kind == "repaired"]
    assert least <= sum(repaired) <= most


def test_a_late_reading_is_moved_and_idle_windows_stay_idle() -> None:
    """By hand: 0.5 s in 0.1 s of one core is impossible; 0.4 s came later, the rest is idle."""
    account = Account(1.0, 0.0, [(0.1, 0.5), (0.6, 0.5), (1.1, 0.5), (1.6, 0.5)], (2.0, 0.8))
    usage = make_trace([account]).usage["cpu"].to_list()
    assert usage == pytest.approx([0.1, 0.4, 0.0, 0.0, 0.3])
    assert usage[2:4] == [0.0, 0.0]


def test_an_unconfined_part_has_the_cores_of_its_node_unless_it_clearly_used_more() -> None:
    """By hand: missing ticks of a counter are no second core; two seconds in one second are."""
    rounded = Account(1.0, 0.0, [(1.0, 0.98)], (1.035, 1.03))
    escaped = Account(1.0, 0.0, [(1.0, 0.0), (2.0, 2.0)], (3.0, 2.0))
    facts = {"nodes": {"isolation": "affinity"}, "machine": {"cpus": [0, 1]}}
    usage = make_trace([rounded, escaped], facts).usage
    assert usage.filter(task="t0")["cpu"].to_list() == pytest.approx([0.995, 0.035])
    assert usage.filter(task="t1")["cpu"].to_list() == [0.0, 2.0, 0.0]


# --- truncated records ----------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["auto", pytest.param("affinity", marks=pytest.mark.long)])
def recording(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Trace, list[dict[str, Any]]]:
    """The plan and the journal of a run in which tasks end, fail, and are started again."""
    there = tmp_path_factory.mktemp("recording")
    folder, file = there / "run", there / "failures.csv"
    save = f"cp -r {folder}/recording/plan {there}; ln {folder}/recording/journal.jsonl {there}"
    once = f"test -e {there}/once && exec sleep 0.2; touch {there}/once; sleep 5"
    given_ = scenario(
        task("saves", "sh", "-c", save),
        task("again", "sh", "-c", once, parents=["saves"]),
        task("pair", "sleep", 0.2, cores=2, nodes=2),
        task("fails", "sh", "-c", "sleep 0.1; exit 3"),
        task("child", "true", parents=["fails"]),
        task("missing", "no-such-program"),
        failures={"trace": str(file)},
    )
    nodes = given_.platform.nodes()["node"]
    file.write_text("node,start,end\n" + "".join(f"{node},1.2,1.3\n" for node in nodes))
    execute(given_, folder, period=0.2, isolation=request.param)
    return Trace.load(there / "plan"), list(read_entries(there / "journal.jsonl"))


@pytest.mark.real
def test_a_record_truncated_anywhere_passes_the_gate(
    recording: tuple[Trace, list[dict[str, Any]]],
) -> None:
    plan, log = recording
    assert set(statuses(trace_from_journal(plan, log)).values()) == {"completed", "failed"}
    for lines in range(0, len(log) + 1, every(3)):
        trace = trace_from_journal(plan, log[:lines])
        assert set(statuses(trace)) == set(plan.tasks["id"])
        assert [str(finding) for finding in tl.check(trace).errors] == [], lines
        lost = trace.placements.filter(reason="lost")
        for name, machine, start, end in lost.select("task", "machine", "start", "end").iter_rows():
            # It ends at its last observation, if there is one.
            seen = trace.usage.filter(task=name, machine=machine)["t"]
            assert end == max([start, *seen.filter(seen > start)])


def test_an_unobserved_second_attempt_makes_no_task_longer() -> None:
    """It ran from 0 to 2 s and again from 9 s, where the record ends."""
    account = Account(1.0, 0.0, [(1.0, 0.5)], (2.0, 1.0))
    plan, log = make_plan([account]), [*account.journal(0)]
    log[-1] = {"e": "failed", "t": 2.0, "task": 0, "why": "its node is gone", "final": False}
    log += [{"e": "place", "t": 8.9, "task": 0, "on": [[0, 1.0]]}]
    log += [{**log[0], "t": 9.0, "attempt": 1}, {"e": "ask", "t": 20.0}]
    for samples in (0, 1, 2):
        # A sample within a tick of the start has no information.
        times = [9.005, 10.0][:samples]
        rows = [{"e": "use", "t": t, "rows": [[0, 1, 0, 0.0, 1e6, t]]} for t in times]
        trace = trace_from_journal(plan, [{"e": "submit", "t": 0.0, "task": 0}, *log, *rows])
        assert trace.placements["end"].to_list() == [2.0, 10.0 if samples == 2 else 9.0]
        assert trace.tasks["status"].to_list() == ["lost"]
        rules = {finding.rule for finding in tl.check(trace).errors}
        assert rules == set()


# --- why tasks did not complete -------------------------------------------------------------------


def read_causes(trace: Trace) -> dict[str, tuple[int, tuple[str, ...]]]:
    notes = [note for note in trace.manifest.cleaned if note.kind == "noticed"]
    assert len({note.what for note in notes}) == len(notes)
    return {note.what: (note.count, note.examples) for note in notes}


@pytest.mark.real
@pytest.mark.parametrize("isolation", ["auto", "affinity"])
def test_the_manifest_has_one_cause_for_each_incomplete_task(isolation: str) -> None:
    given_ = scenario(
        task("fine", "true"),
        task("three", "sh", "-c", "exit 3"),
        task("too", "sh", "-c", "exit 3"),
        task("one", "false"),
        # One of both is killed, which is a more specific cause than the failure of the other.
        task("pair", "sh", "-c", "test $TWINLOOP_RANK = 0 && exit 4; kill -9 $$", cores=2, nodes=2),
        task("term", "sh", "-c", "kill -15 $$"),
        task("late", "sleep", 300, requested_time=0.3),
        task("missing", "no-such-program"),
        task("child", "true", parents=["three"]),
        task("grandchild", "true", parents=["child"]),
        model={"kill_at_requested_time": True},
    )
    trace = execute(given_, isolation=isolation)
    causes = read_causes(trace)
    never = next(what for what in causes if "no-such-program" in what)
    assert causes == {
        never: (1, ("missing",)),
        "tasks that ended with exit code 3": (2, ("three", "too")),
        "tasks that ended with exit code 1": (1, ("one",)),
        "tasks that were ended by signal SIGKILL": (1, ("pair",)),
        "tasks that were ended by signal SIGTERM": (1, ("term",)),
        "tasks that exceeded their time limit": (1, ("late",)),
        "tasks whose parent did not complete": (2, ("child", "grandchild")),
    }
    incomplete = [status for status in statuses(trace).values() if status != "completed"]
    assert sum(count for count, _ in causes.values()) == len(incomplete)
    codes = dict(trace.tasks.select("id", "exit_code").iter_rows())
    assert (codes["pair"], codes["three"], codes["fine"]) == (-9, 3, 0)


@pytest.mark.real
def test_a_signal_without_a_name_has_its_number() -> None:
    trace = execute(scenario(task("a", "sh", "-c", "kill -40 $$")))
    assert read_causes(trace) == {"tasks that were ended by signal 40": (1, ("a",))}


@pytest.mark.real
def test_exhausted_memory_is_the_only_cause(tmp_path: Path) -> None:
    hog = "import sys; sys.stdout.flush(); held = bytearray(400 << 20); print(len(held))"
    platform = {"clusters": [{"hosts": [{"count": 1, "cores": 1, "memory": "64 MiB"}]}]}
    trace = execute(scenario(task("hog", "python3", "-S", "-c", hog), platform=platform))
    if statuses(trace) == {"hog": "completed"}:
        pytest.skip("nothing limits memory here: there are no control groups to write to")
    what = "tasks that were killed because their node had too little memory"
    assert read_causes(trace) == {what: (1, ("hog",))}
