"""A real week of a cluster: every task accounted for, its power worked out again from the files.

The tables are those of SURF's cluster that come with OpenDT. Every task that has fragments asks
for all 16 cores of a host, and there is a free host whenever one comes. So each starts when it is
submitted and has its host to itself, and the power of the cluster is a sum over fragments.
"""

import numpy as np
import polars as pl
import pytest

import twinloop as tl
from twinloop.engine import CompiledScenario

pytestmark = pytest.mark.realdata

HOSTS, CORES, MHZ = 277, 16, 2100
IDLE, MAX, R = 25.0, 174.0, 4.0
STEP = 30.0


@pytest.fixture(scope="module")
def log(real_data):
    return tl.read(real_data / "surf")


def scenario(log, missing):
    power = {"model": "mse", "idle": IDLE, "max": MAX, "r": R}
    hosts = {"name": "host", "count": HOSTS, "cores": CORES, "mhz": MHZ, "power": power}
    return tl.Scenario(
        platform={"clusters": [{"name": "surf", "hosts": [hosts]}]},
        workload={"object": log, "missing": missing},
        policy={"name": "filter", "options": {"filters": {"vcpu": 1.0}}},
        model={"demand": "fixed", "sharing": "no-delay"},
    )


@pytest.fixture(scope="module")
def compiled(log):
    return CompiledScenario(scenario(log, "drop"))


@pytest.fixture(scope="module")
def run(compiled):
    return tl.simulate(compiled, power_step=STEP)


@pytest.fixture(scope="module")
def fragments(real_data):
    """Begin (s) and utilisation of a host, of every fragment, straight from the files."""
    tasks = pl.read_parquet(real_data / "surf/tasks.parquet")
    ms = tasks["submission_time"].dt.timestamp("ms")
    begin = tasks.select("id", submitted=(ms - ms.min()) / 1000)
    table = pl.read_parquet(real_data / "surf/fragments.parquet", columns=["id", "cpu_usage"])
    table = table.join(begin, on="id", how="left", maintain_order="left")
    before = pl.int_range(pl.len()).over("id") * STEP
    return table.select(pl.col("submitted") + before, u=pl.col("cpu_usage") / (CORES * MHZ))


def totals(trace):
    return trace.power.filter(pl.col("node").is_null())


def joules(windows):
    return (windows["watts"] * windows["dt"]).sum()


def test_tasks_without_a_fragment_are_left_out_and_counted(run):
    assert run.tasks["status"].value_counts().rows() == [("completed", 6295)]
    assert run.manifest.facts["run"]["skipped"] == 1555
    assert 6295 + 1555 == 7850


def test_with_demand_made_up_for_them_all_run_that_fit_a_host(log):
    told = tl.simulate(scenario(log, "synthetic"))
    assert told.manifest.facts["run"]["skipped"] == 0
    assert dict(told.tasks["status"].value_counts().rows()) == {"completed": 7841, "rejected": 9}
    too_wide = log.tasks.filter(pl.col("requested_cores") > CORES)["id"]
    rejected = told.tasks.filter(pl.col("status") == "rejected")["id"]
    assert rejected.to_list() == too_wide.to_list()


def test_power_is_the_sum_over_the_fragments(run, fragments):
    begin, u = fragments["submitted"].to_numpy(), fragments["u"].to_numpy()
    more = (MAX - IDLE) * (2 * u - u**R)
    watts = totals(run)["watts"].to_numpy()
    expected = np.full(len(watts) + 1, HOSTS * IDLE)
    # A fragment is as long as a window, so it lies in two of them.
    window = np.floor(begin / STEP).astype(int)
    second = begin / STEP - window
    inside = window < len(watts)
    np.add.at(expected, window[inside], (more * (1 - second))[inside])
    np.add.at(expected, window[inside] + 1, (more * second)[inside])
    assert watts == pytest.approx(expected[:-1], rel=1e-9)


def test_energy_is_that_of_the_windows_at_any_resolution_and_of_the_hosts(compiled, run):
    energy = run.manifest.facts["run"]["energy_j"]
    assert joules(totals(run)) == pytest.approx(energy, rel=1e-9)
    hourly = tl.simulate(compiled, power_step=3600.0, power_per_node=True)
    assert joules(totals(hourly)) == pytest.approx(energy, rel=1e-9)
    hosts = hourly.power.filter(pl.col("node").is_not_null())
    assert hosts["node"].n_unique() == HOSTS
    assert joules(hosts) == pytest.approx(energy, rel=1e-9)
    assert hosts["watts"].min() >= IDLE * (1 - 1e-9)


def test_no_host_has_more_than_it_can_do(run):
    placed = run.placements
    changes = pl.concat(
        [
            placed.select("machine", t="start", cores="cores"),
            placed.select("machine", t="end", cores=-pl.col("cores")),
        ]
    ).sort("machine", "t", "cores")
    level = changes.select(pl.col("cores").cum_sum().over("machine")).to_series()
    assert level.max() == CORES
    assert level.min() == 0


def test_no_task_waits_and_no_task_is_slowed_down(run):
    both = run.tasks.join(run.placements, left_on="id", right_on="task")
    assert both.height == 6295
    assert (both["start"] == both["submit"]).all()


def test_work_done_is_the_work_of_the_fragments(run, fragments):
    submitted = fragments["u"].sum() * CORES * STEP
    assert run.tasks["cpu_time"].sum() == pytest.approx(submitted, rel=1e-9)
