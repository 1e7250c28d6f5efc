"""Text and Markdown output of a calibration."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from twinloop.description.safe_text import join_lines
from twinloop.fidelity.verdict_text import format_figure

if TYPE_CHECKING:
    from twinloop.calibration.fit import Fit
    from twinloop.fidelity import Verdict


def format_fit(fit: Fit) -> str:
    """Format a calibration for the terminal: values, identifiability, changes and verdicts."""
    return join_lines(_lines(fit))


def format_markdown(fit: Fit) -> str:
    """Format a calibration as a Markdown document, with every figure and every setting."""
    return "\n".join(_document(fit)) + "\n"


# --- terminal ------------------------------------------------------------------------------------


def _lines(fit: Fit) -> Iterator[str]:
    if provenance := _provenance(fit):
        yield provenance
    yield _search(fit)
    if fit.validation_loss is not None:
        yield f"on runs that were held out: {fit.validation_loss:.4g}"
    if fit.floor is not None:
        yield f"between repetitions of the real runs (noise floor): {fit.floor:.4g}"
        if explanation := explain_loss_below_floor(fit.loss, fit.floor):
            yield explanation
    yield ""
    rows = [row[:5] for row in _values(fit)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    for title, lines in _sections(fit):
        yield ""
        yield title
        yield from (f"  {line}" for line in lines)
    if fit.after:
        yield ""
        yield "verdicts before and after"
        before = dict(fit.before)
        for name, verdict in fit.after:
            yield f"  {name}: {_status(before.get(name))} -> {verdict.status}"


# --- document ------------------------------------------------------------------------------------


def _document(fit: Fit) -> Iterator[str]:
    yield "# Calibration"
    for paragraph in (_provenance(fit), _search(fit)):
        if paragraph:
            yield f"\n{paragraph}"
    yield from _titled("Values", _table(_values(fit)))
    for title, lines in _sections(fit):
        yield from _titled(title.capitalize(), _bullets(lines))
    yield from _titled(f"Loss: {fit.loss_name}", _table(_losses(fit)))
    if explanation := explain_loss_below_floor(fit.loss, fit.floor):
        yield f"\n{explanation[:1].upper()}{explanation[1:]}."
    if fit.after:
        overall, single = _verdicts(fit)
        yield from _titled("Verdicts before and after", _table(overall))
        yield ""
        yield from _table(single)
        criteria = fit.after[0][1]
        yield from _titled(
            "Criteria", [criteria.criteria_summary[:1].upper() + criteria.criteria_summary[1:]]
        )
        yield from ("", "```yaml", criteria.criteria.to_commented_yaml().rstrip(), "```")
    yield from _titled("Data", _table(_runs(fit)))
    yield from _titled("Settings", _table(_made_with(fit)))


def _titled(title: str, lines: Iterator[str] | Sequence[str]) -> Iterator[str]:
    yield from ("", f"## {title}", "")
    yield from lines


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    head, *rest = rows
    for row in (head, ["---"] * len(head), *rest):
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"


def _bullets(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield f"{' ' * (len(line) - len(line.lstrip()))}- {line.strip()}"


# --- parts of both -------------------------------------------------------------------------------


def _provenance(fit: Fit) -> str:
    """State the mode and the figures taken from the real runs; empty for a black box."""
    modes = {
        str(run["mode"]): ", ".join(run.get("injected", ())) or "nothing"
        for run in fit.runs
        if "mode" in run
    }
    return "; ".join(f"{mode}: {taken} taken from the real runs" for mode, taken in modes.items())


def explain_loss_below_floor(loss: float, floor: float | None) -> str:
    """Explain a loss below the noise floor; an empty text if it is not below.

    >>> explain_loss_below_floor(0.2, 0.1), explain_loss_below_floor(0.2, None)
    ('', '')
    >>> print(explain_loss_below_floor(0.1, 0.2))
    the fit is closer to these runs than they are to each other: a smaller loss would follow their
    noise, and these runs do not determine more parameters
    """
    if floor is None or not loss < floor:
        return ""
    return (
        "the fit is closer to these runs than they are to each other: a smaller loss would follow "
        "their noise, and these runs do not determine more parameters"
    )


def _search(fit: Fit) -> str:
    failed = f", of which {fit.failed:,} failed" if fit.failed else ""
    return (
        f"{fit.loss_name} loss ({fit.aggregation}): {_format(fit.loss_before)} before, "
        f"{_format(fit.loss)} after {fit.evaluations:,} evaluations of {fit.optimiser}{failed}"
    )


def _values(fit: Fit) -> list[list[str]]:
    rows = [["value", "before", "fitted", "acceptable", "identifiable", "why"]]
    known: dict[str, dict[str, Any]] = {}
    if fit.identifiability is not None:
        known = {row["parameter"]: row for row in fit.identifiability.table.to_dicts()}
    for name, value in fit.values.items():
        row = known.get(name, {})
        low, high = row.get("low"), row.get("high")
        span = ", ".join(row.get("levels") or ())
        if row and not span:
            ends = ["unknown" if end is None else _format(end) for end in (low, high)]
            span = "unknown" if low is None and high is None else " .. ".join(ends)
        sure = {True: "yes", False: "NO", None: "unknown" if row else ""}[row.get("identifiable")]
        why = row.get("why") or ""
        rows.append([name, _format(fit.defaults.get(name)), _format(value), span, sure, why])
    return rows


def _sections(fit: Fit) -> Iterator[tuple[str, Sequence[str]]]:
    for title, lines in (
        ("identifiability", fit.identifiability.sentences if fit.identifiability else ()),
        ("changed values and their reasons", fit.recipe),
        ("warnings", fit.warnings),
    ):
        if lines:
            yield title, lines


def _losses(fit: Fit) -> list[list[str]]:
    rows = [
        ["of", "loss"],
        ["the values before, on the runs that were fitted", _format(fit.loss_before)],
        ["the fitted values, on the runs that were fitted", _format(fit.loss)],
    ]
    if fit.validation_loss is not None:
        rows.append(["the fitted values, on runs that were held out", _format(fit.validation_loss)])
    if fit.floor is not None:
        rows.append(["one real run against its repetitions (floor)", _format(fit.floor)])
    return rows


def _verdicts(fit: Fit) -> tuple[list[list[str]], list[list[str]]]:
    """Return the table of verdicts by run and the table of their criteria."""
    before = dict(fit.before)
    overall = [["run", "before", "after"]]
    columns = ["run", "criterion", "threshold", "floor", "figure before", "figure after"]
    single = [[*columns, "before", "after"]]
    for name, verdict in fit.after:
        was = before.get(name)
        overall.append([name, _status(was), verdict.status])
        old = {} if was is None else {(each.metric, each.name): each for each in was.findings}
        for now in verdict.findings:
            then = old.get((now.metric, now.name))
            single.append(
                [
                    name,
                    f"{now.metric}, {now.name}",
                    now.threshold,
                    format_figure(now.floor, now.unit),
                    "-" if then is None else then.figure_text,
                    now.figure_text,
                    "-" if then is None else then.status,
                    now.status,
                ]
            )
    return overall, single


def _runs(fit: Fit) -> list[list[str]]:
    if any("truth" in run for run in fit.runs):
        columns = ("name", "used", "case", "truth")
        return [["experiment", "used for", "input", "measured"]] + [
            [_json(run.get(key, {})) if key in columns[2:] else str(run[key]) for key in columns]
            for run in fit.runs
        ]
    rows = [["run", "used for", "mode", "tasks", "SHA-256 of its manifest"]]
    for run in fit.runs:
        keys = ("name", "used", "mode", "tasks", "manifest_sha256")
        rows.append([str(run.get(key, "-")) for key in keys])
    return rows


def _made_with(fit: Fit) -> list[list[str]]:
    settings = fit.settings
    budget = settings.get("budget", {})
    spent = f"{fit.evaluations:,} evaluations in {fit.seconds:.1f} s, {fit.failed:,} failed"
    rows = [
        ["setting", "value"],
        ["optimiser", f"{fit.optimiser} (requested: {settings.get('optimiser', '-')})"],
        ["budget", ", ".join(f"{v:g} {k}" for k, v in budget.items() if v is not None) or "-"],
        ["spent", spent],
        ["seed", str(fit.seed)],
        ["aggregation", fit.aggregation],
    ]
    for name, given in settings.get("parameters", {}).items():
        rows.append([f"range of {name}", _json(given)])
    if "simulator" in settings:
        rows.append(["simulator", f"`{settings['simulator']}`"])
    return rows


def _json(value: Any) -> str:
    return f"`{json.dumps(value, default=str)}`"


def _status(verdict: Verdict | None) -> str:
    return "-" if verdict is None else verdict.status


def _format(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:.4g}"
