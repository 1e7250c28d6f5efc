"""Noise floor: the scores of repetitions of the real run against each other."""

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

#: Metric, name and unit of a finding; the unit distinguishes a makespan in s from one in percent.
FindingKey = tuple[str, str, str]


@dataclass(frozen=True, slots=True, repr=False)
class NoiseFloor:
    """Scores of a perfect simulator: each real run assessed as the twin of each other one.

    Computed once for all repetitions of a scenario, and used for the verdicts on the twins of all
    of them: `assess(real, twin, floor=floor)`.

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
        """Compute the noise floor of repetitions; with a single run it has no scores."""
        sides = [ComparedRun(trace, f"run {n}") for n, trace in enumerate(traces, start=1)]
        return cls.from_runs(sides, Criteria.resolve(criteria))

    @classmethod
    def from_runs(cls, runs: Sequence[ComparedRun], criteria: Criteria) -> NoiseFloor:
        """Compute the noise floor of labelled runs."""
        digests = check_distinct(runs)
        scores: dict[FindingKey, list[tuple[float | None, Status]]] = {}
        relative = []
        for real, other in permutations(runs, 2):
            twin = other.as_twin_of(real)
            for finding in collect_findings(real, twin, criteria, Alignment(), unrelated=False):
                if finding.status != "not assessable":
                    key = _make_key(finding)
                    scores.setdefault(key, []).append((finding.figure, finding.status))
            relative.append(compute_relative_errors(real, twin, criteria.power.step))
        return cls(criteria, tuple(runs), digests, scores, relative)

    def others(self, real: str) -> list[ComparedRun]:
        """Return the runs other than the real run, which is given by its digest.

        Raises an InputError if the real run is not one of the runs.
        """
        if real not in self.digests:
            raise InputError(
                "does not contain the real run",
                kind="noise-floor-mismatch",
                field="floor",
                remedy="NoiseFloor.from_traces(runs) with all repetitions, including the real run",
            )
        return [run for run, digest in zip(self.runs, self.digests, strict=True) if digest != real]

    def annotate_finding(self, finding: Finding) -> Finding:
        """Return a finding with the median score of the repetitions as `floor`."""
        scores = self.scores.get(_make_key(finding), [])
        figures = [figure for figure, _ in scores if figure is not None]
        note = finding.note
        failed = sum(status == "FAIL" for _, status in scores)
        if finding.status != "not assessable" and 2 * failed > len(scores):
            text = "repetitions of the real run fail this too"
            note = f"{note}; {text}" if note else text
        return replace(finding, floor=float(np.median(figures)) if figures else None, note=note)

    def annotate_errors(self, errors: Errors) -> Errors:
        """Return errors with those between the repetitions as `floor`."""
        return errors.with_floor(self.relative)

    def __repr__(self) -> str:
        return f"<noise floor of {format_count(len(self.runs), 'run')}>"


def _make_key(finding: Finding) -> FindingKey:
    return finding.metric, finding.name, finding.unit


def check_distinct(runs: Sequence[ComparedRun]) -> tuple[str, ...]:
    """Return the digest of each run; raise an error for duplicate runs."""
    seen: dict[str, str] = {}
    for run in runs:
        original = seen.setdefault(digest_trace(run.trace), run.label)
        if original != run.label:
            raise InputError(
                f"{run.label} is identical to {original}",
                kind="repeated-run",
                field="repeats",
                remedy="give other real runs of the same scenario",
            )
    return tuple(seen)
