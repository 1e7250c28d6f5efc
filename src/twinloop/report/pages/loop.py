"""Page of a whole loop: the recommendation, then a chapter per step."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from twinloop.description.errors import InputError
from twinloop.metrics.trace_figures import OVERCOMMITTED, figures
from twinloop.report.figures.assessment import PLOTS
from twinloop.report.figures.calibration import plot_convergence
from twinloop.report.figures.confidence_region import (
    explain_confidence_region,
    plot_confidence_region,
)
from twinloop.report.glossary import define_levels
from twinloop.report.key_figures import list_key_figures
from twinloop.report.kpi_text import expand_kpi_names
from twinloop.report.pages import agreement, calibration, confirmation, study
from twinloop.report.pages.data_quality import add_data_quality, list_missing_data
from twinloop.report.pages.fragments import (
    render_answer,
    render_contents,
    render_details,
    render_heading,
    render_list,
    render_note,
    render_paragraph,
    render_preformatted,
    render_table,
)
from twinloop.report.pages.page import Page
from twinloop.report.pages.parameter_changes import render_parameter_changes
from twinloop.report.pages.run import add_run_figures, render_key_figures
from twinloop.report.pages.run_title import describe_run
from twinloop.report.quantity_text import format_count, format_duration, format_number

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from twinloop.calibration.fit import Fit
    from twinloop.exploration.confirmation.result import Confirmation
    from twinloop.exploration.study.study import Study
    from twinloop.fidelity.verdict import Verdict
    from twinloop.scenario import Scenario
    from twinloop.trace import Trace


class ClosedLoop(Protocol):
    """A finished loop: any object with these attributes."""

    @property
    def scenario(self) -> Scenario:
        """The scenario that was executed and simulated."""

    @property
    def real(self) -> Trace:
        """The real run."""

    @property
    def probes(self) -> Sequence[Trace]:
        """Short real runs for the calibration of contention."""

    @property
    def probe_names(self) -> Sequence[str]:
        """The names of the probes."""

    @property
    def twin(self) -> Trace:
        """The simulated run before the calibration."""

    @property
    def before(self) -> Verdict:
        """The assessment of the twin before the calibration."""

    @property
    def fit(self) -> Fit:
        """The calibration."""

    @property
    def fitted_twin(self) -> Trace:
        """The simulated run after the calibration."""

    @property
    def after(self) -> Verdict:
        """The assessment of the twin after the calibration."""

    @property
    def unseen(self) -> Verdict | None:
        """The assessment of the twin on a hold-out run; None: no run was held out."""

    @property
    def study(self) -> Study:
        """The what-if study."""

    @property
    def confirmation(self) -> Confirmation | None:
        """The real runs of the best configurations; None: none was executed."""

    @property
    def lines(self) -> Sequence[str]:
        """The results and the recommendation, in sentences; the recommendation comes last."""

    @property
    def notes(self) -> Sequence[str]:
        """The data that were not measured."""


#: The chapters, by their anchors.
CHAPTERS: Final = {
    "measured": "Measured run",
    "simulated": "Simulated run",
    "agreement": "Agreement of the twin with the real run",
    "fit": "Calibration and identifiability",
    "what-if": "What-if study",
    "confirmed": "Confirmation by real runs",
    "unmeasured": "Missing data",
    "glossary": "Glossary",
}
#: The figures of the measured run on the page.
_RUN_FIGURES: Final = ("gantt", "usage", "power")


def write_loop_page(loop: ClosedLoop, path: str | Path, *, title: str | None = None) -> Path:
    """Write a whole loop as one HTML file: the recommendation, then a chapter per step.

    Args:
        loop: A finished loop.
        path: The file to write; an existing file is replaced.
        title: The heading.

    >>> import tempfile
    >>> from types import SimpleNamespace
    >>> import twinloop as tl
    >>> scenario = tl.Scenario(platform="2x2", policy="fcfs", workload={"generate": {
    ...     "name": "poisson", "parameters": {"tasks": 30}}})
    >>> real, twin = (tl.simulate(scenario.replace(**{"model.speed_factor": v})) for v in (1.1, 1))
    >>> fit = tl.calibrate(real, scenario=scenario, budget=50, analysis=0,
    ...                    parameters={"speed_factor": {"linear": [0.5, 2]}})
    >>> fitted = tl.simulate(fit.apply(scenario))
    >>> loop = SimpleNamespace(scenario=scenario, real=real, probes=(), probe_names=(), twin=twin,
    ...     before=tl.assess(real, twin), fit=fit, fitted_twin=fitted, unseen=None,
    ...     confirmation=None, after=tl.assess(real, fitted), lines=("Take easy.",),
    ...     notes=("no energy was measured",),
    ...     study=tl.explore(scenario, {"policy": ["fcfs", "easy"]}))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     text = write_loop_page(loop, folder + "/loop.html").read_text("utf-8")
    >>> "Take easy." in text, 'href="#measured"' in text
    (True, True)
    """
    page = Page(
        "From a real run to a decision" if title is None else title,
        above=describe_run(loop.real),
    )
    # The last two lines are the recommendation and its confirmation, which a reader needs first.
    lines = [*loop.lines[-2:], *loop.lines[:-2]]
    page.add(
        render_heading("Recommendation", level=2),
        render_answer(map(expand_kpi_names, lines)),
        render_contents(CHAPTERS.items()),
    )
    _add_measurement(page, loop)
    _add_simulation(page, loop)
    _add_agreement(page, loop)
    _add_fit(page, loop)
    _add_study(page, loop)
    _add_confirmation(page, loop)
    missing = list(dict.fromkeys([*loop.notes, *list_missing_data(loop.real)]))
    _add_chapter(
        page, "unmeasured",
        "These data were not measured, and the results on this page do not use them.",
        render_list(map(expand_kpi_names, missing)) if missing
        else render_paragraph("No data are missing."),
    )  # fmt: skip
    factors = loop.study.design.factors.values()
    levels = dict.fromkeys(str(label) for factor in factors for label in factor.labels)
    page.define_terms(define_levels([loop.scenario.policy.name, *levels]), ["overcommit"])
    return page.write(path)


def _add_chapter(page: Page, anchor: str, text: str, *parts: str) -> None:
    page.add_chapter(anchor, CHAPTERS[anchor], render_paragraph(text), *parts)


def _add_measurement(page: Page, loop: ClosedLoop) -> None:
    tasks = format_count(loop.real.tasks.height, "task")
    nodes = format_count(loop.real.nodes.height, "node")
    origin = "was executed" if loop.real.manifest.kind == "recorded" else "was read from a log"
    _add_chapter(
        page, "measured",
        f"A run of {tasks} on {nodes} {origin}. These figures are measurements.",
        *render_key_figures(loop.real),
    )  # fmt: skip
    if loop.probes:
        rows = [
            (name, f"{probe.tasks.height:,}", format_duration(figures(probe).makespan))
            for name, probe in zip(loop.probe_names, loop.probes, strict=True)
        ]
        page.add_section(
            "Probe runs",
            render_paragraph("Short real runs that measure the contention between tasks."),
            render_table(("probe", "tasks", "makespan"), rows, numbers=("tasks", "makespan")),
        )
    # The date is removed, because the figures are compared with those of the twin, which has none.
    undated = loop.real.replace(manifest=loop.real.manifest.model_copy(update={"epoch_ms": None}))
    add_run_figures(page, undated, "real-", _RUN_FIGURES, "measured")
    add_data_quality(page, loop.real, "Data quality of the measured run")


def _add_simulation(page: Page, loop: ClosedLoop) -> None:
    _add_chapter(
        page, "simulated",
        "The twin simulates the same tasks on the same nodes with the same policy. It was run "
        "twice: with its default parameters, and after the calibration on the real runs.",
    )  # fmt: skip
    sides = {
        "real": loop.real,
        "twin before calibration": loop.twin,
        "twin after calibration": loop.fitted_twin,
    }
    figures_by_side = {name: figures(trace) for name, trace in sides.items()}
    key_figures = {name: dict(list_key_figures(each)) for name, each in figures_by_side.items()}
    is_overcommitted = any((each.utilisation or 0.0) > 1.0 for each in figures_by_side.values())
    names = list(dict.fromkeys(name for each in key_figures.values() for name in each))
    page.add_section(
        "Comparison of the real run and the twin",
        render_table(
            ("figure", *sides),
            [(name, *(each.get(name, "-") for each in key_figures.values())) for name in names],
            numbers=tuple(sides),
        ),
        *([render_note(OVERCOMMITTED)] if is_overcommitted else []),
    )
    add_run_figures(page, loop.fitted_twin, "twin-", ("gantt",), "simulated after calibration")
    page.add_section(
        "Scenario",
        render_details("Complete scenario", render_preformatted(_scenario_to_yaml(loop.scenario))),
    )


def _scenario_to_yaml(scenario: Scenario) -> str:
    try:
        return scenario.to_yaml()
    except InputError:  # parts in memory have no form in a file
        return repr(scenario)


def _add_agreement(page: Page, loop: ClosedLoop) -> None:
    before, after, unseen = loop.before, loop.after, loop.unseen
    _add_chapter(
        page, "agreement", agreement.describe_agreement(before, after, unseen, loop.fit),
        agreement.render_verdicts(before, after, unseen),
    )  # fmt: skip
    agreement.add_runs(page, loop.fit)
    agreement.add_criteria(page, before, after, unseen)
    missing: dict[str, None] = {}
    for name, verdict, when, guide in (
        ("completions", before, "before calibration",
         "Where the upper curves separate, the twin is ahead of the real run or behind it."),
        ("completions", after, "after calibration",
         "The lower curve is the remaining difference."),
        ("waits", after, "after calibration",
         "The upper curves should coincide; the lower curve is their difference."),
    ):  # fmt: skip
        try:
            figure = PLOTS[name](verdict)
        except InputError as error:
            missing[error.problem] = None
            continue
        figure.update_layout(title_text=f"{figure.layout.title.text}, {when}")
        page.add_figure(f"{name}-{when.split()[0]}", figure, 440, guide=guide)
    if missing:
        page.add_section("Omitted figures", *map(render_note, missing))


def _add_fit(page: Page, loop: ClosedLoop) -> None:
    fit = loop.fit
    _add_chapter(
        page, "fit",
        f"The calibration fitted {format_count(len(fit.values), 'parameter')} of the twin to the "
        f"real runs: the loss fell from {format_number(fit.loss_before)} to "
        f"{format_number(fit.loss)} in {format_count(fit.history.height, 'simulation')}. The loss "
        "is the distance between the twin and the real runs; 0 means no difference.",
        render_parameter_changes(fit.recipe, once=True) if fit.recipe else "",
    )  # fmt: skip
    if fit.warnings:
        page.add_section("Warnings", render_list(map(expand_kpi_names, fit.warnings)))
    calibration.add_values(page, fit)
    plots = (
        ("convergence", plot_convergence, "The search has converged where the line is flat."),
        ("confidence_region", plot_confidence_region, explain_confidence_region(fit)),
    )  # fmt: skip
    for name, plot, guide in plots:
        try:
            figure: Figure = plot(fit)
        except InputError:
            continue
        page.add_figure(name, figure, figure.layout.height or 360, guide=guide)


def _add_study(page: Page, loop: ClosedLoop) -> None:
    ranking = study.rank_configurations(loop.study)
    configurations = format_count(loop.study.configurations.height, "configuration")
    _add_chapter(
        page, "what-if",
        f"The calibrated twin simulated {configurations} of the factors "
        f"{', '.join(loop.study.factors)} in {format_count(loop.study.done, 'run')}. These results "
        "are predictions.",
        render_answer(study.describe_recommendation(loop.study, ranking)),
    )  # fmt: skip
    study.add_study(page, loop.study, ranking)


def _add_confirmation(page: Page, loop: ClosedLoop) -> None:
    result = loop.confirmation
    if result is None:
        _add_chapter(
            page, "confirmed",
            "No recommendation was confirmed by a real run: all results of the study remain "
            "predictions.",
        )  # fmt: skip
        return
    recommended = format_count(len(result.candidates), "candidate")
    _add_chapter(
        page, "confirmed",
        f"The best {recommended} and the baseline were executed on real machines, "
        f"{format_count(result.repetitions, 'time')} each, in random order.",
        render_answer(confirmation.describe_recommendations(result)),
    )  # fmt: skip
    confirmation.add_confirmation(page, result)
