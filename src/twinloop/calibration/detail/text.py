"""A study of the level of detail as text: the table of versions, and the verdict in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import polars as pl

from twinloop.calibration.detail.differences import LEVEL, SMALLEST, LossDifference
from twinloop.calibration.detail.study_tables import FITTED
from twinloop.calibration.detail.verdict import LevelDifference
from twinloop.calibration.detail.version_runs import TRAINING
from twinloop.description.safe_text import join_lines
from twinloop.trace.trace import format_count

if TYPE_CHECKING:
    from twinloop.calibration.detail.study import DetailStudy

#: From this range of the differences in single pairs of versions on, a factor may depend on others.
INTERACTION: Final = 5 * SMALLEST
#: Training losses that differ by more than this factor between seeds are named.
SPREAD_OF_SEEDS: Final = 1.25
#: With fewer runs or workloads the verdict has a warning.
MIN_UNITS: Final = 5
#: Losses that are relative errors, which are shown in per cent.
RELATIVE: Final = frozenset(
    {"makespan", "L1", "L2", "mean-task", "max-task", "energy", "power", "mrea"}
)


def format_study(study: DetailStudy) -> str:
    """Format a study for the terminal: the table of versions, noise, baseline and verdict."""
    return join_lines(_list_lines(study))


def _list_lines(study: DetailStudy) -> Iterator[str]:
    yield describe_mode(study)
    yield describe_search(study)
    for note in study.notes:
        yield f"  note: {note}"
    yield ""
    head, *rows = list_version_rows(study)
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    for row in (head, *rows):
        first, *others = (
            cell.ljust(width) if not column else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join((first, *others)).rstrip()
    yield ""
    yield from describe_references(study)
    yield ""
    yield from study.verdict


def describe_mode(study: DetailStudy) -> str:
    """Describe whether the runs are replayed or predicted, and what was taken from them.

    >>> from types import SimpleNamespace
    >>> runs = [{"mode": "predict", "injected": []}, {"mode": "predict", "injected": []}]
    >>> describe_mode(SimpleNamespace(runs=runs))
    'predict: nothing taken from the real runs'
    """
    modes = {str(run["mode"]): ", ".join(run["injected"]) or "nothing" for run in study.runs}
    return "; ".join(f"{mode}: {taken} taken from the real runs" for mode, taken in modes.items())


def describe_search(study: DetailStudy) -> str:
    """Describe what was calibrated: versions, searches, evaluations, runs."""
    settings = study.settings
    seeds = settings["seeds"]
    held = sum(run["used"] != TRAINING for run in study.runs)
    return (
        f"{format_count(len(study.versions), 'version')}, each calibrated with "
        f"{format_count(len(seeds), 'seed')} and {settings['budget']:,} evaluations of the loss "
        f"{study.loss_name} ({settings['aggregation']}) on "
        f"{format_count(len(study.runs) - held, 'run')}; {format_count(held, 'run')} held out"
    )


def list_version_rows(study: DetailStudy) -> list[list[str]]:
    """List the table of versions: a heading, and a row per version."""
    has_sheet = study.summarise()["spec_sheet"].null_count() < len(study.versions)
    has_warm = study.summarise()["warm_started"].null_count() < len(study.versions)
    used = "held out" if study.used != TRAINING else "training"
    head = ["version", "parameters", "before", "training", f"{used}: mean", "min", "max"]
    head += [*(["spec sheet"] if has_sheet else []), *(["warm start"] if has_warm else [])]
    head += ["identifiable", "s/run"]
    rows = [head]
    for row in study.summarise().iter_rows(named=True):
        losses = ["before", "training", "mean", "lowest", "highest"]
        losses += [*(["spec_sheet"] if has_sheet else []), *(["warm_started"] if has_warm else [])]
        known = row["identifiable"]
        rows.append(
            [
                row["name"],
                str(row["parameters"]),
                *(format_loss(study.loss_name, row[name]) for name in losses),
                "unknown" if known is None else f"{known} of {row['parameters']}",
                "-" if row["run_s"] is None else f"{row['run_s']:.2g}",
            ]
        )
    return rows


def describe_references(study: DetailStudy) -> Iterator[str]:
    """Describe the noise floor and the crude baseline, beside which the losses stand."""
    name = study.loss_name
    if study.ideal is None:
        workloads = [str(run["workload"]) for run in study.runs if run["used"] == study.used]
        repeated = len(set(workloads)) < len(workloads)
        why = f"repetitions have no mean for the loss {name}" if repeated else "no repetitions"
        yield f"noise floor (ideal simulator): unknown: {why}"
    else:
        yield (
            f"noise floor (ideal simulator): {format_loss(name, study.ideal['loss'])}, from "
            f"{format_count(study.ideal['runs'], 'run')} of "
            f"{format_count(study.ideal['workloads'], 'workload')} with repetitions"
        )
    if study.baseline is None:
        yield f"crude baseline (list scheduling with mean run times): none for the loss {name}"
    else:
        yield (
            "crude baseline (list scheduling with mean run times): "
            f"{format_loss(name, study.baseline['loss'])}"
        )


def format_loss(name: str, loss: float | None) -> str:
    """Format a loss: relative errors in per cent.

    >>> format_loss("makespan", 0.1234), format_loss("matched", 0.1234), format_loss("L1", None)
    ('12.3 %', '0.123', '-')
    """
    if loss is None or loss != loss:
        return "-"
    return f"{_format_points(loss)} %" if name in RELATIVE else f"{loss:.3g}"


def _format_points(loss: float) -> str:
    """Format a share in per cent: one decimal, two below 1 %."""
    return f"{100 * loss:.2f}" if abs(loss) < 0.01 else f"{100 * loss:.1f}"


def format_difference(name: str, difference: LossDifference, *, sign: int = 1) -> str:
    """Format a difference with its interval, in points for relative errors.

    >>> format_difference("makespan", LossDifference(0.123, 0.09, 0.15))
    '12.3 points (9.0 to 15.0)'
    """
    ends = sorted(sign * end for end in (difference.low, difference.high) if end is not None)
    if name in RELATIVE:
        text = f"{_format_points(sign * difference.estimate)} points"
        return text + (f" ({_format_points(ends[0])} to {_format_points(ends[1])})" if ends else "")
    text = f"{sign * difference.estimate:.3g}"
    return text + (f" ({ends[0]:.3g} to {ends[1]:.3g})" if ends else "")


# --- verdict -------------------------------------------------------------------------------------


def describe_verdict(study: DetailStudy) -> Iterator[str]:
    """Describe the verdict in sentences: each factor, parameters without effect, the version."""
    if study.best is None or study.recommended is None:
        yield "No version can be compared: all searches failed."
        return
    for difference in study.level_differences:
        yield _describe_levels(study.loss_name, difference)
    yield from _describe_without_effect(study)
    yield from _describe_recommendation(study)
    yield from _describe_warm_start(study)
    yield from _describe_convergence(study)
    yield describe_rule(study)


def _describe_levels(name: str, found: LevelDifference) -> str:
    difference = found.difference
    if difference.verdict in ("better", "worse"):
        is_better = difference.verdict == "better"
        first, second = (found.level, found.other) if is_better else (found.other, found.level)
        text = (
            f"{found.factor}: {first} is better than {second} by "
            f"{format_difference(name, difference, sign=-1 if is_better else 1)}"
        )
    elif difference.verdict == "equal":
        text = (
            f"{found.factor}: {found.level} is not distinguishable from {found.other}: "
            f"{format_difference(name, difference)}"
        )
    else:
        text = (
            f"{found.factor}: the loss of {found.level} minus that of {found.other} is "
            f"{format_difference(name, difference)}, without an interval: more runs or seeds are "
            "needed"
        )
    # The levels matter more with some levels of the other factors than with others.
    if found.largest - found.smallest > max(abs(difference.estimate), INTERACTION):
        low, high = (
            _format_points(end) if name in RELATIVE else f"{end:.3g}"
            for end in (found.smallest, found.largest)
        )
        text += (
            f"; it depends on the other factors: the loss of {found.level} minus that of "
            f"{found.other} is {low} to {high} in single pairs of versions"
        )
        if found.at_best is not None:
            text += (
                f", and {format_difference(name, found.at_best)} with the other levels of the best "
                "version"
            )
    return f"{text}."


def _describe_without_effect(study: DetailStudy) -> Iterator[str]:
    for parameter, versions in study.list_without_effect().items():
        having = [number for number, names in study.parameters.items() if parameter in names]
        if len(versions) == len(having):
            where = (
                "any version that has it" if len(having) < len(study.versions) else "any version"
            )
            yield f"{parameter} changes nothing in {where}."
        else:
            listed = "; ".join(study.get_version(number).name for number in versions)
            share = f"{len(versions)} of {len(having)} versions"
            yield f"{parameter} changes nothing in {share}: {listed}."
    lacking: dict[str, int] = {}
    for skipped in study.skipped.values():
        for name in skipped:
            lacking[name] = lacking.get(name, 0) + 1
    for name, count in lacking.items():
        yield (
            f"{name} is left out of the search of {count} of {len(study.versions)} versions, which "
            "do not have it."
        )


def _describe_recommendation(study: DetailStudy) -> Iterator[str]:
    best, chosen = study.best, study.recommended
    if best is None or chosen is None:
        return
    name = study.loss_name
    means = {number: float(each.mean()) for number, each in study.compared_losses.items()}
    text = (
        f"Recommended: {chosen.name} "
        f"({format_count(len(study.parameters[chosen.number]), 'parameter')}), with a loss of "
        f"{format_loss(name, means[chosen.number])}"
    )
    equal = [each for each in study.differences_from_best.values() if each.verdict == "equal"]
    if chosen != best:
        text += (
            f": the fewest parameters of the {len(equal) + 1} versions that are not "
            f"distinguishable from the best, {best.name} ({format_loss(name, means[best.number])})"
        )
    elif equal:
        text += (
            f": the best version, with the fewest parameters of the {len(equal) + 1} that are not "
            "distinguishable from it"
        )
    else:
        text += ": the best version"
    yield f"{text}."
    for what, difference in (
        ("the crude baseline", study.difference_from_baseline),
        ("the values of the specification sheet", study.difference_from_spec_sheet),
    ):
        if difference is None:
            continue
        if difference.verdict in ("better", "worse"):
            sign = -1 if difference.verdict == "better" else 1
            text = f"{difference.verdict} than {what} by "
            text += format_difference(name, difference, sign=sign)
        elif difference.verdict == "equal":
            text = f"not distinguishable from {what}: {format_difference(name, difference)}"
        else:
            text = f"compared with {what}: {format_difference(name, difference)}, no interval"
        yield f"It is {text}."
    if study.ideal is not None:
        yield (
            "An ideal simulator, which returns the mean of the repetitions, would have a loss of "
            f"{format_loss(name, study.ideal['loss'])}."
        )


def _describe_warm_start(study: DetailStudy) -> Iterator[str]:
    difference = study.warm_start_difference
    if difference is None:
        return
    text = {"better": "lower", "worse": "higher"}.get(difference.verdict)
    shown = format_difference(
        study.loss_name, difference, sign=-1 if difference.verdict == "better" else 1
    )
    yield (
        f"Warm start from another version: the loss is {text} by {shown}."
        if text
        else f"Warm start from another version: no distinguishable difference: {shown}."
    )


def _describe_convergence(study: DetailStudy) -> Iterator[str]:
    """Warn if searches with different seeds end at different training losses.

    Differences below the noise floor are left out.
    """
    least = max(SMALLEST, 0.0 if study.ideal is None else float(study.ideal["loss"]))
    spread = (
        study.searches.filter(values=FITTED)
        .group_by("version", maintain_order=True)
        .agg(low=pl.col("training_loss").min(), high=pl.col("training_loss").max())
        .filter(pl.col("high") - pl.col("low") > least)
        .filter(pl.col("high") > SPREAD_OF_SEEDS * pl.col("low"))
    )
    if spread.height:
        name = study.loss_name
        worst = spread.sort(pl.col("high") / pl.col("low"), descending=True).row(0, named=True)
        yield (
            f"Searches of {spread.height} of {len(study.versions)} versions end at different "
            f"training losses with different seeds, of {study.get_version(worst['version']).name} "
            f"at {format_loss(name, worst['low'])} to {format_loss(name, worst['high'])}: a larger "
            "budget may change the verdict."
        )


def describe_rule(study: DetailStudy) -> str:
    """Describe the statistical rule of the verdict, and what it holds for."""
    unit = study.compared_unit
    units = format_count(len(study.compared_units), unit)
    kind = "training" if study.used == TRAINING else "held-out"
    missing = []
    if len(study.compared_units) < 2:
        missing.append("between runs")
    if len(study.settings["seeds"]) < 2:
        missing.append("between searches")
    limits = f" Variation {' and '.join(missing)} is unknown." if missing else ""
    if 1 < len(study.compared_units) < MIN_UNITS:
        limits += f" With {units} only large differences are distinguishable."
    compared = study.losses.filter(values=FITTED, used=study.used)
    if unit == "run":
        workloads = format_count(compared["workload"].n_unique(), "workload")
        limits += f" It holds for further runs of {workloads}."
    if (missing_units := compared[unit].n_unique() - len(study.compared_units)) > 0:
        limits += (
            f" {format_count(missing_units, unit)} had no loss in some search (a "
            "simulation failed) and are left out in all versions."
        )
    if study.used == TRAINING:
        limits += " No run was held out: a version may only follow the noise of these runs."
    return (
        f"Rule: differences of the loss, paired over {units} ({kind}), with "
        f"{100 * LEVEL:g} % intervals that include the variation between searches; an interval "
        "that contains 0, or a difference below "
        f"{_format_smallest(study.loss_name)}, is not distinguishable.{limits}"
    )


def _format_smallest(name: str) -> str:
    return f"{100 * SMALLEST:g} points" if name in RELATIVE else f"{SMALLEST:g}"


def list_identifiability_rows(study: DetailStudy, number: int) -> list[Sequence[str]]:
    """List the parameters of a version: value, interval, identifiable, reason."""
    rows: list[Sequence[str]] = []
    for row in study.identifiability.filter(version=number).iter_rows(named=True):
        low, high = (
            "unknown" if row[end] is None else f"{row[end]:.4g}" for end in ("low", "high")
        )
        identifiable = row["identifiable"]
        rows.append(
            (
                row["parameter"],
                "-" if row["value"] is None else f"{row['value']:.4g}",
                "unknown" if low == high == "unknown" else f"{low} to {high}",
                "unknown" if identifiable is None else "yes" if identifiable else "no",
                "changes nothing" if row["effect"] is False else row["why"] or "",
            )
        )
    return rows
