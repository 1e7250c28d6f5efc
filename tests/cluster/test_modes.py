"""The manifest of a simulation states replay or predict, and the injected quantities."""

import polars as pl
import pytest

import twinloop as tl
from tests.cluster.scenarios import Case, Task

TASKS = {"tasks": [{"id": "a", "run_time": 5}]}
MADE_UP = {"generate": {"name": "poisson", "parameters": {"tasks": 3}}}
LOG = tl.Trace(
    tasks=pl.DataFrame(
        {"id": ["a"], "submit": [0.0], "run_time": [5.0], "requested_cores": [1.0],
         "requested_time": [9.0]}
    )
)  # fmt: skip


def mode(**parts) -> tuple[str, list[str]]:
    facts = tl.simulate(
        tl.Scenario(**{"platform": "1x4", "policy": "fcfs", **parts})
    ).manifest.facts
    return facts["mode"], facts["injected"]


@pytest.mark.parametrize("workload", [TASKS, MADE_UP, Case((), (Task(0.0),)).workload])
def test_work_that_was_declared_or_made_up_is_no_run(workload):
    assert mode(workload=workload) == ("predict", [])


def test_a_log_is_replayed():
    assert mode(workload=LOG) == ("replay", ["run times"])


def test_a_run_is_replayed_with_what_was_measured_in_it():
    run = tl.simulate(tl.Scenario(platform="1x4", policy="fcfs", workload=TASKS))
    latency = {"start": {"mean_s": 0.01}, "release": {"mean_s": 0.0}}
    facts = {**run.manifest.facts, "mode": "real", "latency": latency}
    manifest = run.manifest.model_copy(update={"kind": "recorded", "facts": facts})
    again = tl.replay_scenario(run.replace(manifest=manifest))
    found = tl.simulate(again).manifest.facts
    assert found["mode"] == "replay"
    assert found["injected"] == ["run times", "requested times", "latencies"]
