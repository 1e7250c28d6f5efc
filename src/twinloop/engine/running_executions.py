"""The executions of a run that have not ended at its present time.

The native log of a run has executions from their end on. A trace in the middle of a run needs those
that still go on as well: otherwise the power of their machines would have no cause in its tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from twinloop.engine.native_codes import REASONS

if TYPE_CHECKING:
    from twinloop._core import ClusterRun
    from twinloop.engine.compiled_scenario import CompiledScenario

#: In place of the reason for the end of an execution that has not ended.
NOT_ENDED: Final = len(REASONS)


def list_running(
    compiled: CompiledScenario, run: ClusterRun, label_bit: np.uint32
) -> dict[str, NDArray[Any]]:
    """List the executions that go on, in the columns of `ClusterRun.placements`; {} without any.

    Args:
        compiled: The scenario of the run.
        run: The run.
        label_bit: What is added to the number of a rental in a record.
    """
    view = run.view()
    running = sorted(view.running)
    if not running:
        return {}
    outcomes, present = run.outcomes(), run.present_instances()
    rentals = dict(zip(present["machine"].tolist(), present["rental"].tolist(), strict=True))
    known = len(compiled.names.machines)
    rows: list[tuple[int, int, float]] = []
    for task in running:
        # A task that is dispatched has its machines, but no execution yet; one that has ended may
        # keep them until the scheduler is notified.
        is_begun = outcomes["last_start"][task] >= view.started(task)
        if outcomes["status"][task] or not is_begun:
            continue
        for machine, cores in view.placement(task):
            label = machine if machine < known else rentals[machine] + int(label_bit)
            rows.append((task, label, cores))
    if not rows:
        return {}
    tasks = np.array([row[0] for row in rows], dtype=np.uint32)
    return {
        "task": tasks,
        "attempt": (outcomes["attempts"][tasks] - 1).astype(np.uint32),
        "machine": np.array([row[1] for row in rows], dtype=np.uint32),
        "count": np.ones(tasks.size, dtype=np.uint32),
        "cores": np.array([row[2] for row in rows], dtype=np.float64),
        "start": outcomes["last_start"][tasks],
        "end": np.full(tasks.size, np.nan),
        "reason": np.full(tasks.size, NOT_ENDED, dtype=np.uint8),
    }


def add_running_use(
    compiled: CompiledScenario, run: ClusterRun, outcomes: dict[str, NDArray[Any]]
) -> NDArray[np.float64]:
    """Add to the CPU seconds of tasks those that their executions have used so far.

    NaN for tasks that run if a policy or a source is written in Python: what executions have used
    is read from the saved state, and to save calls their code.
    """
    total: NDArray[np.float64] = outcomes["used"]
    running = [task for task in run.view().running if not outcomes["status"][task]]
    if not running:
        return total
    total = total.copy()
    if run.has_python_policy or compiled.python_source is not None:
        total[running] = np.nan
        return total
    for saved in run.saved_state()["executions"]:
        # The use of an execution that writes its files is that of its task already.
        if saved["step"] == "compute":
            total[saved["task"]] += _find_use(compiled, run, saved) / saved["speed"]
    return total


def _find_use(compiled: CompiledScenario, run: ClusterRun, saved: dict[str, Any]) -> float:
    """Return the reference core-seconds that an execution has used so far."""
    if run.shared:
        return float(saved["used"])
    now = min(run.now, saved["paused"])
    fragments, task = compiled.arrays.fragments, saved["task"]
    place = np.flatnonzero(fragments.tasks == task)
    if not place.size:
        return float(saved["rate"] * (now - saved["work_begun"]))
    own = slice(*fragments.offsets[place[0] : place[0] + 2])
    ends = np.concatenate([[0.0], np.cumsum(fragments.durations[own])])
    work = np.concatenate([[0.0], np.cumsum(fragments.durations[own] * fragments.rates[own])])
    reached = run.progress(task) * ends[-1]
    done = float(np.diff(np.interp([saved["from"], reached], ends, work))[0])
    return done * float(saved["factor"]) * float(saved["stretch"])
