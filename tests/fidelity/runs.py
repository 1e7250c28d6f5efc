"""Small runs whose figures can be computed by hand."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from twinloop.trace import Manifest, Trace


def run(
    waits: Sequence[float],
    lengths: Sequence[float] | float = 10.0,
    *,
    submits: Sequence[float] | float = 0.0,
    usage: dict[str, Sequence[float]] | None = None,
    watts: Sequence[float] | None = None,
    shift: float = 0.0,
    facts: dict[str, object] | None = None,
    users: Sequence[str] | None = None,
    machines: Sequence[str] | None = None,
) -> Trace:
    """Tasks 0, 1, ... with these waits and run times; usage and power in windows of 1 s.

    `usage` has the cores that a task used in each second since its start, `watts` the total power
    in each second since t = 0; `shift` is added to all times.
    """
    n = len(waits)
    submit = np.broadcast_to(np.asarray(submits, float), n) + shift
    start = submit + np.asarray(waits, float)
    end = start + np.broadcast_to(np.asarray(lengths, float), n)
    ids = [str(number) for number in range(n)]
    tables = {
        "tasks": pl.DataFrame(
            {
                "id": pl.Series(ids, dtype=pl.String),
                "user": pl.Series([None] * n if users is None else users, dtype=pl.String),
                "submit": pl.Series(submit, dtype=pl.Float64),
                "requested_cores": pl.Series([1.0] * n, dtype=pl.Float64),
                "status": pl.Series(["completed"] * n, dtype=pl.String),
            }
        ),
        "placements": pl.DataFrame(
            {
                "task": pl.Series(ids, dtype=pl.String),
                "machine": pl.Series([None] * n if machines is None else machines, dtype=pl.String),
                "cores": pl.Series([1.0] * n, dtype=pl.Float64),
                "start": pl.Series(start, dtype=pl.Float64),
                "end": pl.Series(end, dtype=pl.Float64),
            }
        ),
    }
    if usage is not None:
        tables["usage"] = pl.concat(
            windows(task, cores, float(start[int(task)])) for task, cores in usage.items()
        )
    if watts is not None:
        t = shift + np.arange(1.0, len(watts) + 1)
        tables["power"] = pl.DataFrame({"t": t, "dt": 1.0, "watts": np.asarray(watts, float)})
    return Trace(manifest=Manifest(facts=facts or {}), **tables)


def windows(task: str, cores: Sequence[float], start: float, dt: float = 1.0) -> pl.DataFrame:
    """Windows of usage of one task, one after another."""
    used = np.asarray(cores, float)
    t = start + dt * np.arange(1, used.size + 1)
    return pl.DataFrame({"task": [task] * used.size, "t": t, "dt": dt, "cpu": used * dt})
