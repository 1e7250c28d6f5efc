"""Conversion of a workload to native columns."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from twinloop.description.errors import InputError
from twinloop.description.quantities import MAX_TIME
from twinloop.platform import Platform
from twinloop.platform.parts import Queue
from twinloop.workload.arrays import WorkloadArrays
from twinloop.workload.workload import Workload

if TYPE_CHECKING:
    from twinloop.workload import SessionGraphs

#: Number of tasks whose fragments are merged at once.
_BLOCK_TASKS = 128


def build_task_columns(
    workload: Workload,
    arrays: WorkloadArrays,
    platform: Platform,
    queues: tuple[str, ...],
    kinds: tuple[str, ...],
    *,
    clocks: bool,
) -> dict[str, Any]:
    """Build the native columns of the tasks; `clocks` includes the requested clock."""
    count = len(arrays)
    offsets, durations, rates = _merge_fragments(arrays)
    children, child_offsets = _list_children(arrays)
    requested = workload.tasks["requested_mhz"].fill_null(0.0).to_numpy() / np.maximum(
        arrays.cores, 1
    )
    kind = _recode(arrays.kind.codes, arrays.kind.names, kinds)
    queue = encode_queues(arrays, queues)
    priorities = np.array([each.priority for each in platform.queues] + [0.0])
    ranked = np.where((queue >= 0) & (queue < len(platform.queues)), queue, len(platform.queues))
    return {
        "submit": arrays.submit,
        "cores": arrays.cores,
        "memory": arrays.memory,
        "requested_time": arrays.requested_time,
        "priority": priorities[ranked],
        "mhz": requested if clocks else np.zeros(count),
        "nodes": arrays.nodes,
        "user": arrays.user.codes,
        "group": arrays.group.codes,
        "queue": queue,
        "amounts": np.ascontiguousarray(arrays.amounts.T.reshape(-1)),
        "work": arrays.work,
        "limit": arrays.limit,
        "speed": arrays.speed,
        "deadline": arrays.deadline,
        "kind": np.maximum(kind, 0).astype(np.int32),
        "rejected": np.zeros(count, dtype=np.uint8),
        "fragment_offsets": offsets,
        "fragment_duration": durations,
        "fragment_rate": rates,
        "parents": np.diff(arrays.parent_offsets),
        "child_offsets": child_offsets,
        "children": children,
        **({} if arrays.laws is None else arrays.laws.build_columns()),
    }


def scale_submissions(arrays: WorkloadArrays, scale: float) -> WorkloadArrays:
    """Multiply the submission times by a factor; deadlines move by the same amounts."""
    if scale == 1.0 or not len(arrays):
        return arrays
    submit = arrays.submit * scale
    if np.abs(submit).max() > MAX_TIME:
        raise InputError(
            f"moves a submission to {submit[np.abs(submit).argmax()]:g} s, beyond the limit of "
            f"{MAX_TIME:g} s",
            kind="out-of-range",
            field="time_scale",
        )
    return replace(arrays, submit=submit, deadline=arrays.deadline + (submit - arrays.submit))


def limit_deadlines(arrays: WorkloadArrays, latest: float) -> WorkloadArrays:
    """Give all tasks a deadline of at most this time; infinite: those that they have."""
    if np.isinf(latest):
        return arrays
    return replace(arrays, deadline=np.minimum(arrays.deadline, latest))


def encode_queues(arrays: WorkloadArrays, queues: tuple[str, ...]) -> NDArray[np.int32]:
    """Return the index of the queue of each task, or of its partition if it has no queue.

    -1 if the task has neither.
    """
    queue = _recode(arrays.queue.codes, arrays.queue.names, queues)
    partition = _recode(arrays.partition.codes, arrays.partition.names, queues)
    return np.where(queue >= 0, queue, partition).astype(np.int32)


def list_queue_names(arrays: WorkloadArrays, platform: Platform) -> tuple[str, ...]:
    """List the names of all queues, beginning with those of the platform."""
    own = [queue.name for queue in platform.queues]
    return tuple(dict.fromkeys([*own, *arrays.queue.names]))


def find_over_limits(
    arrays: WorkloadArrays, platform: Platform, queue: Any, requested: Any
) -> NDArray[np.uint8]:
    """Return the mask of the tasks that exceed a limit of their queue."""
    over = np.zeros(len(arrays), dtype=bool)
    for index, rule in enumerate(platform.queues):
        requests = (arrays.cores, arrays.nodes, arrays.memory, requested)
        for limit, amounts in zip(_list_limits(rule).values(), requests, strict=True):
            over |= (queue == index) & (amounts > limit)
    return over.astype(np.uint8)


def find_exceeded_limit(
    rule: Queue, cores: float, nodes: int, memory: float, requested: float | None
) -> str | None:
    """Return the name of the queue limit that a task exceeds; None if it exceeds none."""
    requests = (cores, nodes, memory, requested or 0.0)
    pairs = zip(_list_limits(rule).items(), requests, strict=True)
    return next((name for (name, limit), amount in pairs if amount > limit), None)


def _list_limits(rule: Queue) -> dict[str, float]:
    """Return the limits of a queue on one task: cores, nodes, memory, time."""
    names = ("max_cores", "max_nodes", "max_memory", "max_time")
    limits = {name: getattr(rule, name) for name in names}
    return {name: np.inf if limit is None else limit for name, limit in limits.items()}


def add_descendants(arrays: WorkloadArrays, mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Add to a mask all tasks that depend on its tasks, directly or indirectly."""
    found = mask.copy()
    if not len(arrays.parents):
        return found
    children, offsets = (column.tolist() for column in _list_children(arrays))
    pending = np.flatnonzero(mask).tolist()
    while pending:
        row = pending.pop()
        for child in children[offsets[row] : offsets[row + 1]]:
            if not found[child]:
                found[child] = True
                pending.append(child)
    return found


def build_session_columns(graphs: SessionGraphs, rows: NDArray[np.int64]) -> dict[str, Any]:
    """Build the native columns of user sessions; `rows` is the task of each job of the graphs."""
    sessions = graphs.partition
    session_of_job = np.repeat(np.arange(len(sessions)), np.diff(sessions.offsets))
    offsets, successors = graphs.successors
    before = np.repeat(np.arange(len(sessions)), np.diff(offsets))
    return {
        "job_offsets": sessions.offsets,
        "jobs": rows,
        "delays": sessions.submit - sessions.start[session_of_job],
        "successor_offsets": offsets,
        "successors": successors,
        "think_times": sessions.start[successors] - sessions.finish[before],
        "dependencies": np.diff(graphs.offsets),
        "starts": sessions.start,
    }


def _recode(
    codes: NDArray[np.int32], names: tuple[str, ...], wanted: tuple[str, ...]
) -> NDArray[np.int32]:
    """Recode names as indices into the wanted names; -1 for names that are not among them."""
    index = {name: i for i, name in enumerate(wanted)}
    table = np.array([*(index.get(name, -1) for name in names), -1], dtype=np.int32)
    return table[codes]


def _merge_fragments(
    arrays: WorkloadArrays,
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Merge adjacent fragments of a task that have the same rate."""
    fragments, count = arrays.fragments, len(arrays)
    is_first = np.ones(len(fragments.rates), dtype=bool)
    np.not_equal(fragments.rates[1:], fragments.rates[:-1], out=is_first[1:])
    is_first[fragments.offsets[:-1]] = True
    if is_first.all():
        return fragments.by_task(count)
    starts, ends, counts = np.zeros((3, count), dtype=np.int64)
    starts[fragments.tasks], ends[fragments.tasks] = fragments.offsets[:-1], fragments.offsets[1:]
    counts[fragments.tasks] = np.add.reduceat(is_first, fragments.offsets[:-1], dtype=np.int64)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    durations, rates = np.empty((2, offsets[-1]))
    # In blocks of tasks: an index of all fragments would be as large as the fragments.
    for low in range(0, count, _BLOCK_TASKS):
        block = slice(low, low + _BLOCK_TASKS)
        lengths = ends[block] - starts[block]
        indices = np.repeat(ends[block] - np.cumsum(lengths), lengths)
        indices += np.arange(len(indices))
        heads = np.flatnonzero(is_first[indices])
        if len(heads):
            target = slice(offsets[low], offsets[low] + len(heads))
            durations[target] = np.add.reduceat(fragments.durations[indices], heads)
            rates[target] = fragments.rates[indices[heads]]
    return offsets, durations, rates


def _list_children(arrays: WorkloadArrays) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    count = len(arrays)
    child = np.repeat(np.arange(count), np.diff(arrays.parent_offsets))
    order = np.argsort(arrays.parents, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(arrays.parents, minlength=count))])
    return child[order], offsets.astype(np.int64)
