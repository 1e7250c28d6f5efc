"""Search with simulations in other processes: equal results, and all failures reported."""

import os
import signal
from typing import Any

import numpy as np
import pytest
from polars.testing import assert_frame_equal

from tests.calibration.test_fit import BOTH, truth, untimed
from twinloop.calibration import calibrate
from twinloop.calibration.cases import Case
from twinloop.calibration.losses import loss_from_function
from twinloop.calibration.parameters.kinds import LinearParameter
from twinloop.calibration.parameters.space import Space
from twinloop.calibration.search.distributed_objective import DistributedObjective
from twinloop.calibration.search.objective import TwinObjective
from twinloop.campaign import coordinator
from twinloop.description.errors import InputError

pytestmark = pytest.mark.real

SPACE = Space([LinearParameter("speed_factor", 0.5, 2.0)])
POINTS = np.linspace(0, 1, 7)[:, np.newaxis]
CASE = Case.of([truth(speed_factor=0.8)], names=SPACE.names)


def moody(real: Any, twin: Any) -> float:
    if twin.makespan > 1.2 * real.makespan:
        raise ValueError(f"{twin.makespan} is too long")
    return abs(float(twin.makespan - real.makespan))


def deadly(real: Any, twin: Any) -> float:
    if twin.makespan > 1.2 * real.makespan:
        os.kill(os.getpid(), signal.SIGKILL)
    return abs(float(twin.makespan - real.makespan))


def test_processes_and_threads_find_the_same_fit() -> None:
    real = truth(speed_factor=0.8, startup_overhead=0.5)
    asked: dict[str, Any] = {"parameters": BOTH, "budget": 100, "analysis": 1300}
    here = calibrate(real, **asked)
    there = calibrate(real, **asked, on="processes", workers=2)
    assert untimed(there) == untimed(here)
    assert_frame_equal(there.history, here.history)
    assert here.confidence_region is not None
    assert there.confidence_region is not None
    assert_frame_equal(there.confidence_region, here.confidence_region)


@pytest.mark.long
def test_failures_are_counted_on_all_workers() -> None:
    loss = loss_from_function(moody, needs=frozenset({"makespan"}))
    here = TwinObjective(SPACE, [CASE], loss)
    expected = here(POINTS)
    assert 0 < np.isnan(expected).sum() < len(POINTS)
    with coordinator("processes", workers=2) as elsewhere:
        there = DistributedObjective(SPACE, [CASE], loss, workers=elsewhere)
        for turns in (1, 2):
            assert there(POINTS).tobytes() == expected.tobytes()
            assert there.failures.total() == turns * here.failures.total()
    assert set(there.failures) == set(here.failures)


@pytest.mark.long
def test_only_points_that_end_a_worker_fail() -> None:
    """Other points in the batch of a lost worker are evaluated again."""
    few = POINTS[[0, -1]]
    loss = loss_from_function(deadly, needs=frozenset({"makespan"}))
    with coordinator("processes", workers=1) as elsewhere:
        found = DistributedObjective(SPACE, [CASE], loss, workers=elsewhere)
        losses = found(few)
    failed = TwinObjective(SPACE, [CASE], loss_from_function(moody, needs=frozenset({"makespan"})))(
        few
    )
    assert np.isnan(failed).tolist() in ([True, False], [False, True])
    np.testing.assert_array_equal(losses, failed)
    assert found.failures.total() == 1


def test_threads_of_one_worker_do_not_count_for_each_other() -> None:
    loss = loss_from_function(moody, needs=frozenset({"makespan"}))
    points = np.tile(POINTS, (8, 1))
    with coordinator("threads", workers=8) as elsewhere:
        found = DistributedObjective(SPACE, [CASE], loss, workers=elsewhere)
        assert found.failures.total() == 0
        assert np.isnan(found(points)).sum() == found.failures.total() > 0


def test_conflicting_options_for_workers_are_refused() -> None:
    with pytest.raises(InputError, match="workers: needs `on`"):
        calibrate(truth(), workers=2)
    with pytest.raises(InputError, match="threads: cannot be combined"):
        calibrate(truth(), on="processes", threads=2)
