"""Column interface of the kernel: arrays of activities in, finish times out."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twinloop._core import ColumnRun, run_columns_native


def run_columns(
    start: ArrayLike,
    work: ArrayLike,
    *,
    capacity: ArrayLike = 1.0,
    resource: ArrayLike | None = None,
    limit: ArrayLike | None = None,
    weight: ArrayLike | None = None,
    kind: ArrayLike | None = None,
    efficiency: Mapping[int, Sequence[float]] | None = None,
    leases: Sequence[tuple[int, float] | tuple[int, float, float]] = (),
    record: bool = False,
) -> ColumnRun:
    """Run activities given as columns, one row each, and return their finish times.

    The results are bit-identical to those of an `Environment`. No Python code runs: the interpreter
    lock is released, so that runs in several threads are parallel.

    Args:
        start: Start time of each activity, in seconds from 0.
        work: Work of each activity.
        capacity: Capacity of the single resource, or of each resource.
        resource: Index of the resource of each row; with two dimensions, the resources that each
            row uses simultaneously, padded with -1.
        limit: Maximum rate of each activity; infinite, the default, for no limit.
        weight: Weight of each activity, 1 by default.
        kind: Kind of each activity, 0 by default.
        efficiency: Efficiency of every resource, as in `Environment.resource` (a table only).
        leases: Host, size and, if it is not the size, weight of each lease (`Resource.lease`). In
            the column `resource`, lease i has the index of the last resource plus 1 + i.
        record: Also return the rates of all resources over time.

    Examples:
        >>> from twinloop.engine import run_columns
        >>> run = run_columns(start=[0, 0, 1], work=[2, 4, 1], capacity=1)
        >>> run.finish
        array([5., 7., 4.])
        >>> run.events
        6
        >>> run_columns([0, 0], [2, 2], capacity=4, resource=[1, 2], leases=[(0, 1), (0, 2)]).finish
        array([2., 1.])
    """
    capacities = np.atleast_1d(np.asarray(capacity, dtype=np.float64))
    return run_columns_native(
        _to_real_column("start", start),
        _to_real_column("work", work),
        capacity=_to_real_column("capacity", capacities),
        resource=_to_integer_column("resource", resource),
        limit=None if limit is None else _to_real_column("limit", limit),
        weight=None if weight is None else _to_real_column("weight", weight),
        kind=_to_integer_column("kind", kind),
        efficiency=efficiency,
        record=record,
        lease_host=np.array([lease[0] for lease in leases], dtype=np.int64),
        lease_size=np.array([lease[1] for lease in leases], dtype=np.float64),
        lease_weight=np.array([_weight_of(lease) for lease in leases], dtype=np.float64),
    )


def _weight_of(lease: tuple[int, float] | tuple[int, float, float]) -> float:
    """Return the weight of a lease; 0, as in the core, for its size."""
    if len(lease) == 2:
        return 0.0
    if not lease[2] > 0.0:
        raise ValueError(f"the weight of a lease must be positive, got {lease[2]}")
    return lease[2]


def _to_real_column(name: str, column: ArrayLike) -> NDArray[np.float64]:
    array = np.ascontiguousarray(column, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError(f"column `{name}` must have one dimension, not {array.ndim}")
    return array


def _to_integer_column(name: str, column: ArrayLike | None) -> NDArray[np.int64] | None:
    if column is None:
        return None
    array = np.asarray(column)
    if array.dtype.kind not in "iu" and array.size:
        raise ValueError(f"column `{name}` must hold integers, not {array.dtype}")
    return np.ascontiguousarray(array, dtype=np.int64)
