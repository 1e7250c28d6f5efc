"""A study on one page: what to do first, then what it rests on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from twinloop.description.errors import InputError
from twinloop.metrics.trace_figures import OVERCOMMITTED
from twinloop.report.figures.study import plot_available
from twinloop.report.kpi_text import (
    expand_kpi_names,
    format_change,
    format_kpi,
    format_scaled,
    label_kpi,
    name_kpi,
)
from twinloop.report.pages.page import (
    Page,
    render_answer,
    render_cards,
    render_details,
    render_list,
    render_note,
    render_paragraph,
    render_preformatted,
    render_table,
)
from twinloop.report.pages.ranking_groups import (
    get_lead_probability,
    group_equal_places,
    name_group,
)
from twinloop.report.quantity_text import format_count, format_duration

if TYPE_CHECKING:
    from twinloop.exploration.ranking.ranking import RankedCandidate, Ranking
    from twinloop.exploration.study.study import Study

#: So many of the best have a row in the short table, and in the long one.
TOP: Final = 10
LISTED: Final = 200
#: So many runs that failed are listed.
FAILED: Final = 50

_HEIGHTS: Final = {"pareto": 560}
_GUIDES: Final = {
    "pareto": "Each point is a configuration; those further left and further down are better in "
    "both. Point at one to see all its figures.",
    "effects": "The further apart the levels of a factor lie, the more it matters.",
    "interactions": "A coloured cell says that two levels together do something that neither does "
    "alone; where all is pale, factors can be chosen one by one.",
}


def write_study_page(study: Study, path: str | Path, *, title: str | None = None) -> Path:
    """Write a study as one HTML file: the recommendation, the pictures, the best, all the rest.

    Of a study with very many configurations the page lists the best 200, and says so;
    `Study.export` writes all of them.

    Args:
        study: A study, which may still be running.
        path: The file to write; one that is there is replaced.
        title: The heading.

    >>> import tempfile
    >>> import twinloop as tl
    >>> tasks = [{"id": f"t{i}", "run_time": 10, "cores": 1 + i % 3} for i in range(20)]
    >>> scenario = tl.Scenario(platform="2x4", policy="fifo", workload={"tasks": tasks})
    >>> study = tl.explore(scenario, {"policy": ["fifo", "easy"]})
    >>> with tempfile.TemporaryDirectory() as there:
    ...     text = write_study_page(study, there + "/study.html").read_text("utf-8")
    >>> "easy is predicted to be best by makespan: 50 s, -50 % to the baseline" in text
    True
    """
    page = Page("What if" if title is None else title, above=_describe_origin(study))
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
    """Put the pictures and the tables of a study on a page.

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
        page.add_figure(f"{prefix}pareto", figure, _HEIGHTS["pareto"], guide=_GUIDES["pareto"])
    if ranking is not None:
        _add_best(page, study, ranking)
    for name, figure in figures.items():
        page.add_figure(f"{prefix}{name}", figure, figure.layout.height or 400, guide=_GUIDES[name])
    if missing:
        page.add_section("Not drawn", *map(render_note, missing))
    _add_all(page, study)


def rank_configurations(study: Study) -> Ranking | None:
    """The best candidates by the first objective; None where no run is over that did not fail.

    >>> import twinloop as tl
    >>> tasks = [{"id": f"t{i}", "run_time": 10, "cores": 1 + i % 3} for i in range(20)]
    >>> scenario = tl.Scenario(platform="2x4", policy="fifo", workload={"tasks": tasks})
    >>> rank_configurations(tl.explore(scenario, {"policy": ["fifo", "easy"]}))[0].name
    'easy'
    """
    from twinloop.exploration.ranking.objectives import Objective

    known = (*study.objectives, *study.kpis)
    by = next((each for each in known if Objective.of(each).kpi in study.kpis), None)
    if by is None:
        return None
    try:
        return study.top(LISTED, by)
    except InputError:
        return None


def describe_recommendation(study: Study, ranking: Ranking | None) -> list[str]:
    """What a study recommends, in sentences: the best, how sure that is, what ties with it.

    >>> import twinloop as tl
    >>> tasks = [{"id": f"t{i}", "run_time": 10, "cores": 1 + i % 3} for i in range(20)]
    >>> scenario = tl.Scenario(platform="2x4", policy="easy", workload={"tasks": tasks})
    >>> study = tl.explore(scenario, {"platform": ["2x4", "1x8"]})
    >>> describe_recommendation(study, rank_configurations(study))[1]
    '1x8 comes out the same.'
    """
    if ranking is None or not ranking.places:
        return ["Nothing can be recommended: no run is over that did not fail."]
    kpi = ranking.objectives[0].kpi
    first = ranking.places[0]
    best, value = first.candidate, first.candidate.predicted[kpi]
    than = ranking.baseline.predicted.get(kpi)
    said = f"{best.name} is predicted to be best by {name_kpi(kpi)}: {format_kpi(kpi, value)}"
    if best.name == ranking.baseline.name:
        said += ", and that is the baseline: nothing else is better"
    elif than is not None:
        said += f", {format_change(value, than)} to the baseline ({ranking.baseline.name})"
    alike = group_equal_places(ranking)[0]
    if None not in (sure := [place.best for place in alike]):
        which = "it" if len(alike) == 1 else "it or one that comes out the same"
        share = _format_percent(sum(sure))
        said += f"; with a probability of {share} {which} really is the best of all"
    sentences = [f"{said}.", *_describe_ties(ranking, alike)]
    if best.unsupported:
        sentences.append(f"Unsupported: {expand_kpi_names(' '.join(best.unsupported))}")
    if not study.complete:
        sentences.append(f"The study is not over: {study.done:,} of {study.planned:,} runs are.")
    return sentences


def _describe_ties(ranking: Ranking, alike: Sequence[RankedCandidate]) -> Iterator[str]:
    """What comes out like the best, and what cannot be told from it."""
    from twinloop.exploration.ranking.ranking import SURE

    if len(alike) > 1:
        come = "come" if len(alike) > 2 else "comes"
        yield f"{_join_names([place.candidate.name for place in alike[1:]])} {come} out the same."
    first, last = alike[0], alike[-1]
    others = [
        place
        for place in ranking.places
        if first.tie and place.tie == first.tie and place not in alike
    ]
    if not others:
        return
    if last.probability is None:
        names = _join_names([place.candidate.name for place in others])
        yield f"It is tied with {names}: the seeds cannot tell them apart."
        return
    if last.rank + 1 == others[0].rank:
        lead = _format_percent(last.probability)
        yield (
            f"Its lead over {others[0].candidate.name} is {lead} sure; "
            f"below {_format_percent(SURE)} it is called a tie."
        )
        others = others[1:]
    if others:
        names = _join_names([place.candidate.name for place in others])
        yield f"It is tied with {names} too: that lead is less than {_format_percent(SURE)} sure."


def _join_names(names: Sequence[str]) -> str:
    return "; ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _describe_origin(study: Study) -> str:
    if study.fit is None:
        return "predicted by a twin that was not calibrated"
    fitted = ", ".join(str(run["name"]) for run in study.fit.runs if run["used"] == "training")
    return f"predicted by a twin that was calibrated on {fitted or 'unnamed runs'}"


def _list_key_figures(study: Study) -> Iterator[tuple[str, str]]:
    yield "configurations", f"{study.configurations.height:,}"
    yield "runs", f"{study.done:,}" if study.complete else f"{study.done:,} of {study.planned:,}"
    yield "failed runs", f"{study.failed:,}"
    yield "factors", f"{len(study.factors)}"
    yield "seeds", f"{study.runs['seed'].n_unique():,}"
    yield "time of all runs", format_duration(float(study.runs["seconds"].sum()))


def _add_best(page: Page, study: Study, ranking: Ranking) -> None:
    kpis = _choose_kpis(study)
    names = ["", "configuration", *(label_kpi(kpi) for kpi in kpis), "to baseline"]
    names += ["better than next", "best of all", "tie", "remark"]
    shown = group_equal_places(ranking)[:TOP]
    rows = [_make_row(fold, ranking, kpis) for fold in shown]
    leans = [
        f"{each.name}: {expand_kpi_names(' '.join(each.unsupported))}"
        for each in (fold[0].candidate for fold in shown)
        if each.unsupported
    ]
    same = [
        f"{fold[0].candidate.name}: {'; '.join(place.candidate.name for place in fold[1:])}"
        for fold in shown
        if len(fold) > 1
    ]
    page.add_section(
        f"The best {len(rows)}" if len(rows) > 1 else "The best",
        render_paragraph(
            "Means over the seeds with their standard deviation. Those with the same number under "
            "tie cannot be told apart from the first of them."
        ),
        render_table(names, rows, numbers=["", *names[2:-1]]),
        render_details("Which come out the same", render_list(same)) if same else "",
        render_list(leans) if leans else "",
        *map(render_note, (*ranking.notes, *_list_overcommit_notes(study, kpis))),
    )


def _make_row(fold: Sequence[RankedCandidate], ranking: Ranking, kpis: Sequence[str]) -> list[str]:
    place, first = fold[0], ranking.objectives[0].kpi
    of, sure = place.candidate, [each.best for each in fold]
    return [
        str(place.rank), name_group(fold),
        *(_format_with_spread(kpi, of.predicted.get(kpi), of.spread.get(kpi)) for kpi in kpis),
        format_change(of.predicted[first], ranking.baseline.predicted.get(first, 0.0)),
        _format_percent(get_lead_probability(fold, ranking)),
        _format_percent(None if None in sure else sum(sure)),
        "" if place.tie is None else str(place.tie),
        ", ".join(["fewer tasks"] * place.fewer + ["unsupported"] * bool(of.unsupported)),
    ]  # fmt: skip


def _add_all(page: Page, study: Study) -> None:
    """Every configuration, the best by the first objective first."""
    kpis = _choose_kpis(study)
    if not kpis:
        return
    from twinloop.exploration.ranking.objectives import Objective

    lower = Objective.of(kpis[0]).lower
    every = study.configurations.sort(kpis[0], descending=not lower, nulls_last=True)
    shown = every[:LISTED]
    names = ["configuration", "runs", "failed", *(label_kpi(kpi) for kpi in study.kpis)]
    rows = (
        [
            row["name"], f"{row['runs']:,}", f"{row['failed_runs']:,}",
            *(_format_with_spread(kpi, row[kpi], row[f"{kpi}_sd"]) for kpi in study.kpis),
        ]
        for row in shown.rows(named=True)
    )  # fmt: skip
    above = _list_overcommit_notes(study, study.kpis)
    where = ": study.export(folder) writes all of them as CSV and Parquet"
    if study.folder is not None:
        where = "; configurations.csv and runs.csv in the folder of the study hold all"
    said = (
        render_note(f"the best {LISTED} of {every.height:,} by {name_kpi(kpis[0])}{where}")
        if every.height > LISTED
        else render_note(f"sorted by {name_kpi(kpis[0])}{where}")
    )
    page.add_section(
        "All configurations",
        render_details(
            f"{format_count(shown.height, 'configuration')} with all figures",
            said + render_table(names, rows, numbers=names[1:]) + "".join(map(render_note, above)),
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
        for row in failed[:FAILED].rows(named=True)
    ]
    more = (
        [render_note(f"the first {FAILED} of {failed.height:,}")] if failed.height > FAILED else []
    )
    page.add_section(
        "Runs that failed",
        render_paragraph(
            "They are left out of all means, which are over the seeds that all configurations have."
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
        only = "; ".join(
            f"{other}: {', '.join(map(str, values))}" for other, values in factor.when.items()
        )
        rows.append((name, factor.field or name, levels, only or "always"))
    page.add_section(
        "What was asked",
        render_details(
            "Factors", render_table(("factor", "what it changes", "levels", "only for"), rows)
        ),
        render_details(
            "The scenario that was changed", render_preformatted(_scenario_to_yaml(study))
        ),
    )


def _scenario_to_yaml(study: Study) -> str:
    try:
        return study.scenario.to_yaml()
    except InputError:  # of parts in memory, which no file can name
        return repr(study.scenario)


def _choose_kpis(study: Study) -> list[str]:
    """The objectives and what else people ask for first."""
    wanted = (*study.objectives, "makespan_s", "wait_p95_s", "energy_per_task_j", "utilisation")
    return [kpi for kpi in dict.fromkeys(wanted) if kpi in study.kpis]


def _list_overcommit_notes(study: Study, kpis: Sequence[str]) -> list[str]:
    """What has to be said where cores are held that are not there."""
    if "utilisation" not in kpis:
        return []
    return [OVERCOMMITTED] if (study.configurations["utilisation"] > 1.0).any() else []


def _format_with_spread(kpi: str, value: float | None, spread: float | None) -> str:
    said = format_scaled(kpi, value)
    return said if value is None or not spread else f"{said} ± {format_scaled(kpi, spread)}"


def _format_percent(share: Any) -> str:
    return "-" if share is None else f"{100 * share:.3g} %"
