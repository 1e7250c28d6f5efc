"""The quality gate: every rule held against a trace."""

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
    """Hold a trace against every rule of the quality gate.

    Errors stop a simulation; warnings are counted and shown. Rules that speak of something that
    the trace does not have (samples, nodes...) do not apply.

    >>> import polars as pl
    >>> tasks = pl.DataFrame({"id": ["a"], "submit": [5.0]})
    >>> placements = pl.DataFrame({"task": ["a"], "start": [4.0], "end": [9.0]})
    >>> audit = check(Trace(tasks=tasks, placements=placements))
    >>> audit.ok, [str(example) for example in audit["lifecycle-order"].examples]
    (False, ["placements row 1: task 'a' starts at 4 s, but is submitted at 5 s"])
    """
    facts = PreparedTables(require_trace(trace))
    findings = tuple(_held_against(rule, facts) for rule in RULES)
    return Audit(findings, trace.tasks.height, trace.manifest)


def _held_against(rule: Rule, facts: PreparedTables) -> RuleFinding:
    results = list(rule.check(facts))
    examples = [example for broken in results for example in _examples(facts.trace, broken)]
    return RuleFinding(
        rule.name,
        rule.severity,
        rule.law,
        rule.fix,
        applies=bool(results),
        rows=sum(broken.looked_at for broken in results),
        broken=sum(
            broken.rows.height + sum(note.count for note in broken.noted) for broken in results
        ),
        examples=tuple(examples[:EXAMPLES]),
    )


def _examples(trace: Trace, broken: Violations) -> Iterator[RuleExample]:
    table = getattr(trace, broken.table)
    for found in broken.rows.bottom_k(EXAMPLES, by="row").sort("row").iter_rows(named=True):
        row = found["row"]
        own = table.row(row, named=True) if row < table.height else {}
        values = {name: shown(value) for name, value in (own | found).items()}
        says = found.get("says", broken.says)
        yield RuleExample(locate_row(trace, broken.table, row), says.format_map(values))
    for note in broken.noted:
        for where in note.examples:
            yield RuleExample(SourcePosition.named(where), note.what)


def shown(value: Any) -> str:
    """A value as it stands in a sentence: three decimals at most, whole numbers without any.

    >>> shown(2.0), shown(0.12345), shown(None)
    ('2', '0.123', 'unknown')
    """
    if value is None:
        return "unknown"
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".") if abs(value) < 1e15 else str(value)
    return str(value)
