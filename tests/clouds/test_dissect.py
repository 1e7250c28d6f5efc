"""Ten thousand tasks on twenty machines, as DISSECT-CF ran them, one virtual machine per task.

Its clock is whole milliseconds. Here one second of simulated time is one of its milliseconds where
exact ties matter, so that all times are whole numbers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import twinloop as tl
from twinloop.engine import CompiledScenario
from twinloop.scenario import Scenario
from twinloop.trace import Trace
from twinloop.workload import Workload

pytestmark = pytest.mark.realdata

#: The machines in the order in which DISSECT-CF tried them.
ORDER = [13, 14, 7, 3, 19, 0, 11, 5, 10, 9, 17, 8, 15, 1, 12, 2, 18, 16, 6, 4]
IDLE, MAX = 368.8, 722.7
IMAGE = {"name": "base", "size": "100 MB", "boot": {"work": 30, "limit": 1}}
CORES = 64


@pytest.fixture(scope="module")
def oracle(real_data: Path) -> pl.DataFrame:
    """Submission, request, allocation, start, end and machine of each task, in milliseconds."""
    folder = real_data / "dissect"
    trace = pl.read_csv(folder / "cloud_trace_10k.csv.gz")
    result = pl.read_csv(folder / "cloud_result_10k.csv.gz")
    return trace.join(result, on="id", maintain_order="left").with_columns(
        pl.col("id").cast(pl.String), host=pl.format("pm{}", "pm")
    )


def make_platform(**cloud: Any) -> dict[str, Any]:
    host = {
        "names": [f"pm{number}" for number in ORDER],
        "cores": CORES,
        "memory": "256 GB",
        "ports": {"in": "1 Gb/s", "out": "1 Gb/s"},
        "power": {"model": "linear", "idle": IDLE, "max": MAX},
    }
    return {
        "clusters": [{"name": "rack", "hosts": [host]}],
        "stores": [{"name": "images", "ports": {"in": "1 Gb/s", "out": "1 Gb/s"}}],
        "network": {"latency": "5ms"},
        "clouds": [{"name": "szt", **cloud}],
    }


def make_workload(table: pl.DataFrame, submit: pl.Expr, run_time: pl.Expr) -> Workload:
    cores = pl.col("cores").cast(pl.Float64)
    return Workload(
        tasks=table.select(
            "id",
            submit=submit.cast(pl.Float64),
            cores=cores,
            memory=pl.col("mem_bytes").cast(pl.Float64),
            work=run_time * cores,
            limit=cores,
        )
    )


def run_free(oracle: pl.DataFrame) -> Trace:
    workload = make_workload(oracle, pl.col("submit_ms") / 1000, pl.col("runtime_ms") / 1000)
    platform = make_platform(images=[IMAGE])
    return tl.simulate(Scenario(platform=platform, workload=workload, policy="one-per-task"))


def join_instances(oracle: pl.DataFrame, run: Trace) -> pl.DataFrame:
    """The oracle's row of each task with the start of the task, and host and start of its VM."""
    assert run.instances is not None
    found = run.placements.select(id="task", instance="machine", started="start").join(
        run.instances.select("instance", chosen="host", placed="start"), on="instance"
    )
    return oracle.join(found, on="id", maintain_order="left", validate="1:1")


@pytest.mark.parametrize("others", [("ends", "machines"), ("machines", "ends")])
def test_hosts_given_the_times_of_release(oracle: pl.DataFrame, others: tuple[str, str]) -> None:
    # A task occupies its instance for as long as the oracle's VM occupied its machine.
    held = (pl.col("finish_ms") - pl.col("alloc_ms")).cast(pl.Float64)
    scenario = Scenario(
        platform=make_platform(),
        workload=make_workload(oracle, pl.col("submit_ms"), held),
        policy="one-per-task",
        model={"decide": "event", "instant_order": ["submissions", *others]},
    )
    run = join_instances(oracle, tl.simulate(scenario))
    assert run.filter(pl.col("chosen") != pl.col("host")).is_empty()
    assert run.filter(pl.col("placed") != pl.col("alloc_ms")).is_empty()


def test_starts_given_the_allocations(oracle: pl.DataFrame) -> None:
    # All images leave the store by one port, which is as fast as that of a machine: the ports of
    # machines limit no transfer, and the hosts do not matter. A machine that has room for all
    # instances never lets one wait.
    platform = make_platform(images=[IMAGE])
    platform["clusters"][0]["hosts"][0] |= {"cores": CORES * len(oracle), "memory": "1 PB"}
    workload = make_workload(oracle, pl.col("alloc_ms") / 1000, pl.col("runtime_ms") / 1000)
    scenario = Scenario(platform=platform, workload=workload, policy="one-per-task")
    run = join_instances(oracle, tl.simulate(scenario))
    error = (run["started"] - run["start_ms"] / 1000).abs().to_numpy()
    assert (run["placed"] - run["alloc_ms"] / 1000).abs().max() == 0
    assert error.max() <= 2e-3 + 1e-9
    assert np.count_nonzero(error <= 1e-3 + 1e-9) >= 9_981


def test_a_free_run_up_to_the_first_tie(oracle: pl.DataFrame) -> None:
    run = join_instances(oracle, run_free(oracle))
    # Task 167 arrives in the millisecond in which the machine of another task becomes free.
    ends = oracle["finish_ms"].to_numpy()
    arrivals = oracle["submit_ms"].to_numpy()
    ties = np.flatnonzero(np.isin(arrivals, ends) & (np.arange(len(ends)) > 0))
    assert ties[0] == 167
    before = run.head(int(ties[0]))
    assert before.filter(pl.col("chosen") != pl.col("host")).is_empty()
    error = np.abs(before["started"].to_numpy() - before["start_ms"].to_numpy() / 1000)
    assert error.max() <= 2e-3 + 1e-9


def test_the_energy_of_machines_that_are_always_on(oracle: pl.DataFrame) -> None:
    workload = make_workload(oracle, pl.col("submit_ms") / 1000, pl.col("runtime_ms") / 1000)
    platform = make_platform(images=[IMAGE])
    compiled = CompiledScenario(
        Scenario(platform=platform, workload=workload, policy="one-per-task")
    )
    figures = compiled.run()
    work = float((oracle["runtime_ms"] * oracle["cores"]).sum()) / 1000 + 30 * len(oracle)
    assert figures["energy_j"] == pytest.approx(
        figures["makespan_s"] * len(ORDER) * IDLE + (MAX - IDLE) / CORES * work, rel=1e-9
    )
