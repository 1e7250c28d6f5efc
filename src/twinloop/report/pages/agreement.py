"""How far twin and reality agree in a loop: in words, run by run, criterion by criterion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from twinloop.report.pages.calibration import round_threshold
from twinloop.report.pages.page import (
    Page,
    render_cards,
    render_note,
    render_paragraph,
    render_table,
)
from twinloop.report.quantity_text import format_count

if TYPE_CHECKING:
    from twinloop.fidelity.verdict import Verdict

#: What a status is in a sentence.
VERDICTS: Final = {
    "PASS": "passes",
    "FAIL": "fails",
    "not assessable": "cannot be assessed",
}
#: Above what belongs to a run that the fit has not seen.
NEW: Final = "on a new load"


def collect_statuses(fit: Any) -> dict[str, dict[str, str]]:
    """The status of each run that a calibration knows: `before` and `after` it, and `unseen`.

    >>> from types import SimpleNamespace
    >>> collect_statuses(SimpleNamespace(statuses={"after": {"day": "PASS"}}))["after"]
    {'day': 'PASS'}
    """
    kept: Mapping[str, Mapping[str, str]] = getattr(fit, "statuses", {})
    found = {}
    for when in ("before", "after", "unseen"):
        fresh = {name: verdict.status for name, verdict in getattr(fit, when, ())}
        found[when] = dict(kept.get(when, {})) or fresh
    return found


def describe_agreement(before: Verdict, after: Verdict, unseen: Verdict | None, fit: Any) -> str:
    """How far the twin can be trusted, and on how many of the runs that it was fitted to.

    >>> from types import SimpleNamespace
    >>> from twinloop.fidelity import assess
    >>> from twinloop.trace import Trace
    >>> fit = SimpleNamespace(statuses={"after": {"day": "PASS", "probe": "FAIL"}})
    >>> describe_agreement(assess(Trace(), Trace()), assess(Trace(), Trace()), None, fit)
    'As it comes the twin cannot ...; it passes on 1 of the 2 runs that it was fitted to. ...'
    """
    said = (
        f"As it comes the twin {VERDICTS[before.status]}; after the calibration it "
        f"{VERDICTS[after.status]} on the real run"
    )
    if unseen is not None:
        said += f", and {VERDICTS[unseen.status]} {NEW}, a run that it has not seen"
    if fitted := list(collect_statuses(fit)["after"].values()):
        passed = fitted.count("PASS")
        said += (
            f"; it passes on {passed} of the {format_count(len(fitted), 'run')} that it was "
            "fitted to"
        )
    taken = ", ".join(after.injected) or "nothing"
    return f"{said}. What it was given of the truth: {taken}."


def render_verdicts(before: Verdict, after: Verdict, unseen: Verdict | None) -> str:
    """The statuses side by side.

    >>> from twinloop.fidelity import assess
    >>> from twinloop.trace import Trace
    >>> verdict = assess(Trace(), Trace())
    >>> render_verdicts(verdict, verdict, None).count("not assessable")
    2
    """
    found = [("before calibration", before.status), ("after calibration", after.status)]
    return render_cards(found + ([] if unseen is None else [(NEW, unseen.status)]))


def add_runs(page: Page, fit: Any) -> None:
    """Put on a page how each run that the twin was fitted to, or tried on, came out.

    >>> from types import SimpleNamespace
    >>> page = Page("Mine")
    >>> statuses = {"after": {"day": "FAIL"}, "unseen": {"eve": "PASS"}}
    >>> add_runs(page, SimpleNamespace(statuses=statuses))
    >>> "<td>eve, held out</td><td>-</td>" in page.render()
    True
    """
    found = collect_statuses(fit)
    before, after, unseen = found["before"], found["after"], found["unseen"]
    rows = [
        (name, before.get(name, "-"), after.get(name, "-"))
        for name in dict.fromkeys((*before, *after))
        if name not in unseen
    ]
    rows += [(f"{name}, held out", before.get(name, "-"), said) for name, said in unseen.items()]
    if not rows:
        return
    page.add_section(
        "Run by run",
        render_paragraph(
            "The calibration moves the same values for all runs: it may leave some apart."
        ),
        render_table(("run", "before", "after"), rows),
    )


def add_criteria(page: Page, before: Verdict, after: Verdict, unseen: Verdict | None) -> None:
    """Put on a page what each criterion says of the real run, and of the new load if there is one.

    >>> from twinloop.fidelity import assess
    >>> from twinloop.trace import Trace
    >>> page, bare = Page("Mine"), assess(Trace(), Trace())
    >>> add_criteria(page, bare, bare, bare)
    >>> "figure on a new load" in page.render(), bare.findings[0].note in page.render()
    (True, True)
    """
    sides = {"before": before, "after": after}
    if unseen is not None:
        sides[NEW] = unseen
    found = {
        name: {(each.metric, each.name): each for each in verdict.findings}
        for name, verdict in sides.items()
    }
    rows = []
    for key in dict.fromkeys(key for each in found.values() for key in each):
        known = {name: each.get(key) for name, each in found.items()}
        there = [each for each in known.values() if each is not None]
        why = [each.note for each in there if each.note and each.status == "not assessable"]
        rows.append([
            ", ".join(key), round_threshold(there[0].threshold),
            *("-" if each is None else each.figure_text for each in known.values()),
            *("-" if each is None else each.status for each in known.values()),
            why[-1] if why else "",
        ])  # fmt: skip
    figures = [f"figure {name}" for name in sides]
    page.add_section(
        "Criterion by criterion",
        render_paragraph("One failing criterion makes the verdict FAIL."),
        render_table(["criterion", "threshold", *figures, *sides, "remark"], rows, numbers=figures),
    )
    if unseen is not None:
        page.add(
            render_note(f"before and after: the real run; {NEW}: a run that the fit has not seen")
        )
