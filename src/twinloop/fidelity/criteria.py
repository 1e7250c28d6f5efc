"""Criteria of an assessment: thresholds declared in advance."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import Field, PrivateAttr

from twinloop.description import Description
from twinloop.description.quantities import Count, NotNegative, Number, Seconds, Share, Whole
from twinloop.description.quantities import number_to_text as plain_number


class WaitCriteria(Description):
    """Criteria for the distribution of the waits.

    >>> WaitCriteria().p95
    0.1
    """

    ks_p: Share = Field(0.05, description="minimum p of the Kolmogorov-Smirnov test")
    ks_weak_below: Whole = Field(40, description="number of tasks below which the test is weak")
    ks_d: Share = Field(0.05, description="maximum D, where D decides")
    ks_d_above: Whole = Field(
        2000, description="number of tasks above which D decides instead of p"
    )
    p50: NotNegative = Field(0.05, description="maximum relative error of the median")
    p95: NotNegative = Field(0.10, description="maximum relative error of the 95th percentile")
    p99: NotNegative = Field(0.20, description="maximum relative error of the 99th percentile")
    absolute: Seconds = Field(
        0.01, description="absolute error of a percentile that always passes (s)"
    )
    latencies: NotNegative = Field(
        2.0, description="error in dispatch latencies that always passes"
    )
    least_tasks: Count = Field(
        4, description="minimum number of completed tasks: with fewer, KS cannot fail"
    )


class CompletionCriteria(Description):
    """Criteria for the completion curve.

    >>> CompletionCriteria(bin="5min").bin
    300.0
    """

    rmse: NotNegative = Field(0.03, description="maximum best-lag RMSE over the completed tasks")
    bin: Seconds = Field(60.0, gt=0, description="length of a bin (s)")
    least_bins: Count = Field(
        20, description="minimum number of bins; with fewer, bins are made shorter"
    )
    short_run_bins: Count = Field(50, description="number of bins of such a short run")
    lag_bins: Whole = Field(5, description="maximum lag between the curves, in bins")
    least_tasks: Count = Field(4, description="minimum number of completed tasks")


class MakespanCriteria(Description):
    """Criteria for the makespan.

    >>> MakespanCriteria().relative
    0.01
    """

    relative: NotNegative = Field(0.01, description="maximum relative error of a long run")
    absolute: Seconds = Field(6.0, description="maximum error of a short run (s)")
    short_below: Seconds = Field(600.0, description="length below which a run is short (s)")
    very_short_below: Seconds = Field(
        120.0, description="length below which a stricter rule also applies (s)"
    )
    very_short_relative: NotNegative = Field(
        0.05, description="maximum relative error of the stricter rule, if less than `absolute`"
    )


class UsageCriteria(Description):
    """Criteria for the CPU usage of the tasks.

    >>> UsageCriteria().pearson
    0.95
    """

    pearson: Number = Field(0.95, ge=-1, le=1, description="minimum correlation")
    variation: NotNegative = Field(
        0.05, description="minimum coefficient of variation of the real usage for a correlation"
    )
    smape: NotNegative = Field(0.05, description="maximum symmetric mean absolute error")
    rmse: NotNegative = Field(0.10, description="maximum RMSE over the median real usage")
    step: Seconds = Field(1.0, gt=0, description="length of the windows compared (s)")
    least_pairs: Count = Field(10, description="minimum number of pairs")


class PowerCriteria(Description):
    """Criteria for the trend of the total power.

    >>> PowerCriteria().segment
    300.0
    """

    correlation: Number = Field(
        0.90, ge=-1, le=1, description="minimum mean best-lag correlation of the segments"
    )
    watts: NotNegative = Field(
        0.0,
        description="maximum mean absolute relative error of the power in W; 0: only the trend "
        "is assessed",
    )
    segment: Seconds = Field(300.0, gt=0, description="length of a segment (s)")
    lag: Seconds = Field(600.0, description="maximum lag of a segment (s)")
    least_segments: Count = Field(3, description="minimum number of segments")
    step: Seconds = Field(1.0, gt=0, description="length of the windows compared (s)")
    surrogates: Whole = Field(
        20, description="number of unrelated surrogate series that are scored"
    )
    seed: Whole = Field(0, description="seed of the surrogate series")


class Criteria(Description):
    """All thresholds and conditions of an assessment.

    >>> Criteria(waits={"p50": 0.02}).changed_values
    {'waits.p50': (0.02, 0.05)}
    >>> Criteria.from_text("waits: {p51: 0.1}")
    Traceback (most recent call last):
    twinloop.description.DescriptionError: ...p51...
    """

    waits: WaitCriteria = Field(default_factory=WaitCriteria, description="waits of the tasks")
    completions: CompletionCriteria = Field(
        default_factory=CompletionCriteria, description="completed tasks over time"
    )
    makespan: MakespanCriteria = Field(
        default_factory=MakespanCriteria, description="first submission to last end"
    )
    usage: UsageCriteria = Field(
        default_factory=UsageCriteria, description="CPU usage of each task over its run"
    )
    power: PowerCriteria = Field(
        default_factory=PowerCriteria, description="trend of the total power"
    )

    _file: str | None = PrivateAttr(None)
    _sha256: str | None = PrivateAttr(None)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read criteria from a YAML or JSON file; file name and hash are stored."""
        path = Path(path)
        criteria = super().load(path)
        criteria._file = path.name
        criteria._sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        return criteria

    @classmethod
    def resolve(cls, criteria: Self | str | Path | None) -> Self:
        """Return the given criteria, those of a file, or the defaults for None.

        >>> Criteria.resolve(None) == Criteria()
        True
        """
        if criteria is None:
            return cls()
        return cls.load(criteria) if isinstance(criteria, str | Path) else criteria

    @property
    def file(self) -> str | None:
        """The name of the file that the criteria were read from; None if they were not."""
        return self._file

    @property
    def sha256(self) -> str | None:
        """The SHA-256 hash of that file; None if the criteria were not read from a file."""
        return self._sha256

    @property
    def changed_values(self) -> dict[str, tuple[float, float]]:
        """Values that differ from the defaults, by path: value and default."""
        values, defaults = (_flatten(each.to_dict(complete=True)) for each in (self, Criteria()))
        return {
            path: (value, defaults[path])
            for path, value in values.items()
            if value != defaults[path]
        }

    def to_commented_yaml(self) -> str:
        """Return all criteria as commented YAML, which `load` can read.

        >>> print(Criteria().to_commented_yaml().splitlines()[2])
        waits:  # waits of the tasks
        """
        lines = [
            "# Criteria of an assessment. Shares are relative (0.05: 5 %), times in seconds or",
            "# with a unit (10ms, 5min). Omitted values keep their defaults.",
        ]
        for name, part in type(self).model_fields.items():
            lines.append(f"{name}:  # {part.description}")
            for field, info in type(getattr(self, name)).model_fields.items():
                value = plain_number(float(getattr(getattr(self, name), field)))
                lines.append(f"  {field}: {value}  # {info.description}")
        return "\n".join(lines) + "\n"


def format_bound(is_lower: bool, value: float, unit: str, *, strict: bool = False) -> str:
    """Format a threshold: a lower bound if `is_lower`, else an upper one.

    >>> format_bound(True, 0.05, ""), format_bound(False, 0.1, "share")
    ('>= 0.05', '<= 10 %')
    """
    text = f"{value * 100:.6g} %" if unit == "share" else f"{value:.6g} {unit}".rstrip()
    return f"{'>' if is_lower else '<'}{'' if strict else '='} {text}"


def _flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    return dict(_list_leaves(values, prefix))


def _list_leaves(values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, float]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _list_leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
