"""Fitted boots, shortages and errors of predictions: known values are found again."""

from __future__ import annotations

import json
import math
import random
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import twinloop as tl
from twinloop.calibration import (
    ClientModels,
    check_client_records,
    fit_client_models,
    fit_prediction_errors,
)
from twinloop.calibration.boot_fitting import collect_boots, count_booting, fit_line
from twinloop.scenario import scenario_of_run
from twinloop.trace import read
from twinloop.workload.prediction_errors import PredictionErrors, draw_errors

#: Estimates lie within so many standard errors of the true values; the seeds are fixed.
ERRORS = 4.0


def describe(
    boot: dict[str, Any], *, tasks: int = 20, run_time: float = 100.0, shortage: Any = None
) -> tl.Scenario:
    """A cloud in which `asap` requests an instance for each task at time 0."""
    cloud = {
        "name": "east",
        "types": [{"name": "small", "cores": 1}],
        "images": [{"name": "base", "boot": boot}],
        "billing": {"unit": "1h", "price": 1},
        "shortage": shortage,
    }
    return tl.Scenario.from_dict(
        {
            "platform": {"clusters": [{"hosts": [{"count": 40, "cores": 1}]}], "clouds": [cloud]},
            "workload": {
                "tasks": [
                    {"id": f"t{i}", "run_time": run_time, "requested_time": run_time}
                    for i in range(tasks)
                ]
            },
            "policy": "asap",
        }
    )


def simulate(scenario: tl.Scenario, count: int) -> list[tl.Trace]:
    return [tl.simulate(scenario.replace(seed=seed)) for seed in range(count)]


def make_run(
    boots: list[tuple[float, float]], *, times: list[tuple[float, float]] | None = None
) -> tl.Trace:
    """An execution with (request, boot time) of its boots, and (predicted, measured) of tasks."""
    rows = times or []
    return tl.Trace(
        tasks=pl.DataFrame(
            {
                "id": [f"t{i}" for i in range(len(rows))],
                "requested_time": [float(row[0]) for row in rows],
                "run_time": [float(row[1]) for row in rows],
            },
            schema_overrides={"id": pl.String},
        ),
        boots=pl.DataFrame(
            {
                "provisioned": [float(row[0]) for row in boots],
                "boot_time": [float(row[1]) for row in boots],
            }
        ),
    )


# --- recovery of known parameters -----------------------------------------------------------------

SPREAD, SHARE, SCALE, SHAPE, REFUSED, FAILED = 0.1, 0.2, 300.0, 1.5, 0.1, 0.05


@pytest.fixture(scope="module")
def simulated() -> list[tl.Trace]:
    boot = {
        "delay": 40,
        "per_booting": 3,
        "spread": SPREAD,
        "slow": {"share": SHARE, "scale": SCALE, "shape": SHAPE},
        "refused": REFUSED,
        "failed": FAILED,
    }
    return simulate(describe(boot), 25)


def test_known_boots_are_found_again(simulated: list[tl.Trace]) -> None:
    """The standard errors are those of least squares, binomial counts and maximum likelihood."""
    models = fit_client_models(simulated)
    boot, fitted = models.boot, models.fitted_to
    n = fitted.boots
    assert n == 25 * 20
    normal = n * (1 - SHARE)
    # Of the line: errors of 10 % of at most 100 s; 1 to 20 booting instances.
    x = np.arange(1, 21)
    slope_error = SPREAD * 100 / (math.sqrt(normal) * x.std())
    assert boot.per_booting == pytest.approx(3, abs=ERRORS * slope_error)
    intercept_error = slope_error * math.sqrt((x**2).mean())
    assert boot.delay == pytest.approx(40, abs=ERRORS * intercept_error)
    assert boot.spread == pytest.approx(SPREAD, abs=ERRORS * SPREAD / math.sqrt(2 * normal))
    slow = boot.slow
    assert slow is not None
    assert slow.share == pytest.approx(SHARE, abs=ERRORS * math.sqrt(SHARE * (1 - SHARE) / n))
    assert slow.shape == pytest.approx(SHAPE, abs=ERRORS * SHAPE / math.sqrt(n * SHARE))
    # The least of n additional times, with the spread of the delay of at most 100 s.
    assert slow.scale == pytest.approx(SCALE, abs=ERRORS * SPREAD * 100)
    requests = n + fitted.failed + fitted.refused
    error = math.sqrt(REFUSED * (1 - REFUSED) / requests)
    assert boot.refused == pytest.approx(REFUSED, abs=ERRORS * error)
    error = math.sqrt(FAILED * (1 - FAILED) / n)
    assert boot.failed == pytest.approx(FAILED, abs=ERRORS * error)
    # Pareto times beyond an hour are no shortage.
    assert models.shortage is None


def test_refused_and_failed_requests_are_counted(simulated: list[tl.Trace]) -> None:
    fitted = fit_client_models(simulated).fitted_to
    reasons = pl.concat([run.instances["reason"] for run in simulated])
    assert fitted.refused == (reasons == "refused").sum() > 0
    assert fitted.failed == (reasons == "lost").sum() > 0


def test_the_order_of_the_executions_does_not_matter(simulated: list[tl.Trace]) -> None:
    shuffled = list(simulated)
    random.Random(1).shuffle(shuffled)
    assert fit_client_models(shuffled) == fit_client_models(simulated)


def test_a_known_shortage_is_found_again() -> None:
    """Of 25 executions 40 % have a shortage, a binomial number; all have 3 to 8 free hosts."""
    shortage = {"share": 0.4, "hosts": [3, 8]}
    boot = {"delay": 40, "per_booting": 3, "spread": SPREAD}
    runs = simulate(describe(boot, tasks=12, run_time=3000, shortage=shortage), 25)
    # The first units of the simulated instances end after an hour without the margin of 50 s.
    waits = pl.concat([run.instances.with_columns(run=pl.lit(i)) for i, run in enumerate(runs)])
    waited = waits.filter(pl.col("start") > pl.col("requested"))
    models = fit_client_models(runs)
    assert models.shortage is not None
    assert models.fitted_to.queued == waited.height
    assert models.fitted_to.slow == 0
    assert models.shortage.share == waited["run"].n_unique() / 25
    assert models.shortage.share == pytest.approx(0.4, abs=ERRORS * math.sqrt(0.24 / 25))
    free = waits.filter(pl.col("start") == 0).join(waited.select("run").unique(), on="run")
    counts = free.group_by("run").len()["len"]
    assert models.shortage.hosts == (counts.min(), counts.max())
    assert fit_client_models(runs, unit=None).shortage is None
    # Queued instances do not boot, so they do not disturb the line.
    assert models.boot.per_booting == pytest.approx(3, abs=0.5)


def test_errors_of_predictions_are_found_again() -> None:
    true = PredictionErrors(factor=1.2, spread=0.3, run_spread=0.2)
    runs = [make_predicted_run(true, 40, seed) for seed in range(100)]
    found = fit_prediction_errors(runs)
    assert found is not None
    assert found.spread == pytest.approx(0.3, abs=ERRORS * 0.3 / math.sqrt(2 * 4000))
    assert found.run_spread == pytest.approx(0.2, abs=ERRORS * 0.22 / math.sqrt(2 * 100))
    assert found.factor == pytest.approx(1.2, abs=ERRORS * 1.2 * 0.22 / math.sqrt(100))


def make_predicted_run(errors: PredictionErrors, tasks: int, seed: int) -> tl.Trace:
    predicted = np.random.default_rng(seed).uniform(50, 150, tasks)
    measured = predicted * draw_errors(errors, tasks, seed)
    return make_run([(0, 50)], times=list(zip(predicted, measured, strict=True)))


def test_few_tasks_do_not_make_executions_differ() -> None:
    """The mean of four tasks scatters by 0.25; the executions do not differ beyond that."""
    runs = [make_predicted_run(PredictionErrors(spread=0.5), 4, seed) for seed in range(300)]
    found = fit_prediction_errors(runs)
    assert found is not None
    # The standard error of a variance of 0.0625 from 300 executions.
    assert found.run_spread**2 <= ERRORS * 0.0625 * math.sqrt(2 / 300)
    assert found.spread == pytest.approx(0.5, abs=ERRORS * 0.5 / math.sqrt(2 * 300 * 3))


def test_simulations_with_fitted_errors_have_the_measured_work() -> None:
    """Exactly: factor x exp(spread² / 2) x predicted work = measured work, of one execution."""
    run = make_run([(0, 50)], times=[(10, 30), (20, 10), (70, 71)])
    found = fit_prediction_errors([run])
    assert found is not None
    square = (10**2 + 20**2 + 70**2) / 100**2
    noise = math.log1p(math.expm1(found.spread**2) * square)
    mean = found.factor * math.exp(found.spread**2 / 2 - noise / 2)
    assert mean == pytest.approx(111 / 100, rel=1e-5)


# --- single rules ---------------------------------------------------------------------------------


def test_without_slow_boots_there_is_no_tail() -> None:
    runs = simulate(describe({"delay": 40, "per_booting": 3, "spread": 0.15}), 6)
    boot = fit_client_models(runs).boot
    assert (boot.slow, boot.refused, boot.failed) == (None, 0.0, 0.0)


@pytest.mark.parametrize("count", [1, 2, 30])
def test_constant_boots_have_no_spread_and_no_slope(count: int) -> None:
    run = make_run([(100.0 * i, 48.0) for i in range(count)])
    boot = fit_client_models([run]).boot
    assert boot.to_dict() == {"delay": 48}
    together = make_run([(0.0, 48.0)] * count)
    assert fit_client_models([together]).boot.to_dict() == {"delay": 48}


def test_slow_boots_of_late_ranks_do_not_break_the_line() -> None:
    """Seven of nine boots with at least three booting instances are slow, 8 of 25 in all.

    The slope of Theil and Sen through all of these boots is that of the slow ones.
    """
    normal, late = (40.0, 42.0, 45.0, 48.0, 52.0), (700.0, 705.0, 930.0)
    runs = [make_run([(10, each)]) for each in (39.0, 40.0, 41.0, 42.0, 43.0, 44.0, 40.0, 41.0)]
    runs += [make_run([(10, t) for t in (*normal[:2], *late)]) for _ in range(2)]
    runs += [make_run([(10, t) for t in (*normal, 932.0)]), make_run([(10, 41.0)])]
    models = fit_client_models(runs)
    records = collect_boots(runs)
    booting = count_booting(records, np.zeros(records.times.size, dtype=np.bool_))
    assert models.fitted_to.slow == 7
    assert 40 < models.boot.delay + 5 * models.boot.per_booting < 56
    assert fit_line(booting, records.times)[1] > 2 * models.boot.per_booting


def test_boots_are_counted_by_execution_cloud_and_overlap() -> None:
    runs = [make_run([(0, 50), (0, 60), (55, 50), (200, 50)]), make_run([(0, 50)])]
    records = collect_boots(runs)
    none = np.zeros(5, dtype=np.bool_)
    assert count_booting(records, none).tolist() == [1, 2, 2, 1, 1]
    queued = np.array([False, True, False, False, False])
    assert count_booting(records, queued).tolist() == [1, 2, 1, 1, 1]
    instances = pl.DataFrame(
        {
            "instance": ["a", "b"],
            "cloud": ["east", "north"],
            "requested": [0.0, 0.0],
            "ready": [10.0, 10.0],
        }
    )
    records = collect_boots([tl.Trace(instances=instances)])
    assert count_booting(records, none[:2]).tolist() == [1, 1]


def test_an_instance_that_moved_and_was_lost_is_no_failed_boot() -> None:
    instances = pl.DataFrame(
        {
            "instance": ["a", "a", "b"],
            "requested": [0.0, None, 0.0],
            "start": [0.0, 50.0, 0.0],
            "end": [50.0, 90.0, 20.0],
            "ready": [10.0, None, None],
            "reason": ["moved", "lost", "lost"],
        }
    )
    fitted = fit_client_models([tl.Trace(instances=instances)]).fitted_to
    assert (fitted.boots, fitted.failed) == (1, 1)


def test_without_boots_there_is_no_fit() -> None:
    with pytest.raises(tl.InputError, match="no execution recorded a boot"):
        fit_client_models([make_run([])])
    assert fit_prediction_errors([make_run([])]) is None
    assert fit_client_models([make_run([(0, 50)])]).prediction_errors is None


def test_executions_on_clusters_are_left_out() -> None:
    cloud = [make_run([(0, 50)], times=[(10, 10)]), make_run([(0, 50)], times=[(20, 20)])]
    cluster = make_run([], times=[(10, 1), (10, -1)])
    models = fit_client_models([*cloud, cluster, cluster])
    alone = fit_client_models(cloud)
    assert models.to_parts() == alone.to_parts()
    assert (models.fitted_to.executions, models.fitted_to.executions_left_out) == (2, 2)
    assert "2 executions without boots" in str(models)
    assert "left out" not in str(alone)


def test_tasks_without_both_times_are_counted() -> None:
    run = make_run([(0, 50)], times=[(10, 12), (0, 7), (10, 0)])
    unpredicted = run.tasks.with_columns(requested_time=pl.lit(None, dtype=pl.Float64))
    other = tl.Trace(tasks=unpredicted, boots=run.boots)
    models = fit_client_models([run, other])
    assert (models.fitted_to.tasks, models.fitted_to.tasks_left_out) == (1, 5)
    assert "5 tasks without a predicted and a measured time" in str(models)
    assert fit_client_models([other]).fitted_to.tasks_left_out == 3


def test_the_differences_of_one_execution_are_unknown() -> None:
    run = make_run([(0, 50)], times=[(10, 12), (20, 7)])
    assert "unknown (one execution) between executions" in str(fit_client_models([run]))
    assert "unknown" not in str(fit_client_models([run, run]))


WRONG = [-5.0, float("nan"), float("inf")]


@pytest.mark.parametrize("value", WRONG)
@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda x: make_run([(0, 50), (0, x)]), "boot 2 of 2: boot_time must be a finite number"),
        (lambda x: make_run([(0, 50)], times=[(9, 9), (9, x)]), "task t1: run_time must be"),
        (lambda x: make_run([(0, 50)], times=[(x, 9)]), "task t0: requested_time must be"),
        (lambda x: make_measured_run(x), "task t0: wall_time must be"),
        (lambda x: make_rented_run(x), "instance a: boot_time must be"),
    ],
)
def test_times_that_cannot_be_are_an_error(run: Any, message: str, value: float) -> None:
    with pytest.raises(tl.InputError, match=message) as caught:
        fit_client_models([make_run([(0, 50)]), run(value)])
    assert "leave the execution out" in str(caught.value)


def make_measured_run(wall_time: float) -> tl.Trace:
    run = make_run([(0, 50)], times=[(9, 9)])
    times = pl.DataFrame({"task": ["t0"], "wall_time": [wall_time]})
    return tl.Trace(tasks=run.tasks, boots=run.boots, task_times=times)


def make_rented_run(boot_time: float) -> tl.Trace:
    instances = {"instance": ["a"], "requested": [7.0], "ready": [7.0 + boot_time]}
    return tl.Trace(instances=pl.DataFrame(instances))


def test_the_error_of_a_time_names_the_file_and_the_line(tmp_path: Path) -> None:
    log = tmp_path / "a.tasks"
    log.write_text("[boots]\n48 10 1\n[tasks]\na 10 60 ~ 5\nb 10 60 ~ -60\n")
    with pytest.raises(tl.InputError, match=r"a\.tasks:5: task b: wall_time must be") as caught:
        check_client_records(read(log), log)
    assert caught.value.file == str(log)
    assert f"`twinloop check {log}` lists" in str(caught.value)
    with pytest.raises(tl.InputError, match=r"a\.tasks:5: task b"):
        check_client_records(read(read(log).save(tmp_path / "saved")))
    with pytest.raises(tl.InputError, match="saved: task b: wall_time"):
        check_client_records(read(tmp_path / "saved"), tmp_path / "saved")


def test_dates_before_the_start_and_times_of_zero_are_no_error() -> None:
    check_client_records(make_run([(-5, 0)], times=[(9, 0), (0, 9)]))
    with pytest.raises(tl.InputError, match="boot 1 of 1: provisioned must be a finite number"):
        check_client_records(make_run([(float("nan"), 50)]))


# --- use of the models ----------------------------------------------------------------------------


def test_simulations_with_fitted_models_are_fitted_by_the_same_models(
    simulated: list[tl.Trace],
) -> None:
    """Law: fit and simulation are inverse to one another, up to the errors of the samples."""
    models = fit_client_models(simulated)
    scenario = models.apply(describe({"delay": 1}))
    assert scenario.platform.clouds[0].images[0].boot == models.boot
    again = fit_client_models(simulate(scenario, 12))
    one, two = (each.boot.delay + 10 * each.boot.per_booting for each in (models, again))
    assert one == pytest.approx(two, rel=ERRORS * SPREAD / math.sqrt(12 * 20 * (1 - SHARE)))
    assert again.boot.slow is not None
    error = math.sqrt(SHARE * (1 - SHARE) / 240)
    assert again.boot.slow.share == pytest.approx(models.boot.slow.share, abs=ERRORS * error)  # type: ignore[union-attr]


def test_the_models_are_put_where_they_belong(tmp_path: Path) -> None:
    run = make_run([(0, 50), (0, 56)], times=[(10, 12), (20, 25)])
    log = tmp_path / "run"
    tl.Trace(
        tasks=run.tasks.with_columns(submit=pl.lit(0.0), requested_cores=pl.lit(1.0)),
        boots=run.boots,
    ).save(log)
    models = fit_client_models([run])
    policy = {"name": "asap", "options": {"boots_as_predicted": True}}
    base = describe({"delay": 1}).replace(policy=policy, workload={"path": str(log)})
    replayed = models.apply(base)
    assert replayed.workload.prediction_errors is None
    assert replayed.policy.options["boots_as_predicted"] is False
    predicted = models.apply(base.replace(**{"workload.inject": "predictions"}))
    assert predicted.workload.prediction_errors == models.prediction_errors
    assert tl.simulate(predicted).instances["ready"].drop_nulls().min() == 50.0
    measured = models.apply(base.replace(**{"workload.inject": ["wall_times"]}))
    assert measured.workload.prediction_errors is None
    with pytest.raises(tl.InputError, match="has no cloud"):
        models.apply(tl.Scenario(platform="2x4", policy="easy", workload="log.swf"))


def test_stored_models_are_read_again(tmp_path: Path, simulated: list[tl.Trace]) -> None:
    models = fit_client_models(simulated)
    assert ClientModels.load(models.save(tmp_path / "fit")) == models
    file = tmp_path / "fit" / "models.json"
    stored = json.loads(file.read_text())
    file.write_text(json.dumps({**stored, "boot": {"delay": "soon"}}))
    with pytest.raises(tl.InputError, match=r"models\.json: .*cannot be read") as caught:
        ClientModels.load(tmp_path / "fit")
    assert caught.value.kind == "damaged-file"
    for name, count in (("boots", -5), ("executions", 0)):
        counts = {**stored["fitted_to"], name: count}
        file.write_text(json.dumps({**stored, "fitted_to": counts}))
        with pytest.raises(tl.InputError, match=f"{name}: must be at least") as caught:
            ClientModels.load(tmp_path / "fit")
        assert (caught.value.kind, caught.value.file) == ("damaged-file", str(file))


# --- real executions ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def executions(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[Path, tl.Trace]:
    folder = tmp_path_factory.mktemp("executions")
    with tarfile.open(real_data / "schlouder" / "executions.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return {path: read(path) for path in sorted(folder.rglob("*.tasks"))}


def select(executions: dict[Path, tl.Trace], cloud: str, version: str) -> dict[Path, tl.Trace]:
    labels = {path: run.manifest.facts["labels"] for path, run in executions.items()}
    wanted = (cloud, version)
    return {
        path: run
        for path, run in executions.items()
        if (labels[path]["cloud"], labels[path]["cloud_version"]) == wanted
    }


def rank_boots(run: tl.Trace) -> pl.DataFrame:
    """The boots of an execution with their ranks, from 0, among those of the same request date."""
    return run.boots.with_columns(
        rank=pl.int_range(pl.len()).over("provisioned").cast(pl.Float64)
    ).select("rank", "boot_time")


@pytest.mark.realdata
@pytest.mark.parametrize(("version", "published"), [("v1", (63.0, 6.39)), ("v5", (29.6, 1.16))])
def test_lines_of_real_boots(
    executions: dict[Path, tl.Trace], version: str, published: tuple[float, float]
) -> None:
    """The published lines are least squares over the rank of a boot in its batch, from 0.

    With this definition they are found within two standard errors; which batches they are of is
    not stated. The fitted line differs from them (49.2 + 6.16 n and 29.1 + 0.89 n) for two reasons.
    It counts from 1, with the instance itself, and also the instances of earlier batches that still
    boot. And its criteria are medians: the boot times of icps v5 are whole seconds between 26 and
    43, skewed at low ranks. Both predict nearly the same boots: the median error of the fitted line
    is below half a second, and its mean differs by less than the standard deviation of a boot.
    """
    runs = list(select(executions, "openstack-icps", version).values())
    boots = pl.concat([rank_boots(run) for run in runs])
    x, y = boots["rank"].to_numpy(), boots["boot_time"].to_numpy()
    design = np.column_stack([np.ones(x.size), x])
    line, residuals, _, _ = np.linalg.lstsq(design, y)
    deviation = math.sqrt(residuals[0] / (x.size - 2))
    errors = deviation * np.sqrt(np.diag(np.linalg.inv(design.T @ design)))
    assert (np.abs(line - published) <= 2 * errors).all()

    models = fit_client_models(runs)
    records = collect_boots(runs)
    booting = count_booting(records, np.zeros(records.times.size, dtype=np.bool_))
    fitted = models.boot.delay + models.boot.per_booting * booting
    assert np.median(records.times - fitted) == pytest.approx(0.0, abs=0.5)
    assert np.abs(fitted.mean() - y.mean()) <= deviation
    assert (models.boot.slow, models.shortage) == (None, None)


@pytest.mark.realdata
@pytest.mark.parametrize(
    ("cloud", "version", "share"),
    [("de-hlrs", "v2", 0.36), ("de-hlrs", "v3", 0.22), ("fr-inria", "v3", 0.31)],
)
def test_slow_real_boots(
    executions: dict[Path, tl.Trace], cloud: str, version: str, share: float
) -> None:
    """22 to 36 % of the boots take more than twice what the broker predicted, B0 + B1 rank.

    The fit calls as many of them slow or queued, up to those that are between twice the line that
    is fitted and twice the one of the broker: on de-hlrs v2 that of the broker is 5 times longer.
    """
    runs = select(executions, cloud, version)
    late = total = 0
    for path, run in runs.items():
        predicted = scenario_of_run(path).policy.options["boot"]
        line = predicted["base"] + predicted["per_booting"] * rank_boots(run)["rank"]
        late += int((run.boots["boot_time"] > 2 * line.round()).sum())
        total += run.boots.height
    assert late / total == pytest.approx(share, abs=0.005)
    models = fit_client_models(list(runs.values()))
    found = (models.fitted_to.slow + models.fitted_to.queued) / total
    assert found == pytest.approx(share, abs=0.005) or (version == "v2" and found > share)
    assert (models.shortage is not None) == (cloud == "fr-inria")
