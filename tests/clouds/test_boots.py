"""Boots of instances: recorded, predicted, and in proportion to the number of boots."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.clouds.cases import make_host, make_scenario, make_task
from tests.examples import examples
from twinloop.engine import CloudService, CompiledScenario, Simulation
from twinloop.engine.cloud_columns import build_cloud_columns, find_typical_boot
from twinloop.scenario import Scenario

#: The boots of three instances that are started together take 12, 14 and 16 s.
SHARED = {"delay": 10, "per_booting": 2}


def describe(count: int, boot: dict[str, Any], *, policy: Any = "asap", **others: Any) -> Scenario:
    """Describe a cloud with a host, a task and thus an instance of one core for each number."""
    return make_scenario(
        [{"name": "h", "count": count, "cores": 1}],
        [make_task(i, run_time=100) for i in range(count)],
        types=[{"name": "one", "cores": 1}],
        image={"name": "base", "boot": boot},
        policy=policy,
        **others,
    )


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
    # A broker numbers its instances; the image boots for 1 s + 4 core-seconds.
    ready = CompiledScenario(describe(3, {"delay": 1, "work": 4}, model=contention))
    assert list_boots(ready).tolist() == [5.0, 5.0, 5.0]
    set_boot_times(ready, [0.1 + 0.2, 0.0, 7.0])
    assert list_boots(ready).tolist() == [0.1 + 0.2, 0.0, 7.0]


def test_instances_beyond_the_records_boot_for_their_median() -> None:
    ready = CompiledScenario(describe(5, {"delay": 5}))
    set_boot_times(ready, [30.0, 90.0, 36.0])
    assert list_boots(ready).tolist() == [30.0, 90.0, 36.0, 36.0, 36.0]


def test_an_unknown_boot_is_that_of_the_image() -> None:
    ready = CompiledScenario(describe(4, {"delay": 5}))
    set_boot_times(ready, [30.0, np.nan, 36.0])
    assert list_boots(ready).tolist() == [30.0, 5.0, 36.0, 33.0]
    set_boot_times(ready, [np.nan, np.nan])
    assert list_boots(ready).tolist() == [5.0, 5.0, 5.0, 5.0]
    assert np.isnan(find_typical_boot(np.empty(0)))


@pytest.mark.parametrize("time", [-1.0, np.inf])
def test_a_recorded_boot_that_is_no_time_is_refused(time: float) -> None:
    ready = CompiledScenario(make_scenario([make_host()], [make_task(0)]))
    with pytest.raises(ValueError, match="a boot time is negative or infinite"):
        set_boot_times(ready, [3.0, time])


# --- predicted boots ------------------------------------------------------------------------------


def predict_with(**options: Any) -> dict[str, Any]:
    """A broker that predicts 20 s + 1 s for each booting instance."""
    boot = {"base": 20, "per_booting": 1}
    return {"name": "asap", "options": {"boot": boot, "boots_as_predicted": True, **options}}


def test_boots_without_a_record_take_the_predicted_time() -> None:
    # The image boots otherwise, and would fail.
    ready = CompiledScenario(describe(3, {"delay": 5, "failed": 1}, policy=predict_with()))
    assert list_boots(ready).tolist() == [21.0, 22.0, 23.0]
    set_boot_times(ready, [7.0, np.nan, 9.0])
    assert list_boots(ready).tolist() == [7.0, 22.0, 9.0]
    other = CompiledScenario(
        describe(3, {"delay": 5}, policy=predict_with(boots_as_predicted=False))
    )
    assert list_boots(other).tolist() == [5.0, 5.0, 5.0]


# --- a line in the number of booting instances ----------------------------------------------------


def test_instances_that_boot_together_delay_each_other() -> None:
    assert list_boots(CompiledScenario(describe(3, SHARED))).tolist() == [12.0, 14.0, 16.0]


def test_the_work_of_a_boot_follows_its_delay() -> None:
    boot = {**SHARED, "work": 4}
    assert list_boots(CompiledScenario(describe(3, boot))).tolist() == [16.0, 18.0, 20.0]


def test_only_instances_that_boot_at_the_same_time_are_counted() -> None:
    # Started at 0, 5, 10 and 15 s; ready at 12, 19, 26 (three boot at 10 s) and 31 s (the first
    # has booted).
    ready = CompiledScenario(describe(4, SHARED, inter_boot_delay=5))
    assert list_boots(ready).tolist() == [12.0, 19.0, 26.0, 31.0]


def test_requests_by_messages_boot_together_when_they_have_arrived() -> None:
    # The request takes 1 s. With 11 s between starts, the second boot begins 1 s before the end of
    # the first one, and the third one, at 23 s, 3 s before the end of the second one.
    scenario = describe(3, SHARED).replace(
        **{
            "platform.stores": [{"name": "images", "ports": "1 GB/s"}],
            "platform.network": {"latency": 1, "switches": ["office"]},
            "platform.clouds[0].messages": {
                "client": "office",
                "controller": "images",
                "size": 0,
                "reply": 0,
            },
        }
    )
    assert list_boots(CompiledScenario(scenario)).tolist() == [13.0, 15.0, 17.0]
    locked = scenario.replace(**{"platform.clouds[0].inter_boot_delay": 11})
    assert list_boots(CompiledScenario(locked)).tolist() == [13.0, 26.0, 37.0]


def wait_for_ever(scenario: Scenario) -> Scenario:
    """Replace the tasks by one that fits on no instance."""
    return scenario.replace(**{"workload.tasks": [make_task(0, cores=100)]})


def open_cloud(count: int) -> Simulation:
    """Open a cloud whose instances are requested and given back by hand, and have no tasks."""
    return Simulation(wait_for_ever(describe(count, SHARED, policy="manual")))


def test_boots_of_other_clouds_are_not_counted() -> None:
    values = wait_for_ever(describe(2, SHARED, policy="manual")).to_dict()
    (cloud,) = values["platform"]["clouds"]
    values["platform"]["clusters"].append({"name": "more", "hosts": [{"count": 2, "cores": 1}]})
    values["platform"]["clouds"] = [
        {**cloud, "clusters": ["rack"]},
        {**cloud, "name": "other", "clusters": ["more"]},
    ]
    sim = Simulation(Scenario.from_dict(values))
    for name in ("cloud", "other"):
        sim.cloud(name).request()
        sim.cloud(name).request()
    sim.run_until(100)
    assert list_boot_periods(sim) == [(0.0, 12.0), (0.0, 14.0), (0.0, 12.0), (0.0, 14.0)]


def list_boot_periods(sim: Simulation) -> list[tuple[float, float]]:
    """List begin and end of all boots, in the order of their instances."""
    states = sim.trace().instance_states
    assert states is not None
    boots = states.filter(state="startup").with_columns(
        number=pl.col("instance").str.extract(r"(\d+)$").cast(pl.Int64)
    )
    return boots.sort("number", "start").select("start", "end").rows()


def crash_hosts(sim: Simulation, cloud: CloudService) -> None:
    for host in cloud.hosts.filter(instances=1)["host"].to_list():
        sim.fail(host)
        sim.restore(host)


def terminate_all(sim: Simulation, cloud: CloudService) -> None:
    for name in cloud.instances["instance"].to_list():
        cloud.terminate(name)


def kill_all(sim: Simulation, cloud: CloudService) -> None:
    for name in cloud.instances["instance"].to_list():
        cloud.terminate(name, violent=True)


def deregister_hosts(sim: Simulation, cloud: CloudService) -> None:
    for host in cloud.hosts.filter(instances=1)["host"].to_list():
        cloud.deregister_host(host, violent=True)


@pytest.mark.parametrize("end", [terminate_all, kill_all, crash_hosts, deregister_hosts])
@pytest.mark.parametrize("time", [0.0, 5.0, 13.0])
def test_an_instance_that_ends_in_its_boot_is_counted_no_longer(
    end: Callable[[Simulation, CloudService], None], time: float
) -> None:
    # At 13 s the first of the three is ready. The next instance boots alone in each case.
    sim = open_cloud(8)
    cloud = sim.cloud("cloud")
    for _ in range(3):
        cloud.request()
    sim.run_until(time)
    end(sim, cloud)
    sim.run_until(20)
    assert cloud.instances.is_empty()
    cloud.request()
    cloud.request()
    sim.run_until(100)
    assert cloud.instances["state"].to_list() == ["running", "running"]
    assert list_boot_periods(sim)[-2:] == [(20.0, 32.0), (20.0, 34.0)]


def test_a_reboot_counts_as_a_boot() -> None:
    sim = open_cloud(2)
    cloud = sim.cloud("cloud")
    first = cloud.request()
    sim.run_until(50)
    cloud.reboot(first)
    cloud.request()
    sim.run_until(100)
    assert list_boot_periods(sim) == [(0.0, 12.0), (50.0, 62.0), (50.0, 64.0)]


@examples(30)
@given(
    st.lists(st.integers(0, 60), min_size=1, max_size=12),
    st.integers(0, 20),
    st.integers(1, 9),
    st.integers(0, 7),
)
def test_the_number_of_boots_is_that_of_the_table(
    submits: list[int], delay: int, per_booting: int, lock: int
) -> None:
    """Law: a boot takes delay + per_booting x (instances that boot when it begins).

    The fractions keep the beginning of one boot apart from the end of another.
    """
    scenario = describe(
        len(submits),
        {"delay": delay + 0.37, "per_booting": per_booting + 0.0113},
        policy="one-per-task",
        inter_boot_delay=lock * 1.00007,
    ).replace(
        **{"workload.tasks": [make_task(i, submit=t, run_time=100) for i, t in enumerate(submits)]}
    )
    sim = Simulation(scenario)
    sim.run()
    boots = sorted(list_boot_periods(sim))
    assert len(boots) == len(submits)
    for number, (start, ready) in enumerate(boots):
        booting = sum(other > start for _, other in boots[:number]) + 1
        expected = delay + 0.37 + (per_booting + 0.0113) * booting
        assert ready - start == pytest.approx(expected, rel=1e-9)
