"""Speed of a host by its clock relative to the reference of the workload."""

import polars as pl
import pytest

import twinloop as tl
from twinloop.engine import CompiledScenario
from twinloop.engine.workload_cache import LoadedWorkload

LOG = tl.Trace(
    tasks=pl.DataFrame(
        {"id": ["a", "b"], "submit": [0.0, 1.0], "requested_cores": 1.0, "run_time": 100.0}
    )
)
NODES = pl.DataFrame({"node": ["n"], "cores": [2.0], "mhz": [1000.0]})
#: The same log, as it may say its clock or not.
CLOCKLESS = {"Trace": LOG, "Workload": tl.Workload.from_trace(LOG)}
SAYING = {
    "manifest": LOG.with_manifest(reference_mhz=1000.0),
    "nodes": LOG.replace(nodes=NODES),
    "Workload": tl.Workload.from_trace(LOG, reference_mhz=1000.0),
}


def scenario(workload: tl.Trace | tl.Workload, *clocks: float | None, **parts) -> tl.Scenario:
    hosts = [{"name": f"h{i}", "cores": 1, "mhz": mhz} for i, mhz in enumerate(clocks)]
    platform = {"clusters": [{"hosts": hosts}]}
    return tl.Scenario(platform=platform, workload=workload, policy="fcfs", **parts)


def lengths(given: tl.Scenario) -> list[float]:
    """How long a and b took; with two hosts, a on the first and b on the second."""
    return tl.simulate(given).tasks["run_time"].to_list()


def said(given: tl.Scenario) -> list[str]:
    return [note.what for note in tl.simulate(given).manifest.cleaned if "clock" in note.what]


@pytest.mark.parametrize("kind", CLOCKLESS)
@pytest.mark.parametrize("clocks", [(2000,), (2000, 4000), (2000, 1000), (2000, None), (None,)])
def test_a_log_without_a_clock_is_as_long_on_every_host(kind, clocks):
    assert lengths(scenario(CLOCKLESS[kind], *clocks)) == [100.0, 100.0]


@pytest.mark.parametrize("kind", SAYING)
def test_a_log_with_a_clock_is_shorter_on_a_faster_host(kind):
    assert lengths(scenario(SAYING[kind], 2000, 4000)) == [50.0, 25.0]
    assert said(scenario(SAYING[kind], 2000, 4000)) == []


@pytest.mark.parametrize("kind", CLOCKLESS)
def test_clocks_without_reference_are_noted(kind):
    assert (
        said(scenario(CLOCKLESS[kind], 2000)) == said(scenario(CLOCKLESS[kind], 2000, None)) == []
    )
    (what,) = said(scenario(CLOCKLESS[kind], 2000, 4000))
    assert "whose clock is not recorded" in what


@pytest.mark.parametrize("kind", CLOCKLESS)
@pytest.mark.parametrize("clocks", [(2000, 2000), (2000, 4000)])
def test_an_override_of_a_clock_counts_against_the_description(kind, clocks):
    faster = {"overrides": {"clusters[0].hosts[0].mhz": 2500.0}}
    assert lengths(scenario(CLOCKLESS[kind], *clocks, model=faster)) == [80.0, 100.0]


def test_a_log_that_was_read_serves_other_platforms_whose_clocks_differ():
    given = scenario(LOG, 2000, 4000)
    ready = LoadedWorkload(given)
    other = scenario(LOG, 1000, 3000)
    assert ready.is_valid_for(other)
    assert not ready.is_valid_for(scenario(LOG, 2000))
    found, expected = CompiledScenario(other, workload=ready).run(), CompiledScenario(other).run()
    assert found == pytest.approx(expected, nan_ok=True)
