"""Carbon emissions are equal in figures, `simulate --json` and studies."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import twinloop as tl
from tests.cli.test_commands import answer, run
from twinloop import metrics
from twinloop.engine import compiled_scenario as compiled_module
from twinloop.exploration.factors.factors import apply_changes
from twinloop.metrics.electricity import find_intensity

LINEAR = {"model": "linear", "idle": "100 W", "max": "300 W"}
LOG = {"generate": {"name": "poisson", "parameters": {"tasks": 40}}}


def platform(*carbons: Any, power: Any = LINEAR) -> dict[str, Any]:
    """A platform of one cluster for each carbon intensity."""
    host = {"cores": 4, "count": 2, "power": power}
    return {"clusters": [{"hosts": [host], "carbon": each} for each in carbons]}


def scenario(*carbons: Any, **changes: Any) -> tl.Scenario:
    return tl.Scenario(
        **{"platform": platform(*carbons), "policy": "fcfs", "workload": LOG, **changes}
    )


@pytest.fixture
def series(tmp_path: Path) -> str:
    """An intensity that rises by 100 every ten seconds from the start of 2024."""
    begin = 1_704_067_200_000
    path = tmp_path / "carbon.parquet"
    pl.DataFrame(
        {
            "timestamp": [begin + 10_000 * i for i in range(2000)],
            "carbon_intensity": [100.0 * (i + 1) for i in range(2000)],
        }
    ).write_parquet(path)
    return str(path)


def test_a_constant_needs_no_file_and_no_date(tmp_path: Path) -> None:
    for given in (300, 300.0, "300 g/kWh", "0.3kg/kWh"):
        found = metrics.figures(tl.simulate(scenario(given)))
        assert found.energy is not None
        assert found.carbon == pytest.approx(found.energy / 3.6e6 * 300.0)
    path = scenario("300 g/kWh").save(tmp_path / "s.yaml")
    assert tl.load(path).platform.clusters[0].carbon == 300.0
    # The warm-up is excluded as for the energy.
    part = metrics.figures(tl.simulate(scenario(300)), warm_up=20.0)
    assert part.carbon == pytest.approx((part.energy or 0.0) / 3.6e6 * 300.0)


@pytest.mark.parametrize("wrong", [-1, "-5 g/kWh", float("inf"), True, [1]])
def test_an_invalid_intensity_is_an_error(wrong: Any) -> None:
    with pytest.raises(tl.InputError, match="carbon"):
        scenario(wrong)


def test_the_start_of_a_scenario_dates_a_generated_workload(series: str) -> None:
    dated = scenario(series, start="2024-01-01")
    trace = tl.simulate(dated)
    assert trace.manifest.epoch_ms == 1_704_067_200_000
    found = metrics.figures(trace)
    intensity = pl.read_parquet(series).select(
        unix_ms="timestamp", grams_per_kwh="carbon_intensity"
    )
    assert found.carbon == pytest.approx(metrics.carbon(trace, intensity))
    assert found.carbon != pytest.approx((found.energy or 0) / 3.6e6 * 100.0)
    # Without a start the carbon is unknown: a note instead of a number.
    undated = metrics.figures(tl.simulate(scenario(series)))
    assert undated.carbon is None
    assert any("start" in note for note in undated.notes)
    assert scenario(series, start="2024-01-01T01:00+01:00").start == dated.start
    with pytest.raises(tl.InputError, match="start"):
        scenario(series, start="soon")


def test_the_command_and_the_figures_agree(series: str, tmp_path: Path) -> None:
    for number, made in enumerate((scenario(250), scenario(series, start="2024-01-01"))):
        path = made.save(tmp_path / f"{number}.yaml")
        output = answer("simulate", path, "-o", tmp_path / f"run{number}")
        assert output["carbon_g"] == pytest.approx(metrics.figures(tl.simulate(made)).carbon)
        # The stored run has the same value without the file.
        Path(series).rename(series + ".gone")
        kept = metrics.figures(tl.Trace.load(tmp_path / f"run{number}"))
        assert output["carbon_g"] == pytest.approx(kept.carbon)
        Path(series + ".gone").rename(series)
    undated = scenario(series).save(tmp_path / "undated.yaml")
    assert "start: 2024-" in run("simulate", undated, ends_with=2).stderr


def test_runs_of_a_study_have_the_carbon_of_their_scenarios(
    series: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cost and carbon of a run come from one simulation."""
    base = scenario(series, start="2024-01-01", prices={"core_hour": 0.1, "kwh": 0.3})
    started: list[object] = []
    start = compiled_module.CompiledScenario.start

    def counted(self: Any, *given: Any, **how: Any) -> Any:
        started.append(self)
        return start(self, *given, **how)

    monkeypatch.setattr(compiled_module.CompiledScenario, "start", counted)
    study = tl.explore(
        base, {"policy": ["fcfs", "fifo"], "shape": [{"platform": base.platform},
        {"platform": platform(50)}, {"platform": platform(50, 200)}]}, by="carbon_g", on="serial",
    )  # fmt: skip
    assert len(started) == 6
    monkeypatch.undo()
    for row in study.runs.iter_rows(named=True):
        one = apply_changes(base, study.planned_runs[row["run"]].changes)
        trace = tl.simulate(one, power_per_node=True)
        found = metrics.figures(trace, prices=one.prices).to_dict()
        assert found["carbon_g"] is not None
        for name in ("carbon_g", "cost", "energy_j", "makespan_s"):
            assert row[name] == pytest.approx(found[name], rel=1e-9), name
    best = study.configurations.sort("carbon_g")["name"][0]
    assert study.rank()[0].name == best


def test_clusters_with_different_intensities_need_power_by_node() -> None:
    two = scenario(50, 200)
    found = metrics.figures(tl.simulate(two))
    assert found.carbon is None
    assert any("power_per_node" in note for note in found.notes)
    trace = tl.simulate(two, power_per_node=True)
    each = trace.power.filter(pl.col("node").is_not_null()).with_columns(
        joules=pl.col("watts") * pl.col("dt"), first=pl.col("node").str.starts_with("C01")
    )
    dirty = {key: part["joules"].sum() / 3.6e6 for (key,), part in each.group_by("first")}
    assert metrics.figures(trace).carbon == pytest.approx(50 * dirty[True] + 200 * dirty[False])
    # A cluster without an intensity leaves the sum unknown.
    half = metrics.figures(tl.simulate(scenario(50, None), power_per_node=True))
    assert half.carbon is None
    assert any("C02" in note for note in half.notes)


# --- the command ---------------------------------------------------------------------------------


def explore_by_command(folder: Path, made: tl.Scenario, *words: object, ends_with: int = 0) -> Any:
    made.save(folder / "scenario.yaml")
    (folder / "factors.yaml").write_text("policy: [fcfs, fifo]\n")
    given = ("explore", folder / "scenario.yaml", folder / "factors.yaml", "-o", folder / "study")
    return run(*given, *words, ends_with=ends_with)


def test_explore_ranks_by_carbon(tmp_path: Path) -> None:
    output = explore_by_command(tmp_path, scenario(300), "--by", "carbon_g").stdout
    assert "carbon_g" in output
    assert "Effects of the factors on carbon_g" in output


@pytest.mark.parametrize(
    ("made", "by", "why"),
    [
        (scenario(None), "carbon_g", "carbon: 300 g/kWh"),
        (scenario(300, platform=platform(300, power=None)), "carbon_g", "power model"),
        (scenario(300), "cost", "prices"),
        (scenario(300, platform=platform(300, power=None)), "energy_j", "power model"),
    ],
)
def test_a_missing_kpi_is_an_error_before_the_start(
    tmp_path: Path, made: tl.Scenario, by: str, why: str
) -> None:
    output = " ".join(explore_by_command(tmp_path, made, "--by", by, ends_with=2).stderr.split())
    assert by in output
    assert why in output
    assert not (tmp_path / "study").exists()


def test_a_workload_without_a_date_cannot_be_ranked_by_a_series(
    series: str, tmp_path: Path
) -> None:
    found = explore_by_command(tmp_path, scenario(series), "--by", "carbon_g", ends_with=2)
    assert "start" in found.stderr
    assert "carbon_g" in found.stderr


def test_a_run_after_the_end_of_a_series_has_no_carbon(series: str, tmp_path: Path) -> None:
    """The series ends at 05:33; a run from 05:30 has a note, a run of the next year no value."""
    late = scenario(series, start="2025-01-01")
    found = metrics.figures(tl.simulate(late))
    assert found.carbon is None
    (note,) = [each for each in found.notes if "carbon" in each]
    assert "ends at 2024-01-01T05:33, before the power begins at 2025-01-01T00:" in note
    output = explore_by_command(tmp_path, late, "--by", "carbon_g", ends_with=2).stderr
    assert "ends at 2024-01-01T05:33" in " ".join(output.split())


def test_a_series_is_read_without_known_power(series: str) -> None:
    trace = tl.simulate(scenario(series, start="2024-01-01"))
    unknown = trace.power.with_columns(dt=pl.lit(None, dtype=pl.Float64))
    for power in (trace.power.clear(), unknown):
        intensity = find_intensity(trace.replace(power=power))
        assert isinstance(intensity, pl.DataFrame)
        assert intensity.height == 2000


def test_a_study_notes_a_series_that_ends_before_its_runs(series: str, tmp_path: Path) -> None:
    base = scenario(series, start="2024-01-01T05:30")
    note = "power after t = 190 s is taken at the last carbon intensity"
    assert note in metrics.figures(tl.simulate(base)).notes
    study = tl.explore(base, {"policy": ["fcfs", "fifo"]}, on="serial", folder=tmp_path / "study")
    assert study.notes == (f"{note} (2 of 2 runs)",)
    assert tl.Study.load(tmp_path / "study").notes == study.notes
    assert tl.explore(scenario(300), {"policy": ["fcfs", "fifo"]}, on="serial").notes == ()


def test_a_missing_carbon_file_is_an_error_before_the_start(tmp_path: Path) -> None:
    made = scenario(str(tmp_path / "nosuch.parquet"))
    output = explore_by_command(tmp_path, made, ends_with=2).stderr
    assert "nosuch.parquet" in "".join(output.split())
    assert not (tmp_path / "study").exists()
    run("simulate", tmp_path / "scenario.yaml", ends_with=2)
