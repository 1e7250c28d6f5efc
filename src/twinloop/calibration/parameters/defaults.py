"""What to move if nobody says: the values that these runs can tell something about."""

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

#: A factor is looked for between these.
_FACTORS = (0.5, 2.0)
#: What tasks took over what was declared may lie so much below the end of the range.
_WIDER = 2.0
#: Kinds of tasks that never wait for anything, and what they get of their cores at least.
_BUSY = ("cpu", "cache", "memory", "stream")
_UNDISTURBED = 0.85
#: Inflation that one neighbour may cause at most.
_MOST = 1.0
#: A start-up is looked for up to this part of the median run time, and no further than this (s).
_START_UP_SHARE, _START_UP = 0.5, 5.0
#: The power of a busy host is looked for up to so many times the highest that was measured.
_HIGHEST = 5.0


def make_space(given: Any) -> Space:
    """A space from what a user gives: one, its parameters, plain values, or a file.

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
    """The values to move for these runs.

    How much work tasks have, by kind where there are several; what a start costs; how much tasks
    that share a core hold each other up, if any did. Latencies are not looked for: recorded runs
    have measured them.
    """
    kinds = sorted({kind for case in cases for kind in case.compiled.names.kinds if kind})
    factors = _FACTORS[0], max(_FACTORS[1], _WIDER * _slowest(cases))
    found: list[Parameter] = [
        LinearParameter(f"service_factors.{kind}", *factors) for kind in kinds if len(kinds) > 1
    ] or [LinearParameter("service_factor", *factors)]
    times = np.concatenate([run.run_time for case in cases for run in case.reals])
    times = times[np.isfinite(times) & (times > 0)]
    if len(times):
        longest = min(_START_UP, _START_UP_SHARE * float(np.median(times)))
        found.append(LinearParameter("startup_overhead", 0.0, longest))
    if any(is_oversubscribed(trace) for case in cases for trace in case.traces):
        # Only products of pressure and sensitivity show: one kind needs no pressure of its own.
        for kind in kinds:
            if len(kinds) > 1:
                found.append(LinearParameter(f"contention.kinds.{kind}.pressure", 0.0, 1.0))
            found.append(LinearParameter(f"contention.kinds.{kind}.sensitivity", 0.0, _MOST))
        if not kinds:
            found.append(LinearParameter("contention.linear.slope", 0.0, _MOST))
    return Space(found)


def _slowest(cases: Sequence[Case]) -> float:
    """How much longer tasks took than was declared, at most: the median in the slowest run."""
    found = [1.0]
    for case in cases:
        declared = case.compiled.workload.durations()
        for run in case.reals:
            with np.errstate(divide="ignore", invalid="ignore"):
                ratios = run.run_time / declared
            if (known := ratios[np.isfinite(ratios)]).size:
                found.append(float(np.median(known)))
    return max(found)


def describe_disturbance(trace: Trace, name: str) -> str | None:
    """A warning, if tasks that had their cores for themselves did not get them.

    >>> tasks = pl.DataFrame({"id": ["a"], "kind": ["cpu"], "cpu_time": [2.0]})
    >>> placed = pl.DataFrame({"task": ["a"], "machine": ["n"], "cores": [1.0], "start": [0.0],
    ...                        "end": [8.0]})
    >>> print(describe_disturbance(Trace(tasks=tasks, placements=placed), "first"))
    first: tasks got 25 % of the cores that they had for themselves: something else was running,
    so record again on a quiet machine
    """
    if is_oversubscribed(trace):
        return None
    placed = trace.placements.group_by("task").agg(
        core_seconds=(pl.col("cores") * (pl.col("end") - pl.col("start"))).sum()
    )
    busy = trace.tasks.filter(pl.col("kind").is_in(_BUSY)).join(
        placed, left_on="id", right_on="task"
    )
    share = (busy["cpu_time"] / busy["core_seconds"]).drop_nulls().drop_nans().median()
    if not isinstance(share, float) or share >= _UNDISTURBED:
        return None
    return (
        f"{name}: tasks got {share:.0%} of the cores that they had for themselves: something else "
        "was running, so record again on a quiet machine"
    ).replace("%", " %")


def make_power_space(case: Case) -> Space:
    """The values of the power model to move.

    A host that does nothing draws no more than the mean that was measured, one that is busy no
    less; so no pair of them is impossible.
    """
    hosts = max(len(case.compiled.names.machines), 1)
    watts = np.concatenate([run.power for run in case.reals]) / hosts
    mean, highest = float(np.nanmean(watts)), float(np.nanmax(watts))
    ranges = {
        "power.idle": (0.0, mean),
        "power.max": (mean, _HIGHEST * highest),
        "power.parameter": (0.1, 10.0),
    }
    names = [name for name in case.compiled.value_names if name.startswith("power.")]
    return Space([LinearParameter(name, *ranges[name]) for name in names])


def find_power_step(trace: Trace) -> float | None:
    """The windows in which a run has its power (s), about; None: it has none.

    >>> jittered = pl.DataFrame({"t": [1.0, 2.01, 3.0, 3.004], "dt": [1.0, 1.01, 0.99, 0.004],
    ...                          "watts": [5.0] * 4})
    >>> find_power_step(Trace(power=jittered)), find_power_step(Trace())
    (1.0, None)
    """
    # The larger of the two in the middle: what is cut short at an end is no window.
    usual = trace.power["dt"].drop_nulls().quantile(0.5, "higher")
    return float(f"{usual:.2g}") if isinstance(usual, float) and usual > 0 else None


def is_oversubscribed(trace: Trace) -> bool:
    """Whether tasks ever asked for more cores of a node than it has, at the same time.

    >>> nodes = pl.DataFrame({"node": ["n"], "cores": [1.0]})
    >>> def run(second):
    ...     placed = pl.DataFrame({"task": ["a", "b"], "machine": ["n", "n"], "cores": [1.0, 1.0],
    ...                            "start": [0.0, second], "end": [10.0, second + 10.0]})
    ...     return Trace(nodes=nodes, placements=placed)
    >>> is_oversubscribed(run(5.0)), is_oversubscribed(run(10.0))
    (True, False)
    """
    placed = trace.placements.select("machine", "cores", "start", "end").drop_nulls()
    comes = placed.select("machine", t="start", change="cores")
    goes = placed.select("machine", t="end", change=-pl.col("cores"))
    # At the same time some go before others come.
    load = (
        pl.concat([goes, comes])
        .sort("machine", "t", "change")
        .with_columns(load=pl.col("change").cum_sum().over("machine"))
        .group_by("machine")
        .agg(pl.col("load").max())
    )
    known = trace.nodes.select(machine="node", has="cores")
    both = load.join(known, on="machine").drop_nulls()
    return bool((both["load"] > both["has"] + 1e-9).any())
