"""The audit: the findings of the quality gate in a trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from twinloop.description.codes import Severity
from twinloop.description.errors import InputError
from twinloop.description.safe_text import escape_name
from twinloop.trace.manifest import Manifest
from twinloop.trace.quality.audit_page import format_audit
from twinloop.trace.quality.source_positions import SourcePosition
from twinloop.trace.trace import format_count


@dataclass(frozen=True, slots=True)
class RuleExample:
    """A row that breaks a rule: its position and a message."""

    place: SourcePosition
    text: str

    def __str__(self) -> str:
        return escape_name(f"{self.place}: {self.text}")


@dataclass(frozen=True, slots=True)
class RuleFinding:
    """The result of one rule: the number of rows checked, of rows that break it, and examples.

    A rule that does not apply has checked no rows: the trace has none that it concerns.
    """

    rule: str
    code: str
    severity: Severity
    law: str
    fix: str
    applies: bool
    rows: int
    broken: int
    examples: tuple[RuleExample, ...] = ()


class QualityError(InputError):
    """A trace breaks rules that a simulation relies on; `audit` has all of them."""

    def __init__(self, audit: Audit) -> None:
        self.audit = audit
        worst = sorted(audit.errors, key=lambda finding: -finding.broken)
        rules = [f"{finding.rule} ({finding.broken:,})" for finding in worst[:3]]
        if len(worst) > 3:
            rules.append(f"and {len(worst) - 3} more")
        first = next((finding.examples[0] for finding in worst if finding.examples), None)
        super().__init__(
            f"the trace breaks {', '.join(rules)}" + (f"; {first}" if first is not None else ""),
            kind="quality-gate",
            file=None if first is None else first.place.file,
            line=None if first is None else first.place.line,
            remedy="the audit lists all; repair(trace) fixes some of them"
            if any(finding.fix for finding in worst)
            else "the audit lists all",
        )

    def __str__(self) -> str:
        # The problem contains the position of its example, and concerns several positions.
        return f"{escape_name(f'{self.problem} ({self.remedy})')} [{self.code}]"

    def __reduce__(self) -> Any:
        return type(self), (self.audit,)


@dataclass(frozen=True, slots=True, repr=False)
class Audit:
    """The findings of the quality gate: the result of every rule.

    >>> import polars as pl
    >>> from twinloop.trace import Trace
    >>> from twinloop.trace.quality import check
    >>> check(Trace(tasks=pl.DataFrame({"id": ["a", "a"], "submit": [0.0, None],
    ...                                 "run_time": [1.0, 1.0]})))
    <Audit of 2 tasks: 2 errors, 0 warnings
      error    complete      1 of 2  tasks row 2: has no submit
      error    unique-names  1 of 2  tasks row 2: id 'a' repeats an earlier row>
    """

    findings: tuple[RuleFinding, ...]
    tasks: int
    manifest: Manifest

    @property
    def errors(self) -> tuple[RuleFinding, ...]:
        """The broken rules that close the gate."""
        return self._select_broken("error")

    @property
    def warnings(self) -> tuple[RuleFinding, ...]:
        """The broken rules that leave the gate open."""
        return self._select_broken("warning")

    @property
    def ok(self) -> bool:
        """Whether the gate is open: no rule with severity error is broken."""
        return not self.errors

    def __getitem__(self, rule: str) -> RuleFinding:
        """Return the finding of one rule.

        >>> from twinloop.trace import Trace
        >>> from twinloop.trace.quality import check
        >>> check(Trace())["has-tasks"].broken
        1
        """
        for finding in self.findings:
            if finding.rule == rule:
                return finding
        known = ", ".join(finding.rule for finding in self.findings)
        raise InputError(
            f"no rule is called '{rule}'", kind="unknown-name", remedy=f"one of: {known}"
        )

    def raise_for_errors(self) -> None:
        """Raise a QualityError if there is any error.

        >>> from twinloop.trace import Trace
        >>> from twinloop.trace.quality import check
        >>> check(Trace()).raise_for_errors()
        Traceback (most recent call last):
        twinloop.trace.quality.audit.QualityError: the trace breaks has-tasks (1); ...
        """
        if not self.ok:
            raise QualityError(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the audit as plain data, as `twinloop check --json` prints it."""
        source = self.manifest.source
        return {
            "ok": self.ok,
            "tasks": self.tasks,
            "errors": len(self.errors),
            "warnings": len(self.warnings),
            "rules": [_finding_to_dict(finding) for finding in self.findings],
            "source": None if source is None else source.model_dump(mode="json"),
            "cleaned": [note.model_dump(mode="json") for note in self.manifest.cleaned],
            "edits": [step.model_dump(mode="json") for step in self.manifest.edits],
        }

    def to_markdown(self) -> str:
        """Return the audit as a page: result, source, rules, examples, data cleaning, edits."""
        return format_audit(self)

    def _select_broken(self, severity: Severity) -> tuple[RuleFinding, ...]:
        return tuple(f for f in self.findings if f.broken and f.severity == severity)

    def __repr__(self) -> str:
        broken = (*self.errors, *self.warnings)
        head = (
            f"{format_count(self.tasks, 'task')}: {format_count(len(self.errors), 'error')}, "
            + format_count(len(self.warnings), "warning")
        )
        width = max((len(f.rule) for f in broken), default=0)
        shares = [f"{f.broken:,} of {f.rows:,}" for f in broken]
        share_width = max(map(len, shares), default=0)
        lines = [
            f"  {f.severity:<7}  {f.rule:<{width}}  {share:>{share_width}}  "
            + str(f.examples[0] if f.examples else "")
            for f, share in zip(broken, shares, strict=True)
        ]
        text = "\n".join([head, *lines])
        return f"<Audit of {text}>"


def _finding_to_dict(finding: RuleFinding) -> dict[str, Any]:
    return {
        "name": finding.rule,
        "code": finding.code,
        "severity": finding.severity,
        "law": finding.law,
        "applies": finding.applies,
        "rows": finding.rows,
        "broken": finding.broken,
        "fix": finding.fix or None,
        "examples": [
            {
                "place": str(example.place),
                "file": example.place.file,
                "line": example.place.line,
                "text": example.text,
            }
            for example in finding.examples
        ],
    }
