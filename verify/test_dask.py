"""A local Dask cluster survives the loss of workers and gives the results of threads."""

from functools import partial
from pathlib import Path

import pytest
from polars.testing import assert_frame_equal

import twinloop as tl
from tests.calibration.test_fit import BOTH, truth, untimed
from tests.campaign.functions import dying
from twinloop.calibration import calibrate
from twinloop.campaign import coordinator


def test_a_local_cluster_survives_killed_workers(tmp_path: Path) -> None:
    """One item kills its worker, one does not; no failure is allowed."""
    dask = pytest.importorskip("dask")
    pytest.importorskip("distributed")  # before its settings are changed, or they would be lost

    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        coordinator("dask", workers=1) as workers,
    ):
        assert workers.workers == 1
        # One by one: Dask counts a failure of every item on the worker that died.
        outcomes = list(workers.map(partial(dying, tmp_path), [10, 2], outstanding=1))
    assert [outcome.value for outcome in outcomes] == [None, -2]
    assert outcomes[0].error is not None
    assert outcomes[0].error.startswith("KilledWorker: ")
    assert outcomes[0].error.endswith(", for 10")


def test_a_study_has_the_same_figures_with_dask() -> None:
    pytest.importorskip("distributed")
    given = tl.Scenario(
        platform="4x4",
        policy="fcfs",
        workload={"generate": {"name": "poisson", "parameters": {"tasks": 50}}},
    )
    factors = {"policy": ["fcfs", "easy", "sjf"], "seed": [1, 2]}
    here, there = (tl.explore(given, factors, on=on).runs for on in ("serial", "dask"))
    assert_frame_equal(there.drop("seconds"), here.drop("seconds"))


def test_a_calibration_has_the_same_values_with_dask() -> None:
    pytest.importorskip("distributed")
    real = truth(speed_factor=0.8, startup_overhead=0.5)
    here, there = (
        calibrate(real, parameters=BOTH, budget=200, analysis=1300, on=on) for on in (None, "dask")
    )
    assert untimed(there) == untimed(here)
