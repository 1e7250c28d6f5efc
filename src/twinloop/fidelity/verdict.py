"""Result of an assessment: a Finding per criterion, and the Verdict on all of them.

`Verdict.series` holds the series of the findings as Polars frames by these names, with all columns
even if empty. Differences are twin minus real; `t` is in s since the first submission of each run.

- `waits`: the empirical distribution functions of the waits, a row per distinct wait: `wait` (s),
  `real` and `twin` (share of the tasks with at most this wait), `residual`.
- `completions`: the completion curves, a row per bin: `t` (end of the bin), `real` and `twin`
  (tasks completed up to then), `lagged` (the twin shifted by the best lag), `residual` (twin -
  real, without the lag).
- `usage`: the pairs of each task: `task`, `t` (begin of the window, s since the start of the task),
  `real` and `twin` (in the unit of the finding: cores, or MHz).
- `power`: a row per window known in either run: `t` (begin), `real_w` and `twin_w` (W), `real`
  and `twin` (their z-scores), `residual` (of the z-scores); null if unknown.
- `segments`: a row per segment: `segment` (from 0), `start` (s), `lag` (s, positive if the twin is
  late), `r`, `r_without_lag`, `status` ("used", "incomplete", "constant in the real run",
  "constant in the twin").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

import polars as pl

from twinloop.description.errors import InputError
from twinloop.description.plugins import load_component
from twinloop.fidelity import verdict_text
from twinloop.fidelity.criteria import Criteria

if TYPE_CHECKING:
    from twinloop.fidelity.alignment import Alignment
    from twinloop.fidelity.errors import Errors

Status = Literal["PASS", "FAIL", "not assessable"]
Metric = Literal["wait times", "completions", "cpu usage", "power"]
Mode = Literal["replay", "predict", "unknown"]

METRICS: Final[tuple[Metric, ...]] = ("wait times", "completions", "cpu usage", "power")
#: Exit code of a command by overall status.
EXIT_CODES: Final[Mapping[Status, int]] = {"PASS": 0, "FAIL": 1, "not assessable": 3}


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one criterion: figure, threshold, and PASS, FAIL or not assessable.

    `unit` is "share" for figures shown in percent, "s", or empty; `bound` is the number in
    `threshold`. `figures` are related figures, such as D, n and the values of both runs. `floor` is
    the median score of repetitions of the real run, and `unaligned` the figure without the
    alignment; None if there is none.

    >>> found = Finding("wait times", "p50", 0.07, bound=0.05, unit="share", status="FAIL",
    ...                 threshold="<= 5 %", method="error of the median wait")
    >>> print(found)
    wait times, p50: 7 % (<= 5 %): FAIL
    """

    metric: Metric
    name: str
    figure: float | None
    threshold: str
    status: Status
    method: str
    note: str = ""
    bound: float | None = None
    unit: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)
    series: pl.DataFrame = field(default_factory=pl.DataFrame, compare=False, repr=False)
    floor: float | None = None
    unaligned: float | None = None

    @property
    def is_weak(self) -> bool:
        """Whether the data are too few for a reliable finding: a part of the note says so."""
        return any(part.startswith("weak") for part in self.note.split("; "))

    @property
    def figure_text(self) -> str:
        """The figure as text, with its unit."""
        return verdict_text.format_figure(self.figure, self.unit)

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the series as plain data."""
        return {
            "metric": self.metric,
            "name": self.name,
            "figure": self.figure,
            "unit": self.unit,
            "threshold": self.threshold,
            "bound": self.bound,
            "status": self.status,
            "weak": self.is_weak,
            "floor": self.floor,
            "unaligned": self.unaligned,
            "figures": dict(self.figures),
            "method": self.method,
            "note": self.note,
        }

    def __str__(self) -> str:
        note = f" ({self.note})" if self.note else ""
        comparison = f"{self.figure_text} ({self.threshold})"
        return f"{self.metric}, {self.name}: {comparison}: {self.status}{note}"


@dataclass(frozen=True, slots=True, repr=False)
class Verdict:
    """Verdict on a twin: a finding per criterion, and the errors.

    `mode` is replay or predict, and `injected` lists the quantities taken from the real run.
    `repeats` is the number of repetitions in the noise floor. A verdict prints as a table. `series`
    is described in the docstring of this module.

    >>> from twinloop.fidelity import assess
    >>> from twinloop.trace import Trace
    >>> verdict = assess(Trace(), Trace())
    >>> verdict.status, verdict.exit_code
    ('not assessable', 3)
    """

    mode: Mode
    injected: tuple[str, ...]
    criteria: Criteria
    findings: tuple[Finding, ...]
    errors: Errors
    series: Mapping[str, pl.DataFrame]
    repeats: int = 0
    alignment: Alignment | None = None
    notes: tuple[str, ...] = ()

    @property
    def status(self) -> Status:
        """FAIL if any finding fails; PASS if all assessable findings pass and there are any."""
        return _combine_statuses(self.findings)

    @property
    def exit_code(self) -> int:
        """0 for PASS, 1 for FAIL, 3 for not assessable."""
        return EXIT_CODES[self.status]

    @property
    def metrics(self) -> dict[Metric, Status]:
        """The status of each metric: PASS if all its assessable findings pass."""
        return {
            metric: _combine_statuses(
                finding for finding in self.findings if finding.metric == metric
            )
            for metric in METRICS
        }

    @property
    def provenance(self) -> str:
        """Replay or predict, and the quantities taken from the real run."""
        if self.mode == "unknown":
            return (
                "unknown mode: the manifest of the twin does not list what was taken from the "
                "real run"
            )
        taken = ", ".join(self.injected) or "nothing"
        return f"{self.mode}: {taken} taken from the real run"

    @property
    def criteria_summary(self) -> str:
        """The origin of the criteria and their differences from the defaults."""
        changed = self.criteria.changed_values
        origin = "criteria: the defaults"
        if self.criteria.file is not None:
            digest = (self.criteria.sha256 or "")[:12]
            origin = f"criteria: of {self.criteria.file} (sha256 {digest}...)"
        elif changed:
            origin = "criteria: as given"
        if not changed:
            return origin if self.criteria.file is None else f"{origin}, all as the defaults"
        values = ", ".join(
            f"{path} {value:g} (default {default:g})" for path, (value, default) in changed.items()
        )
        return f"{origin}, other than the defaults: {values}"

    @property
    def plot(self) -> Any:
        """The plots as Plotly figures, such as `verdict.plot.waits()`; see `VerdictPlots`."""
        return load_component("verdict-plots")(self)

    def __getitem__(self, name: str) -> Finding:
        """Return the finding of this name, such as "p50"."""
        for finding in self.findings:
            if finding.name == name:
                return finding
        known = ", ".join(finding.name for finding in self.findings)
        raise InputError(
            f"there is no finding '{name}'", kind="unknown-name", remedy=f"one of: {known}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the series as plain data."""
        changed = self.criteria.changed_values
        return {
            "mode": self.mode,
            "injected": list(self.injected),
            "status": self.status,
            "metrics": dict(self.metrics),
            "findings": [finding.to_dict() for finding in self.findings],
            "errors": self.errors.to_dict(),
            "criteria": {
                "file": self.criteria.file,
                "sha256": self.criteria.sha256,
                "other_than_default": {path: value for path, (value, _) in changed.items()},
                "values": self.criteria.to_dict(complete=True),
            },
            "alignment": None
            if self.alignment is None
            else {
                "k": self.alignment.k,
                "offset_s": self.alignment.offset,
                "training_runs": len(self.alignment.training),
            },
            "repeats": self.repeats,
            "notes": list(self.notes),
        }

    def markdown(self) -> str:
        """Return the verdict as a Markdown document with methods, errors and all criteria."""
        return verdict_text.verdict_to_markdown(self)

    def __str__(self) -> str:
        return verdict_text.verdict_to_text(self)

    def __repr__(self) -> str:
        return verdict_text.verdict_to_text(self)

    def _repr_html_(self) -> str:
        return verdict_text.verdict_to_html(self)


def judge_figure(
    figure: float, limit: float, *, is_lower: bool = False, strict: bool = False
) -> Status:
    """Return PASS if a figure is at most its limit, or at least its limit if that `is_lower`.

    Rounding errors are tolerated. If `strict`, the figure must not be equal to the limit.

    >>> judge_figure(0.1 + 0.2, 0.3), judge_figure(0.8, 0.9, is_lower=True)
    ('PASS', 'FAIL')
    >>> judge_figure(0.05, 0.05, strict=True)
    'FAIL'
    """
    slack = (-1e-9 if strict else 1e-9) * abs(limit)
    passes = figure >= limit - slack if is_lower else figure <= limit + slack
    return "PASS" if passes else "FAIL"


def _combine_statuses(findings: Iterable[Finding]) -> Status:
    statuses = {finding.status for finding in findings}
    if "FAIL" in statuses:
        return "FAIL"
    return "PASS" if "PASS" in statuses else "not assessable"
