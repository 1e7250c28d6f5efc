"""A whole loop on one page, for someone who reads nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from twinloop.description.errors import InputError
from twinloop.metrics.trace_figures import OVERCOMMITTED, figures
from twinloop.report.figures.acceptable_set import cloud, looked_at
from twinloop.report.figures.assessment import PICTURES
from twinloop.report.figures.calibration import convergence
from twinloop.report.glossary import glossary
from twinloop.report.key_figures import key_figures
from twinloop.report.kpi_text import in_words
from twinloop.report.pages import agreement, calibration, confirmation, study
from twinloop.report.pages.data_quality import quality, unrecorded
from twinloop.report.pages.page import (
    Document,
    answer,
    bullets,
    contents,
    folded,
    note,
    paragraph,
    source,
    table,
)
from twinloop.report.pages.parameter_changes import recipe
from twinloop.report.pages.run import pictures, summary
from twinloop.report.pages.run_title import page_title
from twinloop.report.quantity_text import format_count, format_duration, format_number

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from twinloop.calibration.fit import Fit
    from twinloop.exploration.confirmation.result import Confirmation
    from twinloop.exploration.study.study import Study
    from twinloop.fidelity.verdict import Verdict
    from twinloop.scenario import Scenario
    from twinloop.trace import Trace


class Looped(Protocol):
    """A loop that was gone round once: any object that can be read as `loop_page` does."""

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


def loop_page(loop: Looped, path: str | Path, *, title: str | None = None) -> Path:
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
    ...     text = loop_page(loop, there + "/loop.html").read_text("utf-8")
    >>> "Take easy." in text, 'href="#measured"' in text
    (True, True)
    """
    page = Document(
        "From a real run to a decision" if title is None else title,
        above=page_title(loop.real),
    )
    # A reader wants the end of the story first: what is recommended, and whether it held.
    first = [*loop.lines[-2:], *loop.lines[:-2]]
    page.add("<h2>What to do</h2>", answer(map(in_words, first)), contents(CHAPTERS.items()))
    _measured(page, loop)
    _simulated(page, loop)
    _agreement(page, loop)
    _fit(page, loop)
    _what_if(page, loop)
    _confirmed(page, loop)
    said = list(dict.fromkeys([*loop.notes, *unrecorded(loop.real)]))
    _chapter(
        page, "unmeasured",
        "Nothing on this page rests on what is listed here; it was not there to be measured.",
        bullets(map(in_words, said)) if said else paragraph("All was measured."),
    )  # fmt: skip
    levels = loop.study.design.factors.values()
    named = dict.fromkeys(str(label) for factor in levels for label in factor.labels)
    meant = glossary([loop.scenario.policy.name, *named], bool(loop.probes))
    _chapter(
        page, "words", "As they are used on this page.",
        table(("word", "what it means"), meant),
    )  # fmt: skip
    return page.write(path)


def _chapter(page: Document, anchor: str, said: str, *markup: str) -> None:
    page.chapter(anchor, CHAPTERS[anchor], paragraph(said), *markup)


def _measured(page: Document, loop: Looped) -> None:
    tasks = format_count(loop.real.tasks.height, "task")
    nodes = format_count(loop.real.nodes.height, "node")
    done = "was executed" if loop.real.manifest.kind == "recorded" else "is given"
    _chapter(
        page, "measured",
        f"A run of {tasks} on {nodes} {done}. These figures and pictures are what really happened.",
        *summary(loop.real),
    )  # fmt: skip
    if loop.probes:
        rows = [
            (name, f"{probe.tasks.height:,}", format_duration(figures(probe).makespan))
            for name, probe in zip(loop.probe_names, loop.probes, strict=True)
        ]
        page.section(
            "Probe runs",
            paragraph("Short real runs, made only to learn how tasks disturb each other."),
            table(("probe", "tasks", "makespan"), rows, numbers=("tasks", "makespan")),
        )
    # Without its date: its pictures are to be compared with those of the twin, which has none.
    undated = loop.real.replace(manifest=loop.real.manifest.model_copy(update={"epoch_ms": None}))
    pictures(page, undated, "real-", _OF_A_RUN, "measured")
    quality(page, loop.real, "How good these data are")


def _simulated(page: Document, loop: Looped) -> None:
    _chapter(
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
    known = {name: dict(key_figures(each)) for name, each in found.items()}
    above = any((each.utilisation or 0.0) > 1.0 for each in found.values())
    names = list(dict.fromkeys(name for each in known.values() for name in each))
    page.section(
        "Real run and twin side by side",
        table(
            ("", *sides),
            [(name, *(each.get(name, "-") for each in known.values())) for name in names],
            numbers=tuple(sides),
        ),
        *([note(OVERCOMMITTED)] if above else []),
    )
    pictures(page, loop.fitted_twin, "twin-", ("gantt",), "simulated after calibration")
    page.section("Scenario", folded("What was run, in full", source(_yaml(loop.scenario))))


def _yaml(scenario: Scenario) -> str:
    try:
        return scenario.to_yaml()
    except InputError:  # of parts in memory, which no file can name
        return repr(scenario)


def _agreement(page: Document, loop: Looped) -> None:
    before, after, unseen = loop.before, loop.after, loop.unseen
    _chapter(
        page, "agreement", agreement.sentence(before, after, unseen, loop.fit),
        agreement.verdicts(before, after, unseen),
    )  # fmt: skip
    agreement.runs(page, loop.fit)
    agreement.criteria(page, before, after, unseen)
    missing: dict[str, None] = {}
    for name, verdict, when, look in (
        ("completions", before, "before calibration",
         "Where the two curves part, the twin ran ahead or fell behind."),
        ("completions", after, "after calibration",
         "The lower curve is what is still between them."),
        ("waits", after, "after calibration",
         "The two curves should lie on each other; the lower one is their difference."),
    ):  # fmt: skip
        try:
            figure = PICTURES[name](verdict)
        except InputError as error:
            missing[error.problem] = None
            continue
        figure.update_layout(title_text=f"{figure.layout.title.text}, {when}")
        page.picture(f"{name}-{when.split()[0]}", figure, 440, look=look)
    if missing:
        page.section("Not drawn", *map(note, missing))


def _fit(page: Document, loop: Looped) -> None:
    fit = loop.fit
    _chapter(
        page, "fit",
        f"{format_count(len(fit.values), 'value')} of the twin moved until it came as near to "
        f"the real runs as it can: the loss fell from {format_number(fit.loss_before)} to "
        f"{format_number(fit.loss)} in {format_count(fit.history.height, 'simulation')}. The loss "
        "is how far the twin is from the runs; 0 is the same.",
        recipe(fit.recipe, once=True) if fit.recipe else "",
    )  # fmt: skip
    if fit.warnings:
        page.section("Warnings", bullets(map(in_words, fit.warnings)))
    calibration.values(page, fit)
    draw = (
        ("convergence", convergence, "The search is over where the line has become flat."),
        ("cloud", cloud, looked_at(fit)),
    )  # fmt: skip
    for name, drawn, look in draw:
        try:
            figure: Figure = drawn(fit)
        except InputError:
            continue
        page.picture(name, figure, figure.layout.height or 360, look=look)


def _what_if(page: Document, loop: Looped) -> None:
    ranking = study.best_of(loop.study)
    made = format_count(loop.study.configurations.height, "configuration")
    _chapter(
        page, "what-if",
        f"The calibrated twin tried {made} of {', '.join(loop.study.factors)} in "
        f"{format_count(loop.study.done, 'run')}. These are predictions.",
        answer(study.recommended(loop.study, ranking)),
    )  # fmt: skip
    study.put(page, loop.study, ranking)


def _confirmed(page: Document, loop: Looped) -> None:
    found = loop.confirmation
    if found is None:
        _chapter(
            page, "confirmed",
            "None of the recommendations was run for real, so that they remain predictions.",
        )  # fmt: skip
        return
    recommended = format_count(len(found.candidates), "candidate")
    _chapter(
        page, "confirmed",
        f"The best {recommended} and the baseline were run for real, "
        f"{format_count(found.repetitions, 'time')} each, in an order drawn at random.",
        answer(confirmation.sentences(found)),
    )  # fmt: skip
    confirmation.put(page, found)
