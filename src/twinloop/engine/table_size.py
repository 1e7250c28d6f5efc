"""Limit on the rows of the sampled tables of a run.

Their number grows with the length of the run and with the inverse of the length of a window.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from twinloop.description.errors import InputError
from twinloop.engine.compiled_scenario import CompiledScenario

#: Default limit on the rows of `usage` and of `power`: about 1 GB each while a table is built.
MAX_ROWS: Final = 10_000_000


def check_estimates(
    compiled: CompiledScenario,
    *,
    usage_step: float | None,
    power_step: float | None,
    power_per_node: bool,
    max_rows: float,
) -> None:
    """Raise an error before a run if its tables would exceed the limit.

    The estimate assumes that each task runs once, alone, on the fastest machines, and on one of
    them unless it requests more. The actual number of rows may be larger, so the limit is also
    checked during and after the run.
    """
    if not max_rows > 0:
        raise InputError(
            f"must be positive, not {max_rows}", kind="out-of-range", field="most_rows"
        )
    if compiled.python_source is not None:
        return  # which tasks it submits is not known
    admitted = compiled.rejected == 0
    times = _estimate_run_times(compiled)
    if usage_step is not None and usage_step < np.inf:
        machines = np.maximum(compiled.arrays.nodes, 1)
        rows = float((np.ceil(times / usage_step) * machines)[admitted].sum())
        check_rows("usage", rows, max_rows)
    if power_step is not None and compiled.machines.has_power_models and admitted.any():
        submit = compiled.arrays.submit[admitted]
        length = float((submit + times[admitted]).max() - submit.min())
        series = 1 + power_per_node * compiled.machines.nodes.height
        check_rows("power", np.ceil(length / power_step) * series, max_rows)


def check_rows(table: str, rows: float, max_rows: float) -> None:
    """Raise an error if a table would have more rows than the limit.

    >>> check_rows("usage", 2e9, 1e7)
    Traceback (most recent call last):
    twinloop.InputError: the usage table would have at least 2,000,000,000 rows, more
        than 10,000,000 (choose a longer usage_step (--usage), or allow more rows with most_rows
        (--most-rows)) [TL0405]
    """
    if rows <= max_rows:
        return
    step = "usage_step (--usage)" if table == "usage" else "power_step (--power-step)"
    raise InputError(
        f"the {table} table would have at least {rows:,.0f} rows, more than {max_rows:,.0f}",
        kind="too-many",
        remedy=f"choose a longer {step}, or allow more rows with most_rows (--most-rows)",
    )


def _estimate_run_times(compiled: CompiledScenario) -> NDArray[np.float64]:
    """Return the run time (s) of each task alone on the fastest machines."""
    model, arrays = compiled.scenario.model, compiled.arrays
    factors = [model.service_factors.get(name, 1.0) for name in arrays.kind.names]
    service = model.service_factor * np.array([*factors, 1.0])[arrays.kind.codes]
    times = np.nan_to_num(compiled.workload.durations(), nan=0.0) * service
    if model.demand != "fixed":
        times *= arrays.speed / (model.speed_factor * float(compiled.machines.speed.max()))
    return np.fmin(times, compiled.requested) if model.kill_at_requested_time else times
