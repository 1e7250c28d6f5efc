"""The outcomes of scenarios as a table with a row per scenario, and its file.

The columns of tasks and machines are lists. Digests stand for tables with several rows per task or
scenario. Where tasks share machines, times are equal only within a tolerance, so that digests leave
them out.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tests.cluster.frozen.scenarios import GROUP, find_usage_step, make_case, records_power
from tests.cluster.scenarios import Case
from twinloop._core import ClusterRun
from twinloop.engine import CompiledScenario
from twinloop.engine.workload_cache import LoadedWorkload

#: Length of the power windows (s).
POWER_STEP: Final = 10.0

FILE: Final = Path(__file__).with_name("outcomes.parquet")

#: Columns with a value per scenario.
SCENARIO_COLUMNS: Final = {
    "events": pl.Int64,  # number of events
    "makespan": pl.Float64,  # seconds
    "decisions": pl.UInt32,  # digest of the log of decisions
    "states": pl.UInt32,  # digest of the log of machine states
    "power_moment": pl.Float64,  # sum of energy times number, over windows of `POWER_STEP`
}
#: Columns with a value per task.
TASK_COLUMNS: Final = {
    "status": pl.UInt8,
    "attempts": pl.Int64,
    "machine": pl.Int16,  # first machine of the first execution; -1: never started
    "placements": pl.UInt32,  # digest of its rows in the table of placements
    "start": pl.Float64,
    "last_start": pl.Float64,
    "end": pl.Float64,
    "executions": pl.Float64,  # sum of start and end of all its placements
    "energy": pl.Float64,
    "used": pl.Float64,
    "done": pl.Float64,
    "cpu_moment": pl.Float64,  # sum of CPU time times end, over its usage windows
}
#: Columns with a value per machine.
MACHINE_COLUMNS: Final = {"machine_energy": pl.Float64}

SCHEMA: Final = pl.Schema(
    {
        "seed": pl.Int64,
        "shared": pl.Boolean,
        **SCENARIO_COLUMNS,
        **{name: pl.List(kind) for name, kind in (TASK_COLUMNS | MACHINE_COLUMNS).items()},
    }
)

#: Amounts that a task gets on a machine that it shares; their rule under `no-delay` is to change.
_SHARES: Final = ("energy", "used", "done", "cpu_moment")


def read_outcomes() -> pl.DataFrame:
    """Read the stored outcomes."""
    return pl.read_parquet(FILE).select(SCHEMA.names())


def write_outcomes(outcomes: pl.DataFrame) -> None:
    """Write the outcomes to their file."""
    outcomes.write_parquet(FILE, compression="zstd", compression_level=22, statistics=False)


def collect_outcomes(shared: Mapping[int, bool]) -> pl.DataFrame:
    """Run the scenarios of these seeds; `shared` tells whether their tasks share machines."""
    rows = []
    group, loaded = -1, None
    for seed, is_shared in shared.items():
        case = make_case(seed)
        if loaded is None or seed // GROUP != group:
            group, loaded = seed // GROUP, LoadedWorkload(case.scenario)
        row = run_case(case, seed, loaded, is_shared=is_shared)
        rows.append({"seed": seed, "shared": is_shared, **row})
    return pl.DataFrame(rows, schema=SCHEMA)


def run_case(
    case: Case, seed: int, loaded: LoadedWorkload | None = None, *, is_shared: bool
) -> dict[str, Any]:
    """Run a scenario and return its row."""
    workload = case.workload if loaded is None else loaded.workload
    compiled = CompiledScenario(case.make_scenario(workload), workload=loaded)
    has_power = compiled.machines.has_power_models and records_power(seed)
    run = compiled.start(
        placements=True, decisions=True, use=has_power, usage_step=find_usage_step(seed)
    )
    while compiled.advance(run, run.run_slice):
        pass
    row = _summarise_run(run, is_shared=is_shared)
    row["power_moment"] = _compute_power_moment(run) if has_power else None
    if is_shared and case.model.get("sharing") == "no-delay":
        row |= dict.fromkeys(_SHARES)
    return row


def is_shared_case(case: Case) -> bool:
    """Whether tasks of the case share machines, for `no-delay` also if their times are exact."""
    model = {name: value for name, value in case.model.items() if name != "sharing"}
    return CompiledScenario(case.but(model=model).scenario).start().shared


def _summarise_run(run: ClusterRun, *, is_shared: bool) -> dict[str, Any]:
    outcomes = run.outcomes()
    count = len(outcomes["status"])
    placed = _sort_placements(run.placements())
    usage = run.usage()
    used = np.bincount(usage["task"], usage["cpu"] * usage["t"], minlength=count)
    times = np.bincount(placed["task"], placed["start"] + placed["end"], minlength=count)
    decisions, states = run.decisions(), run.states()
    decisions = {name: decisions[name] for name in ("t", "kind", "task", "machine")}
    if is_shared:
        decisions.pop("t")
    first = np.searchsorted(placed["task"], np.arange(count + 1))
    machines = np.append(placed["machine"], -1)[first[:-1]]
    machines[first[:-1] == first[1:]] = -1
    named = ("status", "attempts", "start", "last_start", "end", "energy", "used", "done")
    return {
        **{name: outcomes[name] for name in named},
        "machine": machines,
        "placements": _digest_placements(placed, first, is_shared=is_shared),
        "executions": times,
        "cpu_moment": used,
        "events": run.events,
        "makespan": run.kpis()["makespan_s"],
        "decisions": zlib.crc32(_join_columns(decisions)),
        "states": zlib.crc32(_join_columns(states)),
        "machine_energy": run.energy(),
    }


def _compute_power_moment(run: ClusterRun) -> float:
    watts = run.power(POWER_STEP, False)
    edges = run.start_time + POWER_STEP * np.arange(len(watts) + 1)
    lengths = np.diff(np.minimum(edges, run.now))
    return float((watts * lengths) @ np.arange(1, len(watts) + 1))


def _sort_placements(log: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return a row per execution and machine, by task, attempt and machine."""
    counts = log.pop("count").astype(np.int64)
    rows = np.repeat(np.arange(len(counts)), counts)
    offsets = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    placed = {name: values[rows] for name, values in log.items()}
    placed["machine"] = placed["machine"].astype(np.int64) + offsets
    order = np.lexsort((placed["machine"], placed["attempt"], placed["task"]))
    return {name: values[order] for name, values in placed.items()}


def _digest_placements(
    placed: dict[str, NDArray[Any]], first: NDArray[np.int64], *, is_shared: bool
) -> list[int]:
    """Digest the rows of each task, which begin at `first`."""
    names = ("attempt", "machine", "cores", "reason")
    if not is_shared:
        names += ("start", "end")
    table = np.column_stack([placed[name].astype(np.float64) for name in names])
    return [zlib.crc32(table[begin:end].tobytes()) for begin, end in pairwise(first)]


def _join_columns(log: Mapping[str, NDArray[Any]]) -> bytes:
    # As float64, so that the digest does not depend on the types of the columns.
    return b"".join(log[name].astype(np.float64).tobytes() for name in sorted(log))
