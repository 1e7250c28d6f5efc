"""A whole loop on one page, for someone who reads nothing else."""

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
from twinloop.report.glossary import glossary
from twinloop.report.key_figures import list_key_figures
from twinloop.report.kpi_text import expand_kpi_names
from twinloop.report.pages import agreement, calibration, confirmation, study
from twinloop.report.pages.data_quality import add_data_quality, list_missing_data
from twinloop.report.pages.page import (
    Page,
    render_answer,
    render_contents,
    render_details,
    render_list,
    render_note,
    render_paragraph,
    render_preformatted,
    render_table,
)
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
    """A loop that was gone round once: any object that can be read as `write_loop_page` does."""

    @property
    def scenario(self) -> Scenario:
        """What was executed and simulated."""

    @property
    def real(self) -> Trace:
        """The real run."""

    @property
    def probes(self) -> Sequence[Trace]:
        """Real runs that were made to learn from."""

    @property
    def probe_names(self) -> Sequence[str]:
        """What these are called."""

    @property
    def twin(self) -> Trace:
        """The simulated run before the calibration."""

    @property
    def before(self) -> Verdict:
        """How far that can be trusted."""

    @property
    def fit(self) -> Fit:
        """The calibration."""

    @property
    def fitted_twin(self) -> Trace:
        """The simulated run after it."""

    @property
    def after(self) -> Verdict:
        """How far that can be trusted."""

    @property
    def unseen(self) -> Verdict | None:
        """How far it can be trusted on a run that the fit has not seen; None: there is none."""

    @property
    def study(self) -> Study:
        """The what-ifs."""

    @property
    def confirmation(self) -> Confirmation | None:
        """The best of them, run for real; None: they were not."""

    @property
    def lines(self) -> Sequence[str]:
        """What to do and why, in a few lines."""

    @property
    def notes(self) -> Sequence[str]:
        """What was not measured."""


#: The chapters, by their anchors.
CHAPTERS: Final = {
    "measured": "What was measured",
    "simulated": "What was simulated",
    "agreement": "How far they agree",
    "fit": "What the fit moved, and what the data cannot tell",
    "what-if": "What if",
    "confirmed": "Confirmed for real",
    "unmeasured": "What was not measured",
    "words": "What the words mean",
}
#: The pictures of a run that a loop shows.
_OF_A_RUN: Final = ("gantt", "usage", "power")


def write_loop_page(loop: ClosedLoop, path: str | Path, *, title: str | None = None) -> Path:
    """Write a whole loop as one HTML file: what to do, and chapter by chapter what that rests on.

    Args:
        loop: A loop that was gone round.
        path: The file to write; one that is there is replaced.
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
    >>> with tempfile.TemporaryDirectory() as there:
    ...     text = write_loop_page(loop, there + "/loop.html").read_text("utf-8")
    >>> "Take easy." in text, 'href="#measured"' in text
    (True, True)
    """
    page = Page(
        "From a real run to a decision" if title is None else title,
        above=describe_run(loop.real),
    )
    # A reader wants the end of the story first: what is recommended, and whether it held.
    first = [*loop.lines[-2:], *loop.lines[:-2]]
    page.add(
        "<h2>What to do</h2>",
        render_answer(map(expand_kpi_names, first)),
        render_contents(CHAPTERS.items()),
    )
    _add_measurement(page, loop)
    _add_simulation(page, loop)
    _add_agreement(page, loop)
    _add_fit(page, loop)
    _add_study(page, loop)
    _add_confirmation(page, loop)
    said = list(dict.fromkeys([*loop.notes, *list_missing_data(loop.real)]))
    _add_chapter(
        page, "unmeasured",
        "Nothing on this page rests on what is listed here; it was not there to be measured.",
        render_list(map(expand_kpi_names, said)) if said else render_paragraph("All was measured."),
    )  # fmt: skip
    levels = loop.study.design.factors.values()
    named = dict.fromkeys(str(label) for factor in levels for label in factor.labels)
    meant = glossary([loop.scenario.policy.name, *named], bool(loop.probes))
    _add_chapter(
        page, "words", "As they are used on this page.",
        render_table(("word", "what it means"), meant),
    )  # fmt: skip
    return page.write(path)


def _add_chapter(page: Page, anchor: str, said: str, *markup: str) -> None:
    page.add_chapter(anchor, CHAPTERS[anchor], render_paragraph(said), *markup)


def _add_measurement(page: Page, loop: ClosedLoop) -> None:
    tasks = format_count(loop.real.tasks.height, "task")
    nodes = format_count(loop.real.nodes.height, "node")
    done = "was executed" if loop.real.manifest.kind == "recorded" else "is given"
    _add_chapter(
        page, "measured",
        f"A run of {tasks} on {nodes} {done}. These figures and pictures are what really happened.",
        *render_key_figures(loop.real),
    )  # fmt: skip
    if loop.probes:
        rows = [
            (name, f"{probe.tasks.height:,}", format_duration(figures(probe).makespan))
            for name, probe in zip(loop.probe_names, loop.probes, strict=True)
        ]
        page.add_section(
            "Probe runs",
            render_paragraph("Short real runs, made only to learn how tasks disturb each other."),
            render_table(("probe", "tasks", "makespan"), rows, numbers=("tasks", "makespan")),
        )
    # Without its date: its pictures are to be compared with those of the twin, which has none.
    undated = loop.real.replace(manifest=loop.real.manifest.model_copy(update={"epoch_ms": None}))
    add_run_figures(page, undated, "real-", _OF_A_RUN, "measured")
    add_data_quality(page, loop.real, "How good these data are")


def _add_simulation(page: Page, loop: ClosedLoop) -> None:
    _add_chapter(
        page, "simulated",
        "The twin gets the same tasks, nodes and policy, and works out what happens. It was "
        "simulated twice: as it comes, and after it was calibrated on the real runs.",
    )  # fmt: skip
    sides = {
        "real": loop.real,
        "twin as it comes": loop.twin,
        "twin after calibration": loop.fitted_twin,
    }
    found = {name: figures(trace) for name, trace in sides.items()}
    known = {name: dict(list_key_figures(each)) for name, each in found.items()}
    above = any((each.utilisation or 0.0) > 1.0 for each in found.values())
    names = list(dict.fromkeys(name for each in known.values() for name in each))
    page.add_section(
        "Real run and twin side by side",
        render_table(
            ("", *sides),
            [(name, *(each.get(name, "-") for each in known.values())) for name in names],
            numbers=tuple(sides),
        ),
        *([render_note(OVERCOMMITTED)] if above else []),
    )
    add_run_figures(page, loop.fitted_twin, "twin-", ("gantt",), "simulated after calibration")
    page.add_section(
        "Scenario",
        render_details(
            "What was run, in full", render_preformatted(_scenario_to_yaml(loop.scenario))
        ),
    )


def _scenario_to_yaml(scenario: Scenario) -> str:
    try:
        return scenario.to_yaml()
    except InputError:  # of parts in memory, which no file can name
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
         "Where the two curves part, the twin ran ahead or fell behind."),
        ("completions", after, "after calibration",
         "The lower curve is what is still between them."),
        ("waits", after, "after calibration",
         "The two curves should lie on each other; the lower one is their difference."),
    ):  # fmt: skip
        try:
            figure = PLOTS[name](verdict)
        except InputError as error:
            missing[error.problem] = None
            continue
        figure.update_layout(title_text=f"{figure.layout.title.text}, {when}")
        page.add_figure(f"{name}-{when.split()[0]}", figure, 440, guide=guide)
    if missing:
        page.add_section("Not drawn", *map(render_note, missing))


def _add_fit(page: Page, loop: ClosedLoop) -> None:
    fit = loop.fit
    _add_chapter(
        page, "fit",
        f"{format_count(len(fit.values), 'value')} of the twin moved until it came as near to "
        f"the real runs as it can: the loss fell from {format_number(fit.loss_before)} to "
        f"{format_number(fit.loss)} in {format_count(fit.history.height, 'simulation')}. The loss "
        "is how far the twin is from the runs; 0 is the same.",
        render_parameter_changes(fit.recipe, once=True) if fit.recipe else "",
    )  # fmt: skip
    if fit.warnings:
        page.add_section("Warnings", render_list(map(expand_kpi_names, fit.warnings)))
    calibration.add_values(page, fit)
    draw = (
        ("convergence", plot_convergence, "The search is over where the line has become flat."),
        ("confidence_region", plot_confidence_region, explain_confidence_region(fit)),
    )  # fmt: skip
    for name, drawn, guide in draw:
        try:
            figure: Figure = drawn(fit)
        except InputError:
            continue
        page.add_figure(name, figure, figure.layout.height or 360, guide=guide)


def _add_study(page: Page, loop: ClosedLoop) -> None:
    ranking = study.rank_configurations(loop.study)
    made = format_count(loop.study.configurations.height, "configuration")
    _add_chapter(
        page, "what-if",
        f"The calibrated twin tried {made} of {', '.join(loop.study.factors)} in "
        f"{format_count(loop.study.done, 'run')}. These are predictions.",
        render_answer(study.describe_recommendation(loop.study, ranking)),
    )  # fmt: skip
    study.add_study(page, loop.study, ranking)


def _add_confirmation(page: Page, loop: ClosedLoop) -> None:
    found = loop.confirmation
    if found is None:
        _add_chapter(
            page, "confirmed",
            "None of the recommendations was run for real, so that they remain predictions.",
        )  # fmt: skip
        return
    recommended = format_count(len(found.candidates), "candidate")
    _add_chapter(
        page, "confirmed",
        f"The best {recommended} and the baseline were run for real, "
        f"{format_count(found.repetitions, 'time')} each, in an order drawn at random.",
        render_answer(confirmation.describe_recommendations(found)),
    )  # fmt: skip
    confirmation.add_confirmation(page, found)
