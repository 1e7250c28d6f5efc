"""A cloud is a scenario as any other: files, commands, comparison, calibration, studies, seeds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import twinloop as tl
from tests.clouds.cases import IDLE, MAX, OFF, ON, SECONDS_ON, make_host, make_scenario, make_task
from twinloop import metrics
from twinloop.cli import app

#: All parts of a description that a user of the documentation writes.
SKETCH = """
platform:
  clusters:
    - name: rack
      hosts: [{name: pm, count: 20, cores: 64, memory: 256 GB, store: {capacity: 5 TB},
               ports: {in: 1 Gb/s, out: 1 Gb/s},
               power: {model: linear, idle: 368.8 W, max: 722.7 W},
               states: {"off": {power: 36.4 W}, switching-on: {power: 483.1 W, duration: 200s},
                        switching-off: {power: 409.2 W, duration: 12s}}}]
  stores: [{name: images, capacity: 10 TB, ports: {in: 1 Gb/s, out: 1 Gb/s}}]
  network: {latency: 5ms}
  clouds:
    - name: szt
      clusters: [rack]
      images: [{name: base, size: 100 MB, store: images, boot: {work: 30, limit: 1}}]
      types: [{name: any, fits: task}]
      controllers: {placement: {name: first-fit, options: {queue: blocking}}, machines: on-demand}
      meters: [{name: hvac, watts: "0.3 * it"}]
workload: cloud_trace.csv
policy: one-per-task         # the client: an instance for every task
"""
#: Latency, 100 MB at 1 Gb/s, and the boot (s).
READY = 0.005 + 0.8 + 30


@pytest.fixture
def sketch(tmp_path: Path) -> Path:
    (tmp_path / "cloud_trace.csv").write_text(
        "id,submit,run_time,requested_cores,requested_memory\n"
        "a,0,50,64,1000000000\nb,300,60,32,2000000000\n"
    )
    file = tmp_path / "cloud.yaml"
    file.write_text(SKETCH)
    return file


def test_a_description_of_all_parts_with_a_table_of_tasks(sketch: Path) -> None:
    run = tl.simulate(tl.Scenario.load(sketch))
    # The first host is off at 292.8 s, and switched on again for the second task.
    ready = [SECONDS_ON + READY, 300 + SECONDS_ON + READY]
    assert run.instances["ready"].to_list() == pytest.approx(ready)
    assert run.placements["end"].to_list() == pytest.approx([ready[0] + 50, ready[1] + 60])
    end = ready[1] + 60
    off = 300 - (ready[0] + 50 + 12)
    running = IDLE * (2 * READY + 50 + 60) + (MAX - IDLE) * (50 + (60 * 32 + 2 * 30) / 64)
    host = 2 * SECONDS_ON * ON + running + 12 * 409.2 + off * OFF
    energy = host + 19 * OFF * end
    assert metrics.figures(run).energy == pytest.approx(energy)
    by_meter = metrics.energy_by_meter(run)
    assert dict(by_meter.select("meter", "energy_j").rows()) == pytest.approx(
        {"it": energy, "hvac": 0.3 * energy}
    )


def call(*words: Any, status: int = 0) -> Any:
    result = CliRunner().invoke(app, [*map(str, words), "--json"])
    assert result.exit_code == status, result.output
    return json.loads(result.stdout)


def test_the_commands_accept_clouds_and_answer_with_json(sketch: Path) -> None:
    first, second = sketch.parent / "first", sketch.parent / "second"
    machines = "platform.clouds[0].controllers.machines"
    shown = call("simulate", sketch, "-o", first)
    assert shown["instances"] == 2
    assert shown["instance_wait_mean_s"] == pytest.approx(SECONDS_ON + READY)
    shown = call("simulate", sketch, "-o", second, "--set", f"{machines}=always-on")
    assert shown["instance_wait_mean_s"] == pytest.approx(READY)
    assert call("inspect", first)["summary"]["rows"]["instances"] == 2
    assert call("check", first)["ok"]
    found = call("diff", first, second)
    assert [each["field"] for each in found["scenario"]] == [f"{machines}.name"]
    waits = next(each for each in found["figures"] if each["figure"] == "instance_wait_mean_s")
    assert waits["change"] == pytest.approx(-SECONDS_ON)
    assert found["tasks"]["elsewhere"] == 0
    # Two tasks are too few for a verdict; their run times are those of the table.
    assert call("assess", first, second, status=3)["mode"] == "replay"
    page = call("report", first)
    assert page["kind"] == "run"
    assert "Energy by meter" in Path(page["report"]).read_text()


def test_meters_and_service_levels_are_shown(sketch: Path) -> None:
    rules = "[{metric: instance_wait, limit: 60s, share: 10 %}]"
    words = [str(sketch), "--set", f"platform.clouds[0].sla={rules}"]
    shown = call("simulate", *words)
    it, hvac = (each["energy_j"] for each in shown["meters"])
    assert (it, hvac) == pytest.approx((shown["energy_j"], 0.3 * shown["energy_j"]))
    (level,) = shown["service_levels"]
    # Both wait for the host, 230.8 s.
    assert (level["exceeded"], level["count"], level["violated"]) == (2, 2, True)
    text = CliRunner().invoke(app, ["simulate", *words]).stdout
    assert f"hvac                   {hvac / 1000:,.0f} kJ, " in text
    assert "instance_wait > 60 s for at most 10 % 2 of 2 (100 %), violated" in text


def test_a_study_varies_the_controllers_of_a_cloud(sketch: Path) -> None:
    root = "platform.clouds[0].controllers"
    (sketch.parent / "study.yaml").write_text(
        "scenario: cloud.yaml\n"
        "factors:\n"
        f"  machines: {{field: '{root}.machines', levels: [always-on, on-demand]}}\n"
        f"  placement: {{field: '{root}.placement', levels: [first-fit, worst-fit]}}\n"
        f"  consolidation: {{field: '{root}.consolidation', levels: [null, consolidate]}}\n"
    )
    shown = call(
        "explore", sketch.parent / "study.yaml", "-o", sketch.parent / "study", "--by", "energy_j"
    )
    assert (shown["configurations"], shown["failed"]) == (8, 0)
    assert {each["levels"]["machines"] for each in shown["top"]} == {"on-demand"}


def test_tasks_on_other_hosts_are_counted_though_their_instances_have_the_same_names() -> None:
    tasks = [make_task(0), make_task(1)]
    first, second = (
        tl.simulate(make_scenario([make_host()], tasks, controllers={"placement": placement}))
        for placement in ("first-fit", "worst-fit")
    )
    assert first.placements["machine"].to_list() == second.placements["machine"].to_list()
    assert metrics.difference(first, second).elsewhere == 1
    assert tl.assess(first, second).errors.same_machine == 1


def test_a_real_execution_of_a_cloud_is_refused() -> None:
    scenario = make_scenario([make_host("a")], [make_task(0, command=["true"])])
    with pytest.raises(tl.InputError, match=r"platform\.clouds: a real execution .* rent instance"):
        tl.execute(scenario)


# --- calibration ----------------------------------------------------------------------------------

STORE, BOOT = "platform.stores[0].ports.out", "platform.clouds[0].images[0].boot"
POWER = "platform.clusters[0].hosts[0].power"


@pytest.mark.parametrize(
    ("field", "bounds", "value", "precision"),
    [
        (f"{BOOT}.work", [1, 100], 45.0, 0.5),
        (f"{BOOT}.delay", [0, 60], 7.0, 0.5),
        (STORE, [1e7, 2e8], 4e7, 2e6),
        (f"{POWER}.idle", [100, 500], 300.0, 5.0),
    ],
)
def test_calibration_finds_the_value_that_a_run_was_made_with(
    field: str, bounds: list[float], value: float, precision: float
) -> None:
    image = {"name": "base", "size": "1 GB", "store": "images", "boot": {"work": 20, "delay": 2}}
    power = {"model": "linear", "idle": IDLE, "max": MAX}
    tasks = [make_task(i, submit=50 * i, run_time=100 + 20 * i) for i in range(6)]
    scenario = make_scenario([make_host(power=power)], tasks, image=image)
    recorded = tl.simulate(scenario.replace(**{field: value}))
    fit = tl.calibrate(
        [recorded],
        scenario=scenario,
        parameters={field: {"linear": bounds}},
        budget=60,
        analysis=20,
    )
    assert fit.values[field] == pytest.approx(value, abs=precision)


# --- failures and seeds ---------------------------------------------------------------------------


def test_failures_of_hosts_are_those_of_the_seed() -> None:
    scenario = make_scenario(
        [make_host(cores=2)], [make_task(i, run_time=100) for i in range(4)]
    ).replace(failures={"mtbf": 200, "mttr": 60})
    runs = [tl.simulate(scenario.replace(seed=seed)) for seed in (1, 1, 2)]
    tables = [run.instances for run in runs]
    assert tables[0].equals(tables[1])
    assert not tables[0].equals(tables[2])
    figures = [metrics.figures(run).to_dict() for run in runs]
    assert figures[0]["instances_lost"] > 0
    for run, each in zip(runs, figures, strict=True):
        # Each lost instance is replaced by another one, on which the task begins again.
        assert each["completed"] == 4
        assert each["instances"] == 4 + each["instances_lost"]
        kept = run.instances.filter(reason="released")
        assert (kept["end"] - kept["ready"]).to_list() == pytest.approx([100.0] * 4)
