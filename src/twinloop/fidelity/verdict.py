"""What an assessment found: a Finding per criterion, and the Verdict on all of them.

The series behind the findings are Polars frames, in `Verdict.series` by these names, each with all
of its columns also where it has no row. The differences are twin minus real; `t` is in s since the
first submission of each run.

- `waits`: the distribution functions of the waits, a row per distinct wait of either side: `wait`
  (s), `real` and `twin` (share of the tasks that waited no longer), `residual`.
- `completions`: the completion curves, a row per bin: `t` (end of the bin), `real` and `twin`
  (tasks completed up to then), `lagged` (the twin's moved by the best lag), `residual` (twin -
  real, without the lag).
- `usage`: the pairs of each task on its own axis: `task`, `t` (s since the start of the task, begin
  of the window), `real` and `twin` (in the unit that the finding names: cores, or MHz).
- `power`: a row per second known on either side: `t` (begin), `real_w` and `twin_w` (W), `real`
  and `twin` (their z-scores), `residual` (of the z-scores); null where a side does not know.
- `segments`: a row per segment: `segment` (from 0), `start` (s), `lag` (s, above 0: the twin is
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
#: What each overall status ends a command with.
EXIT_CODES: Final[Mapping[Status, int]] = {"PASS": 0, "FAIL": 1, "not assessable": 3}


@dataclass(frozen=True, slots=True)
class Finding:
    """What one criterion says: its figure, its threshold, PASS, FAIL or not assessable.

    `unit` is "share" for figures that are said in percent, "s", or nothing; `bound` is the number
    in `threshold`. `figures` are those that belong beside: D, n, the two values... `floor` is what
    a repetition of the real run scores, `unaligned` the figure without k and time offset.

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
        """Whether there is too little behind it for it to say much."""
        return self.note.startswith("weak")

    @property
    def figure_text(self) -> str:
        """The figure as people say it."""
        return verdict_text.format_figure(self.figure, self.unit)

    def to_dict(self) -> dict[str, Any]:
        """All of it but the series, as plain data."""
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
    """How far a twin can be trusted: a finding per criterion, and the errors in figures.

    `mode` says whether the twin replays the real run or predicts it, and `injected` what was taken
    from the truth. `repeats` is how many repetitions of the real run the noise floor is from.
    Printing it gives a table; `series` is described in this module.

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
        """FAIL if any finding fails; PASS if those that can be assessed pass, and there are any."""
        return _together(self.findings)

    @property
    def exit_code(self) -> int:
        """0 for PASS, 1 for FAIL, 3 where there is too little to assess."""
        return EXIT_CODES[self.status]

    @property
    def metrics(self) -> dict[Metric, Status]:
        """The status of each metric: PASS when all of its findings that can be assessed pass."""
        return {
            metric: _together(found for found in self.findings if found.metric == metric)
            for metric in METRICS
        }

    @property
    def provenance(self) -> str:
        """Replay or predict, and what was taken from the truth."""
        if self.mode == "unknown":
            return "unknown mode: the twin does not say what was taken from the real run"
        taken = ", ".join(self.injected) or "nothing"
        return f"{self.mode}: {taken} taken from the real run"

    @property
    def criteria_summary(self) -> str:
        """Which criteria were used."""
        changed = self.criteria.changed_values
        where = "criteria: the defaults"
        if self.criteria.file is not None:
            digest = (self.criteria.sha256 or "")[:12]
            where = f"criteria: of {self.criteria.file} (sha256 {digest}...)"
        elif changed:
            where = "criteria: as given"
        if not changed:
            return where if self.criteria.file is None else f"{where}, all as the defaults"
        said = ", ".join(
            f"{path} {mine:g} (default {usual:g})" for path, (mine, usual) in changed.items()
        )
        return f"{where}, other than the defaults: {said}"

    @property
    def plot(self) -> Any:
        """Its pictures, as Plotly figures: `verdict.plot.waits()`; see `VerdictPlots`."""
        return load_component("verdict-plots")(self)

    def __getitem__(self, name: str) -> Finding:
        """The finding of this name, such as "p50"."""
        for found in self.findings:
            if found.name == name:
                return found
        known = ", ".join(found.name for found in self.findings)
        raise InputError(f"there is no finding '{name}'", remedy=known)

    def to_dict(self) -> dict[str, Any]:
        """All of it but the series, as plain data."""
        changed = self.criteria.changed_values
        return {
            "mode": self.mode,
            "injected": list(self.injected),
            "status": self.status,
            "metrics": dict(self.metrics),
            "findings": [found.to_dict() for found in self.findings],
            "errors": self.errors.to_dict(),
            "criteria": {
                "file": self.criteria.file,
                "sha256": self.criteria.sha256,
                "other_than_default": {path: mine for path, (mine, _) in changed.items()},
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
        """The verdict as a Markdown document, with methods, errors and all criteria."""
        return verdict_text.verdict_to_markdown(self)

    def __str__(self) -> str:
        return verdict_text.verdict_to_text(self)

    def __repr__(self) -> str:
        return verdict_text.verdict_to_text(self)

    def _repr_html_(self) -> str:
        return verdict_text.verdict_to_html(self)


def judge_figure(
    figure: float, limit: float, *, least: bool = False, strict: bool = False
) -> Status:
    """Does a figure keep its limit: at most that, or at `least` that? Rounding breaks none.

    With `strict` it must be below the limit, by more than rounding.

    >>> judge_figure(0.1 + 0.2, 0.3), judge_figure(0.8, 0.9, least=True)
    ('PASS', 'FAIL')
    >>> judge_figure(0.05, 0.05, strict=True)
    'FAIL'
    """
    slack = (-1e-9 if strict else 1e-9) * abs(limit)
    kept = figure >= limit - slack if least else figure <= limit + slack
    return "PASS" if kept else "FAIL"


def _together(findings: Iterable[Finding]) -> Status:
    statuses = {found.status for found in findings}
    if "FAIL" in statuses:
        return "FAIL"
    return "PASS" if "PASS" in statuses else "not assessable"
