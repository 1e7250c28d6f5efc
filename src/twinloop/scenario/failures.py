"""Node failures: recorded or random, and their effect on running tasks."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

import numpy as np
import polars as pl
from pydantic import Field, GetJsonSchemaHandler, WithJsonSchema, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from twinloop.description import Description, FilePath
from twinloop.description.errors import InputError, TwinloopWarning
from twinloop.description.problems import ProblemCollector
from twinloop.description.quantities import DURATION, Positive, Seconds, number_to_text
from twinloop.scenario.failure_log import failures_to_frame, read_failure_log
from twinloop.workload.generators.elementary import Floats, exp, log, log_gamma
from twinloop.workload.generators.random_stream import RandomStream

_Duration = Annotated[Seconds, Field(gt=0), WithJsonSchema(DURATION.schema(positive=True))]

#: Maximum number of failures; more of them are most likely due to a wrong unit of a duration.
MAX_FAILURES: Final = 10_000_000

#: The name of `on_failure` in files that were written before it was renamed.
OLD_ON_FAILURE: Final = "then"

#: Number of failures that are drawn at once: the first time, and at most (it doubles).
_FIRST_BLOCK = 16
_MAX_BLOCK = 1 << 16


class Failures(Description):
    """Node failures, from a trace or from mean times, and their effect on running tasks.

    With mean times, every node alternates independently between up and down, and is up at first.
    The times up have the given distribution with mean `mtbf`; the times down are exponential with
    mean `mttr`.

    >>> Failures(mtbf="30d", mttr="4h").on_failure
    'restart'
    >>> Failures(trace="down.csv", on_failure="resume", checkpoint_interval="1h").checkpoint_cost
    0.0
    """

    trace: FilePath | None = Field(
        None,
        description="file with the failures: CSV with the columns node, start and end (s), or a "
        "failure trace of OpenDC in Parquet",
    )
    mtbf: _Duration | None = Field(
        None, description="mean time from a repair of a node to its next failure (s)"
    )
    mttr: _Duration | None = Field(None, description="mean time to repair (s)")
    distribution: Literal["exponential", "weibull"] = Field(
        "exponential", description="distribution of the times between failures"
    )
    shape: Positive | None = Field(
        None,
        description="shape of the Weibull distribution, from 0.2 to 20; below 1, the failure rate "
        "is highest directly after a repair",
    )
    on_failure: Literal["restart", "resume", "lost"] = Field(
        "restart",
        description="effect on a task on a failed node: it is started again from the beginning "
        "(restart) or from its last checkpoint (resume), or it is lost",
    )
    checkpoint_interval: _Duration | None = Field(
        None, description="time between two checkpoints of a running task (s)"
    )
    checkpoint_cost: Seconds = Field(0.0, description="time that a checkpoint takes (s)")
    max_attempts: Annotated[int, Field(ge=1, lt=2**32)] | None = Field(
        None,
        description="number of executions of a task that failures may end; after that many it has "
        "failed (default: no limit)",
    )

    @classmethod
    def _long_form(cls, data: Any) -> Any:
        return read_old_key(data, OLD_ON_FAILURE, "on_failure", "failures")

    @model_validator(mode="after")
    def _check_consistency(self) -> Failures:
        findings = ProblemCollector()
        self._check_origin(findings)
        if self.distribution == "weibull" and self.shape is None:
            findings.add(
                ("shape",),
                "is missing",
                "a Weibull distribution needs it, such as 0.7",
                kind="missing-field",
            )
        if self.shape is not None and not 0.2 <= self.shape <= 20:
            findings.add(
                ("shape",),
                f"must be between 0.2 and 20, not {number_to_text(self.shape)}",
                kind="out-of-range",
            )
        if self.distribution != "weibull" and self.shape is not None:
            findings.add(
                ("shape",), "has no effect unless the distribution is 'weibull'", kind="no-effect"
            )
        if self.on_failure == "resume" and self.checkpoint_interval is None:
            findings.add(
                ("checkpoint_interval",),
                "is missing: a task resumes from a checkpoint",
                kind="missing-field",
            )
        if self.on_failure == "lost" and self.max_attempts is not None:
            findings.add(("max_attempts",), "has no effect if tasks are lost", kind="no-effect")
        for name in ("checkpoint_interval", "checkpoint_cost"):
            if self.on_failure != "resume" and getattr(self, name):
                findings.add(
                    (name,), "has no effect unless on_failure is 'resume'", kind="no-effect"
                )
        findings.check()
        return self

    def _check_origin(self, findings: ProblemCollector) -> None:
        if self.trace is not None:
            given = {"mtbf": self.mtbf, "mttr": self.mttr, "shape": self.shape}
            if self.distribution != "exponential":
                given["distribution"] = 1.0
            for name in (name for name, value in given.items() if value is not None):
                findings.add(
                    (name,),
                    "cannot be combined with a trace",
                    "keep one of them",
                    kind="conflicting-fields",
                )
        elif self.mtbf is None and self.mttr is None:
            findings.add(
                (),
                "needs a trace or mean times",
                "set trace, or mtbf and mttr",
                kind="missing-field",
            )
        else:
            for name in (name for name in ("mtbf", "mttr") if getattr(self, name) is None):
                findings.add(
                    (name,), "is missing", "mtbf and mttr are needed together", kind="missing-field"
                )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        schema = handler.resolve_ref_schema(handler(core_schema))
        fields = schema["properties"]
        fields[OLD_ON_FAILURE] = {
            **fields["on_failure"],
            "deprecated": True,
            "description": "old name of on_failure",
        }
        return schema


def read_old_key(data: Any, old: str, new: str, field: str) -> Any:
    """Return values with a renamed key under its new name; warn if they have the old one.

    >>> read_old_key({"on_failure": "lost"}, "then", "on_failure", "failures")
    {'on_failure': 'lost'}
    """
    if not isinstance(data, Mapping) or old not in data:
        return data
    if new in data:
        raise InputError(
            f"has both '{old}' and '{new}', which is its new name",
            kind="conflicting-fields",
            remedy=f"keep '{new}'",
        )
    warnings.warn(
        f"{field}: the key '{old}' is now called '{new}'; change it where it is written",
        TwinloopWarning,
        stacklevel=2,
    )
    return {new if key == old else key: value for key, value in data.items()}


def compute_failure_intervals(
    failures: Failures, nodes: Sequence[str], horizon: float, seed: int = 0
) -> pl.DataFrame:
    """Compute the failures that start before the horizon: `node`, `start` and `end` in seconds.

    They are sorted by start, then by the order of the nodes. Overlapping or adjacent failures of a
    node are merged. The random failures of a node depend only on the seed and its name; a longer
    horizon only adds failures.

    A failure of OpenDC's trace starts `failure_interval` after the end of the failure before and
    affects a share of the nodes, rounded down. The nodes are drawn at random; an additional node in
    the platform changes at most one of them. The trace is not repeated when it ends.

    Args:
        failures: The description of the failures.
        nodes: The names of all nodes.
        horizon: The end of the simulated time (s).
        seed: The random seed.

    >>> often = Failures(mtbf="1d", mttr="1h")
    >>> few = compute_failure_intervals(often, ["a", "b"], horizon=30 * 86400.0, seed=7)
    >>> more = compute_failure_intervals(often, ["a", "b", "c"], horizon=60 * 86400.0, seed=7)
    >>> few.filter(node="a").equals(more.filter(node="a")[:few.filter(node="a").height])
    True
    """
    if not 0 <= horizon < np.inf:
        raise InputError(
            f"must be a finite time, not {horizon}", kind="out-of-range", field="horizon"
        )
    if failures.trace is not None:
        return read_failure_log(failures.trace, nodes, horizon, seed)
    count = 0
    parts = []
    for index, node in enumerate(nodes):
        starts, ends = _draw_failures(failures, node, horizon, seed, MAX_FAILURES - count)
        count += len(starts)
        parts.append((np.full(len(starts), index), starts, ends))
    return failures_to_frame(nodes, parts)


def _draw_failures(
    failures: Failures, node: str, horizon: float, seed: int, max_count: int
) -> tuple[Floats, Floats]:
    stream = RandomStream(seed, f"failures of {node}")
    starts, ends = [np.empty(0)], [np.empty(0)]
    last_time, count, block = 0.0, 0, _FIRST_BLOCK
    while last_time < horizon:
        # Times up and down alternate in one stream, so the block size does not change them.
        up, down = stream.exponential(2 * block).reshape(-1, 2).T
        durations = np.empty(2 * block + 1)
        durations[0] = last_time
        durations[1::2] = _scale_times_up(up, failures)
        durations[2::2] = down * (failures.mttr or 0.0)
        times = np.cumsum(durations)
        starts.append(times[1::2])
        ends.append(times[2::2])
        last_time, count, block = float(times[-1]), count + block, min(2 * block, _MAX_BLOCK)
        if last_time < horizon and count > max_count:
            raise InputError(
                f"there would be more than {MAX_FAILURES:,} failures of all nodes in "
                f"{number_to_text(horizon)} s",
                kind="too-many",
                field="failures.mtbf",
                remedy="check the unit: 30d, 12h, 90min",
            )
    start, end = np.concatenate(starts), np.concatenate(ends)
    before = start < horizon
    return start[before], end[before]


def _scale_times_up(exponential: Floats, failures: Failures) -> Floats:
    mean = failures.mtbf or 0.0
    if failures.shape is None:
        return mean * exponential
    power = 1.0 / failures.shape
    # The mean of E^power, E being exponential with mean 1, is gamma(1 + power).
    scale = mean * float(exp(-log_gamma(1.0 + power)))
    return scale * exp(log(np.maximum(exponential, 2.0**-60)) * power)
