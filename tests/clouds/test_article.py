"""Results of the article on DISSECT-CF on instances of a cloud: Figure 7, and the break-even."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import twinloop as tl
from tests.clouds.cases import (
    IDLE,
    MAX,
    OFF,
    ON,
    POWER,
    SECONDS_OFF,
    SECONDS_ON,
    STATES,
    STOP,
    make_host,
    make_scenario,
    make_task,
)
from twinloop import metrics
from twinloop.scenario import Scenario


def simulate_energy(scenario: Scenario) -> float:
    energy = metrics.figures(tl.simulate(scenario)).energy
    assert energy is not None
    return energy


@pytest.mark.parametrize(
    ("cores", "limit", "ends"),
    [
        (4, 1.0, [4, 7.5, 10.5, 13, 15, 17, 19, 21]),
        (2, 1.0, [8, 15, 21, 26, 30, 33, 35, 37]),
        (4, 0.896, [4, 7.5, 10.5, 13, 15.232, 17.464, 19.696, 21.929]),
    ],
)
def test_eight_instances_share_the_cores_of_a_host(
    cores: float, limit: float, ends: list[float]
) -> None:
    # Work of 2, 4, ... 16 core-seconds, each in its own instance of `limit` cores.
    tasks = [make_task(i, run_time=2 * (i + 1) / limit, cores=limit) for i in range(8)]
    packed = {"placement": {"name": "pack-ic", "options": {"overcommit": 8 / cores}}}
    hosts = [make_host("a", cores=cores, power=POWER)]
    run = tl.simulate(make_scenario(hosts, tasks, controllers=packed))
    assert run.placements.sort("task")["end"].to_list() == pytest.approx(ends, abs=6e-4)
    # All 72 core-seconds are paid for, whatever the order.
    energy = IDLE * ends[-1] + (MAX - IDLE) * 72 / cores
    assert metrics.figures(run).energy == pytest.approx(energy, rel=1e-4)


def measure_gap(gap: float, machines: str) -> float:
    """Return the energy of a host of a cloud with two tasks, `gap` seconds apart."""
    on_demand = machines == "on-demand"
    # The host is switched on first, and again so that it runs at the end of the gap.
    begin = SECONDS_ON if on_demand else 0.0
    second = begin + 100 + gap - (SECONDS_ON if on_demand else 0.0)
    scenario = make_scenario(
        [make_host("a", power=POWER, states=STATES)],
        [make_task(0, run_time=100), make_task(1, submit=second, run_time=100)],
        controllers={"machines": machines},
    )
    return simulate_energy(scenario) - begin * ON


def test_a_host_on_demand_saves_energy_in_gaps_longer_than_282_2_s() -> None:
    even = (SECONDS_OFF * (STOP - OFF) + SECONDS_ON * (ON - OFF)) / (IDLE - OFF)
    assert round(even, 1) == 282.2
    for gap, sign in ((282.1, 1), (282.3, -1), (1000.0, -1)):
        difference = measure_gap(gap, "on-demand") - measure_gap(gap, "always-on")
        assert difference == pytest.approx((even - gap) * (IDLE - OFF), abs=1e-6)
        assert difference * sign > 0


@pytest.mark.realdata
def test_measured_power_curves_are_tables_of_hosts(real_data: Path) -> None:
    """SPECpower results: a host with 0, 1, ... 10 busy cores of 10 has the measured powers."""
    path = real_data / "power" / "spec_data_cleaned_unmelted.csv.gz"
    if not path.is_file():
        pytest.skip(f"{path.name} is not there")
    data = pl.read_csv(io.BytesIO(gzip.decompress(path.read_bytes())), infer_schema=False)
    columns = ["ActiveIdle", *(f"{percent}_AvgPower" for percent in range(10, 101, 10))]
    curves = data.select(pl.col(columns).cast(pl.Float64)).drop_nulls().sample(20, seed=2)
    # One more core every 10 s, after a boot of 10 s without work.
    tasks = [make_task(i, submit=10 * i, run_time=10 * (10 - i)) for i in range(10)]
    image: dict[str, Any] = {"name": "base", "boot": {"delay": 10}}
    for watts in curves.iter_rows():
        points = [(i / 10, each) for i, each in enumerate(watts)]
        host = make_host("a", cores=10, power={"model": "table", "points": points})
        scenario = make_scenario([host], tasks, image=image)
        run = tl.simulate(scenario, power_step=10.0)
        assert run.power["watts"].to_list() == pytest.approx(list(watts))
        assert metrics.figures(run).energy == pytest.approx(10 * sum(watts))
