"""What is demanded of a twin, declared before it is assessed."""

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
    """What is demanded of the distribution of the waits.

    >>> WaitCriteria().p95
    0.1
    """

    ks_p: Share = Field(0.05, description="least p of the Kolmogorov-Smirnov test")
    ks_weak_below: Whole = Field(40, description="under so many tasks the test is called weak")
    ks_d: Share = Field(0.05, description="largest D, where D decides")
    ks_d_above: Whole = Field(2000, description="above so many tasks D decides, and not p")
    p50: NotNegative = Field(0.05, description="largest relative error of the median")
    p95: NotNegative = Field(0.10, description="largest relative error of the 95th percentile")
    p99: NotNegative = Field(0.20, description="largest relative error of the 99th percentile")
    absolute: Seconds = Field(0.01, description="an error of a percentile this small passes (s)")
    latencies: NotNegative = Field(
        2.0, description="an error of so many dispatch latencies passes as well"
    )
    least_tasks: Count = Field(
        4, description="fewer completed tasks on a side cannot be assessed: KS could never fail"
    )


class CompletionCriteria(Description):
    """What is demanded of the curve of completed tasks.

    >>> CompletionCriteria(bin="5min").bin
    300.0
    """

    rmse: NotNegative = Field(0.03, description="largest best-lag RMSE over the completed tasks")
    bin: Seconds = Field(60.0, gt=0, description="length of a bin (s)")
    least_bins: Count = Field(20, description="with fewer bins, they are made shorter")
    short_run_bins: Count = Field(50, description="the bins of such a run")
    lag_bins: Whole = Field(5, description="the curves may be moved by so many bins")
    least_tasks: Count = Field(4, description="fewer completed tasks cannot be assessed")


class MakespanCriteria(Description):
    """What is demanded of the makespan.

    >>> MakespanCriteria().relative
    0.01
    """

    relative: NotNegative = Field(0.01, description="largest relative error of a long run")
    absolute: Seconds = Field(6.0, description="largest error of a short run (s)")
    short_below: Seconds = Field(600.0, description="runs under this length are short (s)")
    very_short_below: Seconds = Field(
        120.0, description="runs under this length have a stricter rule beside (s)"
    )
    very_short_relative: NotNegative = Field(
        0.05, description="their largest relative error, where that is less than `absolute`"
    )


class UsageCriteria(Description):
    """What is demanded of the CPU usage of the tasks.

    >>> UsageCriteria().pearson
    0.95
    """

    pearson: Number = Field(0.95, ge=-1, le=1, description="least correlation")
    variation: NotNegative = Field(
        0.05, description="least coefficient of variation of the real usage for a correlation"
    )
    smape: NotNegative = Field(0.05, description="largest symmetric mean absolute error")
    rmse: NotNegative = Field(0.10, description="largest RMSE over the median real usage")
    step: Seconds = Field(1.0, gt=0, description="length of the windows compared (s)")
    least_pairs: Count = Field(10, description="fewer pairs cannot be assessed")


class PowerCriteria(Description):
    """What is demanded of the trend of the total power.

    >>> PowerCriteria().segment
    300.0
    """

    correlation: Number = Field(
        0.90, ge=-1, le=1, description="least mean best-lag correlation of the segments"
    )
    watts: NotNegative = Field(
        0.0,
        description="largest mean absolute relative error of the power in W; 0: only the trend "
        "is judged",
    )
    segment: Seconds = Field(300.0, gt=0, description="length of a segment (s)")
    lag: Seconds = Field(600.0, description="how far a segment may be moved (s)")
    least_segments: Count = Field(3, description="fewer segments cannot be assessed")
    step: Seconds = Field(1.0, gt=0, description="length of the windows compared (s)")
    surrogates: Whole = Field(20, description="unrelated series that are scored beside")
    seed: Whole = Field(0, description="seed of these")


class Criteria(Description):
    """All thresholds and conditions of an assessment; the defaults are those of the docs.

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
        """Read them from a YAML or JSON file, whose name and hash they keep."""
        path = Path(path)
        found = super().load(path)
        found._file = path.name
        found._sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        return found

    @classmethod
    def resolve(cls, criteria: Self | str | Path | None) -> Self:
        """Criteria as a function is given them: themselves, a file of them, or the defaults.

        >>> Criteria.resolve(None) == Criteria()
        True
        """
        if criteria is None:
            return cls()
        return cls.load(criteria) if isinstance(criteria, str | Path) else criteria

    @property
    def file(self) -> str | None:
        """The name of the file that they were read from."""
        return self._file

    @property
    def sha256(self) -> str | None:
        """The hash of that file."""
        return self._sha256

    @property
    def changed_values(self) -> dict[str, tuple[float, float]]:
        """What differs from the defaults, by path: the value, and the default."""
        mine, usual = (_flat(each.to_dict(complete=True)) for each in (self, Criteria()))
        return {path: (mine[path], usual[path]) for path in mine if mine[path] != usual[path]}

    def to_commented_yaml(self) -> str:
        """All of them as YAML that `load` reads back, each with its meaning.

        >>> print(Criteria().to_commented_yaml().splitlines()[2])
        waits:  # waits of the tasks
        """
        lines = [
            "# What is demanded of a twin. Shares are relative (0.05: 5 %), lengths in seconds or",
            "# with a unit (10ms, 5min). What is left out is as here.",
        ]
        for name, part in type(self).model_fields.items():
            lines.append(f"{name}:  # {part.description}")
            for field, what in type(getattr(self, name)).model_fields.items():
                value = plain_number(float(getattr(getattr(self, name), field)))
                lines.append(f"  {field}: {value}  # {what.description}")
        return "\n".join(lines) + "\n"


def format_bound(smallest: bool, value: float, unit: str, *, strict: bool = False) -> str:
    """A threshold as it is said.

    >>> format_bound(True, 0.05, ""), format_bound(False, 0.1, "share")
    ('>= 0.05', '<= 10 %')
    """
    said = f"{value * 100:.6g} %" if unit == "share" else f"{value:.6g} {unit}".rstrip()
    return f"{'>' if smallest else '<'}{'' if strict else '='} {said}"


def _flat(values: Mapping[str, Any], before: str = "") -> dict[str, float]:
    return dict(_leaves(values, before))


def _leaves(values: Mapping[str, Any], before: str) -> Iterator[tuple[str, float]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value
