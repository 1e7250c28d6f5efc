"""Default parameters of a calibration: the values that the runs contain information about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from twinloop.calibration.cases import Case
from twinloop.calibration.parameters.kinds import LinearParameter, Parameter
from twinloop.calibration.parameters.space import Space
from twinloop.trace import Trace

#: The range of a factor.
_FACTOR_RANGE = (0.5, 2.0)
#: The margin above the largest ratio of measured to declared run time.
_FACTOR_MARGIN = 2.0
#: Kinds of tasks that compute without waiting, and the minimum CPU share of an undisturbed task.
_COMPUTE_KINDS = ("cpu", "cache", "memory", "stream")
_UNDISTURBED_SHARE = 0.85
#: The largest inflation by one neighbour.
_MAX_INFLATION = 1.0
#: The largest start-up overhead: a fraction of the median run time, and an absolute limit (s).
_MAX_STARTUP_SHARE, _MAX_STARTUP = 0.5, 5.0
#: The upper end of the range of the power of a busy host, relative to the highest measured power.
_MAX_POWER_FACTOR = 5.0


def make_space(given: Any) -> Space:
    """Make a space from a space, parameters, plain values, or a file.

    >>> make_space({"speed_factor": {"linear": [0.5, 2]}}).names
    ('speed_factor',)
    """
    if isinstance(given, Space):
        return given
    if isinstance(given, str | Path):
        return Space.load(given)
    if isinstance(given, Mapping):
        return Space.from_dict(dict(given) if "parameters" in given else {"parameters": given})
    return Space(given)


def choose_default_space(cases: Sequence[Case]) -> Space:
    """Choose the values to fit for these runs.

    These are service factors, one per kind of task if there are several kinds; the start-up
    overhead; and contention, if tasks shared cores. Latencies are not fitted, because recorded runs
    contain measurements of them.
    """
    kinds = sorted({kind for case in cases for kind in case.compiled.names.kinds if kind})
    factors = (
        _FACTOR_RANGE[0],
        max(_FACTOR_RANGE[1], _FACTOR_MARGIN * _find_largest_slowdown(cases)),
    )
    parameters: list[Parameter] = [
        LinearParameter(f"service_factors.{kind}", *factors) for kind in kinds if len(kinds) > 1
    ] or [LinearParameter("service_factor", *factors)]
    times = np.concatenate([run.run_time for case in cases for run in case.reals])
    times = times[np.isfinite(times) & (times > 0)]
    if len(times):
        max_overhead = min(_MAX_STARTUP, _MAX_STARTUP_SHARE * float(np.median(times)))
        parameters.append(LinearParameter("startup_overhead", 0.0, max_overhead))
    if any(is_oversubscribed(trace) for case in cases for trace in case.traces):
        # Only products of pressure and sensitivity are observable: one kind needs no pressure.
        for kind in kinds:
            if len(kinds) > 1:
                parameters.append(LinearParameter(f"contention.kinds.{kind}.pressure", 0.0, 1.0))
            parameters.append(
                LinearParameter(f"contention.kinds.{kind}.sensitivity", 0.0, _MAX_INFLATION)
            )
        if not kinds:
            parameters.append(LinearParameter("contention.linear.slope", 0.0, _MAX_INFLATION))
    return Space(parameters)


def _find_largest_slowdown(cases: Sequence[Case]) -> float:
    """Find the median ratio of measured to declared run time in the slowest run; at least 1."""
    medians = [1.0]
    for case in cases:
        declared = case.compiled.workload.durations()
        for run in case.reals:
            with np.errstate(divide="ignore", invalid="ignore"):
                ratios = run.run_time / declared
            if (known := ratios[np.isfinite(ratios)]).size:
                medians.append(float(np.median(known)))
    return max(medians)


def describe_disturbance(trace: Trace, name: str) -> str | None:
    """Return a warning if tasks on exclusive cores did not get their full CPU time.

    >>> tasks = pl.DataFrame({"id": ["a"], "kind": ["cpu"], "cpu_time": [2.0]})
    >>> placed = pl.DataFrame({"task": ["a"], "machine": ["n"], "cores": [1.0], "start": [0.0],
    ...                        "end": [8.0]})
    >>> print(describe_disturbance(Trace(tasks=tasks, placements=placed), "first"))
    first: tasks got 25 % of their exclusive cores: another load was running, so record again on
    an idle machine
    """
    if is_oversubscribed(trace):
        return None
    placed = trace.placements.group_by("task").agg(
        core_seconds=(pl.col("cores") * (pl.col("end") - pl.col("start"))).sum()
    )
    busy = trace.tasks.filter(pl.col("kind").is_in(_COMPUTE_KINDS)).join(
        placed, left_on="id", right_on="task"
    )
    share = (busy["cpu_time"] / busy["core_seconds"]).drop_nulls().drop_nans().median()
    if not isinstance(share, float) or share >= _UNDISTURBED_SHARE:
        return None
    return (
        f"{name}: tasks got {share:.0%} of their exclusive cores: another load was running, so "
        "record again on an idle machine"
    ).replace("%", " %")


def make_power_space(case: Case) -> Space:
    """Make the space of the values of the power model.

    The measured mean divides the ranges of idle and maximum power, so that every pair is valid.
    """
    hosts = max(len(case.compiled.names.machines), 1)
    watts = np.concatenate([run.power for run in case.reals]) / hosts
    mean, highest = float(np.nanmean(watts)), float(np.nanmax(watts))
    ranges = {
        "power.idle": (0.0, mean),
        "power.max": (mean, _MAX_POWER_FACTOR * highest),
        "power.parameter": (0.1, 10.0),
    }
    names = [name for name in case.compiled.value_names if name.startswith("power.")]
    return Space([LinearParameter(name, *ranges[name]) for name in names])


def find_power_step(trace: Trace) -> float | None:
    """Find the length of the windows of recorded power (s), rounded; None if there is no power.

    >>> jittered = pl.DataFrame({"t": [1.0, 2.01, 3.0, 3.004], "dt": [1.0, 1.01, 0.99, 0.004],
    ...                          "watts": [5.0] * 4})
    >>> find_power_step(Trace(power=jittered)), find_power_step(Trace())
    (1.0, None)
    """
    # The upper median, since windows at the ends may be cut.
    median = trace.power["dt"].drop_nulls().quantile(0.5, "higher")
    return float(f"{median:.2g}") if isinstance(median, float) and median > 0 else None


def is_oversubscribed(trace: Trace) -> bool:
    """Whether concurrent tasks ever requested more cores of a node than it has.

    >>> nodes = pl.DataFrame({"node": ["n"], "cores": [1.0]})
    >>> def run(second):
    ...     placed = pl.DataFrame({"task": ["a", "b"], "machine": ["n", "n"], "cores": [1.0, 1.0],
    ...                            "start": [0.0, second], "end": [10.0, second + 10.0]})
    ...     return Trace(nodes=nodes, placements=placed)
    >>> is_oversubscribed(run(5.0)), is_oversubscribed(run(10.0))
    (True, False)
    """
    placed = trace.placements.select("machine", "cores", "start", "end").drop_nulls()
    starts = placed.select("machine", t="start", change="cores")
    ends = placed.select("machine", t="end", change=-pl.col("cores"))
    # At equal times ends come before starts.
    load = (
        pl.concat([ends, starts])
        .sort("machine", "t", "change")
        .with_columns(load=pl.col("change").cum_sum().over("machine"))
        .group_by("machine")
        .agg(pl.col("load").max())
    )
    nodes = trace.nodes.select(machine="node", has="cores")
    both = load.join(nodes, on="machine").drop_nulls()
    return bool((both["load"] > both["has"] + 1e-9).any())
