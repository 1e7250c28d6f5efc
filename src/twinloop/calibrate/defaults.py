"""What to move if nobody says: the values that these runs can tell something about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from twinloop.calibrate.cases import Case
from twinloop.calibrate.parameters import Linear, Parameter
from twinloop.calibrate.space import Space
from twinloop.trace import Trace

#: A factor is looked for between these.
_FACTORS = (0.5, 2.0)
#: Inflation that one neighbour may cause at most.
_MOST = 1.0
#: A start-up is looked for up to this part of the median run time, and no further than this (s).
_START_UP_SHARE, _START_UP = 0.5, 5.0
#: Windows of power that are compared if nobody says (s).
_POWER_STEP = 30.0


def as_space(given: Any) -> Space:
    """A space from what a user gives: one, its parameters, plain values, or a file.

    >>> as_space({"speed_factor": {"linear": [0.5, 2]}}).names
    ('speed_factor',)
    """
    if isinstance(given, Space):
        return given
    if isinstance(given, str | Path):
        return Space.load(given)
    if isinstance(given, Mapping):
        return Space.from_dict(dict(given) if "parameters" in given else {"parameters": given})
    return Space(given)


def default_space(cases: Sequence[Case]) -> Space:
    """The values to move for these runs.

    How much work tasks have, by kind where there are several; what a start costs; how much tasks
    that share a core hold each other up, if any did. Latencies are not looked for: recorded runs
    have measured them.
    """
    kinds = sorted({kind for case in cases for kind in case.compiled.names.kinds if kind})
    found: list[Parameter] = [
        Linear(f"service_factors.{kind}", *_FACTORS) for kind in kinds if len(kinds) > 1
    ] or [Linear("service_factor", *_FACTORS)]
    times = np.concatenate([run.run_time for case in cases for run in case.reals])
    times = times[np.isfinite(times) & (times > 0)]
    if len(times):
        longest = min(_START_UP, _START_UP_SHARE * float(np.median(times)))
        found.append(Linear("startup_overhead", 0.0, longest))
    if any(crowded(trace) for case in cases for trace in case.traces):
        # Only products of pressure and sensitivity show: one kind needs no pressure of its own.
        for kind in kinds:
            if len(kinds) > 1:
                found.append(Linear(f"contention.kinds.{kind}.pressure", 0.0, 1.0))
            found.append(Linear(f"contention.kinds.{kind}.sensitivity", 0.0, _MOST))
        if not kinds:
            found.append(Linear("contention.linear.slope", 0.0, _MOST))
    return Space(found)


def power_space(case: Case) -> Space:
    """The values of the power model to move."""
    names = [name for name in case.compiled.value_names if name.startswith("power.")]
    watts = max(float(np.nanmax(run.power)) for run in case.reals)
    highest = 3.0 * watts / max(len(case.compiled.names.machines), 1)
    ranges = {"power.parameter": (0.1, 10.0)}
    return Space([Linear(name, *ranges.get(name, (0.0, highest))) for name in names])


def power_step(trace: Trace) -> float | None:
    """The windows in which a run has its power (s); None: it has none."""
    if not trace.power.height:
        return None
    usual = trace.power["dt"].drop_nulls().mode()
    return float(usual.min()) if usual.len() else _POWER_STEP  # type: ignore[arg-type]


def crowded(trace: Trace) -> bool:
    """Whether tasks ever asked for more cores of a node than it has, at the same time.

    >>> nodes = pl.DataFrame({"node": ["n"], "cores": [1.0]})
    >>> def run(second):
    ...     placed = pl.DataFrame({"task": ["a", "b"], "machine": ["n", "n"], "cores": [1.0, 1.0],
    ...                            "start": [0.0, second], "end": [10.0, second + 10.0]})
    ...     return Trace(nodes=nodes, placements=placed)
    >>> crowded(run(5.0)), crowded(run(10.0))
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
