"""The quality gate: rules that a trace must satisfy, their audit, and repairs."""

from twinloop.trace.quality.audit import Audit, QualityError, RuleExample, RuleFinding
from twinloop.trace.quality.gate import check
from twinloop.trace.quality.repairs import repair
from twinloop.trace.quality.rule import Rule
from twinloop.trace.quality.rules import RULES
from twinloop.trace.quality.source_positions import SourcePosition, locate_row

__all__ = [
    "RULES",
    "Audit",
    "QualityError",
    "Rule",
    "RuleExample",
    "RuleFinding",
    "SourcePosition",
    "check",
    "locate_row",
    "repair",
]
