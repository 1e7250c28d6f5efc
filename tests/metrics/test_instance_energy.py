"""Energy of instances: Equation 6 by hand, its laws, and a slow calculation beside the fast one."""

from __future__ import annotations

import gzip
import io
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import twinloop as tl
from twinloop import metrics
from twinloop.description import InputError
from twinloop.metrics.host_timelines import build_host_timelines
from twinloop.platform.power import Linear
from twinloop.scenario import Prices, Scenario
from twinloop.trace import Trace

few = settings(max_examples=max(1, settings.default.max_examples // 4), deadline=None)

LINEAR = {"model": "linear", "idle": 100, "max": 200}
TABLE = {"model": "table", "points": [(0, 60), (0.1, 110), (0.5, 160), (1, 240)]}
STATES = {
    "off": {"power": 10},
    "switching-on": {"power": 150, "duration": 20},
    "switching-off": {"power": 130, "duration": 5},
}


def make_scenario(
    tasks: list[dict[str, Any]],
    *,
    count: int = 1,
    power: Any = LINEAR,
    boot: dict[str, Any] | None = None,
    host: dict[str, Any] | None = None,
    cluster: dict[str, Any] | None = None,
    **cloud: Any,
) -> Scenario:
    described = {"name": "pm", "count": count, "cores": 4, "power": power, **(host or {})}
    images = {"images": [{"name": "base", "boot": boot}]} if boot else {}
    return Scenario.from_dict(
        {
            "platform": {
                "clusters": [{"name": "rack", "hosts": [described], **(cluster or {})}],
                "clouds": [{"name": "east", **images, **cloud}],
            },
            "workload": {"tasks": tasks},
            "policy": "one-per-task",
        }
    )


def make_task(name: str, run_time: float, cores: float = 1, **others: Any) -> dict[str, Any]:
    return {"id": name, "run_time": run_time, "cores": cores, **others}


def energies(trace: Trace, **options: Any) -> list[float]:
    return metrics.energy_of_instances(trace, **options)["energy_j"].to_list()


# --- by hand -------------------------------------------------------------------------------------


def test_two_instances_divide_idle_power_equally_and_the_rest_by_use() -> None:
    """While both run: 100 / 2 W idle each, and 25 W per core."""
    run = tl.simulate(make_scenario([make_task("a", 60), make_task("b", 30, 2)]))
    table = metrics.energy_of_instances(run)
    assert table.select("idle_j", "variable_j").rows() == [
        (50 * 30 + 100 * 30, 25 * 60),
        (50 * 30, 50 * 30),
    ]


def test_the_divisor_of_a_concave_model_is_the_current_draw_above_idle() -> None:
    """At 1 and 3 of 4 cores, sqrt(1) x 80 W above idle are divided 1 : 3; alone, sqrt(1/4) x 80."""
    power = {"model": "sqrt", "idle": 20, "max": 100}
    run = tl.simulate(make_scenario([make_task("a", 20), make_task("b", 10, 3)], power=power))
    table = metrics.energy_of_instances(run)
    assert table["variable_j"].to_list() == pytest.approx([20 * 10 + 40 * 10, 60 * 10])


def test_the_work_of_a_boot_belongs_to_its_instance() -> None:
    """Boot: 2 s of delay, then 6 core-seconds on one core; then 10 s on two cores."""
    boot = {"delay": 2, "work": 6, "limit": 1}
    run = tl.simulate(make_scenario([make_task("a", 10, 2)], boot=boot))
    table = metrics.energy_of_instances(run)
    assert table.select("idle_j", "variable_j").rows() == [(18 * 100, 25 * (6 + 20))]


def test_hosts_without_instances_and_in_transitions_are_unattributed() -> None:
    """A host is switched on for 20 s at 150 W; the run ends as it begins to switch off."""
    scenario = make_scenario(
        [make_task("a", 40, 4)],
        count=2,
        host={"states": STATES},
        controllers={"machines": "on-demand"},
    )
    run = tl.simulate(scenario)
    table = metrics.energy_of_instances(run, by="host")
    assert table["energy_j"].to_list() == [40 * 200, 0]
    assert table["unattributed_j"].to_list() == [20 * 150, 60 * 10]


def test_an_instance_that_moved_has_energy_on_both_hosts() -> None:
    """b moves to the host of a at 110 s: cold, 1 GB at 100 MB/s, stopped from 100 s on."""
    scenario = make_scenario(
        [make_task("a", 300, 2, memory="1 GB"), make_task("b", 300, 1, memory="1 GB")],
        count=2,
        host={"memory": "8 GB", "ports": "100 MB/s"},
        controllers={
            "placement": "worst-fit",
            "consolidation": {"name": "consolidate", "options": {"interval": "100s"}},
        },
        migration={"mode": "cold"},
    )
    run = tl.simulate(scenario)
    moved = run.instances.filter(reason="moved").row(0, named=True)
    assert (moved["instance"], moved["start"], moved["end"]) == ("instance-2", 0, 110)
    table = metrics.energy_of_instances(run)
    # a: alone until 110 s, then half of the idle power. b: alone, with 100 s of use, then together.
    assert table["idle_j"].to_list() == pytest.approx(
        [110 * 100 + 190 * 50, 110 * 100 + 190 * 50 + 10 * 100]
    )
    assert table["variable_j"].to_list() == pytest.approx([300 * 50, 300 * 25])
    hosts = metrics.energy_of_instances(run, by="host")
    assert hosts["instances"].to_list() == [2, 1]
    assert hosts["unattributed_j"].to_list() == pytest.approx([0, 200 * 100])


def test_instances_of_an_overcommitted_host_divide_its_full_power() -> None:
    """Two instances of 4 cores on 4 cores: each has half of everything."""
    placement = {"name": "pack-ic", "options": {"overcommit": 2}}
    scenario = make_scenario(
        [make_task("a", 50, 4), make_task("b", 50, 4)], controllers={"placement": placement}
    )
    run = tl.simulate(scenario)
    assert build_host_timelines(run).source == "model"
    assert energies(run) == pytest.approx([100 * 100, 100 * 100])


def test_a_task_uses_no_core_while_its_files_are_read() -> None:
    values = make_scenario([make_task("a", 50, 2)], host={"ports": "100 MB/s"}).to_dict()
    values["workload"]["tasks"][0]["reads"] = ["f"]
    values["workload"]["files"] = [{"name": "f", "size": "1 GB"}]
    values["platform"]["stores"] = [{"name": "disk", "ports": "100 MB/s"}]
    run = tl.simulate(Scenario.from_dict(values))
    assert metrics.energy_of_instances(run).select("idle_j", "variable_j").rows() == [
        (60 * 100, 50 * 50)
    ]


def test_the_speed_and_the_overhead_of_the_model_are_respected() -> None:
    """On a host of speed 2, 40 core-seconds take 10 s on 2 cores, after 3 s without use."""
    scenario = make_scenario([make_task("a", 20, 2)], host={"speed": 2}, boot={"work": 8})
    run = tl.simulate(scenario.replace(**{"model.startup_overhead": 3}))
    table = metrics.energy_of_instances(run)
    assert table.select("idle_j", "variable_j").rows() == [(17 * 100, 25 * (4 + 20))]


def test_money_and_carbon() -> None:
    """9,000 J for both; the intensity doubles at 30 s; a minute costs 0.01."""
    tasks = [make_task("a", 60, user="ann"), make_task("b", 30, 2, user="bob")]
    run = tl.simulate(make_scenario(tasks, billing={"unit": "1min", "price": 0.01}))
    series = pl.DataFrame({"t": [0.0, 30.0], "grams_per_kwh": [360.0, 720.0]})
    table = metrics.energy_of_instances(
        run, by="user", intensity=series, prices=Prices.from_dict({"kwh": 0.36})
    )
    # Until 30 s: 75 W and 100 W; then 125 W.
    grams = [(75 * 30 * 360 + 125 * 30 * 720) / 3.6e6, 100 * 30 * 360 / 3.6e6]
    assert table["user"].to_list() == ["ann", "bob"]
    assert table["carbon_g"].to_list() == pytest.approx(grams)
    assert table["energy_cost"].to_list() == pytest.approx([6000e-7, 3000e-7])
    assert table["bill"].to_list() == pytest.approx([0.01, 0.01])
    cloud = metrics.energy_of_instances(run, by="cloud", intensity=series).row(0, named=True)
    assert cloud["carbon_g"] == pytest.approx(sum(grams))
    assert cloud["carbon_g"] == pytest.approx(metrics.carbon(run, series))
    assert cloud["bill"] == pytest.approx(0.02)


def test_carbon_and_price_are_those_of_the_scenario() -> None:
    scenario = make_scenario([make_task("a", 36)], count=2, cluster={"carbon": "100 g/kWh"})
    scenario = scenario.replace(prices={"kwh": 1.0})
    run = tl.simulate(scenario)
    table = metrics.energy_of_instances(run, by="cloud").row(0, named=True)
    assert table["carbon_g"] == pytest.approx(125 * 36 * 100 / 3.6e6)
    assert table["unattributed_g"] == pytest.approx(100 * 36 * 100 / 3.6e6)
    assert table["energy_cost"] == pytest.approx(125 * 36 / 3.6e6)


def test_hosts_without_a_power_model_have_unknown_energy() -> None:
    values = make_scenario([make_task("a", 10, 4), make_task("b", 10, 4)]).to_dict()
    values["platform"]["clusters"][0]["hosts"].append({"name": "other", "cores": 4})
    run = tl.simulate(Scenario.from_dict(values))
    assert energies(run) == [2000.0, None]
    assert metrics.energy_of_instances(run, by="cloud")["energy_j"].to_list() == [None]


def test_a_refused_instance_has_no_energy() -> None:
    placement = {"name": "first-fit", "options": {"queue": "refuse"}}
    scenario = make_scenario(
        [make_task("a", 10, 4), make_task("b", 10, 4)], controllers={"placement": placement}
    )
    assert energies(tl.simulate(scenario)) == [2000.0, 0.0]


def test_tasks_on_the_host_itself_are_no_instances() -> None:
    """Added by hand: an instance with one core beside a task on the host."""
    trace = Trace(
        placements=pl.DataFrame(
            {
                "task": ["a", "b"],
                "machine": ["vm", "C01-H01-001"],
                "cores": [1.0, 3.0],
                "start": [0.0, 0.0],
                "end": [10.0, 10.0],
            }
        ),
        nodes=pl.DataFrame({"node": ["C01-H01-001"], "cores": [4.0]}),
        instances=pl.DataFrame(
            {
                "instance": ["vm"],
                "host": ["C01-H01-001"],
                "cores": [1.0],
                "start": [0.0],
                "end": [10.0],
            }
        ),
    )
    platform = tl.Platform.from_dict({"clusters": [{"hosts": [{"cores": 4, "power": LINEAR}]}]})
    table = metrics.energy_of_instances(trace, by="host", platform=platform)
    assert table.select("energy_j", "unattributed_j").rows() == [(1250.0, 750.0)]


# --- power that does not follow from the tables --------------------------------------------------


def test_recorded_power_is_used_where_the_tables_do_not_give_it() -> None:
    """The power of a trace from elsewhere: 40 W above that of the model in the first half."""
    run = tl.simulate(make_scenario([make_task("a", 60), make_task("b", 30, 2)]))
    node = "rack-pm-001"
    power = pl.DataFrame(
        {"node": [node, node], "t": [30.0, 60.0], "dt": [30.0] * 2, "watts": [215.0, 125.0]}
    )
    other = run.replace(power=power)
    assert build_host_timelines(other).source == "recorded"
    table = metrics.energy_of_instances(other)
    # 115 W above idle are divided 1 : 2 in the first half.
    assert table["energy_j"].to_list() == pytest.approx(
        [30 * (50 + 115 / 3) + 30 * 125, 30 * (50 + 115 * 2 / 3)]
    )


def test_without_power_by_node_the_error_says_what_to_record() -> None:
    run = tl.simulate(make_scenario([make_task("a", 60)]))
    other = run.replace(power=run.power.with_columns(pl.col("watts") * 2))
    with pytest.raises(InputError, match="power_per_node=True"):
        metrics.energy_of_instances(other)


def test_a_gap_in_the_recorded_power_is_an_error() -> None:
    run = tl.simulate(make_scenario([make_task("a", 60)]))
    power = pl.DataFrame({"node": ["rack-pm-001"], "t": [30.0], "dt": [30.0], "watts": [1.0]})
    with pytest.raises(InputError, match="'rack-pm-001' is unknown from t = 30 s"):
        metrics.energy_of_instances(run.replace(power=power))


def test_wrong_arguments_are_named() -> None:
    run = tl.simulate(make_scenario([make_task("a", 60)]))
    with pytest.raises(InputError, match="must be one of instance, user, cloud, host"):
        metrics.energy_of_instances(run, by="node")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no description of its platform"):
        metrics.energy_of_instances(Trace())
    with pytest.raises(InputError, match="on host 'rack-pm-001', which the platform does not have"):
        metrics.energy_of_instances(run, platform=tl.Platform.parse("1x4"))


# --- laws ----------------------------------------------------------------------------------------


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    tasks = [
        make_task(
            f"t{i}",
            draw(st.sampled_from([0.5, 3, 10, 12.25, 40])),
            draw(st.sampled_from([1, 2, 3, 4])),
            submit=draw(st.sampled_from([0, 0, 1, 5, 20.5, 60])),
            user=draw(st.sampled_from(["ann", "bob"])),
        )
        for i in range(draw(st.integers(1, 7)))
    ]
    controllers = {
        "placement": draw(
            st.sampled_from(
                ["first-fit", "worst-fit", {"name": "pack-ic", "options": {"overcommit": 2}}]
            )
        ),
        "machines": draw(st.sampled_from(["always-on", "on-demand"])),
    }
    return make_scenario(
        tasks,
        count=draw(st.integers(1, 3)),
        power=draw(st.sampled_from([LINEAR, TABLE, {"model": "square", "idle": 50, "max": 300}])),
        boot=draw(
            st.sampled_from([None, {"work": 3, "limit": 1}, {"work": 8, "limit": 4, "delay": 1}])
        ),
        host={"states": STATES, "speed": draw(st.sampled_from([1, 1.5]))},
        controllers=controllers,
    )


def measure(trace: Trace) -> dict[str, float]:
    """The energy of each host by the power that the simulation recorded."""
    rows = (
        trace.power.drop_nulls("node").group_by("node").agg((pl.col("watts") * pl.col("dt")).sum())
    )
    return dict(rows.rows())


@few
@given(scenarios())
def test_the_energies_of_the_instances_and_the_rest_are_those_of_the_hosts(
    scenario: Scenario,
) -> None:
    run = tl.simulate(scenario, power_per_node=True)
    hosts = metrics.energy_of_instances(run, by="host")
    recorded = measure(run)
    total = sum(recorded.values())
    for name, attributed, rest in hosts.select("host", "energy_j", "unattributed_j").iter_rows():
        assert attributed + rest == pytest.approx(recorded[name], rel=1e-6, abs=1e-6 * total)
    for by in ("instance", "user", "cloud"):
        table = metrics.energy_of_instances(run, by=by)
        assert table["energy_j"].sum() == pytest.approx(hosts["energy_j"].sum())
        assert (table["idle_j"] + table["variable_j"]).sum() == pytest.approx(
            table["energy_j"].sum()
        )
        assert (table["energy_j"] >= 0).all()


def split(run: Trace) -> Iterator[tuple[float, float, dict[str, float], float]]:
    """The periods of the only host: start, end, use of each instance, its power."""
    boot = run.manifest.scenario["platform"]["clouds"][0]["images"][0]["boot"]  # type: ignore[index]
    uses = [
        (row["machine"], row["start"], row["end"], row["cores"])
        for row in run.placements.iter_rows(named=True)
    ]
    sizes = dict(run.instances.select("instance", "cores").rows())
    for row in run.instance_states.filter(state="startup").iter_rows(named=True):
        cores = min(boot["limit"], sizes[row["instance"]])
        uses.append((row["instance"], row["start"] + boot["delay"], row["end"], cores))
    stays = run.instances.select("instance", "start", "end").rows()
    times = sorted({t for _, s, e, *_ in (*uses, *stays) for t in (s, e)})
    model = Linear(idle=100, max=200)
    for start, end in pairwise(times):
        here = {name: 0.0 for name, s, e in stays if s <= start and end <= e}
        for name, s, e, cores in uses:
            if s <= start and end <= e:
                here[name] += cores
        yield start, end, here, float(model.watts(sum(here.values()) / 4))


@few
@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.integers(1, 40), st.integers(1, 4)), min_size=1, max_size=8
    )
)
def test_the_energy_of_each_instance_is_that_of_the_slow_calculation(
    tasks: list[tuple[int, int, int]],
) -> None:
    described = [
        make_task(f"t{i}", length, cores, submit=submit)
        for i, (submit, length, cores) in enumerate(tasks)
    ]
    run = tl.simulate(make_scenario(described, boot={"delay": 1, "work": 3, "limit": 2}))
    expected = dict.fromkeys(run.instances["instance"], 0.0)
    for start, end, here, watts in split(run):
        for name, use in here.items():
            share = use / sum(here.values()) if use else 0.0
            expected[name] += (end - start) * ((watts - 100) * share + 100 / len(here))
    found = metrics.energy_of_instances(run).select("instance", "energy_j").rows()
    assert dict(found) == pytest.approx(expected, rel=1e-9)


@few
@given(st.integers(1, 6), st.integers(1, 100))
def test_at_zero_load_the_variable_part_is_zero(count: int, seconds: int) -> None:
    """Instances that boot with a delay, and whose tasks take no time."""
    tasks = [make_task(f"t{i}", 0, 0.5) for i in range(count)]
    run = tl.simulate(make_scenario(tasks, boot={"delay": seconds}))
    table = metrics.energy_of_instances(run)
    assert table["variable_j"].to_list() == [0.0] * count
    assert table["idle_j"].to_list() == pytest.approx([100 * seconds / count] * count)


def test_twenty_thousand_instances_take_less_than_two_seconds() -> None:
    n = 20_000
    start = pl.int_range(n, eager=True).cast(pl.Float64)
    names = pl.select(pl.format("instance-{}", pl.int_range(n))).to_series()
    hosts = pl.select(pl.format("C01-H01-{}", pl.int_range(n) % 100 + 900)).to_series()
    trace = Trace(
        instances=pl.DataFrame(
            {"instance": names, "host": hosts, "cores": 1.0, "start": start, "end": start + 500}
        ),
        placements=pl.DataFrame(
            {"task": names, "machine": names, "cores": 1.0, "start": start + 5, "end": start + 490}
        ),
    )
    node_names = [f"C01-H01-{i + 900}" for i in range(100)]
    platform = tl.Platform.from_dict(
        {"clusters": [{"hosts": [{"names": node_names, "cores": 64, "power": LINEAR}]}]}
    )
    began = time.process_time()
    table = metrics.energy_of_instances(trace, platform=platform)
    assert time.process_time() - began < 2
    # Each host always has five instances, but for the first and the last ones.
    middle = table["energy_j"][n // 2]
    assert middle == pytest.approx(500 * 100 / 5 + 485 * 100 / 64)


@pytest.mark.realdata
def test_measured_power_curves_keep_the_law(real_data: Path) -> None:
    """SPECpower results: power at idle and at 10 % to 100 % of the load, as tables."""
    path = real_data / "power" / "spec_data_cleaned_unmelted.csv.gz"
    if not path.is_file():
        pytest.skip(f"{path.name} is not there")
    data = pl.read_csv(io.BytesIO(gzip.decompress(path.read_bytes())), infer_schema=False)
    columns = ["ActiveIdle", *(f"{percent}_AvgPower" for percent in range(10, 101, 10))]
    curves = data.select(pl.col(columns).cast(pl.Float64)).drop_nulls().sample(5, seed=1)
    tasks = [make_task(f"t{i}", 10 + 7 * i, 1 + i % 3, submit=4 * i) for i in range(12)]
    for watts in curves.iter_rows():
        power = {"model": "table", "points": [(i / 10, each) for i, each in enumerate(watts)]}
        run = tl.simulate(make_scenario(tasks, count=2, power=power), power_per_node=True)
        hosts = metrics.energy_of_instances(run, by="host")
        found = (hosts["energy_j"] + hosts["unattributed_j"]).to_list()
        assert found == pytest.approx([measure(run)[name] for name in hosts["host"]])
