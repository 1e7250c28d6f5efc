"""Default parameters of a calibration: the values that the runs contain information about."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from twinloop.calibration.cases import Case
from twinloop.calibration.parameters.applicability import describe_missing_default
from twinloop.calibration.parameters.kinds import LinearParameter, Parameter
from twinloop.calibration.parameters.space import Space
from twinloop.calibration.parameters.values import POWER_VALUES, find_number_type
from twinloop.description import text as text_of
from twinloop.description.document import ParsedDocument
from twinloop.description.errors import InputError
from twinloop.description.number_fields import NumberType
from twinloop.scenario.parameters import PARAMETERS, PATH_SEARCH, find_parameter
from twinloop.trace import Trace

#: Text in place of a range.
DEFAULT = "default"
#: The margin above the largest ratio of measured to declared run time.
_FACTOR_MARGIN = 2.0
#: Kinds of tasks that compute without waiting, and the minimum CPU share of an undisturbed task.
_COMPUTE_KINDS = ("cpu", "cache", "memory", "stream")
_UNDISTURBED_SHARE = 0.85
#: The largest start-up overhead as a fraction of the median run time.
_MAX_STARTUP_SHARE = 0.5
#: The upper end of the range of the power of a busy host, relative to the highest measured power.
_MAX_POWER_FACTOR = 5.0


def make_space(given: Any, cases: Sequence[Case] = ()) -> Space:
    """Make a space from a space, parameters, plain values, or a file.

    The text `default` in place of a range, or a list of names, stands for the default ranges of
    the values in these cases.

    >>> make_space({"speed_factor": {"linear": [0.5, 2]}}).names
    ('speed_factor',)
    """
    if isinstance(given, Space):
        return given
    if isinstance(given, str | Path):
        return _read_space(text_of.load_document(Path(given)), cases)
    if isinstance(given, Mapping):
        data = dict(given) if "parameters" in given else {"parameters": dict(given)}
        return _read_space(ParsedDocument(data), cases)
    named = list(given)
    if named and all(isinstance(each, str) for each in named):
        data = {"parameters": dict.fromkeys(named, DEFAULT)}
        return _read_space(ParsedDocument(data), cases)
    return Space(named)


def _read_space(source: ParsedDocument, cases: Sequence[Case]) -> Space:
    """Read a space whose numbers have the units that they have in these cases."""
    source.data = _fill_ranges(source, cases)
    return Space.from_document(source, lambda name: _find_type(name, cases))


def _find_type(name: str, cases: Sequence[Case]) -> NumberType | None:
    try:
        found = (find_number_type(case.scenario, name) for case in cases)
        return next((each for each in found if each is not None), None)
    except InputError:  # not a path, which `refuse_inapplicable` reports
        return None


def _fill_ranges(source: ParsedDocument, cases: Sequence[Case]) -> Any:
    """Replace `default` by the default range of each parameter."""
    data = source.data
    parameters = data.get("parameters") if isinstance(data, dict) else None
    if not isinstance(parameters, dict) or not cases:
        return data
    filled = dict(parameters)
    for name in (name for name, value in parameters.items() if value == DEFAULT):
        found = _find_range(str(name), cases[0])
        if found is None:
            problem, remedy = describe_missing_default(str(name), cases)
            raise InputError(
                problem,
                kind="not-applicable",
                file=source.file,
                line=source.line(("parameters", name)),
                field=f"parameters.{name}",
                remedy=remedy,
            )
        filled[name] = found
    return {**data, "parameters": filled}


def _find_range(name: str, case: Case) -> dict[str, Any] | None:
    """Find the default range of a value; None if it has none, since its value is unknown."""
    found = find_parameter(name)
    search = PATH_SEARCH if found is None else found[0].search
    own = case.compiled.own_value(name) if case.compiled.is_value(name) else None
    if search.is_relative and not own:
        return None
    low, high = search.around(own or 1.0)
    number_type = find_number_type(case.scenario, name)
    kind = "exponential" if search.is_exponential else "linear"
    if number_type is not None and number_type.is_whole:
        return {kind: [math.ceil(low), math.floor(high)], "integer": True}
    return {kind: [low, high]}


def choose_default_space(cases: Sequence[Case]) -> Space:
    """Choose the values to fit for these runs.

    These are service factors, one per kind of task if there are several kinds; the start-up
    overhead; and contention, if tasks shared cores. Latencies are not fitted, because recorded runs
    contain measurements of them.
    """
    kinds = sorted({kind for case in cases for kind in case.compiled.names.kinds if kind})
    usual = PARAMETERS["service_factor"].search
    factors = (usual.low, max(usual.high, _FACTOR_MARGIN * _find_largest_slowdown(cases)))
    parameters: list[Parameter] = [
        LinearParameter(f"service_factors.{kind}", *factors) for kind in kinds if len(kinds) > 1
    ] or [LinearParameter("service_factor", *factors)]
    times = np.concatenate([run.run_time for case in cases for run in case.reals])
    times = times[np.isfinite(times) & (times > 0)]
    if len(times):
        overhead = PARAMETERS["startup_overhead"].search
        max_overhead = min(overhead.high, _MAX_STARTUP_SHARE * float(np.median(times)))
        parameters.append(LinearParameter("startup_overhead", overhead.low, max_overhead))
    if any(is_oversubscribed(trace) for case in cases for trace in case.traces):
        # Only products of pressure and sensitivity are observable: one kind needs no pressure.
        for kind in kinds:
            for what in ("pressure", "sensitivity") if len(kinds) > 1 else ("sensitivity",):
                row = PARAMETERS[f"contention.kinds.<kind>.{what}"]
                ends = (row.search.low, row.search.high)
                parameters.append(LinearParameter(row.fill({"kind": kind}), *ends))
        if not kinds:
            slope = PARAMETERS["contention.linear.slope"]
            ends = (slope.search.low, slope.search.high)
            parameters.append(LinearParameter(slope.name, *ends))
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
    measured = {"power.idle": (0.0, mean), "power.max": (mean, _MAX_POWER_FACTOR * highest)}
    names = [name for name in case.compiled.value_names if name in POWER_VALUES]
    ranges = {name: measured.get(name, PARAMETERS[name].search.around(1.0)) for name in names}
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
