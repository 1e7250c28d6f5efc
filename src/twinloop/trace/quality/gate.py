"""The quality gate: application of every rule to a trace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from twinloop.description.cleaning import EXAMPLES
from twinloop.trace.quality.audit import Audit, RuleExample, RuleFinding
from twinloop.trace.quality.prepared_tables import PreparedTables
from twinloop.trace.quality.rule import Rule, Violations
from twinloop.trace.quality.rules import RULES
from twinloop.trace.quality.source_positions import SourcePosition, locate_row
from twinloop.trace.trace import Trace, require_trace


def check(trace: Trace) -> Audit:
    """Check a trace against every rule of the quality gate.

    Errors close the gate; warnings are only reported. Rules about data that the trace does not
    have (samples, nodes...) do not apply.

    >>> import polars as pl
    >>> tasks = pl.DataFrame({"id": ["a"], "submit": [5.0]})
    >>> placements = pl.DataFrame({"task": ["a"], "start": [4.0], "end": [9.0]})
    >>> audit = check(Trace(tasks=tasks, placements=placements))
    >>> audit.ok, [str(example) for example in audit["lifecycle-order"].examples]
    (False, ["placements row 1: task 'a' starts at 4 s, but is submitted at 5 s"])
    """
    prepared = PreparedTables(require_trace(trace))
    findings = tuple(_apply_rule(rule, prepared) for rule in RULES)
    return Audit(findings, trace.tasks.height, trace.manifest)


def _apply_rule(rule: Rule, prepared: PreparedTables) -> RuleFinding:
    results = list(rule.check(prepared))
    examples = [example for broken in results for example in _list_examples(prepared.trace, broken)]
    return RuleFinding(
        rule.name,
        rule.code,
        rule.severity,
        rule.law,
        rule.fix,
        applies=bool(results),
        rows=sum(broken.checked for broken in results),
        broken=sum(
            broken.rows.height + sum(note.count for note in broken.notes) for broken in results
        ),
        examples=tuple(examples[:EXAMPLES]),
    )


def _list_examples(trace: Trace, broken: Violations) -> Iterator[RuleExample]:
    table = getattr(trace, broken.table)
    for violation in broken.rows.bottom_k(EXAMPLES, by="row").sort("row").iter_rows(named=True):
        row = violation["row"]
        own = table.row(row, named=True) if row < table.height else {}
        values = {name: _format_value(value) for name, value in (own | violation).items()}
        message = violation.get("message", broken.message)
        yield RuleExample(locate_row(trace, broken.table, row), message.format_map(values))
    for note in broken.notes:
        for where in note.examples:
            yield RuleExample(SourcePosition.from_text(where), note.what)


def _format_value(value: Any) -> str:
    """Format a value for a message: at most three decimals, whole numbers without any.

    >>> _format_value(2.0), _format_value(0.12345), _format_value(None)
    ('2', '0.123', 'unknown')
    """
    if value is None:
        return "unknown"
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".") if abs(value) < 1e15 else str(value)
    return str(value)
