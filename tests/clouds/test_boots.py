"""Boots of instances: recorded, in proportion to the number of boots, and random."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.clouds.cases import make_host, make_scenario, make_task
from twinloop.engine import CompiledScenario
from twinloop.engine.cloud_columns import build_cloud_columns


def set_boot_times(ready: CompiledScenario, times: list[float]) -> None:
    """Compile the clouds again, with recorded boots."""
    columns = build_cloud_columns(
        ready.machines,
        ready.providers,
        ready.names.users,
        first_file=0,
        seed=0,
        boot_times=np.array(times),
    )
    ready.native_scenario.set_clouds(columns)


def list_boots(ready: CompiledScenario) -> NDArray[np.float64]:
    """Return the times from the request of each instance to the end of its boot."""
    run = ready.start(placements=True)
    run.run_until(np.inf)
    log = run.rentals()
    order = np.argsort(log["rental"])
    return log["ready"][order] - log["requested"][order]


# --- recorded boots -------------------------------------------------------------------------------


@pytest.mark.parametrize("contention", [{}, {"contention": {"linear": {"slope": 0.0}}}])
def test_an_instance_with_a_record_boots_for_exactly_that_time(contention: dict[str, Any]) -> None:
    # A broker numbers its instances; the image of the third one boots for 1 s + 4 core-seconds.
    ready = CompiledScenario(
        make_scenario(
            [make_host("a b", cores=2)],
            [make_task(i, run_time=100) for i in range(4)],
            types=[{"name": "one", "cores": 1}],
            image={"name": "base", "boot": {"delay": 1, "work": 4}},
            policy="asap",
            model=contention,
        )
    )
    assert list_boots(ready).tolist() == [5.0, 5.0, 5.0, 5.0]
    set_boot_times(ready, [0.1 + 0.2, 0.0])
    assert list_boots(ready).tolist() == [0.1 + 0.2, 0.0, 5.0, 5.0]


def test_an_instance_without_a_record_has_the_boot_of_its_image() -> None:
    # A client that is no broker has no records.
    ready = CompiledScenario(
        make_scenario([make_host()], [make_task(0)], image={"name": "base", "boot": {"delay": 7}})
    )
    set_boot_times(ready, [3.0])
    assert list_boots(ready).tolist() == [7.0]


@pytest.mark.parametrize("time", [-1.0, np.nan, np.inf])
def test_a_recorded_boot_that_is_no_time_is_refused(time: float) -> None:
    ready = CompiledScenario(make_scenario([make_host()], [make_task(0)]))
    with pytest.raises(ValueError, match="a boot time is negative or not a finite number"):
        set_boot_times(ready, [3.0, time])
