"""The states of Figures 6 and 7: every instance and task goes along the arrows of its diagram."""

from __future__ import annotations

import tarfile
from collections.abc import Mapping
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.clouds.broker_twin import BrokerCase
from tests.clouds.cases import IMAGE, make_host, make_scenario, make_task, start
from tests.clouds.test_broker_laws import cases_of_all_brokers
from tests.examples import every, examples
from twinloop.engine import Simulation, simulate
from twinloop.metrics import (
    NODE_STATES,
    TASK_STATES,
    node_states_of_client,
    task_states_of_client,
)
from twinloop.scenario import scenario_of_run
from twinloop.trace import Trace


def check_walks(table: pl.DataFrame, key: str, arrows: Mapping[str, tuple[str, ...]]) -> None:
    """Check that the states of each row follow each other in time, along the arrows."""
    follows = pl.col(key) == pl.col(key).shift()
    rows = table.with_columns(
        before=pl.when(follows).then(pl.col("state").shift()),
        since=pl.when(follows).then(pl.col("end").shift()),
    )
    steps = set(rows.select("before", "state").rows())
    assert steps <= {(a, b) for a in arrows for b in arrows[a]} | {(None, next(iter(arrows)))}
    assert rows.filter(
        pl.col("before").is_not_null(), pl.col("since") != pl.col("start")
    ).is_empty()
    assert rows.filter(pl.col("end") < pl.col("start")).is_empty()


def check_states(trace: Trace, now: float = 0.0) -> None:
    """Check the walks, and that the times in states are those of the other tables."""
    tasks, nodes = task_states_of_client(trace), node_states_of_client(trace)
    check_walks(tasks, "task", TASK_STATES)
    check_walks(nodes, "instance", NODE_STATES)
    assert nodes["instance"].n_unique() == trace.instances["instance"].n_unique()
    # The wall time of each execution.
    on_node = tasks.filter(~pl.col("state").is_in(["PENDING", "SCHEDULED", "COMPLETE"]))
    walls = on_node.group_by("task", "attempt").agg(wall=(pl.col("end") - pl.col("start")).sum())
    placed = trace.placements.drop_nulls("end").join(walls, on=["task", "attempt"], how="left")
    assert placed["wall"].to_list() == pytest.approx(
        (placed["end"] - placed["start"]).to_list(), abs=1e-6
    )
    ended = trace.tasks.filter(status="completed")["id"]
    assert set(tasks.filter(state="COMPLETE")["task"]) == set(ended)
    # All tasks run on busy instances; those of one core have one task at a time.
    if trace.instances["cores"].unique().to_list() == [1.0]:
        busy = nodes.filter(state="BUSY").with_columns(pl.col("end").fill_null(now))
        ends = trace.placements.with_columns(pl.col("end").fill_null(now))
        assert (busy["end"] - busy["start"]).sum() == pytest.approx(
            (ends["end"] - ends["start"]).sum()
        )


@examples(10)
@given(cases_of_all_brokers())
def test_random_cases(case: BrokerCase) -> None:
    check_states(simulate(case.make_scenario(), decisions=True))


def test_states_by_hand() -> None:
    """The request is dated 5 s and boots for 20 s, the first task starts 1 s after that.

    The second task is assigned at 0 s as well, behind the first one; the third one at its end.
    """
    tasks = ((0, 10, 10), (0, 5, 5), (1, 7, 7))
    case = BrokerCase(
        "asap", tasks, ((), (), (1,)), boots=((5, 20, 1),), limit=1, published=True, interval=1
    )
    trace = simulate(case.make_scenario(), decisions=True)
    check_states(trace)
    assert node_states_of_client(trace).select("state", "start", "end").rows() == [
        ("FUTURE", 0, 5),
        ("PENDING", 5, 5),
        ("BOOTING", 5, 25),
        ("IDLE", 25, 26),
        ("BUSY", 26, 48),
        ("IDLE", 48, 61),
        ("SHUTTINGDOWN", 61, 61),
        ("TERMINATED", 61, None),
    ]
    states = task_states_of_client(trace).filter(state="SCHEDULED")
    assert states.select("task", "start", "end").rows() == [
        ("t0", 0, 26),
        ("t1", 0, 36),
        ("t2", 41, 41),
    ]


def test_files_of_tasks() -> None:
    """200 MB at 100 MB/s before the work, 100 MB after it; image and boot take 1 + 1 + 2 s."""
    task = make_task(0, reads=["in"], writes=["out"])
    files = [{"name": "in", "size": "200 MB"}, {"name": "out", "size": "100 MB"}]
    scenario = make_scenario([make_host()], [make_task(0)], image=IMAGE, policy="asap").replace(
        workload={"tasks": [task], "files": files}
    )
    trace = simulate(scenario, decisions=True)
    check_states(trace)
    assert task_states_of_client(trace).select("state", "start", "end").rows() == [
        ("PENDING", 0, 0),
        ("SCHEDULED", 0, 6),
        ("SUBMITTED", 6, 6),
        ("INPUTTING", 6, 8),
        ("RUNNING", 8, 18),
        ("OUTPUTTING", 18, 19),
        ("FINISHED", 19, 19),
        ("COMPLETE", 19, None),
    ]


@pytest.mark.parametrize("mode", ["boot", "run"])
def test_failures(mode: str) -> None:
    """An instance that is lost in its boot, or with a task on it, goes on to TERMINATED."""
    sim = start(
        [make_host("a b", 1)],
        [make_task(i, run_time=20) for i in range(3)],
        image={"name": "base", "boot": {"delay": 10}},
        policy={"name": "asap", "options": {"instances": 1}},
    )
    sim.run_until(5 if mode == "boot" else 25)
    sim.fail("a")
    sim.run()
    trace = sim.trace()
    check_states(trace)
    lost = node_states_of_client(trace).filter(instance="instance-1")["state"].to_list()
    worked = ["IDLE", "BUSY"] if mode == "run" else []
    assert lost == ["FUTURE", "PENDING", "BOOTING", *worked, "TERMINATED"]
    first = task_states_of_client(trace).filter(task="t0")["state"].to_list()
    interrupted = ["PENDING", "SCHEDULED", "SUBMITTED", "INPUTTING", "RUNNING"]
    assert first == [*(interrupted if mode == "run" else []), *TASK_STATES]


@examples(10)
@given(cases_of_all_brokers(), st.integers(0, 100))
def test_a_run_that_is_not_at_its_end(case: BrokerCase, time: int) -> None:
    sim = Simulation(case.make_scenario())
    sim.run_until(max(time, sim.now))
    check_states(sim.trace(), sim.now)


@pytest.mark.realdata
@pytest.mark.parametrize("inject", ["best", "communications"])
def test_real_executions(real_data: Path, tmp_path: Path, inject: str) -> None:
    with tarfile.open(real_data / "schlouder" / "executions.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    files = sorted(tmp_path.rglob("*.tasks"))
    assert len(files) == 289
    for file in files[:: every(12)]:
        check_states(simulate(scenario_of_run(file, inject=inject), decisions=True))
