"""Agreement of the twin with the real runs of a loop: summary, verdicts by run, criteria."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from twinloop.report.pages.calibration import round_threshold
from twinloop.report.pages.fragments import (
    render_cards,
    render_note,
    render_paragraph,
    render_table,
)
from twinloop.report.pages.page import Page
from twinloop.report.quantity_text import format_count

if TYPE_CHECKING:
    from markupsafe import Markup

    from twinloop.fidelity.verdict import Verdict

#: The verb of each status in a sentence.
VERDICTS: Final = {
    "PASS": "passes",
    "FAIL": "fails",
    "not assessable": "cannot be assessed",
}
#: The heading of the columns of the run that the calibration does not use.
HOLD_OUT: Final = "hold-out"


def collect_statuses(fit: Any) -> dict[str, dict[str, str]]:
    """Collect the status of each run, `before` and `after` the calibration, and of `unseen` runs.

    The verdicts of the fit are used for a column that has no stored statuses.

    >>> from types import SimpleNamespace
    >>> collect_statuses(SimpleNamespace(statuses={"after": {"day": "PASS"}}))["after"]
    {'day': 'PASS'}
    """
    stored: Mapping[str, Mapping[str, str]] = getattr(fit, "statuses", {})
    statuses = {}
    for when in ("before", "after", "unseen"):
        assessed = {name: verdict.status for name, verdict in getattr(fit, when, ())}
        statuses[when] = dict(stored.get(when, {})) or assessed
    return statuses


def describe_agreement(before: Verdict, after: Verdict, unseen: Verdict | None, fit: Any) -> str:
    """Describe the verdicts before and after the calibration, on the real and the hold-out run.

    >>> from types import SimpleNamespace
    >>> from twinloop.fidelity import assess
    >>> from twinloop.trace import Trace
    >>> fit = SimpleNamespace(statuses={"after": {"day": "PASS", "probe": "FAIL"}})
    >>> describe_agreement(assess(Trace(), Trace()), assess(Trace(), Trace()), None, fit)
    'Before the calibration the twin ...; it passes on 1 of the 2 runs of the calibration. ...'
    """
    text = (
        f"Before the calibration the twin {VERDICTS[before.status]}; after the calibration it "
        f"{VERDICTS[after.status]} on the real run"
    )
    if unseen is not None:
        verb = VERDICTS[unseen.status]
        text += f", and {verb} on the hold-out run, which the calibration did not use"
    if fitted := list(collect_statuses(fit)["after"].values()):
        passed = fitted.count("PASS")
        runs = format_count(len(fitted), "run")
        text += f"; it passes on {passed} of the {runs} of the calibration"
    injected = ", ".join(after.injected) or "nothing"
    return f"{text}. Data injected from the real run: {injected}."


def render_verdicts(before: Verdict, after: Verdict, unseen: Verdict | None) -> Markup:
    """Render the statuses before and after the calibration side by side.

    >>> from twinloop.fidelity import assess
    >>> from twinloop.trace import Trace
    >>> verdict = assess(Trace(), Trace())
    >>> render_verdicts(verdict, verdict, None).count("not assessable")
    2
    """
    cards = [("before calibration", before.status), ("after calibration", after.status)]
    return render_cards(cards + ([] if unseen is None else [("hold-out run", unseen.status)]))


def add_runs(page: Page, fit: Any) -> None:
    """Add the verdicts of the training and the hold-out runs to a page.

    >>> from types import SimpleNamespace
    >>> page = Page("Mine")
    >>> statuses = {"after": {"day": "FAIL"}, "unseen": {"eve": "PASS"}}
    >>> add_runs(page, SimpleNamespace(statuses=statuses))
    >>> "<td>eve, held out</td><td>-</td>" in page.render()
    True
    """
    statuses = collect_statuses(fit)
    before, after, unseen = statuses["before"], statuses["after"], statuses["unseen"]
    rows = [
        (name, before.get(name, "-"), after.get(name, "-"))
        for name in dict.fromkeys((*before, *after))
        if name not in unseen
    ]
    rows += [
        (f"{name}, held out", before.get(name, "-"), status) for name, status in unseen.items()
    ]
    if not rows:
        return
    page.add_section(
        "Verdicts by run",
        render_paragraph(
            "One set of parameter values is fitted to all runs, so a single run can still fail."
        ),
        render_table(("run", "before", "after"), rows),
    )


def add_criteria(page: Page, before: Verdict, after: Verdict, unseen: Verdict | None) -> None:
    """Add the criteria of the real run and, if there is one, of the hold-out run to a page.

    >>> from twinloop.fidelity import assess
    >>> from twinloop.trace import Trace
    >>> page, bare = Page("Mine"), assess(Trace(), Trace())
    >>> add_criteria(page, bare, bare, bare)
    >>> "hold-out" in page.render(), bare.findings[0].note in page.render()
    (True, True)
    """
    sides = {"before": before, "after": after}
    if unseen is not None:
        sides[HOLD_OUT] = unseen
    findings = {
        name: {(each.metric, each.name): each for each in verdict.findings}
        for name, verdict in sides.items()
    }
    rows = []
    for key in dict.fromkeys(key for each in findings.values() for key in each):
        by_side = {name: each.get(key) for name, each in findings.items()}
        present = [each for each in by_side.values() if each is not None]
        reasons = [each.note for each in present if each.note and each.status == "not assessable"]
        rows.append([
            ", ".join(key), round_threshold(present[0].threshold),
            *("-" if each is None else each.figure_text for each in by_side.values()),
            *("-" if each is None else each.status for each in by_side.values()),
            reasons[-1] if reasons else "",
        ])  # fmt: skip
    figures = [f"figure, {name}" for name in sides]
    page.add_section(
        "Criteria",
        render_paragraph("One failing criterion makes the verdict FAIL."),
        render_table(["criterion", "threshold", *figures, *sides, "remark"], rows, numbers=figures),
    )
    if unseen is not None:
        page.add(
            render_note(f"before and after: the real run; {HOLD_OUT}: not used by the calibration")
        )
