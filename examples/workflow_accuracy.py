"""Accuracy of simulated workflow runs, beside the noise of the runs and a crude baseline.

The runs are public, but not part of this repository: those of FlowBench, which record the delays of
each job, and repetitions in the format of WfCommons, which record run times and makespans alone.

python examples/workflow_accuracy.py RUNS WORKFLOW=DAG [WORKFLOW=DAG...] [--repeated FOLDER]
"""

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from flowbench import CORES_PER_CONTAINER, format_table, read_runs, unpack
from workflow_repetitions import (
    NEUTRAL,
    RANGE,
    SINGLE,
    SINGLE_BUDGET,
    assess_repetitions,
    count_cores,
    declare,
    describe_losses,
    describe_ranges,
    read_repetitions,
    schedule_crudely,
)

import twinloop as tl
from twinloop.engine import CompiledScenario
from twinloop.fidelity import estimate_ideal_errors, group_repetitions
from twinloop.scenario import Scenario, workflow_scenario_of_run

#: The overheads that are fitted: a core is held until the start, nothing before and after it.
OVERHEADS = ("dispatch_latency", "submission.before", "submission.after")
#: The runs of a class are in two halves; the overheads of one are fitted to this many of the other.
TRAINING = 4
BUDGET = 300

#: The rows of the table of FlowBench: mode, what is taken from the run that is simulated.
ROWS = {
    "noise": ("-", "mean of all repetitions"),
    "crude": ("predict", "dependencies, cores"),
    "replay": ("replay", "run times, start delays, median submission delays"),
    "replay, fitted": ("replay", "run times"),
    "predict": ("predict", "dependencies, cores, label"),
    "predict, median": ("predict", "dependencies, cores, label"),
    "predict, fitted": ("predict", "dependencies, cores, label"),
    "predict, one fitted": ("predict", "dependencies, cores, label"),
    "predict, means": ("predict", "dependencies, cores, label"),
    "covered": ("predict", "dependencies, cores, label"),
    "covered, fitted": ("predict", "dependencies, cores, label"),
    "covered, one fitted": ("predict", "dependencies, cores, label"),
}


def simulate_makespan(scenario: Scenario, values: Mapping[str, float] | None = None) -> float:
    """Simulate the time from the first job to the end of the workflow manager's last delay (s)."""
    after = scenario.model.submission.after
    if values is not None:
        after = values.get("submission.after", after)
    return CompiledScenario(scenario).run(values)["makespan_s"] + after


class Fitted(NamedTuple):
    """Overheads (s) that are fitted to runs, and the losses before and after."""

    values: dict[str, float]
    loss_before: float
    loss: float


def fit_overheads(runs: Sequence[tl.Trace]) -> Fitted:
    """Fit all overheads to the starts, ends and run times of runs, with their run times given."""
    return fit_to_runs(runs, NEUTRAL, dict.fromkeys(OVERHEADS, RANGE), BUDGET)


def fit_start_delay(runs: Sequence[tl.Trace]) -> Fitted:
    """Fit the overhead that holds a core, with the recorded medians of the others."""
    recorded = [
        workflow_scenario_of_run(run, cores=CORES_PER_CONTAINER).model.submission for run in runs
    ]
    delays = {
        name: float(np.median([getattr(each, name) for each in recorded]))
        for name in ("before", "after")
    }
    fit = fit_to_runs(runs, {"submission": delays}, {SINGLE: RANGE}, SINGLE_BUDGET)
    values = {f"submission.{name}": seconds for name, seconds in delays.items()}
    return fit._replace(values=fit.values | values)


def fit_to_runs(
    runs: Sequence[tl.Trace], model: Mapping[str, Any], parameters: Mapping[str, Any], budget: int
) -> Fitted:
    """Fit parameters of a model to runs."""
    declared = [
        declare(run, workflow_scenario_of_run(run, cores=CORES_PER_CONTAINER, model=model))
        for run in runs
    ]
    fit = tl.calibrate(declared, parameters=parameters, budget=budget, analysis=0)
    return Fitted(fit.values, fit.loss_before, fit.loss)


class ClassResult(NamedTuple):
    """Errors of one class of runs as shares, and runs within limits; and the fits.

    `fits` and `start_fits` have one of all overheads and one of the start delay for each half.
    """

    values: dict[str, float]
    runs: int
    fits: list[Fitted]
    start_fits: list[Fitted]


def assess_class(runs: Sequence[tl.Trace]) -> ClassResult:
    """Assess replays and predictions of all repetitions of a workflow.

    A prediction is the mean of the makespans with all run times of one other run each: it was
    chosen beforehand, because it is what an ideal simulator gives. Limits are the 5 % and the 95 %
    quantile. All repetitions have the same dependencies and cores, so that the simulation of
    another run is that of this run with the times of the other.
    """
    real = np.array([run.manifest.facts["makespan"] for run in runs])
    replays = [workflow_scenario_of_run(run, cores=CORES_PER_CONTAINER) for run in runs]
    refuse_different_workflows(runs, replays)
    neutral = [
        workflow_scenario_of_run(run, cores=CORES_PER_CONTAINER, model=NEUTRAL) for run in runs
    ]
    training = [runs[1 - half :: 2][:TRAINING] for half in (0, 1)]
    fits = [fit_overheads(each) for each in training]
    start_fits = [fit_start_delay(each) for each in training]
    own = np.array([simulate_makespan(each) for each in replays])
    # A row per half: with the overheads that are fitted to the other half.
    fitted, started = (
        np.array([[simulate_makespan(each, fit.values) for each in neutral] for fit in both])
        for both in (fits, start_fits)
    )
    half = np.arange(len(runs)) % 2
    crude, means = [], []
    for row, run in enumerate(runs):
        others = [each for each in runs if each is not run]
        crude.append(schedule_crudely(run, others, count_cores(replays[row])))
        scenario = workflow_scenario_of_run(
            run, times=others, cores=CORES_PER_CONTAINER, model=NEUTRAL
        )
        means.append(simulate_makespan(scenario, fits[half[row]].values))
    others_own = select_others(np.tile(own, (len(runs), 1)))
    others_fitted = select_others(fitted[half])
    others_started = select_others(started[half])
    simulated = {
        "crude": np.array(crude),
        "replay": own,
        "replay, fitted": fitted[half, np.arange(len(runs))],
        "predict": others_own.mean(axis=1),
        "predict, median": np.median(others_own, axis=1),
        "predict, fitted": others_fitted.mean(axis=1),
        "predict, one fitted": others_started.mean(axis=1),
        "predict, means": np.array(means),
    }
    errors = {name: compute_error(values, real) for name, values in simulated.items()}
    counts = {
        "covered": count_covered(real, others_own),
        "covered, fitted": count_covered(real, others_fitted),
        "covered, one fitted": count_covered(real, others_started),
    }
    ideal = estimate_ideal_errors(runs).makespan
    return ClassResult({"noise": ideal, **errors, **counts}, len(runs), fits, start_fits)


def select_others(simulated: np.ndarray) -> np.ndarray:
    """Select the makespans with the times of other runs than the predicted one.

    `simulated` has a row per predicted run, with a makespan for the times of each run.

    >>> select_others(np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9]])).tolist()
    [[2, 3], [4, 6], [7, 8]]
    """
    alone = ~np.eye(len(simulated), dtype=bool)
    return simulated[alone].reshape(len(simulated), -1)


def count_covered(real: np.ndarray, simulated: np.ndarray) -> int:
    """Count the runs between the 5 % and the 95 % quantile of their simulations."""
    low, high = np.quantile(simulated, [0.05, 0.95], axis=1)
    return int(((low <= real) & (real <= high)).sum())


def compute_error(simulated: np.ndarray, real: np.ndarray) -> float:
    """Compute the mean of |simulated - real| / real."""
    return float(np.mean(np.abs(simulated - real) / real))


def refuse_different_workflows(runs: Sequence[tl.Trace], scenarios: Sequence[Scenario]) -> None:
    """Raise an error if runs differ in their jobs, their dependencies or the number of cores."""
    for run, scenario in zip(runs, scenarios, strict=True):
        if not run.tasks.select("id", "parents").equals(runs[0].tasks.select("id", "parents")):
            raise SystemExit("repetitions of a workflow differ in their jobs")
        if count_cores(scenario) != count_cores(scenarios[0]):
            raise SystemExit("repetitions of a workflow differ in their cores")


def name_class(labels: Sequence[tuple[str, str]]) -> str:
    """Name a class of runs by its labels."""
    return " ".join(dict(labels)[name] for name in ("workflow", "anomaly"))


def describe_classes(results: Mapping[str, ClassResult]) -> str:
    """Describe the errors (%) of all classes: a row for each way to simulate."""
    rows = [("", "mode", "taken from the run", *results)]
    rows.append(("runs", "", "", *(str(each.runs) for each in results.values())))
    for name, (mode, taken) in ROWS.items():
        found = [each.values[name] for each in results.values()]
        cells = (
            f"{value:.0f}" if name.startswith("covered") else f"{100 * value:.2f}"
            for value in found
        )
        rows.append((name, mode, taken, *cells))
    return format_table(rows)


def describe_fits(results: Mapping[str, ClassResult]) -> str:
    """Describe the fitted overheads (s) and the losses, with those of both halves."""
    rows = [("class", "fitted", *OVERHEADS, "sum", "loss before", "after")]
    for name, result in results.items():
        for half in zip(result.fits, result.start_fits, strict=True):
            for what, fit in zip(("all", "one"), half, strict=True):
                values = [fit.values[each] for each in OVERHEADS]
                cells = (f"{value:.2f}" for value in (*values, sum(values)))
                rows.append((name, what, *cells, f"{fit.loss_before:.4f}", f"{fit.loss:.4f}"))
    return format_table(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("runs", type=Path, help="folder with the runs, or their archive")
    parser.add_argument("dags", nargs="+", metavar="WORKFLOW=DAG", help="dependencies by workflow")
    parser.add_argument("--repeated", type=Path, help="folder with repetitions NAME-NNN.json")
    args = parser.parse_args()
    dags = dict(each.split("=", 1) for each in args.dags)
    with tempfile.TemporaryDirectory() as folder:
        runs = read_runs(unpack(args.runs, Path(folder)), dags)
    groups = group_repetitions(runs)
    results = {name_class(labels): assess_class(group) for labels, group in groups.items()}
    print("Errors of the makespan in %, and runs within 90 % limits:\n")
    print(describe_classes(results))
    print(f"\nOverheads (s) fitted to {TRAINING} runs of a half:\n")
    print(describe_fits(results))
    if args.repeated is None:
        return
    repeated = read_repetitions(args.repeated)
    losses = assess_repetitions(repeated)
    for each in repeated:
        print(f"\n{each.name}, {len(each.runs)} repetitions, losses in %:\n")
        print(describe_losses(losses[each.name]))
        print(f"  fitted (s, B/s): {describe_ranges(losses[each.name].fits)}")
        print(f"  with files: {describe_ranges(losses[each.name].moved_fits)}")
        for note in each.notes:
            print(f"  {note}")


if __name__ == "__main__":
    main()
