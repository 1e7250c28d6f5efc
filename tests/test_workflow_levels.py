"""The example of levels of detail and training sets of workflows, with few runs and evaluations."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from tests.example_scripts import load_example
from twinloop.calibration import DetailStudy
from twinloop.calibration.cases import make_cases
from twinloop.calibration.lossmap import Sample, make_rectangular_sets, make_single_sets
from twinloop.calibration.parameters.defaults import make_space
from twinloop.scenario import Scenario
from twinloop.trace import read


@pytest.fixture(scope="module")
def example() -> ModuleType:
    return load_example("workflow_levels")


def test_it_makes_all_tables_and_the_page(
    example: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    example.main([str(tmp_path), "--quick"])
    printed = capsys.readouterr().out
    assert printed.startswith("The truth is synthetic")
    for table in ("Table 8.1", "Figures 5.2 and 5.3", "fork-join only", "up to 100 s", "Table 5.3"):
        assert table in printed
    page = (tmp_path / "report.html").read_text()
    assert page.index("The truth is synthetic") < page.index("<table")
    assert "noise floor" in page
    assert "crude baseline" in page

    study = DetailStudy.load(tmp_path / "levels")
    (submission,) = (each for each in study.level_differences if each.factor == "submission")
    better = 1 if submission.level == "direct" else -1
    assert better * submission.difference.estimate > 0
    # What a level of detail leaves out is not searched.
    direct = next(each for each in study.versions if each.name == "one-link, all, direct")
    assert set(study.skipped[direct.number]) == {
        f"submission.{name}" for name in ("cycle", "before", "after")
    }
    assert "platform.network.links[0].bandwidth changes nothing in any version." in study.verdict

    run = read(next(iter((tmp_path / "runs").iterdir())))
    for name, count in (("parameters", 10), ("parameters-15", 15)):
        assert len(make_space(tmp_path / f"{name}.yaml", make_cases([run])).names) == count

    # A scenario is that of its runs, and says nothing of the hidden values.
    path = sorted((tmp_path / "scenarios").glob("lanes-*.yaml"))[0]
    run = read(tmp_path / "runs" / f"{path.stem}-1")
    assert run.tasks.height == 43
    assert Scenario.load(path).model.startup_overhead == 0
    assert run.manifest.scenario is not None
    assert run.manifest.scenario["model"].get("startup_overhead", 0) == 0

    # A second start reads what there is.
    before = [each.stat().st_mtime_ns for each in (tmp_path / "runs").iterdir()]
    example.main([str(tmp_path), "--quick"])
    # All but the durations of simulations.
    again = capsys.readouterr().out
    start = "Training sets"
    assert again[again.index(start) :] == printed[printed.index(start) :]
    assert [each.stat().st_mtime_ns for each in (tmp_path / "runs").iterdir()] == before


def test_it_has_the_sizes_and_the_training_sets_of_the_document(example: ModuleType) -> None:
    design = example.Design()
    benchmarks = [each for each in example.list_benchmarks(design) if each.kind == "lanes"]
    samples = [Sample(each.workers, each.tasks, 1.0) for each in benchmarks]
    train, held_out = example.hold_out_large(samples)
    sets = [*make_single_sets(train), *make_rectangular_sets(train)]
    # (3 x 4 + 2) of each scheme, of which the smallest is the same.
    assert len({(each.scheme, each.workers, each.tasks) for each in sets}) - 1 == 27
    assert {(each.workers, each.tasks) for each in held_out} == {
        *((6, tasks) for tasks in (64, 86, 129, 215)),
        *((workers, 215) for workers in (2, 4)),
    }
    assert {(e.workers, e.tasks) for e in example.select_training(samples)} == {(4, 129)}


def test_an_instance_has_the_footprint_that_was_asked_for(
    example: ModuleType, tmp_path: Path
) -> None:
    for kind in ("lanes", "fork-join", "chain"):
        each = example.Benchmark(kind, 2, 64, 0.6, 150)
        scenario = Scenario.load(example.write_scenario(each, tmp_path))
        workflow = scenario.workload.resolve(scenario.seed)
        assert workflow.files["size"].sum() == pytest.approx(150e6, rel=1e-9)
