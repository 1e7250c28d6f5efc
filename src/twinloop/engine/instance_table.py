"""The tables of instances of a run."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from twinloop._core import ClusterRun
from twinloop.engine.compiled_scenario import CompiledScenario
from twinloop.engine.rental_tables import build_rental_table
from twinloop.trace.tables import conform_table, make_empty_table

#: Why a period of an instance ended, by native code.
ENDS: Final = (None, "moved", "resized", "removed")


def build_instance_table(compiled: CompiledScenario, run: ClusterRun) -> pl.DataFrame:
    """Build the table of the periods that instances spent on one host with one size."""
    log = run.instances()
    rented = build_rental_table(compiled, run)
    if not len(log["instance"]):
        return make_empty_table("instances") if rented is None else rented
    names = pl.Series(compiled.names.machines, dtype=pl.String)
    frame = pl.DataFrame(
        {
            "instance": names.gather(log["instance"].astype(np.int64)),
            "host": names.gather(log["host"].astype(np.int64)),
            "cores": log["cores"],
            "memory": pl.Series(log["memory"]).replace(np.inf, None),
            "start": log["start"],
            "end": pl.Series(log["end"]).fill_nan(None),
            "reason": pl.Series(ENDS, dtype=pl.String).gather(log["reason"].astype(np.int64)),
        }
    )
    table = conform_table("instances", frame)
    return table if rented is None else pl.concat([table, rented])
