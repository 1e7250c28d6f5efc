"""Laws: the policy decides alike in execution and simulation, and the simulator replays the run.

Each scenario is executed once. `worlds.Recorded` defines the comparison.
"""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import twinloop as tl
from tests.execution.child_processes import PATIENCE
from tests.execution.worlds import SECOND, Chosen, Recorded, chosen, in_seconds, ns
from twinloop.cli import app
from twinloop.engine import CompiledScenario
from twinloop.execution import burn_program, execute, replay_decisions
from twinloop.metrics import difference, figures
from twinloop.policy import Place, Policy
from twinloop.policy.interface import View
from twinloop.trace import TABLES

pytestmark = pytest.mark.real

if len(os.sched_getaffinity(0)) < 2:
    pytest.skip("two nodes of one core each need two CPUs", allow_module_level=True)


def make_burn_workload(**parameters: Any) -> dict[str, Any]:
    """Make tasks whose requested times do not depend on their run times."""
    asked = {"usual_times": False, "overestimate": 1000.0}
    given = {"shape": "bag", "shortest": 0.03, "longest": 0.17, **asked, **parameters}
    return {"generate": {"name": "burn", "parameters": given}}


def work(name: str, seconds: float, **more: Any) -> dict[str, Any]:
    command = ["twinloop-burn", "cpu", "--seconds", str(seconds)]
    return {"id": name, "command": command, "run_time": seconds, **more}


def task(name: str, nodes: int, seconds: float, planned: float, submit: float) -> dict[str, Any]:
    """Make a task with one process on each of its nodes."""
    sizes = {"nodes": nodes, "cores": nodes}
    return work(name, seconds, requested_time=planned, submit=submit, **sizes)


#: A graph in which both nodes are free when several tasks become ready at the same time.
DAG = [
    work("first", 0.05),
    work("left", 0.08, parents=["first"]),
    work("right", 0.15, parents=["first"]),
    work("joined", 0.05, parents=["left", "right"]),
    *(work(f"many{i}", 0.04 + 0.03 * i, parents=["joined"]) for i in range(5)),
    work("some", 0.06, parents=["many1", "many3"]),
    work("all", 0.05, parents=["some", "many0", "many2", "many4"]),
    work("after", 0.03, parents=["all"]),
    work("beside", 0.1, parents=["all"]),
    work("end", 0.03, parents=["after"]),
]
#: Tasks on two nodes, and short tasks that may be backfilled, with very different planned times.
EASY = [
    task("long", 1, 0.5, 100, 0.0),
    task("both", 2, 0.1, 100, 0.02),
    task("short", 1, 0.1, 20, 0.04),
    task("too-long", 1, 0.15, 400, 0.06),
    task("short-too", 1, 0.1, 10, 0.08),
    task("both-again", 2, 0.15, 50, 0.1),
    task("last", 1, 0.1, 300, 0.12),
    task("both-late", 2, 0.05, 30, 0.3),
    task("passes", 1, 0.05, 10, 0.32),
]
SCENARIOS: dict[str, dict[str, Any]] = {
    "fifo": {"policy": "fifo", "workload": make_burn_workload(tasks=24)},
    "easy": {"policy": "easy", "workload": {"tasks": EASY}},
    "pack-ic": {
        "policy": {"name": "pack-ic", "options": {"overcommit": 2}},
        "workload": make_burn_workload(tasks=14),
    },
    "dag": {"policy": "fifo", "workload": {"tasks": DAG}},
    "sessions": {
        "policy": "fifo",
        "source": "sessions:0.1",
        "workload": make_burn_workload(
            shape="sessions", tasks=15, size=2, users=3, think_time=0.15, interval=0.02
        ),
    },
}


@pytest.fixture(scope="module", autouse=True)
def rates() -> Iterator[None]:
    """Measure the speed of this machine once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(
            burn_program.RATES_VARIABLE, f"cpu={burn_program.measure_rates(['cpu'])['cpu']!r}"
        )
        yield


#: Scenarios for `make verify` only, because others have the same policy and source.
LONG = ("fifo", "pack-ic")


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=[pytest.mark.long] if name in LONG else []) for name in SCENARIOS
    ],
)
def run(request: pytest.FixtureRequest, rates: None) -> Recorded:
    scenario = tl.Scenario(platform="2x1", seed=3, **SCENARIOS[request.param])
    return Recorded(scenario, execute(scenario))


def test_everything_ran(run: Recorded) -> None:
    assert set(run.trace.tasks["status"]) == {"completed"}
    assert len(run.histories) == run.trace.tasks.height


def test_the_policy_decides_the_same_in_a_replay_of_its_events(run: Recorded) -> None:
    replay = replay_decisions(run.trace, CompiledScenario(run.scenario))
    assert len(replay.recorded) == len(run.histories)
    assert replay.replayed == replay.recorded


def test_the_latencies_in_the_manifest_are_those_of_the_tables(run: Recorded) -> None:
    latencies = run.trace.manifest.facts["latency"]
    for name, found in (("dispatch", run.dispatches), ("release", run.releases)):
        times = np.array(list(found.values())) / SECOND
        assert times.min() >= 0
        assert latencies[name]["count"] == len(times)
        assert latencies[name]["max_s"] == pytest.approx(times.max(), abs=2e-9)
        assert latencies[name]["p50_s"] == pytest.approx(np.median(times), abs=2e-9)
    # The first task that is started at a time does not wait for other starts.
    first = [
        min(run.dispatches[history.task] for history in placed) for placed in run.moments.values()
    ]
    assert latencies["start"]["count"] == latencies["dispatch"]["count"]
    assert (
        max(first) / SECOND - 2e-9 <= latencies["start"]["max_s"] <= latencies["dispatch"]["max_s"]
    )
    assert latencies["start"]["p50_s"] <= latencies["dispatch"]["p50_s"]
    assert run.model.values() == tl.replay_scenario(run.trace).model.values()
    # The bounds of the following tests: the latency of a replay is within those of the tasks.
    assert 0 < run.dispatch <= max(run.dispatches.values())
    assert min(run.releases.values()) <= run.release <= max(run.releases.values())


def test_with_the_latencies_of_each_task_all_decisions_are_equal(
    run: Recorded,
) -> None:
    """The times of all events of the policy and the durations are given; times are exact."""
    twin = chosen(tl.simulate(run.until()))
    for history in run.histories.values():
        assert (twin[history.task].nodes, twin[history.task].start) == (
            history.nodes,
            history.decided,
        )


def test_each_choice_is_the_same_where_the_ends_differ_by_more_than_the_latency(
    run: Recorded,
) -> None:
    """Each decision by itself: the simulator knows the run until then, and usual latencies.

    Where no two ends, and no end and readiness, lie within the latency of each other, it places
    the same tasks on the same nodes, at the same time within the latency, and as long after the
    node's previous end within the latency, if that is what they had waited for.
    """
    settled = 0
    for moment, placed in run.moments.items():
        if not run.settled(moment):
            continue
        settled += 1
        twin = chosen(tl.simulate(run.until(moment)))
        for history in placed:
            one, before = twin[history.task], run.before(history)
            assert one.nodes == history.nodes
            assert abs(one.start - moment) <= run.latency
            if before is not None and before.seen == moment:
                gap = one.start + run.dispatch - (twin[before.task].end - run.release)
                assert abs(gap - (history.start - before.end)) <= run.latency
    assert settled
    usual = f"{run.dispatch / 1e6:.1f} + {run.release / 1e6:.1f}"
    print(
        f"{len(run.histories)} tasks, {settled} of {len(run.moments)} decisions beyond the latency "
        f"of {run.latency / 1e6:.1f} ms (in the model {usual} ms)"
    )


def test_in_a_replay_tasks_start_as_soon_after_their_cause(run: Recorded) -> None:
    """For all tasks, also if an earlier or later end has changed their nodes."""
    twin = run.replay()
    assert set(twin.tasks["status"]) == {"completed"}
    ready = {name: ns(t) for name, t in twin.tasks.select("id", "ready").iter_rows()}
    usual = run.dispatch + run.release
    there = run.gaps(in_seconds(twin), ready, dict.fromkeys(ready, usual - 1000))
    lives = run.histories.values()
    here = run.gaps(
        {history.task: Chosen(history.nodes, history.start, history.end) for history in lives},
        {history.task: history.offered for history in lives},
        run.dispatches,
    )
    for name, gap in here.items():
        assert 0 <= gap <= run.latency
        assert run.dispatch - 1000 <= there[name] <= usual + 1000
        assert abs(gap - there[name]) <= run.latency


def test_a_replay_goes_along_until_two_events_change_places(run: Recorded) -> None:
    twin = run.replay()
    ready = {name: ns(t) for name, t in twin.tasks.select("id", "ready").iter_rows()}
    ran = in_seconds(twin)
    for history in run.histories.values():
        served, recorded = (
            ran[history.task].end - ran[history.task].start,
            history.end - history.start,
        )
        # CPU time is counted in ticks: a task may seem to have used more than all of its core.
        assert abs(served - recorded) <= 0.01 * SECOND
    along = run.count_equal_tasks(ran, ready)
    print(f"{along} of {len(run.histories)} tasks until two events change places")


@pytest.mark.parametrize("run", ["easy"], indirect=True)
def test_a_task_was_backfilled(run: Recorded) -> None:
    """Otherwise backfilling and tasks on two nodes are not tested."""
    lives = list(run.histories.values())
    pairs = itertools.combinations(lives, 2)
    assert any(first.decided > second.decided for first, second in pairs)
    assert {len(history.nodes) for history in lives} == {1, 2}


@pytest.mark.parametrize("run", ["dag"], indirect=True)
def test_children_start_after_their_parents_in_execution_and_simulation(run: Recorded) -> None:
    edges = run.trace.tasks.select("id", "parents").explode("parents").drop_nulls()
    assert not edges.is_empty()
    for trace in (run.trace, run.replay()):
        ran = in_seconds(trace)
        assert all(ran[parent].end <= ran[child].start for child, parent in edges.iter_rows())


@pytest.mark.parametrize("run", ["sessions"], indirect=True)
def test_think_times_are_equal_in_execution_and_simulation(run: Recorded) -> None:
    """A session starts when those it waits for have ended and its user has thought: never earlier,
    and in the simulator not later either."""
    users = run.scenario.source.sessions
    assert users is not None
    graphs = users.graphs(run.scenario.workload.resolve(run.scenario.seed))
    edges = 0
    for trace, late in ((run.trace, np.inf), (run.replay(), 1e-9)):
        submits = dict(trace.tasks.select("id", "submit").iter_rows())
        ends = {name: ran.end / SECOND for name, ran in in_seconds(trace).items()}
        for graph in graphs:
            jobs = dict(graph.sessions.select("session", "jobs").iter_rows())
            due: dict[int, float] = {}
            for before, after, pause in graph.edges.drop_nulls("before").iter_rows():
                came = max(ends[name] for name in jobs[before]) + pause
                due[after] = max(due.get(after, 0.0), came)
                edges += 1
            for session, time in due.items():
                assert -1e-6 <= submits[jobs[session][0]] - time <= late + 1e-6
    assert edges


# --- the kind of the trace -----------------------------------------------------------------------


def test_a_real_run_and_a_simulated_one_are_the_same_kind_of_trace(
    run: Recorded, tmp_path: Path
) -> None:
    real, twin = run.trace, tl.simulate(run.scenario, decisions=True)
    assert (real.manifest.kind, twin.manifest.kind) == ("recorded", "simulated")
    for table in TABLES:
        assert getattr(real, table).schema == getattr(twin, table).schema
    assert real.tasks["id"].equals(twin.tasks["id"])
    assert real.tasks["status"].equals(twin.tasks["status"])
    # These columns are known for a machine and optional for a platform.
    assert real.nodes.drop("mhz", "memory").equals(twin.nodes.drop("mhz", "memory"))
    assert set(real.placements["reason"]) == set(twin.placements["reason"])
    for table in ("placements", "decisions"):
        assert not getattr(real, table).is_empty()
        assert not getattr(twin, table).is_empty()
    assert run.scenario.to_manifest() == real.manifest.scenario == twin.manifest.scenario
    known = [{name for name, value in figures(each).to_dict().items() if value is not None}
             for each in (real, twin)]  # fmt: skip
    assert known[1] <= known[0]
    changed = difference(real, twin)
    assert {each.field for each in changed.scenario} <= {"kind", "epoch_ms"}, changed.scenario
    for name, trace in (("real", real), ("twin", twin)):
        trace.save(tmp_path / name)
    done = CliRunner().invoke(app, ["diff", str(tmp_path / "real"), str(tmp_path / "twin")])
    assert done.exit_code == 0, done.output


# --- policies in Python --------------------------------------------------------------------------

REFUSED: list[tuple[int, int, str]] = []


class LastInFirstOut(Policy):
    """Last in, first out, on the last node; records the tasks that could not start."""

    def decide(self, view: View) -> list[Place]:
        free = [machine for machine in range(view.machines) if view.free(machine) >= 1]
        return [
            Place(task, machine)
            for task, machine in zip(reversed(view.waiting), reversed(free), strict=False)
        ]

    def failed(self, decision: Place, reason: str) -> None:
        (machine,) = np.atleast_1d(decision.machines)
        REFUSED.append((decision.task, int(machine), reason))


def own(*commands: list[str]) -> tl.Scenario:
    tasks = [
        {"id": f"t{i}", "command": command, "run_time": 0.05, "submit": 0.02 * i}
        for i, command in enumerate(commands)
    ]
    return tl.Scenario(platform="2x1", policy=LastInFirstOut(), workload={"tasks": tasks})


def test_a_policy_in_python_decides_alike_in_execution_and_simulation() -> None:
    seconds = [0.2, 0.25, 0.05, 0.1, 0.15, 0.07, 0.03, 0.11]
    scenario = own(*(["sleep", str(each)] for each in seconds))
    run = Recorded(scenario, execute(scenario))
    assert replay_decisions(run.trace, CompiledScenario(scenario)).is_identical
    twin = chosen(tl.simulate(run.until()))
    for history in run.histories.values():
        assert (twin[history.task].nodes, twin[history.task].start) == (
            history.nodes,
            history.decided,
        )
    # Both nodes are free then, for any number of arrivals until then.
    first = next(iter(run.moments.values()))
    assert ("C01-H01-002",) in {history.nodes for history in first}


def test_a_policy_in_python_is_notified_of_failed_starts() -> None:
    REFUSED.clear()
    scenario = own(["sleep", "0.1"], ["no-such-program"], ["sleep", "0.05"])
    trace = execute(scenario)
    assert trace.tasks["status"].to_list() == ["completed", "failed", "completed"]
    ((task, _, reason),) = REFUSED
    assert task == 1
    assert "no-such-program" in reason
    assert "failed" in set(trace.decisions["kind"])
    assert any("no-such-program" in note.what for note in trace.manifest.cleaned)
    assert replay_decisions(trace, CompiledScenario(scenario)).is_identical


# --- sharing a core ------------------------------------------------------------------------------


#: Works when the other task runs, too.
TOGETHER = (
    'touch "$1"; until test -e "$2"; do sleep 0.01; done; exec twinloop-burn cpu --seconds $3'
)


def two_on_one_core(tmp_path: Path, seconds: float) -> tl.Scenario:
    """Two tasks that work at the same time, on one core."""
    tasks = [
        {
            **work(one, seconds),
            "command": [
                "sh",
                "-c",
                TOGETHER,
                "sh",
                f"{tmp_path}/{one}",
                f"{tmp_path}/{other}",
                str(seconds),
            ],
        }
        for one, other in ("ab", "ba")
    ]
    return tl.Scenario(
        platform="1x1",
        policy={"name": "pack-ic", "options": {"overcommit": 2}},
        workload={"tasks": tasks},
    )


def test_two_tasks_on_one_core_use_at_most_one_core(tmp_path: Path) -> None:
    """In the simulator each task gets half of it; in reality both together get at most all."""
    seconds = 0.4
    scenario = two_on_one_core(tmp_path, seconds)
    alone = {"a": seconds, "b": seconds}
    twin = tl.simulate(scenario).tasks
    assert dict(twin.select("id", "run_time").iter_rows()) == pytest.approx(
        {name: 2 * time for name, time in alone.items()}
    )
    assert dict(twin.select("id", "cpu_time").iter_rows()) == pytest.approx(alone)

    real = execute(scenario, period=0.1, task_limit=PATIENCE)
    ran = real.placements
    whole = ran["end"].max() - ran["start"].min()
    assert real.tasks["cpu_time"].sum() <= whole + 0.02
    again = tl.simulate(tl.replay_scenario(real)).tasks
    assert again["cpu_time"].to_list() == pytest.approx(real.tasks["cpu_time"].to_list(), rel=1e-6)


@pytest.mark.long
def test_two_tasks_on_one_core_get_half_of_it_each(tmp_path: Path) -> None:
    """With equal shares, each waits while the other runs: on a machine that is not busy."""
    real = execute(two_on_one_core(tmp_path, 0.4), period=0.1, task_limit=PATIENCE)
    ran = real.placements
    together = (ran["start"].max(), ran["end"].min())
    common = real.usage.filter(
        pl.col("t") - pl.col("dt") > together[0] + 1e-6, pl.col("t") < together[1] - 1e-6
    )
    used = dict(common.group_by("task").agg(pl.sum("cpu")).iter_rows())
    # Between two common samples; on a very busy machine there may be too few of them.
    if sum(used.values()) > 0.3:
        assert 0.35 <= used.get("a", 0.0) / sum(used.values()) <= 0.65
    for run_time, cpu in real.tasks.select("run_time", "cpu_time").iter_rows():
        assert run_time >= 1.5 * cpu
