"""Models that are fitted to other executions: held out, by labels, with intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import twinloop as tl
from tests.exploration.sample_executions import write_executions
from tests.exploration.test_execution_tables import CELL, get, make_study
from twinloop.calibration import fit_client_models
from twinloop.exploration import ExecutionDesign, ExecutionStudy, explore_executions
from twinloop.exploration.executions.cross_validation import CrossFitter, CrossValidation
from twinloop.exploration.executions.observations import summarise
from twinloop.exploration.executions.runner import draw_seed
from twinloop.metrics import client_metrics
from twinloop.scenario import scenario_of_run

#: Four configurations on each of two clouds, each with two repetitions.
LABELS = [
    {"cloud": cloud, "cloud_version": "v1", "application": "a", "use_case": case, "repetition": n}
    for cloud in ("east", "north")
    for case in ("one", "two", "three", "four")
    for n in ("1", "2")
]


def make_run(number: int, boot: float, factor: float = 1.1) -> tl.Trace:
    """Make an execution with some boots and tasks of its own."""
    return tl.Trace(
        tasks=pl.DataFrame(
            {"id": ["a", "b"], "requested_time": [10.0, 20.0 + number],
             "run_time": [10.0 * factor, (20.0 + number) * factor]}
        ),
        boots=pl.DataFrame(
            {"provisioned": [0.0, 0.0, 1.0], "boot_time": [boot, boot + 4, boot + number]}
        ),
    )  # fmt: skip


TRACES = [make_run(number, 40.0 + number, 1 + number / 50) for number in range(len(LABELS))]


def fit(number: int, traces: list[tl.Trace | None], **options: object) -> Mapping[str, object]:
    settings = CrossValidation.from_dict({"least": 3, **options})
    return CrossFitter(LABELS, traces, settings).fit(number, ("boots", "run_times"))


@pytest.mark.parametrize(("hold_out", "held"), [("configuration", (4, 5)), ("execution", (4,))])
def test_models_are_those_of_the_other_executions_with_the_same_labels(
    hold_out: str, held: tuple[int, ...]
) -> None:
    """The obvious twin: the fit to the other executions on the same cloud."""
    found = fit(4, [*TRACES], hold_out=hold_out)
    models = fit_client_models([TRACES[each] for each in range(8) if each not in held])
    assert found["boot"] == models.boot.to_dict()
    assert models.prediction_errors is not None
    assert found["prediction_errors"] == models.prediction_errors.to_dict()


def test_an_execution_has_no_effect_on_its_own_models() -> None:
    """Neither has another repetition of it; any other execution on its cloud has one."""
    expected = fit(4, [*TRACES])
    for number in range(16):
        changed: list[tl.Trace | None] = [*TRACES]
        changed[number] = make_run(number, 500.0 + number, 3.0)
        is_other = number not in (4, 5) and number < 8
        assert (fit(4, changed) != expected) == is_other


def test_labels_are_left_out_until_there_are_enough_configurations() -> None:
    """Each cloud has three other configurations: more are those of both clouds."""
    with_all = fit_client_models([each for i, each in enumerate(TRACES) if i not in (4, 5)])
    assert fit(4, [*TRACES], least=4)["boot"] == with_all.boot.to_dict()
    unread: list[tl.Trace | None] = [*TRACES]
    unread[0] = unread[1] = None
    others = [each for i, each in enumerate(TRACES) if i not in (0, 1, 4, 5)]
    assert fit(4, unread)["boot"] == fit_client_models(others).boot.to_dict()


def test_an_interval_of_19_simulations_contains_a_further_one_in_90_percent() -> None:
    """The law of order statistics, whatever the distribution: 18/20 of the ranks."""
    draw = np.random.default_rng(1)
    inside = 0
    count = 4000
    for values in draw.lognormal(0, 2, (count, 20)):
        found = summarise([{"makespan_s": float(value)} for value in values[:19]])
        low, high = found["makespan_s_low"], found["makespan_s_high"]
        assert low is not None
        assert high is not None
        inside += low <= values[19] <= high
    # Five standard deviations of a binomial count.
    assert abs(inside / count - 0.9) < 5 * (0.9 * 0.1 / count) ** 0.5


def test_coverage_by_hand() -> None:
    study = make_study(
        {"x": CELL, "y": CELL, "z": {"platform": "q", "application": "a"}},
        {"x": {"makespan_s": 100.0}, "y": {"makespan_s": 80.0}, "z": {"makespan_s": 50.0}},
        {
            (name, "fit boots"): {
                "makespan_s": 90.0, "makespan_s_low": low, "makespan_s_high": high
            }
            for name, low, high in (("x", 90.0, 100.0), ("y", 90.0, 100.0), ("z", 20.0, 95.0))
        },
        {"run": "executions", "inject": ["best"], "fit": [["boots"]]},
    )  # fmt: skip
    assert study.coverage.columns == [
        "set", "mode", "cell", "value", "executions", "share", "width",
    ]  # fmt: skip
    assert set(study.coverage["mode"]) == {"predict"}
    for cell, share, width in (("all", 2 / 3, 0.125), ("p / a", 0.5, 0.1125), ("q / a", 1.0, 1.5)):
        assert get(study.coverage, "share", cell=cell) == pytest.approx(share)
        assert get(study.coverage, "width", cell=cell) == pytest.approx(width)
    assert "67 %, 0.12" in str(study)


# --- in studies --------------------------------------------------------------------------------

RUNS = 19
DESIGN = {
    "factors": {"inject": ["predictions"], "fit": ["boots", ["boots", "run_times"]]},
    "cross_validation": {"runs": RUNS, "least": 1},
}
FEW = {"runs": 2, "least": 1}


def with_executions(folder: Path) -> dict[str, object]:
    return {**DESIGN, "factors": {**DESIGN["factors"], "run": [str(folder)]}}  # type: ignore[dict-item]


@pytest.fixture(scope="module")
def executions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_executions(tmp_path_factory.mktemp("data") / "runs", 8)


@pytest.fixture(scope="module")
def study(executions: Path) -> ExecutionStudy:
    """The study of one of the two clouds and use cases."""
    design = with_executions(executions / "*.brs.*.east.*.tasks")
    return explore_executions(design, folder=executions.parent / "study", on="serial")


def test_a_run_is_the_median_of_single_simulations(study: ExecutionStudy, executions: Path) -> None:
    """The twin: fit to all others on the same cloud, or of the same application there."""
    assert [each.name for each in study.sets] == [
        "predictions", "fit boots", "fit boots + run_times",
    ]  # fmt: skip
    assert study.failed == 0
    own = study.executions[0]
    others = [
        each
        for each in study.executions
        if each is not own and each.labels["cloud"] == own.labels["cloud"]
    ]
    same = [each for each in others if each.labels["application"] == own.labels["application"]]
    boots, run_times = (
        fit_client_models([tl.read(each.path) for each in found]) for found in (others, same)
    )
    models = replace(boots, prediction_errors=run_times.prediction_errors)
    name = own.name
    path = executions / f"{name}.tasks"
    scenario = models.apply(scenario_of_run(path, inject="predictions"))
    seeds = [draw_seed(scenario.seed, path.name, number) for number in range(RUNS)]
    found = [client_metrics(tl.simulate(scenario.replace(seed=seed))) for seed in seeds]
    row = study.runs.filter(execution=name, set="fit boots + run_times").row(0, named=True)
    for column, values in (
        ("makespan_s", [float(each.makespan or 0) for each in found]),
        ("uptime_s", [float(each.uptime or 0) for each in found]),
    ):
        ends = [row[f"{column}{end}"] for end in ("_low", "", "_high")]
        assert ends == [min(values), np.median(values), max(values)]


def test_only_fitted_sets_have_intervals_and_all_are_predictions(study: ExecutionStudy) -> None:
    without = study.runs.filter(set="predictions")["makespan_s_low"]
    assert without.null_count() == without.len()
    assert study.runs.filter(set="fit boots")["makespan_s_low"].null_count() == 0
    assert set(study.runs["mode"]) == {"predict"}
    assert study.sets[2].description == (
        "predict: nothing is injected; boots and run_times are fitted to other executions"
    )
    alone = explore_executions(
        {"run": study.design.patterns[0], "inject": "predictions"}, on="serial"
    )
    assert "makespan_s_low" not in alone.runs.columns
    assert alone.coverage.is_empty()


def test_a_stored_study_keeps_its_intervals(study: ExecutionStudy) -> None:
    assert study.folder is not None
    stored = ExecutionStudy.load(study.folder)
    assert stored.coverage.equals(study.coverage)
    assert stored.runs.equals(study.runs)


def test_a_stored_study_follows_changed_executions(executions: Path, tmp_path: Path) -> None:
    """Another file changes the models of its cloud alone; the others are not simulated again."""
    copies = tmp_path / "runs"
    copies.mkdir()
    for file in executions.iterdir():
        (copies / file.name).write_bytes(file.read_bytes())
    design = {**with_executions(copies), "cross_validation": FEW}
    first = explore_executions(design, folder=tmp_path / "study", on="serial")
    changed = sorted(copies.glob("*.east.*.tasks"))[0]
    changed.write_text(changed.read_text().replace("[boots]\n", "[boots]\n900 5 1\n"))
    ended: list[int] = []
    again = explore_executions(
        design,
        folder=tmp_path / "study",
        on="serial",
        progress=lambda each: ended.append(each.done),
    )
    keys = {(run.execution, run.set): run.key for run in first.planned_runs}
    for run in again.planned_runs:
        execution = again.executions[run.execution]
        own = execution.name == changed.name.removesuffix(".tasks")
        other = run.set > 0 and execution.labels["cloud"] == "east" and not own
        assert (keys[run.execution, run.set] != run.key) == (own or other)


@pytest.mark.parametrize(
    ("factors", "message"),
    [
        ({"fit": ["boot"]}, "unknown model 'boot' .*did you mean 'boots'"),
        ({"fit": [[]]}, "names no model"),
        ({"fit": [3]}, "must be a model, or a list of models"),
        ({"fit": ["boots"], "repeat": [1]}, "repeat"),
        (
            {"fit": ["boots"], "platform.clouds[0].shortage.share": [0, 1]},
            "has no effect on sets with fitted boots",
        ),
        (
            {"fit": ["run_times"], "workload.prediction_errors.factor": [1, 2]},
            "has no effect on sets with fitted run_times",
        ),
    ],
)
def test_invalid_fits(executions: Path, factors: dict[str, object], message: str) -> None:
    with pytest.raises(tl.InputError, match=message):
        explore_executions({"factors": {"run": [str(executions)], **factors}})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"boots": ["clowd"]},
            r"cross_validation.boots\[0\]: no .* 'clowd' .*did you mean 'cloud'",
        ),
        ({"run_times": "storag"}, r"cross_validation.run_times\[0\]: .*did you mean 'storage'"),
    ],
)
def test_labels_of_no_execution_are_errors(
    executions: Path, options: dict[str, object], message: str
) -> None:
    """They would be equal in all executions, and models fitted to all of them."""
    design = {"run": str(executions), "fit": "boots", "cross_validation": options}
    with pytest.raises(tl.InputError, match=message):
        explore_executions(design)


def test_fewer_than_19_simulations_have_no_interval(executions: Path) -> None:
    eighteen = summarise([{"makespan_s": float(value)} for value in range(18)])
    assert eighteen == {"makespan_s": 8.5, "makespan_s_low": None, "makespan_s_high": None}
    design = {"run": str(executions), "fit": "boots", "cross_validation": FEW}
    found = explore_executions(design, on="serial")
    assert found.runs["makespan_s"].null_count() == 0
    assert found.runs["makespan_s_low"].null_count() == found.runs.height
    assert found.coverage.is_empty()
    assert "90 %" not in str(found)
    assert any("they need 19 simulations of each execution" in each for each in found.notes)


def test_no_model_is_fitted_to_wrong_records(tmp_path: Path) -> None:
    """The quality gate rejects them; the execution is named."""
    files = sorted(write_executions(tmp_path / "runs", 8).glob("*.tasks"))
    design = {"run": str(tmp_path / "runs"), "fit": "boots", "cross_validation": FEW}
    files[0].unlink()
    without = explore_executions(design, on="serial")
    text = files[1].read_text()
    files[0].write_text(text.replace("[boots]\n", "[boots]\n-50 5 1\n"))
    found = explore_executions(design, folder=tmp_path / "study", on="serial")
    assert len(found.notes) > len(without.notes)
    (note,) = (each for each in found.notes if each.startswith("no model is fitted to"))
    assert note.startswith(f"no model is fitted to {files[0].stem}: {files[0]}:2: boot 1 of")
    assert note in ExecutionStudy.load(tmp_path / "study").notes
    others = found.runs.filter(pl.col("execution") != files[0].stem)
    assert others["makespan_s"].equals(without.runs["makespan_s"])


def test_executions_without_others_and_without_boots_fail_with_a_reason(tmp_path: Path) -> None:
    write_executions(tmp_path / "one", 1)
    with pytest.raises(tl.InputError, match="no other execution to fit models to"):
        explore_executions({"run": str(tmp_path / "one"), "fit": "boots"})
    write_executions(tmp_path / "two", 3)
    for file in (tmp_path / "two").glob("*.tasks"):
        file.write_text("[tasks]\n" + file.read_text().partition("[tasks]\n")[2])
    found = explore_executions(
        {"run": str(tmp_path / "two"), "inject": "predictions", "fit": "boots"}, on="serial"
    )
    assert found.failed == 3
    assert "no other execution recorded a boot" in found.errors[0]


def test_a_design_with_fits_is_saved_and_read(tmp_path: Path) -> None:
    design = ExecutionDesign.from_dict({**with_executions(tmp_path)})
    assert ExecutionDesign.from_dict(design.to_dict()) == design
