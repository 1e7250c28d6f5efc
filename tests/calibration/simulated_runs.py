"""Synthetic runs for tests, from run times, CPU times and machines."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from twinloop.calibration.run_columns import RunBatch, RunColumns


def make_runs(
    run_time: npt.ArrayLike,
    cpu_time: npt.ArrayLike | None = None,
    machine: npt.ArrayLike | None = None,
    *,
    start: npt.ArrayLike | None = None,
    submit: npt.ArrayLike | None = None,
    energy: npt.ArrayLike | None = None,
    power: npt.ArrayLike | None = None,
    machines: Sequence[str] = ("n1", "n2", "n3"),
) -> RunBatch:
    """Make runs of tasks t0, t1...: a row each; started and submitted at 0 by default."""
    lengths = np.atleast_2d(np.asarray(run_time, dtype=float))
    begins = np.broadcast_to(np.zeros(1) if start is None else np.asarray(start), lengths.shape)
    submits = np.broadcast_to(np.zeros(1) if submit is None else np.asarray(submit), lengths.shape)
    cpu = lengths if cpu_time is None else np.broadcast_to(np.asarray(cpu_time), lengths.shape)
    where = np.zeros(1) if machine is None else np.asarray(machine)
    ends = begins + lengths
    outputs = {
        "makespan_s": np.nanmax(ends, axis=1) - submits.min(axis=1),
        "task_submit": submits,
        "task_start": begins,
        "task_end": ends,
        "task_cpu": cpu,
        "task_machine": np.broadcast_to(where, lengths.shape),
    }
    if energy is not None:
        outputs["energy_j"] = np.atleast_1d(np.asarray(energy, dtype=float))
    if power is not None:
        outputs["power"] = np.atleast_2d(np.asarray(power, dtype=float))
    ids = [f"t{place}" for place in range(lengths.shape[1])]
    return RunBatch.of(outputs, tasks=ids, machines=machines)


def make_run(*args: npt.ArrayLike, **options: npt.ArrayLike) -> RunColumns:
    """Make one run."""
    return make_runs(*args, **options)[0]  # type: ignore[arg-type]
