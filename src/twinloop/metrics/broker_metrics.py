"""Metrics of a run for the client who rents instances: uptime, makespan, use, placement of tasks.

Source: the metrics of SCHIaaS, with which a simulation of a broker is compared with an execution.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import polars as pl

from twinloop.description.errors import InputError
from twinloop.metrics.instance_use import find_run_end
from twinloop.metrics.measurement_window import to_float
from twinloop.metrics.rentals import list_clouds, sum_prices
from twinloop.platform.billing import Billing
from twinloop.trace.trace import Trace, require_trace

#: Share of a unit of time that rounding errors may add, as in the bill of an instance.
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True)
class ClientMetrics:
    """The metrics of a run for the client who rented its instances; times in s, None if unknown.

    >>> ClientMetrics(2, 3, None, 5000.0, 4000.0, 2600.0).usage
    0.8
    """

    #: Rented instances, without refused requests.
    instances: int
    #: Begun units of time of all instances, by the billing of their clouds.
    units: int | None
    #: Price of all instances.
    bill: float | None
    #: Sum over the instances of the time from their request to their end.
    uptime: float
    #: Sum of the wall times of the tasks, each attempt from its start to its end.
    runtime: float | None
    #: End of the last task, counted from t = 0.
    makespan: float | None

    @property
    def usage(self) -> float | None:
        """The sum of the wall times over the uptime; None without instances or tasks that ran."""
        return self.runtime / self.uptime if self.runtime is not None and self.uptime > 0 else None


def client_metrics(trace: Trace) -> ClientMetrics:
    """Compute the metrics of a run for the client who rented its instances.

    An instance or a task that has not ended counts until the end of the run.

    >>> run = Trace(
    ...     instances=pl.DataFrame({"instance": ["a", "b"], "requested": [0.0, 10.0],
    ...                             "start": [0.0, 10.0], "end": [100.0, 60.0]}),
    ...     placements=pl.DataFrame({"task": ["x", "y"], "machine": ["a", "b"],
    ...                              "start": [30.0, 40.0], "end": [90.0, 55.0]}))
    >>> found = client_metrics(run)
    >>> found.uptime, found.runtime, found.usage, found.makespan
    (150.0, 75.0, 0.5, 90.0)
    """
    require_trace(trace)
    run_end = find_run_end(trace)
    rented = _list_rented(trace).with_columns(pl.col("end").fill_null(run_end))
    attempts = trace.placements.drop_nulls("start").with_columns(pl.col("end").fill_null(run_end))
    # Each rental has its price in one of its rows.
    prices = trace.instances["price"].drop_nulls()
    return ClientMetrics(
        instances=rented.height,
        units=_count_units(trace, run_end),
        bill=sum_prices(prices) if prices.len() else None,
        uptime=float((rented["end"] - rented["requested"]).sum()),
        runtime=float((attempts["end"] - attempts["start"]).sum()) if attempts.height else None,
        makespan=to_float(attempts["end"].max()),
    )


def _list_rented(trace: Trace) -> pl.DataFrame:
    """List the rented instances in the order of their requests: a row for all periods of one."""
    return (
        _list_periods(trace)
        .drop_nulls("requested")
        .group_by("instance", maintain_order=True)
        .agg(pl.col("requested").first(), pl.col("end").last())
        .sort("requested", maintain_order=True)
    )


def _list_periods(trace: Trace) -> pl.DataFrame:
    """List the periods of instances on hosts, without refused requests."""
    return trace.instances.filter(pl.col("reason").ne_missing("refused")).with_columns(
        pl.coalesce("requested", "start")
    )


def _count_units(trace: Trace, run_end: float) -> int | None:
    """Count the begun units of time of instances; None if a cloud does not bill.

    An instance that moves to another cloud is rented there anew, and has begun units in both.
    """
    billings = {
        cloud.get("name"): Billing.from_dict(dict(cloud["billing"]))
        for cloud in list_clouds(trace)
        if cloud.get("billing") is not None
    }
    # The rental after that of a row ends with the reason `left` has the next number.
    has_left = (pl.col("reason") == "left").fill_null(value=False)
    rentals = (
        _list_periods(trace)
        .with_columns(number=has_left.cum_sum().over("instance") - has_left)
        .drop_nulls("requested")
        .group_by("instance", "number", maintain_order=True)
        .agg(
            pl.col("cloud", "requested", "start").first(),
            pl.col("end").last().fill_null(run_end),
        )
    )
    total = 0
    for cloud, requested, start, end in rentals.select("cloud", "requested", "start", "end").rows():
        if cloud not in billings:
            return None
        billing = billings[cloud]
        since = requested if billing.counted_from == "request" or start is None else start
        total += max(1, math.ceil((end - since) / billing.unit - _ROUNDING))
    return total


def scheduling_error(simulated: Trace, real: Trace) -> float:
    """Compute the share of the tasks of a real run that a simulation has on another instance.

    Instances have the same number in the order of their requests, not the same name. A task counts
    on the instance of its last attempt; a task that did not run in the simulation is an error.

    >>> def make_run(*machines):
    ...     return Trace(
    ...         tasks=pl.DataFrame({"id": ["x", "y", "z"], "submit": [0.0] * 3}),
    ...         instances=pl.DataFrame({"instance": ["a", "b"], "requested": [0.0, 5.0]}),
    ...         placements=pl.DataFrame({"task": ["x", "y", "z"], "attempt": [0] * 3,
    ...                                  "machine": machines}))
    >>> round(scheduling_error(make_run("a", "a", "b"), make_run("a", "b", "b")), 3)
    0.333
    """
    chosen = _number_instances(require_trace(real))
    if chosen.is_empty():
        raise InputError(
            "the real run has no tasks on rented instances",
            kind="missing-field",
            field="placements",
            remedy="record the instance of each task",
        )
    found = chosen.join(
        _number_instances(require_trace(simulated)), on="task", how="left", suffix="_simulated"
    )
    same = (found["number"] == found["number_simulated"]).fill_null(value=False)
    return 1.0 - float(same.sum()) / found.height


def _number_instances(trace: Trace) -> pl.DataFrame:
    """Return the number of the instance of each task that ran on one."""
    numbers = _list_rented(trace).select("instance").with_row_index("number")
    return (
        trace.placements.sort("attempt", maintain_order=True)
        .unique("task", keep="last", maintain_order=True)
        .join(numbers, left_on="machine", right_on="instance")
        .select("task", "number")
    )
