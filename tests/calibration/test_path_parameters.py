"""Calibration of numbers of the platform by path."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from twinloop.calibration import calibrate
from twinloop.calibration.cases import Case
from twinloop.calibration.fit import Fit
from twinloop.calibration.losses import get_loss
from twinloop.calibration.parameters.defaults import make_space
from twinloop.calibration.parameters.kinds import LinearParameter
from twinloop.calibration.parameters.space import Space
from twinloop.calibration.parameters.values import set_values
from twinloop.calibration.search.objective import TwinObjective
from twinloop.description.errors import InputError
from twinloop.engine import CompiledScenario, simulate
from twinloop.scenario import Scenario

FIRST, SECOND = (f"platform.clusters[0].hosts[{h}]" for h in (0, 1))
IDLE = f"{SECOND}.power.idle"


def make_scenario() -> Scenario:
    """Two groups of hosts with power models of different kinds."""
    return Scenario(
        platform={
            "clusters": [
                {
                    "hosts": [
                        {"cores": 1, "mhz": 1000, "power": {"model": "constant", "power": 90}},
                        {
                            "cores": 2,
                            "mhz": 1000,
                            "power": {"model": "linear", "idle": 100, "max": 200},
                        },
                    ]
                }
            ]
        },
        policy="fcfs",
        workload={
            "tasks": [
                {"id": f"t{i}", "submit": 7.0 * i, "run_time": 10 + i, "cores": 1} for i in range(6)
            ]
        },
    )


def run(values: dict[str, Any]) -> Any:
    return simulate(set_values(make_scenario(), values), power_step=2.0)


def test_the_idle_power_of_one_group_is_recovered(tmp_path: Path) -> None:
    fit = calibrate(
        run({IDLE: 70.0}),
        scenario=make_scenario(),
        parameters={IDLE: "default"},
        budget=60,
        analysis=0,
        folder=tmp_path / "fit",
    )
    assert fit.defaults == {IDLE: 100.0}
    assert fit.values[IDLE] == pytest.approx(70.0, abs=0.5)
    assert fit.model.overrides == {IDLE.removeprefix("platform."): fit.values[IDLE]}
    assert fit.loss_name == "power"
    assert IDLE in str(fit)
    again = Fit.load(tmp_path / "fit")
    assert again.values == fit.values
    assert again.model.overrides == fit.model.overrides


@pytest.mark.long
def test_identifiability_and_predictions_have_the_path() -> None:
    fit = calibrate(
        run({IDLE: 70.0}), scenario=make_scenario(), parameters=[IDLE], budget=60, analysis=1500
    )
    assert fit.identifiability is not None
    assert fit.identifiability.to_dict()["values"].keys() == {IDLE}
    assert fit.draws is not None
    assert fit.draws.columns == [IDLE]
    predicted = fit.predict(make_scenario(), outputs=["energy_j"]).table.row(0, named=True)
    assert predicted["low"] < predicted["high"]


def test_times_and_powers_are_fitted_in_turn() -> None:
    mhz = f"{FIRST}.mhz"
    truth = {mhz: 1600.0, IDLE: 130.0}
    fit = calibrate(
        run(truth), scenario=make_scenario(), parameters=list(truth), budget=150, analysis=0
    )
    assert fit.values == pytest.approx(truth, rel=0.02)
    assert fit.model.overrides == pytest.approx(
        {name.removeprefix("platform."): value for name, value in fit.values.items()}
    )


@pytest.mark.parametrize("name", [f"{FIRST}.mhz", f"{FIRST}.cores", IDLE, "power.max"])
def test_losses_are_those_of_scenarios_with_overrides(name: str) -> None:
    """Natively and by compilation, on threads, for losses of times and of power."""
    hosts = make_scenario().platform.clusters[0].hosts
    scenario = make_scenario()
    if name == "power.max":  # all hosts share a model
        scenario = scenario.replace(
            **{"platform.clusters[0].hosts[0].power": hosts[1].power.to_dict()}
        )
    ends = (1.0, 4.0) if name.endswith("cores") else (150.0, 400.0)
    ends = (10.0, 190.0) if name == IDLE else ends
    for loss in ("makespan", "power"):
        space = Space([LinearParameter(name, *ends)])
        real = simulate(scenario, power_step=2.0)
        case = Case.of([real], scenario=scenario, names=space.names, power_step=2.0)
        objective = TwinObjective(space, [case], get_loss(loss), threads=2)
        points = np.array([[0.0], [0.4], [1.0], [0.4]])
        losses = objective(points)
        for point, found in zip(points, losses, strict=True):
            changed = set_values(scenario, space.decode_one(point))
            other = Case.of([real], scenario=changed, power_step=2.0)
            expected = TwinObjective(space, [other], get_loss(loss)).at({})
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_paths_act_natively_unless_they_decide_admission() -> None:
    case = Case.of([simulate(make_scenario())], scenario=make_scenario())
    makespan = get_loss("makespan")
    native = TwinObjective(Space([LinearParameter(f"{FIRST}.mhz", 1, 2)]), [case], makespan)
    slow = TwinObjective(Space([LinearParameter(f"{FIRST}.cores", 1, 2)]), [case], makespan)
    assert native.cost < slow.cost


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({f"{FIRST}.mzh": {"linear": [1, 2]}}, "mhz"),
        ({f"{FIRST}.mhz": {"linear": [-5, 2]}}, "positive, in MHz, not -5"),
        ({"startup_overhead": {"linear": [-1, 2]}}, "not negative, in s"),
        ({f"{FIRST}.memory": "default"}, "memory: has no default range"),
        ([f"{FIRST}.power.idle"], "is not a number of the platform"),
        ({f"{FIRST}.mzh": "default"}, r"mzh is not a number .*mhz', in MHz"),
        (["startup_overhed"], "did you mean 'startup_overhead'"),
        (["clusters[0].hosts[0].mhz"], r"did you mean 'platform.clusters\[0\].hosts\[0\].mhz'"),
    ],
)
def test_wrong_paths_and_ranges_are_refused(parameters: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        calibrate(run({}), scenario=make_scenario(), parameters=parameters, budget=5, analysis=0)


def test_default_ranges_are_those_of_the_table(tmp_path: Path) -> None:
    case = Case.of([simulate(make_scenario())], scenario=make_scenario())
    names = ["service_factor", "startup_overhead", IDLE, f"{FIRST}.cores", f"{FIRST}.count"]
    space = make_space(names, [case])
    found = {each.name: (each.low, each.high) for each in space}  # type: ignore[attr-defined]
    ranges = ((0.5, 2.0), (0.0, 5.0), (50.0, 200.0), (0.5, 2.0), (1, 2))
    assert found == dict(zip(names, ranges, strict=True))
    file = tmp_path / "params.yaml"
    file.write_text("parameters:\n" + "".join(f"  {name}: default\n" for name in names))
    assert make_space(file, [case]) == space


def test_a_fitted_model_gives_the_same_run_as_its_values() -> None:
    values = {IDLE: 61.5, f"{FIRST}.mhz": 1234.5}
    compiled = CompiledScenario(make_scenario())
    anew = CompiledScenario(set_values(make_scenario(), values)).run()
    assert compiled.run(values)["energy_j"] == anew["energy_j"]


@pytest.mark.parametrize(
    ("name", "ends", "problem"),
    [
        (IDLE, ["50s", "150s"], "'s' is not a unit for a power"),
        (IDLE, ["50 W", "2 min"], "'min' is not a unit for a power"),
        ("startup_overhead", ["1 W", "3 W"], "'W' is not a unit for a duration"),
        ("model.startup_overhead", ["1 W", "3 W"], "'W' is not a unit for a duration"),
        ("speed_factor", ["1 s", "3 s"], "must be a number without a unit, not '1 s'"),
        (f"{FIRST}.memory", ["1 GHz", "2 GHz"], "'GHz' is not a unit for an amount of memory"),
        (f"{FIRST}.ports.in", ["1 MB", "2 MB"], "'MB' is not a unit for a bandwidth"),
    ],
)
def test_the_ends_of_a_range_have_the_unit_of_the_number(
    name: str, ends: list[str], problem: str, tmp_path: Path
) -> None:
    scenario = make_scenario().replace(**{"platform.clusters[0].hosts[0].ports": {"in": 1e6}})
    case = Case.of([simulate(scenario)], scenario=scenario)
    file = tmp_path / "parameters.json"
    file.write_text(json.dumps({"parameters": {name: {"linear": ends}}}))
    with pytest.raises(InputError) as found:
        make_space(file, [case])
    assert (found.value.problem, found.value.code) == (problem, "TL0208")
    assert (found.value.file, found.value.line) == (str(file), 1)


def test_units_of_a_range_are_converted() -> None:
    scenario = make_scenario().replace(**{"platform.clusters[0].hosts[0].ports": {"in": 1e6}})
    case = Case.of([simulate(scenario)], scenario=scenario)
    ranges = {IDLE: ["50 mW", "1 kW"], f"{FIRST}.ports.in": ["8 Mb/s", "2 MB/s"]}
    space = make_space({name: {"linear": ends} for name, ends in ranges.items()}, [case])
    assert [(each.low, each.high) for each in space] == [(0.05, 1000.0), (1e6, 2e6)]


def test_a_parameter_is_not_set_under_two_names() -> None:
    for names in (
        ("startup_overhead", "model.startup_overhead"),
        (f"{FIRST}.mhz", f"{FIRST}.mhz".removeprefix("platform.")),
    ):
        with pytest.raises(InputError) as found:
            set_values(make_scenario(), dict.fromkeys(names, 1.0))
        assert all(f"'{name}'" in found.value.problem for name in names)
    compiled = CompiledScenario(make_scenario())
    for field in ("mhz", "cores"):  # which acts natively, which needs a compilation
        names = (f"clusters[0].hosts[0].{field}", f"{FIRST}.{field}")
        problem = f"'{names[0]}' and '{names[1]}' are the same number"
        for run_with in (compiled.run, compiled.scenario_from_values, _run_many(compiled)):
            with pytest.raises(InputError) as found:
                run_with(dict(zip(names, (4.0, 2.0), strict=True)))
            assert (found.value.problem, found.value.code) == (problem, "TL0211")


def _run_many(compiled: CompiledScenario) -> Any:
    return lambda values: compiled.run_many([values])
