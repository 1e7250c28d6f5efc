"""Page of a study: recommendation, Pareto front, ranking, effects, all configurations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from twinloop.description.errors import InputError
from twinloop.exploration.study.intervals import PREDICTION_LEVEL
from twinloop.metrics.trace_figures import OVERCOMMITTED
from twinloop.report.figures.study import plot_available
from twinloop.report.kpi_text import (
    expand_kpi_names,
    format_change,
    format_kpi,
    format_scaled,
    get_unit,
    label_kpi,
    name_kpi,
)
from twinloop.report.pages.fragments import (
    render_answer,
    render_cards,
    render_details,
    render_list,
    render_note,
    render_paragraph,
    render_preformatted,
    render_table,
)
from twinloop.report.pages.page import Page
from twinloop.report.pages.ranking_groups import (
    get_lead_probability,
    group_equal_places,
    name_group,
)
from twinloop.report.quantity_text import format_count, format_duration

if TYPE_CHECKING:
    from twinloop.exploration.ranking.ranking import RankedCandidate, Ranking
    from twinloop.exploration.study.study import Study

#: Maximum number of rows of the ranking, and of the table of all configurations.
MAX_RANKED: Final = 10
MAX_LISTED: Final = 200
#: Maximum number of failed runs that are listed.
MAX_FAILED: Final = 50

_HEIGHTS: Final = {"pareto": 560}
_GUIDES: Final = {
    "effects": "The larger the distance between the levels of a factor, the larger its effect.",
    "interactions": "A coloured cell is an interaction: two levels together differ from the sum of "
    "their separate effects. If all cells are pale, the factors can be chosen independently.",
}


def write_study_page(study: Study, path: str | Path, *, title: str | None = None) -> Path:
    """Write a study as one HTML file: recommendation, figures, ranking, all configurations.

    The page lists at most the best 200 configurations; `Study.export` writes all of them.

    Args:
        study: A study, which may still be running.
        path: The file to write; an existing file is replaced.
        title: The heading.

    >>> import tempfile
    >>> import twinloop as tl
    >>> tasks = [{"id": f"t{i}", "run_time": 10, "cores": 1 + i % 3} for i in range(20)]
    >>> scenario = tl.Scenario(platform="2x4", policy="fifo", workload={"tasks": tasks})
    >>> study = tl.explore(scenario, {"policy": ["fifo", "easy"]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     text = write_study_page(study, folder + "/study.html").read_text("utf-8")
    >>> "easy is predicted to be best by makespan: 50 s, -50 % against the baseline" in text
    True
    """
    page = Page("What-if study" if title is None else title, above=_describe_origin(study))
    ranking = rank_configurations(study)
    page.add(
        render_answer(describe_recommendation(study, ranking)),
        render_cards(_list_key_figures(study)),
        *map(render_note, study.notes),
    )
    add_study(page, study, ranking)
    _add_failed(page, study)
    _add_inputs(page, study)
    return page.write(path)


def add_study(page: Page, study: Study, ranking: Ranking | None, prefix: str = "") -> None:
    """Add the figures and the tables of a study to a page.

    >>> import twinloop as tl
    >>> tasks = [{"id": "t", "run_time": 10, "cores": 1}]
    >>> scenario = tl.Scenario(platform="2x4", policy="fifo", workload={"tasks": tasks})
    >>> study, page = tl.explore(scenario, {"policy": ["fifo", "easy"]}), Page("What if")
    >>> add_study(page, study, rank_configurations(study))
    >>> 'id="pareto"' in page.render()
    True
    """
    figures, missing = plot_available(study)
    if figure := figures.pop("pareto", None):
        page.add_figure(f"{prefix}pareto", figure, _HEIGHTS["pareto"], guide=_explain_front(study))
    if ranking is not None:
        _add_best(page, study, ranking)
        _add_intervals(page, study, ranking)
    for name, figure in figures.items():
        page.add_figure(f"{prefix}{name}", figure, figure.layout.height or 400, guide=_GUIDES[name])
    if missing:
        page.add_section("Omitted figures", *map(render_note, missing))
    _add_all(page, study)


def _explain_front(study: Study) -> str:
    """Explain how to read the Pareto front; the better side depends on the objectives."""
    from twinloop.exploration.ranking.objectives import Objective

    x, y = (Objective.of(each) for each in study.objectives)
    horizontal, vertical = "left" if x.lower else "right", "down" if y.lower else "up"
    return (
        f"Each point is a configuration; points further {horizontal} and further {vertical} are "
        "better in both objectives. The tooltip of a point has all its figures."
    )


def rank_configurations(study: Study) -> Ranking | None:
    """Rank the configurations by the first objective; None if no run has succeeded.

    >>> import twinloop as tl
    >>> tasks = [{"id": f"t{i}", "run_time": 10, "cores": 1 + i % 3} for i in range(20)]
    >>> scenario = tl.Scenario(platform="2x4", policy="fifo", workload={"tasks": tasks})
    >>> rank_configurations(tl.explore(scenario, {"policy": ["fifo", "easy"]}))[0].name
    'easy'
    """
    from twinloop.exploration.ranking.objectives import Objective

    kpis = (*study.objectives, *study.kpis)
    by = next((each for each in kpis if Objective.of(each).kpi in study.kpis), None)
    if by is None:
        return None
    try:
        return study.top(MAX_LISTED, by)
    except InputError:
        return None


def describe_recommendation(study: Study, ranking: Ranking | None) -> list[str]:
    """Describe the recommendation of a study: the best configuration, its probability, its ties.

    >>> import twinloop as tl
    >>> tasks = [{"id": f"t{i}", "run_time": 10, "cores": 1 + i % 3} for i in range(20)]
    >>> scenario = tl.Scenario(platform="2x4", policy="easy", workload={"tasks": tasks})
    >>> study = tl.explore(scenario, {"platform": ["2x4", "1x8"]})
    >>> describe_recommendation(study, rank_configurations(study))[1]
    '1x8 has equal predictions.'
    """
    if ranking is None or not ranking.places:
        return ["There is no recommendation, because no run has succeeded yet."]
    kpi = ranking.objectives[0].kpi
    first = ranking.places[0]
    best, value = first.candidate, first.candidate.predicted[kpi]
    baseline_value = ranking.baseline.predicted.get(kpi)
    text = f"{best.name} is predicted to be best by {name_kpi(kpi)}: {_format_best(kpi, value)}"
    if best.name == ranking.baseline.name:
        text += "; it is the baseline, and no other configuration is better"
    elif baseline_value is not None:
        change = format_change(value, baseline_value)
        text += f", {change} against the baseline ({ranking.baseline.name})"
    text += "".join(f"; {each}" for each in _list_other_values(study, ranking))
    group = group_equal_places(ranking)[0]
    if None not in (probabilities := [place.best for place in group]):
        subject = "it" if len(group) == 1 else "it, or a configuration with equal predictions,"
        probability = _format_percent(sum(probabilities))
        text += f"; the probability that {subject} is the best of all is {probability}"
    sentences = [f"{text}.", *_describe_ties(ranking, group), *_describe_front(study, ranking)]
    if best.unsupported:
        sentences.append(f"Unsupported: {expand_kpi_names(' '.join(best.unsupported))}")
    if not study.complete:
        sentences.append(
            f"The study is not complete: {study.done:,} of {study.planned:,} runs are done."
        )
    return sentences


def _list_other_values(study: Study, ranking: Ranking) -> Iterator[str]:
    """List the values of the best configuration in the other objectives."""
    best, baseline = ranking.places[0].candidate, ranking.baseline
    for kpi in _list_objective_kpis(study):
        value = best.predicted.get(kpi)
        if kpi == ranking.objectives[0].kpi or value is None:
            continue
        text = f"{name_kpi(kpi)} {_format_best(kpi, value)}"
        reference = baseline.predicted.get(kpi)
        if best.name != baseline.name and reference:
            text += f", {format_change(value, reference)}"
        yield text


def _describe_front(study: Study, ranking: Ranking) -> Iterator[str]:
    """Say that the best configuration is so by the first objective only, if that is the case."""
    kpis = _list_objective_kpis(study)
    best, first = ranking.places[0].candidate, ranking.objectives[0].kpi
    if len(kpis) < 2 or first not in kpis or best.configuration is None:
        return
    front = study.pareto()
    if front.select(kpis).n_unique() < 2:
        return
    count = format_count(front.height, "configuration")
    position = "one of" if best.configuration in front["configuration"] else "not one of"
    yield (
        f"It is best by {name_kpi(first)} only, and {position} the {count} on the Pareto front of "
        f"{' and '.join(map(name_kpi, kpis))}."
    )


def _list_objective_kpis(study: Study) -> list[str]:
    from twinloop.exploration.ranking.objectives import Objective

    kpis = [Objective.of(each).kpi for each in study.objectives]
    return [kpi for kpi in kpis if kpi in study.kpis]


def _format_best(kpi: str, value: float) -> str:
    """Format a value; energies have the unit of the tables and figures of the page."""
    unit = get_unit(kpi)
    return f"{format_scaled(kpi, value)} {unit}" if unit == "kWh" else format_kpi(kpi, value)


def _describe_ties(ranking: Ranking, group: Sequence[RankedCandidate]) -> Iterator[str]:
    """Describe the configurations that equal the best one or are tied with it."""
    from twinloop.exploration.ranking.ranking import TIE_PROBABILITY

    if len(group) > 1:
        verb = "have" if len(group) > 2 else "has"
        names = _join_names([place.candidate.name for place in group[1:]])
        yield f"{names} {verb} equal predictions."
    first, last = group[0], group[-1]
    others = [
        place
        for place in ranking.places
        if first.tie and place.tie == first.tie and place not in group
    ]
    if not others:
        return
    if last.probability is None:
        names = _join_names([place.candidate.name for place in others])
        yield f"It is tied with {names}: over the seeds their difference is not significant."
        return
    if last.rank + 1 == others[0].rank:
        probability = _format_percent(last.probability)
        yield (
            f"It is better than {others[0].candidate.name} with a probability of {probability}; "
            f"below {_format_percent(TIE_PROBABILITY)} this is a tie."
        )
        others = others[1:]
    if others:
        names = _join_names([place.candidate.name for place in others])
        limit = _format_percent(TIE_PROBABILITY)
        yield f"It is also tied with {names}: the probability of this lead is below {limit}."


def _join_names(names: Sequence[str]) -> str:
    return "; ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _describe_origin(study: Study) -> str:
    if study.fit is None:
        return "predicted by a twin without calibration"
    fitted = ", ".join(str(run["name"]) for run in study.fit.runs if run["used"] == "training")
    return f"predicted by a twin calibrated on {fitted or 'unnamed runs'}"


def _list_key_figures(study: Study) -> Iterator[tuple[str, str]]:
    yield "configurations", f"{study.configurations.height:,}"
    yield "runs", f"{study.done:,}" if study.complete else f"{study.done:,} of {study.planned:,}"
    yield "failed runs", f"{study.failed:,}"
    yield "factors", f"{len(study.factors)}"
    yield "seeds", f"{study.runs['seed'].n_unique():,}"
    yield "total run time", format_duration(float(study.runs["seconds"].sum()))


def _add_best(page: Page, study: Study, ranking: Ranking) -> None:
    kpis = _choose_kpis(study)
    names = ["rank", "configuration", *(label_kpi(kpi) for kpi in kpis), "against baseline"]
    names += ["P(better than next)", "P(best of all)", "tie", "remark"]
    groups = group_equal_places(ranking)[:MAX_RANKED]
    rows = [_make_row(group, ranking, kpis) for group in groups]
    unsupported = [
        f"{each.name}: {expand_kpi_names(' '.join(each.unsupported))}"
        for each in (group[0].candidate for group in groups)
        if each.unsupported
    ]
    equal = [
        f"{group[0].candidate.name}: {'; '.join(place.candidate.name for place in group[1:])}"
        for group in groups
        if len(group) > 1
    ]
    page.add_section(
        f"Best {len(rows)} configurations" if len(rows) > 1 else "Best configuration",
        render_paragraph(
            "Means over the seeds with their standard deviations. P is a probability. "
            "Configurations with the same number in the column tie do not differ significantly "
            "from the first of them."
        ),
        render_table(names, rows, numbers=["rank", *names[2:-1]]),
        render_details("Configurations with equal predictions", render_list(equal))
        if equal
        else "",
        render_list(unsupported) if unsupported else "",
        *map(render_note, (*ranking.notes, *_list_overcommit_notes(study, kpis))),
    )


def _add_intervals(page: Page, study: Study, ranking: Ranking) -> None:
    """Add the prediction intervals of the objectives, if there are enough seeds for them."""
    kpis = _list_objective_kpis(study)
    table = study.intervals(*kpis).drop_nulls("low")
    found = {(row["configuration"], row["kpi"]): row for row in table.rows(named=True)}
    kpis = [kpi for kpi in kpis if kpi in table["kpi"]]
    if not kpis:
        return
    level = f"{100 * PREDICTION_LEVEL:g} %"
    names = ["configuration"]
    for kpi in kpis:
        names += [f"{label_kpi(kpi)}, median", f"{level} of runs from", "to"]
    rows = []
    for place in ranking.places[:MAX_LISTED]:
        row = [place.candidate.name]
        for kpi in kpis:
            each = found.get((place.candidate.configuration, kpi))
            row += [
                "-" if each is None else format_scaled(kpi, each[name])
                for name in ("median", "low", "high")
            ]
        rows.append(row)
    page.add_section(
        "Prediction intervals",
        render_paragraph(
            f"A further run lies in the interval of a figure with a probability of {level}, if it "
            "differs from these runs as they differ from each other: by the seed. What is the same "
            "in all of them, such as an error of the model, is not contained."
        ),
        render_table(names, rows, numbers=names[1:]),
    )


def _make_row(group: Sequence[RankedCandidate], ranking: Ranking, kpis: Sequence[str]) -> list[str]:
    place, first = group[0], ranking.objectives[0].kpi
    candidate, best = place.candidate, [each.best for each in group]
    return [
        str(place.rank), name_group(group),
        *(
            _format_with_spread(kpi, candidate.predicted.get(kpi), candidate.spread.get(kpi))
            for kpi in kpis
        ),
        format_change(candidate.predicted[first], ranking.baseline.predicted.get(first, 0.0)),
        _format_percent(get_lead_probability(group, ranking)),
        _format_percent(None if None in best else sum(best)),
        "" if place.tie is None else str(place.tie),
        ", ".join(["fewer tasks"] * place.fewer + ["unsupported"] * bool(candidate.unsupported)),
    ]  # fmt: skip


def _add_all(page: Page, study: Study) -> None:
    """Add the table of all configurations, sorted by the first objective."""
    kpis = _choose_kpis(study)
    if not kpis:
        return
    from twinloop.exploration.ranking.objectives import Objective

    lower = Objective.of(kpis[0]).lower
    configurations = study.configurations.sort(kpis[0], descending=not lower, nulls_last=True)
    shown = configurations[:MAX_LISTED]
    names = ["configuration", "runs", "failed", *(label_kpi(kpi) for kpi in study.kpis)]
    rows = (
        [
            row["name"], f"{row['runs']:,}", f"{row['failed_runs']:,}",
            *(_format_with_spread(kpi, row[kpi], row[f"{kpi}_sd"]) for kpi in study.kpis),
        ]
        for row in shown.rows(named=True)
    )  # fmt: skip
    notes = _list_overcommit_notes(study, study.kpis)
    where = ": study.export(folder) writes all of them as CSV and Parquet"
    if study.folder is not None:
        where = "; configurations.csv and runs.csv in the folder of the study have all of them"
    note = (
        render_note(
            f"the best {MAX_LISTED} of {configurations.height:,} by {name_kpi(kpis[0])}{where}"
        )
        if configurations.height > MAX_LISTED
        else render_note(f"sorted by {name_kpi(kpis[0])}{where}")
    )
    page.add_section(
        "All configurations",
        render_details(
            f"{format_count(shown.height, 'configuration')} with all figures",
            note,
            render_table(names, rows, numbers=names[1:]),
            *map(render_note, notes),
        ),
    )


def _add_failed(page: Page, study: Study) -> None:
    if not study.failed:
        return
    failed = study.runs.filter(pl.col("error").is_not_null()).join(
        study.configurations.select("configuration", "name"), on="configuration", how="left"
    )
    rows = [
        (f"{row['run']:,}", row["name"], str(row["seed"]), row["error"])
        for row in failed[:MAX_FAILED].rows(named=True)
    ]
    more = (
        [render_note(f"the first {MAX_FAILED} of {failed.height:,}")]
        if failed.height > MAX_FAILED
        else []
    )
    page.add_section(
        "Failed runs",
        render_paragraph(
            "All means exclude failed runs. They are over the seeds that all configurations have "
            "in common."
        ),
        render_table(("run", "configuration", "seed", "error"), rows, numbers=("run", "seed")),
        *more,
    )


def _add_inputs(page: Page, study: Study) -> None:
    rows = []
    for name, factor in study.design.factors.items():
        levels = ", ".join(str(label) for label in factor.labels)
        if factor.range is not None:
            levels = f"{factor.range[0]:g} to {factor.range[1]:g}"
        condition = "; ".join(
            f"{other}: {', '.join(map(str, values))}" for other, values in factor.when.items()
        )
        rows.append((name, factor.field or name, levels, condition or "always"))
    page.add_section(
        "Inputs of the study",
        render_details("Factors", render_table(("factor", "field", "levels", "condition"), rows)),
        render_details("Base scenario", render_preformatted(_scenario_to_yaml(study))),
    )


def _scenario_to_yaml(study: Study) -> str:
    try:
        return study.scenario.to_yaml()
    except InputError:  # parts in memory have no form in a file
        return repr(study.scenario)


def _choose_kpis(study: Study) -> list[str]:
    """Choose the KPIs of the ranking: the objectives and the most common ones."""
    candidates = (*study.objectives, "makespan_s", "wait_p95_s", "energy_per_task_j", "utilisation")
    return [kpi for kpi in dict.fromkeys(candidates) if kpi in study.kpis]


def _list_overcommit_notes(study: Study, kpis: Sequence[str]) -> list[str]:
    """List the note on overcommitment if a utilisation is above 100 %."""
    if "utilisation" not in kpis:
        return []
    return [OVERCOMMITTED] if (study.configurations["utilisation"] > 1.0).any() else []


def _format_with_spread(kpi: str, value: float | None, spread: float | None) -> str:
    text = format_scaled(kpi, value)
    return text if value is None or not spread else f"{text} ± {format_scaled(kpi, spread)}"


def _format_percent(share: Any) -> str:
    return "-" if share is None else f"{100 * share:.3g} %"
