"""Laws: the policy decides alike in execution and simulation, and the simulator replays the run.

Each scenario is run once for real. `worlds.Recorded` says what is compared, and how.
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


def burning(**parameters: Any) -> dict[str, Any]:
    """Tasks that ask for times that say nothing of how long they take."""
    asked = {"usual_times": False, "overestimate": 1000.0}
    given = {"shape": "bag", "shortest": 0.03, "longest": 0.17, **asked, **parameters}
    return {"generate": {"name": "burn", "parameters": given}}


def work(name: str, seconds: float, **more: Any) -> dict[str, Any]:
    command = ["twinloop-burn", "cpu", "--seconds", str(seconds)]
    return {"id": name, "command": command, "run_time": seconds, **more}


def task(name: str, nodes: int, seconds: float, planned: float, submit: float) -> dict[str, Any]:
    """One process on each of its nodes."""
    sizes = {"nodes": nodes, "cores": nodes}
    return work(name, seconds, requested_time=planned, submit=submit, **sizes)


#: Whoever comes back together finds both nodes free.
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
#: The heads of two nodes and short ones that may pass them, by plans that are far from each other.
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
    "fifo": {"policy": "fifo", "workload": burning(tasks=24)},
    "easy": {"policy": "easy", "workload": {"tasks": EASY}},
    "pack-ic": {
        "policy": {"name": "pack-ic", "options": {"overcommit": 2}},
        "workload": burning(tasks=14),
    },
    "dag": {"policy": "fifo", "workload": {"tasks": DAG}},
    "sessions": {
        "policy": "fifo",
        "source": "sessions:0.1",
        "workload": burning(
            shape="sessions", tasks=15, size=2, users=3, think_time=0.15, interval=0.02
        ),
    },
}


@pytest.fixture(scope="module", autouse=True)
def rates() -> Iterator[None]:
    """How fast this machine works is measured once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(
            burn_program.RATES_VARIABLE, f"cpu={burn_program.measure_rates(['cpu'])['cpu']!r}"
        )
        yield


#: Scenarios whose policy and source others have as well are left to `make verify`.
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
    assert len(run.lives) == run.trace.tasks.height


def test_told_the_same_again_the_policy_decides_the_same(run: Recorded) -> None:
    told = replay_decisions(run.trace, CompiledScenario(run.scenario))
    assert len(told.recorded) == len(run.lives)
    assert told.replayed == told.recorded


def test_the_latencies_in_the_manifest_are_those_of_the_tables(run: Recorded) -> None:
    said = run.trace.manifest.facts["latency"]
    for name, found in (("dispatch", run.dispatches), ("release", run.releases)):
        times = np.array(list(found.values())) / SECOND
        assert times.min() >= 0
        assert said[name]["count"] == len(times)
        assert said[name]["max_s"] == pytest.approx(times.max(), abs=2e-9)
        assert said[name]["p50_s"] == pytest.approx(np.median(times), abs=2e-9)
    # Whoever is the first to be started at a moment waits for nobody else to be started.
    first = [min(run.dispatches[life.task] for life in placed) for placed in run.moments.values()]
    assert said["start"]["count"] == said["dispatch"]["count"]
    assert max(first) / SECOND - 2e-9 <= said["start"]["max_s"] <= said["dispatch"]["max_s"]
    assert said["start"]["p50_s"] <= said["dispatch"]["p50_s"]
    assert run.model.values() == tl.replay_scenario(run.trace).model.values()
    # The bounds of everything below: what a replay takes for all tasks is as large as for some.
    assert 0 < run.dispatch <= max(run.dispatches.values())
    assert min(run.releases.values()) <= run.release <= max(run.releases.values())


def test_with_the_latencies_of_each_task_the_simulator_makes_every_choice_alike(
    run: Recorded,
) -> None:
    """What the policy saw when is given; so is how long a task keeps its nodes. Nothing is near."""
    twin = chosen(tl.simulate(run.until()))
    for life in run.lives.values():
        assert (twin[life.task].nodes, twin[life.task].start) == (life.nodes, life.decided)


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
        for life in placed:
            one, before = twin[life.task], run.before(life)
            assert one.nodes == life.nodes
            assert abs(one.start - moment) <= run.latency
            if before is not None and before.seen == moment:
                gap = one.start + run.dispatch - (twin[before.task].end - run.release)
                assert abs(gap - (life.start - before.end)) <= run.latency
    assert settled
    usual = f"{run.dispatch / 1e6:.1f} + {run.release / 1e6:.1f}"
    print(
        f"{len(run.lives)} tasks, {settled} of {len(run.moments)} decisions beyond the latency of "
        f"{run.latency / 1e6:.1f} ms (in the model {usual} ms)"
    )


def test_in_a_replay_tasks_start_as_soon_after_what_they_waited_for(run: Recorded) -> None:
    """For all tasks, also where an end that came earlier or later has changed their nodes."""
    twin = run.replay()
    assert set(twin.tasks["status"]) == {"completed"}
    ready = {name: ns(t) for name, t in twin.tasks.select("id", "ready").iter_rows()}
    usual = run.dispatch + run.release
    there = run.gaps(in_seconds(twin), ready, dict.fromkeys(ready, usual - 1000))
    lives = run.lives.values()
    here = run.gaps(
        {life.task: Chosen(life.nodes, life.start, life.end) for life in lives},
        {life.task: life.offered for life in lives},
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
    for life in run.lives.values():
        served, recorded = ran[life.task].end - ran[life.task].start, life.end - life.start
        # CPU time is counted in ticks: a task may seem to have used more than all of its core.
        assert abs(served - recorded) <= 0.01 * SECOND
    along = run.followed(ran, ready)
    print(f"{along} of {len(run.lives)} tasks until two events change places")


@pytest.mark.parametrize("run", ["easy"], indirect=True)
def test_somebody_passed_the_head_of_the_queue(run: Recorded) -> None:
    """Otherwise nothing is shown of backfilling, nor of tasks on two nodes."""
    lives = list(run.lives.values())
    pairs = itertools.combinations(lives, 2)
    assert any(first.decided > second.decided for first, second in pairs)
    assert {len(life.nodes) for life in lives} == {1, 2}


@pytest.mark.parametrize("run", ["dag"], indirect=True)
def test_children_start_after_their_parents_in_both_worlds(run: Recorded) -> None:
    edges = run.trace.tasks.select("id", "parents").explode("parents").drop_nulls()
    assert not edges.is_empty()
    for trace in (run.trace, run.replay()):
        ran = in_seconds(trace)
        assert all(ran[parent].end <= ran[child].start for child, parent in edges.iter_rows())


@pytest.mark.parametrize("run", ["sessions"], indirect=True)
def test_users_come_back_after_the_same_pause_in_both_worlds(run: Recorded) -> None:
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


# --- the same kind of thing ----------------------------------------------------------------------


def test_a_real_run_and_a_simulated_one_are_the_same_kind_of_trace(
    run: Recorded, tmp_path: Path
) -> None:
    real, twin = run.trace, tl.simulate(run.scenario, decisions=True)
    assert (real.manifest.kind, twin.manifest.kind) == ("recorded", "simulated")
    for table in TABLES:
        assert getattr(real, table).schema == getattr(twin, table).schema
    assert real.tasks["id"].equals(twin.tasks["id"])
    assert real.tasks["status"].equals(twin.tasks["status"])
    # Of these, a machine says what a platform may leave open.
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


# --- a policy of one's own -----------------------------------------------------------------------

REFUSED: list[tuple[int, int, str]] = []


class LastComes(Policy):
    """The one who came last is served first, on the last node; he whom it cannot start is told."""

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
    return tl.Scenario(platform="2x1", policy=LastComes(), workload={"tasks": tasks})


def test_a_policy_in_python_decides_alike_in_both_worlds() -> None:
    seconds = [0.2, 0.25, 0.05, 0.1, 0.15, 0.07, 0.03, 0.11]
    scenario = own(*(["sleep", str(each)] for each in seconds))
    run = Recorded(scenario, execute(scenario))
    assert replay_decisions(run.trace, CompiledScenario(scenario)).is_identical
    twin = chosen(tl.simulate(run.until()))
    for life in run.lives.values():
        assert (twin[life.task].nodes, twin[life.task].start) == (life.nodes, life.decided)
    # Both nodes are free then, however many have come by that time.
    first = next(iter(run.moments.values()))
    assert ("C01-H01-002",) in {life.nodes for life in first}


def test_a_policy_in_python_is_told_of_what_could_not_be_started() -> None:
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


#: Works when the other one is there as well.
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


def test_two_on_one_core_use_no_more_than_one_core(tmp_path: Path) -> None:
    """In the simulator each gets half of it; in reality both together get no more than all."""
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
def test_two_on_one_core_get_half_of_it_each(tmp_path: Path) -> None:
    """With equal shares, each waits while the other runs: on a machine that is not busy."""
    real = execute(two_on_one_core(tmp_path, 0.4), period=0.1, task_limit=PATIENCE)
    ran = real.placements
    together = (ran["start"].max(), ran["end"].min())
    common = real.usage.filter(
        pl.col("t") - pl.col("dt") > together[0] + 1e-6, pl.col("t") < together[1] - 1e-6
    )
    used = dict(common.group_by("task").agg(pl.sum("cpu")).iter_rows())
    # From one sample of both to another; a very busy machine may have left no time for enough.
    if sum(used.values()) > 0.3:
        assert 0.35 <= used.get("a", 0.0) / sum(used.values()) <= 0.65
    for run_time, cpu in real.tasks.select("run_time", "cpu_time").iter_rows():
        assert run_time >= 1.5 * cpu
