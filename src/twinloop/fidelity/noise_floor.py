"""The noise floor: what repetitions of the real run score beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path

import numpy as np

from twinloop.description.errors import InputError
from twinloop.fidelity.alignment import Alignment, digest_trace
from twinloop.fidelity.compared_run import ComparedRun
from twinloop.fidelity.criteria import Criteria
from twinloop.fidelity.errors import Errors, compute_relative_errors
from twinloop.fidelity.finding_list import collect_findings
from twinloop.fidelity.verdict import Finding, Status
from twinloop.trace.trace import Trace, format_count

#: Of which metric, called what, in which unit: a makespan in s and one in percent do not mix.
FindingKey = tuple[str, str, str]


@dataclass(frozen=True, slots=True, repr=False)
class NoiseFloor:
    """What a perfect simulator would score: each real run as the twin of each other one.

    Worked out once for all repetitions of a scenario, for the verdicts on the twins of all of
    them: `assess(real, twin, floor=floor)`.

    >>> import polars as pl
    >>> def queue(length):
    ...     ids, ends = [str(n) for n in range(5)], [length * n for n in range(1, 6)]
    ...     return Trace(
    ...         tasks=pl.DataFrame({"id": ids, "submit": [0.0] * 5, "status": ["completed"] * 5}),
    ...         placements=pl.DataFrame({"task": ids, "start": [0.0] * 5, "end": ends}),
    ...     )
    >>> from twinloop.fidelity import assess
    >>> runs = [queue(10.0), queue(10.5), queue(11.5)]
    >>> floor = NoiseFloor.from_traces(runs)
    >>> [assess(real, queue(10.2), floor=floor)["makespan"].floor for real in runs]
    [5.0, 5.0, 5.0]
    """

    criteria: Criteria
    runs: tuple[ComparedRun, ...]
    digests: tuple[str, ...]
    scores: dict[FindingKey, list[tuple[float | None, Status]]]
    relative: list[dict[str, float]]

    @classmethod
    def from_traces(
        cls, traces: Sequence[Trace], criteria: Criteria | str | Path | None = None
    ) -> NoiseFloor:
        """The floor of these repetitions by these criteria; of a single run there is none."""
        sides = [ComparedRun(trace, f"run {n}") for n, trace in enumerate(traces, start=1)]
        return cls.from_runs(sides, Criteria.resolve(criteria))

    @classmethod
    def from_runs(cls, runs: Sequence[ComparedRun], criteria: Criteria) -> NoiseFloor:
        """The same of runs that have a name."""
        digests = _check_distinct(runs)
        scores: dict[FindingKey, list[tuple[float | None, Status]]] = {}
        relative = []
        for one, other in permutations(runs, 2):
            as_twin = other.as_twin_of(one)
            for found in collect_findings(one, as_twin, criteria, Alignment(), unrelated=False):
                if found.status != "not assessable":
                    scores.setdefault(_key(found), []).append((found.figure, found.status))
            relative.append(compute_relative_errors(one, as_twin, criteria.power.step))
        return cls(criteria, tuple(runs), digests, scores, relative)

    def others(self, real: str) -> list[ComparedRun]:
        """The runs beside the one of this digest, which must be there."""
        if real not in self.digests:
            raise InputError(
                "is of other runs than the real one",
                field="floor",
                remedy="Floor.of all repetitions of the scenario, the real run among them",
            )
        return [run for run, known in zip(self.runs, self.digests, strict=True) if known != real]

    def annotate_finding(self, found: Finding) -> Finding:
        """A finding with what the repetitions score."""
        scores = self.scores.get(_key(found), [])
        known = [figure for figure, _ in scores if figure is not None]
        note = found.note
        fail = sum(status == "FAIL" for _, status in scores)
        if found.status != "not assessable" and 2 * fail > len(scores):
            said = "repetitions of the real run fail this too"
            note = f"{note}; {said}" if note else said
        return replace(found, floor=float(np.median(known)) if known else None, note=note)

    def annotate_errors(self, errors: Errors) -> Errors:
        """Errors with what they come to between the repetitions."""
        return errors.with_floor(self.relative)

    def __repr__(self) -> str:
        return f"<noise floor of {format_count(len(self.runs), 'run')}>"


def _key(found: Finding) -> FindingKey:
    return found.metric, found.name, found.unit


def _check_distinct(runs: Sequence[ComparedRun]) -> tuple[str, ...]:
    """The digest of each run; one that is there twice is an error."""
    seen: dict[str, str] = {}
    for run in runs:
        copy = seen.setdefault(digest_trace(run.trace), run.label)
        if copy != run.label:
            raise InputError(
                f"{run.label} is {copy} once more",
                field="repeats",
                remedy="other real runs of the same scenario",
            )
    return tuple(seen)
