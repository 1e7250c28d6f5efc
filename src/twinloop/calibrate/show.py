"""A Fit in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twinloop.calibrate.fit import Fit


def fit_text(fit: Fit) -> str:
    """What was fitted, how sure it is and what it changed, for the prompt."""
    return "\n".join(_lines(fit))


def _lines(fit: Fit) -> Iterator[str]:
    modes = sorted({str(run["mode"]) for run in fit.runs if "mode" in run})
    if modes:
        yield f"mode: {' and '.join(modes)}"
    yield (
        f"{fit.loss_name} loss ({fit.how}): {fit.loss_before:.4g} before, {fit.loss:.4g} after "
        f"{fit.evaluations:,} evaluations of {fit.optimiser}"
    )
    if fit.validation_loss is not None:
        yield f"on runs that were held out: {fit.validation_loss:.4g}"
    if fit.floor is not None:
        yield f"between repetitions of the real runs: {fit.floor:.4g}, nobody can do much better"
    yield ""
    yield from _table(fit)
    for title, lines in (
        ("what the data can tell", fit.identifiability.sentences if fit.identifiability else ()),
        ("what moved, and why", fit.recipe),
        ("warnings", fit.warnings),
    ):
        if lines:
            yield ""
            yield title
            yield from (f"  {line}" for line in lines)
    if fit.after:
        yield ""
        yield "verdicts before and after"
        before = dict(fit.before)
        for name, verdict in fit.after:
            old = before[name].status if name in before else "-"
            yield f"  {name}: {old} -> {verdict.status}"


def _table(fit: Fit) -> Iterator[str]:
    rows = [("value", "before", "fitted", "acceptable", "identifiable")]
    known: dict[str, dict[str, Any]] = {}
    if fit.identifiability is not None:
        known = {row["parameter"]: row for row in fit.identifiability.table.to_dicts()}
    for name, value in fit.values.items():
        told = known.get(name, {})
        low, high = told.get("low"), told.get("high")
        span = "" if low is None or high is None else f"{_said(low)} .. {_said(high)}"
        sure = {True: "yes", False: "NO", None: ""}[told.get("identifiable")]
        rows.append((name, _said(fit.defaults.get(name)), _said(value), span, sure))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _said(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, int | float) else str(value)
