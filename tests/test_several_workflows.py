"""Several workflows with arrival times as the workload of a scenario."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from twinloop.description.errors import InputError
from twinloop.engine import CompiledScenario, simulate
from twinloop.scenario import Scenario
from twinloop.scenario.randomness import is_random
from twinloop.trace import Trace

TASKS = pl.DataFrame(
    {
        "id": ["a", "b"],
        "user": ["ann", "bob"],
        "submit": [4.0, 4.0],
        "run_time": [10.0, 5.0],
        "parents": [None, ["a"]],
    }
)
FILES = {
    "files": pl.DataFrame({"file": ["x", "y"], "size": [8e6, 4e6]}),
    "task_files": pl.DataFrame(
        {"task": ["a", "a", "b"], "file": ["x", "y", "y"], "access": ["read", "write", "read"]}
    ),
}


@pytest.fixture
def flow(tmp_path: Path) -> str:
    return Trace(tasks=TASKS, **FILES).save(tmp_path / "flow.trace").as_posix()


def make(workflows: list[object], **more: object) -> Scenario:
    return Scenario(
        platform={"clusters": [{"hosts": [{"cores": 9}]}], "stores": [{"name": "s", "read": 4e6}]},
        workload={"workflows": workflows},
        policy="fcfs",
        **more,
    )


def test_workflows_arrive_at_their_times_with_tasks_and_files_of_their_own(flow):
    run = simulate(make([{"path": flow, "count": 2, "every": "1h"}, {"path": flow, "name": "other",
                         "at": "30min"}]))  # fmt: skip
    runs = run.placements.select("start", "end", id="task")
    rows = run.tasks.join(runs, on="id").select("id", "user", "submit", "start", "end").rows()
    # Each reads 8 MB at 4 MB/s and computes for 10 s; then its child reads 4 MB and computes.
    assert rows == [
        ("flow-1/a", "ann", 0, 0, 12),
        ("flow-1/b", "bob", 0, 12, 18),
        ("other/a", "ann", 1800, 1800, 1812),
        ("other/b", "bob", 1800, 1812, 1818),
        ("flow-2/a", "ann", 3600, 3600, 3612),
        ("flow-2/b", "bob", 3600, 3612, 3618),
    ]
    assert run.transfers["file"].n_unique() == 6
    # Its own run again, from the trace.
    again = simulate(Scenario.from_trace(run))
    assert again.placements["end"].equals(run.placements["end"])


def test_one_workflow_is_the_log_itself_but_for_its_time(flow):
    run = simulate(make([flow]))
    assert run.tasks.select("id", "submit").rows() == [("a", 0.0), ("b", 0.0)]


def test_logs_without_cores_have_one_core_beside_others(flow):
    generated = {"generate": {"name": "arrays", "parameters": {"tasks": 6, "cores": 2}}}
    compiled = CompiledScenario(make([flow, generated]))
    cores = dict(zip(compiled.workload.tasks["id"], compiled.workload.tasks["cores"], strict=True))
    assert (cores["a"], cores["b"], len(cores)) == (1.0, 1.0, 8)


def test_generated_arrivals_differ_and_depend_on_the_seed(flow):
    poisson = {"generate": {"name": "poisson", "parameters": {"tasks": 20}}}
    scenario = make([{**poisson, "count": 2}])
    tasks = scenario.workload.resolve(seed=1).tasks
    by_arrival = [
        tasks.filter(pl.col("id").str.starts_with(name)).sort("submit")["run_time"].to_list()
        for name in ("poisson-1/", "poisson-2/")
    ]
    assert len(by_arrival[0]) == len(by_arrival[1]) == 20
    assert by_arrival[0] != by_arrival[1]
    assert not scenario.workload.resolve(seed=2).tasks.equals(tasks)
    assert is_random(scenario)
    assert not is_random(make([flow]))


def test_the_logs_are_inputs_of_the_scenario(flow, tmp_path):
    scenario = make([{"path": flow, "at": 5}])
    (tmp_path / "scenario.yaml").write_text(scenario.to_yaml())
    loaded = Scenario.load(tmp_path / "scenario.yaml")
    assert [each.name for each in loaded.inputs()] == [f"{flow}/manifest.json"]
    assert loaded == scenario


def test_mistakes_are_errors_with_their_place(flow, tmp_path):
    for workflow, problem in (
        ({}, r"workload.workflows\[0\]: needs either a path or a generator"),
        ({"path": flow, "every": 5}, r"workload.workflows\[0\].every: has no effect on one"),
        ({"generate": {"name": "poisson"}, "format": "swf"}, "has no effect without a path"),
    ):
        with pytest.raises(InputError, match=problem):
            make([workflow])
    with pytest.raises(InputError, match="workflows: cannot be combined with"):
        make([flow]).replace(**{"workload.path": flow})
    with pytest.raises(InputError, match=r"none\.json"):
        simulate(make([(tmp_path / "none.json").as_posix()]))
    with pytest.raises(InputError, match="'format' is a field of the workload"):
        simulate(make([{"path": flow, "options": {"format": "swf"}}]))
