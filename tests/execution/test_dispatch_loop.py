"""Laws of a real run: statuses of tasks, start conditions, and complete cleanup."""

import math
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import twinloop as tl
from tests.execution.child_processes import PATIENCE
from tests.execution.runs import BOTH, left, read_output, scenario, statuses, task
from twinloop.description.errors import InputError
from twinloop.execution import Interrupted, execute
from twinloop.execution.local_machine import LocalMachine
from twinloop.execution.process_trees import ProcessStat

pytestmark = pytest.mark.real


@pytest.fixture(autouse=True)
def _check_no_leftovers() -> Iterator[None]:
    """Check that no processes, groups or open files are left."""
    before = _children(), _files()
    yield
    assert left(os.getpid()) == []
    assert (_children(), _files()) == before


def _children() -> set[int]:
    own = os.getpid()
    found = (
        ProcessStat.read(int(entry.name))
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit()
    )
    return {stat.pid for stat in found if stat is not None and stat.parent == own}


def _files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


#: Runs until a file contains a word.
UNTIL = 'until grep -qs "$2" "$1"; do sleep 0.02; done'


@pytest.fixture(scope="module", autouse=True)
def _warm() -> None:
    """Run once, because libraries open files that they keep open."""
    execute(scenario(task("a", "true")))


def sh(name: str, script: str, **more: Any) -> dict[str, Any]:
    return task(name, "sh", "-c", script, **more)


def column(trace: tl.Trace, name: str) -> dict[str, Any]:
    return dict(trace.tasks.select("id", name).iter_rows())


def starts(trace: tl.Trace) -> dict[str, float]:
    return dict(trace.placements.group_by("task").agg(pl.min("start")).iter_rows())


def ends(trace: tl.Trace) -> dict[str, float]:
    return dict(trace.placements.group_by("task").agg(pl.max("end")).iter_rows())


# --- how tasks end --------------------------------------------------------------------------------


@BOTH
def test_exit_codes_and_signals_are_statuses(isolation: str) -> None:
    trace = execute(
        scenario(
            task("good", "true"),
            sh("bad", "exit 3"),
            sh("worst", "exit 255"),
            sh("shot", "kill -9 $$"),
            sh("asked", "kill -TERM $$"),
        ),
        isolation=isolation,
    )
    assert statuses(trace) == {
        "good": "completed",
        **dict.fromkeys(("bad", "worst"), "failed"),
        **dict.fromkeys(("shot", "asked"), "killed"),
    }
    codes = {"good": 0, "bad": 3, "worst": 255, "shot": -9, "asked": -15}
    assert column(trace, "exit_code") == codes
    reasons = dict(trace.placements.select("task", "reason").iter_rows())
    assert reasons == statuses(trace)
    assert trace.manifest.facts["nodes"]["isolation"] in (
        ("affinity",) if isolation == "affinity" else ("cgroup1", "cgroup2", "affinity")
    )
    assert tl.check(trace).errors == ()


def test_the_status_of_a_task_on_several_nodes_is_that_of_its_worst_part(tmp_path: Path) -> None:
    code = 'echo $TWINLOOP_RANK/$TWINLOOP_RANKS on $TWINLOOP_NODE; exit "$TWINLOOP_RANK"'
    trace = execute(
        scenario(sh("pair", code, cores=2, nodes=2), task("after", "true")), tmp_path / "run"
    )
    assert statuses(trace) == {"pair": "failed", "after": "completed"}
    assert column(trace, "exit_code")["pair"] == 1
    parts = trace.placements.filter(pl.col("task") == "pair")
    assert sorted(parts["reason"]) == ["completed", "failed"]
    nodes = [read_output(tmp_path / "run", "pair", rank).split() for rank in (0, 1)]
    assert [words[0] for words in nodes] == ["0/2", "1/2"]
    assert {words[2] for words in nodes} == set(parts["machine"]) == set(trace.nodes["node"])
    # It ends when all its parts have ended; before, no other task gets one of its nodes.
    assert column(trace, "run_time")["pair"] == pytest.approx(
        parts["end"].max() - parts["start"].min()
    )


def test_a_task_that_exceeds_its_time_limit_is_ended(tmp_path: Path) -> None:
    given = scenario(
        sh("long", "sleep 300", requested_time=0.2),
        sh("short", "true", requested_time=30),
        sh("open", "true"),
        model={"kill_at_requested_time": True},
    )
    trace = execute(given, tmp_path / "run")
    assert statuses(trace) == {"long": "killed", "short": "completed", "open": "completed"}
    assert column(trace, "run_time")["long"] >= 0.2
    trace = execute(given.replace(**{"model.kill_at_requested_time": False}), task_limit=0.3)
    assert statuses(trace)["long"] == "killed"
    assert column(trace, "run_time")["long"] >= 0.3


def test_children_wait_for_their_parents_and_fail_with_them() -> None:
    trace = execute(
        scenario(
            sh("a", "sleep 0.1"),
            sh("b", "sleep 0.05; exit 1"),
            task("of-a", "true", parents=["a"]),
            task("of-both", "true", parents=["a", "b"]),
            task("of-of-both", "true", parents=["of-both"]),
            task("join", "true", parents=["of-a", "a"]),
            task("late", "true", parents=["a"], submit=0.3),
        )
    )
    assert statuses(trace) == {
        **dict.fromkeys(("a", "of-a", "join", "late"), "completed"),
        **dict.fromkeys(("b", "of-both", "of-of-both"), "failed"),
    }
    begun, over = starts(trace), ends(trace)
    assert begun["of-a"] >= over["a"]
    assert begun["join"] >= over["of-a"]
    assert begun["late"] >= 0.3
    assert "of-both" not in begun
    ready = column(trace, "ready")
    assert ready["of-a"] >= over["a"]
    assert ready["late"] >= 0.3
    assert ready["of-of-both"] is None


def test_tasks_that_fit_nowhere_are_rejected_as_in_the_simulator() -> None:
    given = scenario(
        task("fits", "true", queue="wide"),
        task("large", "true", cores=3, nodes=1, queue="wide"),
        task("child", "true", parents=["large"], queue="wide"),
        task("over", "true", cores=2, nodes=2, queue="narrow"),
        platform={
            "clusters": [{"hosts": [{"count": 2, "cores": 1}]}],
            "queues": [{"name": "wide"}, {"name": "narrow", "max_cores": 1}],
        },
        policy="fcfs",
    )
    real, twin = execute(given), tl.simulate(given)
    assert statuses(real) == statuses(twin)
    assert list(statuses(real).values()) == ["completed", "rejected", "rejected", "rejected"]
    notes = [{str(note) for note in each.manifest.cleaned} for each in (real, twin)]
    assert notes[0] == notes[1]
    assert real.placements["task"].to_list() == ["fits"]


def test_the_limit_of_a_queue_is_kept() -> None:
    given = scenario(
        *(task(f"{number}", "sleep", 0.05, queue="one") for number in range(4)),
        platform={
            "clusters": [{"hosts": [{"count": 2, "cores": 1}]}],
            "queues": [{"name": "one", "max_running": 1}],
        },
        policy="fcfs",
    )
    rows = execute(given).placements.sort("start")
    assert rows.height == 4
    assert (rows["start"][1:] >= rows["end"][:-1]).all()


# --- failures of nodes ----------------------------------------------------------------------------


@pytest.mark.parametrize("then", ["restart", "lost"])
def test_a_task_on_a_failed_node_is_treated_as_in_the_scenario(tmp_path: Path, then: str) -> None:
    file = tmp_path / "failures.csv"
    given = scenario(
        # The task runs until the journal has the failure of the node.
        task("long", "sh", "-c", UNTIL, "sh", f"{tmp_path}/run/recording/journal.jsonl", "close"),
        task("child", "true", parents=["long"]),
        platform="1x1",
        failures={"trace": str(file), "on_failure": then},
    )
    (node,) = given.platform.nodes()["node"]
    file.write_text(f"node,start,end\n{node},0.5,0.8\n")
    trace = execute(given, tmp_path / "run", task_limit=PATIENCE)
    ((went, came, state),) = trace.node_states.select("start", "end", "state").rows()
    assert went >= 0.5
    assert came is None or came >= 0.8
    assert state == "down"
    # While the node is down, nothing runs on it.
    assert all(not went <= start < (came or math.inf) for start in trace.placements["start"])
    if starts(trace)["long"] > went:  # a very busy machine was too late
        assert statuses(trace) == {"long": "completed", "child": "completed"}
        return
    if then == "lost":
        assert statuses(trace) == {"long": "lost", "child": "failed"}
        return
    assert statuses(trace) == {"long": "completed", "child": "completed"}
    assert trace.placements["attempt"].to_list() == [0, 1, 0]
    assert trace.placements["reason"].to_list() == ["failed", "completed", "completed"]
    # The output of each attempt is kept.
    kept = sorted(path.name for path in (tmp_path / "run" / "output" / "long").iterdir())
    assert kept == ["0.1.err", "0.1.out", "0.err", "0.out"]


def test_nothing_starts_in_a_maintenance_window() -> None:
    given = scenario(
        *(task(f"{number}", "true") for number in range(3)),
        platform={
            "clusters": [{"hosts": [{"count": 2, "cores": 1}]}],
            "maintenance": [{"start": 0, "end": 0.4}],
        },
        policy="fcfs",
    )
    trace = execute(given)
    assert set(statuses(trace).values()) == {"completed"}
    assert min(starts(trace).values()) >= 0.4
    assert set(trace.node_states["state"]) == {"maintenance"}


def test_a_task_with_a_higher_priority_preempts_another(tmp_path: Path) -> None:
    given = scenario(
        task("low", "sh", "-c", UNTIL, "sh", f"{tmp_path}/there", "high", queue="low"),
        sh("high", f"echo high > {tmp_path}/there", queue="high", submit=0.5),
        platform={
            "clusters": [{"hosts": [{"count": 1, "cores": 1}]}],
            "queues": [{"name": "low", "priority": 1}, {"name": "high", "priority": 2}],
        },
        policy={"name": "priority", "options": {"preempt": "restart"}},
    )
    trace = execute(given, task_limit=PATIENCE)
    assert statuses(trace) == {"low": "completed", "high": "completed"}
    rows = trace.placements.sort("start").select("task", "attempt", "reason").rows()
    if starts(trace)["low"] > column(trace, "submit")["high"]:
        # On a very busy machine, both became ready at the same time.
        assert rows == [("high", 0, "completed"), ("low", 0, "completed")]
        return
    assert rows == [("low", 0, "preempted"), ("high", 0, "completed"), ("low", 1, "completed")]
    assert "preempt" in trace.decisions["kind"].to_list()


@pytest.mark.parametrize(
    "policy",
    [
        *("conservative", "easy", "sjf", "first-fit", "round-robin"),
        *("list-scheduling", "min-min", "heft"),
    ],
)
def test_every_task_gets_its_turn_and_no_core_is_given_twice(policy: str) -> None:
    tasks = [
        task(f"{n}", "sleep", 0.02, cores=1 + n % 2, submit=0.01 * n, requested_time=1)
        for n in range(8)
    ]
    trace = execute(scenario(*tasks, platform="1x2", policy=policy))
    assert list(statuses(trace).values()) == ["completed"] * 8
    changes = sorted(
        (time, sign * cores)
        for start, end, cores in trace.placements.select("start", "end", "cores").iter_rows()
        for time, sign in ((start, 1), (end, -1))
    )
    in_use = 0.0
    for _, change in changes:
        in_use += change
        assert in_use <= 2


# --- time -----------------------------------------------------------------------------------------


def test_the_time_scale_moves_only_arrivals_in_execution_and_simulation() -> None:
    given = scenario(
        *(task(f"{n}", "sleep", 0.1, submit=n, requested_time=5) for n in range(3)), time_scale=0.1
    )
    real, twin = execute(given), tl.simulate(given)
    assert column(real, "submit_recorded") == pytest.approx({"0": 0.0, "1": 0.1, "2": 0.2})
    assert column(twin, "submit") == pytest.approx(column(real, "submit_recorded"))
    assert real.manifest.facts["time_scale"] == 0.1
    for name, wanted in column(twin, "submit").items():
        assert column(real, "submit")[name] >= wanted
    assert all(time >= 0.1 for time in column(real, "run_time").values())
    assert set(column(real, "requested_time").values()) == {5.0}


def test_decisions_wait_for_their_interval() -> None:
    given = scenario(
        task("a", "true", submit=0.05),
        task("b", "true", submit=0.25),
        task("broken", "no-such-program", submit=0.25),
        task("after", "true", submit=0.25),
        platform="1x1",
        model={"decision_interval": 0.2},
    )
    trace = execute(given)
    assert list(statuses(trace).values()) == ["completed", "completed", "failed", "completed"]
    begun = starts(trace)
    assert begun["a"] >= 0.2
    assert begun["b"] >= 0.4
    asked = trace.decisions.filter(pl.col("kind") == "ask")["t"]
    assert all(math.floor(x / 0.2) < math.floor(y / 0.2) for x, y in pairwise(asked))


def test_an_unknown_run_time_is_assumed_and_counted() -> None:
    silent = {"id": "silent", "command": ["true"]}
    asked = {"id": "asked", "command": ["true"], "requested_time": 3}
    trace = execute(scenario(silent, asked, task("said", "true"), policy="conservative"))
    assert set(statuses(trace).values()) == {"completed"}
    (note,) = [note for note in trace.manifest.cleaned if note.kind == "assumed"]
    assert (note.count, note.examples) == (1, ("silent",))
    assert column(trace, "requested_time") == {"silent": None, "asked": 3.0, "said": None}
    # The value that the policy used instead.
    assert column(trace, "planned_time") == {"silent": 1.0, "asked": None, "said": 0.1}


# --- preparation, nodes and folders ---------------------------------------------------------------


def test_a_preparation_is_run_once(tmp_path: Path) -> None:
    made = tmp_path / "made"
    step = {"command": ["sh", "-c", f"echo made >> {made}; echo noise"], "creates": str(made)}
    given = scenario(task("a", "cat", str(made)), workload={"prepare": [step]})
    for place in ("first", "second"):
        words: list[str] = []
        trace = execute(given, tmp_path / place, announce=words.append)
        assert statuses(trace) == {"a": "completed"}
        assert read_output(tmp_path / place, "a") == "made\n"
        assert (f"exists already: {made}" in words) is (place == "second")


@BOTH
def test_processes_of_a_preparation_end_with_the_run(tmp_path: Path, isolation: str) -> None:
    step = {"command": ["sh", "-c", "setsid sleep 300 & sleep 300 &"]}
    given = scenario(task("a", "true"), workload={"prepare": [step]})
    assert statuses(execute(given, isolation=isolation)) == {"a": "completed"}


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (["sh", "-c", "exit 5"], "ended with status 5"),
        (["no-such-program"], "cannot be run"),
        (["true"], "did not create"),
    ],
)
def test_a_preparation_that_fails_ends_it_before_it_begins(
    tmp_path: Path, command: list[str], problem: str
) -> None:
    steps = [{"command": command, "creates": str(tmp_path / "made")}]
    given = scenario(task("a", "touch", f"{tmp_path}/ran"), workload={"prepare": steps})
    with pytest.raises(InputError, match=problem) as error:
        execute(given, tmp_path / "run")
    assert (error.value.field or "").startswith("workload.prepare[0]")
    assert list(tmp_path.iterdir()) == []


@BOTH
def test_more_cores_than_available_are_an_error_without_side_effects(
    tmp_path: Path, isolation: str
) -> None:
    cores = math.floor(LocalMachine.detect().cores) + 1
    given = scenario(task("a", "touch", f"{tmp_path}/ran"), platform=f"1x{cores}")
    with pytest.raises(InputError, match=f"requests {cores} cores, but this machine has") as error:
        execute(given, tmp_path / "run", isolation=isolation)
    assert error.value.field == "platform"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"isolation": "jail"}, "isolation"),
        ({"period": 0.001}, "period"),
        ({"period": math.nan}, "period"),
        ({"task_limit": -1}, "task_limit"),
        ({"grace": math.inf}, "grace"),
    ],
)
def test_invalid_options_are_refused(tmp_path: Path, options: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError) as error:
        execute(scenario(task("a", "touch", f"{tmp_path}/ran")), tmp_path / "run", **options)
    assert error.value.field == field
    assert list(tmp_path.iterdir()) == []


def test_a_run_without_tasks_is_valid(tmp_path: Path) -> None:
    schema = {"id": pl.String, **dict.fromkeys(("submit", "cores", "limit", "work"), pl.Float64)}
    nothing = tl.Workload(tasks=pl.DataFrame(schema=schema))
    trace = execute(tl.Scenario(platform="1x1", policy="fifo", workload=nothing), tmp_path / "run")
    assert trace.tasks.height == trace.placements.height == 0
    assert tl.read(tmp_path / "run").tasks.height == 0
    rejected = execute(scenario(task("a", "true", cores=9), policy="fcfs"), tmp_path / "rejected")
    assert statuses(rejected) == {"a": "rejected"}


def test_without_a_folder_nothing_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    trace = execute(scenario(sh("a", "echo hello")))
    assert statuses(trace) == {"a": "completed"}
    assert list(tmp_path.iterdir()) == []


# --- calling programs------------------------------------------------------------------------------


@BOTH
def test_concurrent_runs_in_threads_do_not_interfere(tmp_path: Path, isolation: str) -> None:
    traces: dict[str, tl.Trace] = {}

    def run(name: str) -> None:
        tasks = [sh(f"{name}{n}", "sleep 0.05; sleep 300 & echo {id}") for n in range(5)]
        given = scenario(*tasks, platform="1x1")
        traces[name] = execute(given, tmp_path / name, isolation=isolation)

    threads = [threading.Thread(target=run, args=(name,)) for name in "xy"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for name in "xy":
        wanted = {f"{name}{n}": "completed" for n in range(5)}
        assert statuses(traces[name]) == statuses(tl.read(tmp_path / name)) == wanted
        assert all(read_output(tmp_path / name, each) == f"{each}\n" for each in wanted)


def test_an_interrupted_run_returns_its_trace_to_the_caller(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    given = scenario(
        task("done", "true"),
        sh("asks", f"kill -INT {os.getpid()}; sleep 300", parents=["done"]),
        sh("never", "true", parents=["asks"]),
    )
    with pytest.raises(Interrupted) as ended:
        execute(given, tmp_path / "run", grace=0.1)
    wanted = {"done": "completed", "asks": "cancelled", "never": "cancelled"}
    assert statuses(ended.value.trace) == statuses(tl.read(tmp_path / "run")) == wanted
    assert signal.getsignal(signal.SIGINT) is before


def test_signals_of_the_calling_program_do_not_affect_a_run() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: heard.append(number))
    try:
        many = f"for n in 1 2 3 4 5; do kill -USR1 {os.getpid()}; sleep 0.02; done"
        trace = execute(scenario(sh("a", many), sh("b", "sleep 1")))
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert set(statuses(trace).values()) == {"completed"}
    assert heard


@pytest.mark.long
def test_a_run_sleeps_between_signals_of_the_calling_program() -> None:
    """A loop that polls for a signal would use the CPU for the whole second."""
    before = signal.signal(signal.SIGUSR1, lambda number, frame: None)
    try:
        trace = execute(scenario(sh("a", f"kill -USR1 {os.getpid()}"), sh("b", "sleep 1")))
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert trace.manifest.facts["recording"]["executor_cpu_s"] < 0.5


@BOTH
def test_unobserved_memory_is_unknown_and_not_zero(isolation: str) -> None:
    trace = execute(scenario(task("a", sys.executable, "-S", "-c", "pass")), isolation=isolation)
    used = column(trace, "memory_used")["a"]
    assert used is None or used > 0
