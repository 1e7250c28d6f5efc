"""The table of the machines of a simulation at its present time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from twinloop._core import ClusterRun, View


def build_machine_table(names: Sequence[str], view: View, run: ClusterRun) -> pl.DataFrame:
    """Build a row per machine, then one per instance that is rented now."""
    count = len(names)
    known = pl.Series([*names, None], dtype=pl.String)
    rented = run.present_instances()
    rows = np.concatenate([np.arange(count), rented["machine"]])
    hosts = np.concatenate([run.hosts(), rented["host"]])
    instances = len(rented["rental"])
    return pl.DataFrame(
        {
            "machine": pl.Series(
                [*names, *(f"instance-{number + 1}" for number in rented["rental"])],
                dtype=pl.String,
            ),
            "cores": view.capacity[rows],
            "free_cores": view.free_cores[rows],
            "tasks": view.task_counts.astype(np.int64)[rows],
            "up": [not run.is_down(m) and not run.is_removed(m) for m in range(count)]
            + [True] * instances,
            "state": [*run.machine_states(), *(["rented"] * instances)],
            "energy": pl.Series([*run.energy().tolist(), *([None] * instances)], dtype=pl.Float64),
            "host": known.gather(hosts % len(known)),
        }
    )
