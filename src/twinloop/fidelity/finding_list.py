"""All findings of an assessment, in the order of a verdict."""

from __future__ import annotations

from collections.abc import Iterator

from twinloop.fidelity.alignment import Alignment
from twinloop.fidelity.compared_run import ComparedRun
from twinloop.fidelity.completions import assess_completions
from twinloop.fidelity.cpu_usage import assess_usage
from twinloop.fidelity.criteria import Criteria
from twinloop.fidelity.power import assess_power
from twinloop.fidelity.verdict import Finding
from twinloop.fidelity.waits import assess_waits


def collect_findings(
    real: ComparedRun,
    twin: ComparedRun,
    criteria: Criteria,
    alignment: Alignment,
    *,
    unrelated: bool = True,
) -> Iterator[Finding]:
    """Collect the findings; `unrelated`: whether to score unrelated power series too.

    >>> from twinloop.trace import Trace
    >>> sides = ComparedRun(Trace(), "the real run"), ComparedRun(Trace(), "the twin")
    >>> {found.status for found in collect_findings(*sides, Criteria(), Alignment())}
    {'not assessable'}
    """
    yield from assess_waits(real, twin, criteria)
    yield from assess_completions(real, twin, criteria, alignment.offset)
    yield from assess_usage(real, twin, criteria, alignment.k)
    yield from assess_power(real, twin, criteria, alignment.offset, unrelated=unrelated)
