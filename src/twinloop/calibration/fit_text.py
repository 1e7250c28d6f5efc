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
    return join_lines(_list_lines(fit))


def format_markdown(fit: Fit) -> str:
    """Format a calibration as a Markdown document, with every figure and every setting."""
    return "\n".join(_list_document(fit)) + "\n"


# --- terminal ------------------------------------------------------------------------------------


def _list_lines(fit: Fit) -> Iterator[str]:
    if provenance := _describe_provenance(fit):
        yield provenance
    yield _describe_search(fit)
    if fit.validation_loss is not None:
        yield f"on runs that were held out: {fit.validation_loss:.4g}"
    if fit.floor is not None:
        yield f"between repetitions of the real runs (noise floor): {fit.floor:.4g}"
        if explanation := explain_loss_below_floor(fit.loss, fit.floor):
            yield explanation
    yield ""
    rows = [row[:5] for row in _list_values(fit)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    for title, lines in _list_sections(fit):
        yield ""
        yield title
        yield from (f"  {line}" for line in lines)
    if fit.after:
        yield ""
        yield "verdicts before and after"
        before = dict(fit.before)
        for name, verdict in fit.after:
            yield f"  {name}: {_format_status(before.get(name))} -> {verdict.status}"


# --- document ------------------------------------------------------------------------------------


def _list_document(fit: Fit) -> Iterator[str]:
    yield "# Calibration"
    for paragraph in (_describe_provenance(fit), _describe_search(fit)):
        if paragraph:
            yield f"\n{paragraph}"
    yield from _make_section("Values", _format_table(_list_values(fit)))
    for title, lines in _list_sections(fit):
        yield from _make_section(title.capitalize(), _format_bullets(lines))
    yield from _make_section(f"Loss: {fit.loss_name}", _format_table(_list_losses(fit)))
    if explanation := explain_loss_below_floor(fit.loss, fit.floor):
        yield f"\n{explanation[:1].upper()}{explanation[1:]}."
    if fit.after:
        overall, single = _list_verdicts(fit)
        yield from _make_section("Verdicts before and after", _format_table(overall))
        yield ""
        yield from _format_table(single)
        criteria = fit.after[0][1]
        yield from _make_section(
            "Criteria", [criteria.criteria_summary[:1].upper() + criteria.criteria_summary[1:]]
        )
        yield from ("", "```yaml", criteria.criteria.to_commented_yaml().rstrip(), "```")
    yield from _make_section("Data", _format_table(_list_runs(fit)))
    yield from _make_section("Settings", _format_table(_list_settings(fit)))


def _make_section(title: str, lines: Iterator[str] | Sequence[str]) -> Iterator[str]:
    yield from ("", f"## {title}", "")
    yield from lines


def _format_table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    head, *rest = rows
    for row in (head, ["---"] * len(head), *rest):
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"


def _format_bullets(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield f"{' ' * (len(line) - len(line.lstrip()))}- {line.strip()}"


# --- parts of both -------------------------------------------------------------------------------


def _describe_provenance(fit: Fit) -> str:
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


def _describe_search(fit: Fit) -> str:
    failed = f", of which {fit.failed:,} failed" if fit.failed else ""
    return (
        f"{fit.loss_name} loss ({fit.aggregation}): {_format(fit.loss_before)} before, "
        f"{_format(fit.loss)} after {fit.evaluations:,} evaluations of {fit.optimiser}{failed}"
    )


def _list_values(fit: Fit) -> list[list[str]]:
    rows = [["value", "before", "fitted", "acceptable", "identifiable", "why"]]
    analysed: dict[str, dict[str, Any]] = {}
    if fit.identifiability is not None:
        analysed = {row["parameter"]: row for row in fit.identifiability.table.to_dicts()}
    for name, value in fit.values.items():
        row = analysed.get(name, {})
        low, high = row.get("low"), row.get("high")
        interval = ", ".join(row.get("levels") or ())
        if row and not interval:
            ends = ["unknown" if end is None else _format(end) for end in (low, high)]
            interval = "unknown" if low is None and high is None else " .. ".join(ends)
        identifiable = {True: "yes", False: "NO", None: "unknown" if row else ""}[
            row.get("identifiable")
        ]
        why = row.get("why") or ""
        rows.append(
            [name, _format(fit.defaults.get(name)), _format(value), interval, identifiable, why]
        )
    return rows


def _list_sections(fit: Fit) -> Iterator[tuple[str, Sequence[str]]]:
    for title, lines in (
        ("identifiability", fit.identifiability.sentences if fit.identifiability else ()),
        ("changed values and their reasons", fit.recipe),
        ("warnings", fit.warnings),
    ):
        if lines:
            yield title, lines


def _list_losses(fit: Fit) -> list[list[str]]:
    rows = [
        ["values and runs", "loss"],
        ["the values before, on the runs that were fitted", _format(fit.loss_before)],
        ["the fitted values, on the runs that were fitted", _format(fit.loss)],
    ]
    if fit.validation_loss is not None:
        rows.append(["the fitted values, on runs that were held out", _format(fit.validation_loss)])
    if fit.floor is not None:
        rows.append(["one real run against its repetitions (floor)", _format(fit.floor)])
    return rows


def _list_verdicts(fit: Fit) -> tuple[list[list[str]], list[list[str]]]:
    """Return the table of verdicts by run and the table of their criteria."""
    before = dict(fit.before)
    overall = [["run", "before", "after"]]
    columns = ["run", "criterion", "threshold", "floor", "figure before", "figure after"]
    single = [[*columns, "before", "after"]]
    for name, verdict in fit.after:
        old_verdict = before.get(name)
        overall.append([name, _format_status(old_verdict), verdict.status])
        old_findings = (
            {}
            if old_verdict is None
            else {(each.metric, each.name): each for each in old_verdict.findings}
        )
        for new in verdict.findings:
            old = old_findings.get((new.metric, new.name))
            single.append(
                [
                    name,
                    f"{new.metric}, {new.name}",
                    new.threshold,
                    format_figure(new.floor, new.unit),
                    "-" if old is None else old.figure_text,
                    new.figure_text,
                    "-" if old is None else old.status,
                    new.status,
                ]
            )
    return overall, single


def _list_runs(fit: Fit) -> list[list[str]]:
    if any("truth" in run for run in fit.runs):
        columns = ("name", "used", "case", "truth")
        return [["experiment", "used for", "input", "measured"]] + [
            [
                _format_json(run.get(key, {})) if key in columns[2:] else str(run[key])
                for key in columns
            ]
            for run in fit.runs
        ]
    rows = [["run", "used for", "mode", "tasks", "SHA-256 of its manifest"]]
    for run in fit.runs:
        keys = ("name", "used", "mode", "tasks", "manifest_sha256")
        rows.append([str(run.get(key, "-")) for key in keys])
    return rows


def _list_settings(fit: Fit) -> list[list[str]]:
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
        rows.append([f"range of {name}", _format_json(given)])
    if "simulator" in settings:
        rows.append(["simulator", f"`{settings['simulator']}`"])
    return rows


def _format_json(value: Any) -> str:
    return f"`{json.dumps(value, default=str)}`"


def _format_status(verdict: Verdict | None) -> str:
    return "-" if verdict is None else verdict.status


def _format(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:.4g}"
