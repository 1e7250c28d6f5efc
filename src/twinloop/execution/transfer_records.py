"""Transfers of files in the journal of a run: their table, and executions that include them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from twinloop.description import Cleaning
from twinloop.execution.run_journal import EXECUTION_KEY, JournalEntries
from twinloop.execution.staging.file_plan import replace_sizes
from twinloop.trace import Trace
from twinloop.trace.tables import TABLES, conform_table
from twinloop.workload.cleaning_notes import note

#: Reason in the journal of the end of processes after which outputs are copied.
COPYING: Final = "copying"


def build_transfer_table(plan: Trace, transfers: JournalEntries) -> pl.DataFrame:
    """Build the table of transfers from their entries, in the order of their ends."""
    ids = plan.tasks["id"]
    rows = [
        {name: entry[name] for name in TABLES["transfers"] if name != "subject"}
        | {"subject": ids[entry["task"]]}
        for entry in sorted(transfers, key=lambda entry: float(entry["end"]))
    ]
    schema = {name: column.dtype for name, column in TABLES["transfers"].items()}
    return conform_table("transfers", pl.DataFrame(rows, schema=schema))


def update_sizes(files: pl.DataFrame, transfers: JournalEntries) -> pl.DataFrame:
    """Return the table of files with the real sizes of outputs."""
    return replace_sizes(files, _find_output_sizes(transfers))


def note_other_sizes(files: pl.DataFrame, transfers: JournalEntries) -> Iterator[Cleaning]:
    """Yield a note if outputs have other sizes than declared."""
    sizes = _find_output_sizes(transfers)
    declared = dict(files.select("file", "size").iter_rows())
    names = [
        f"{name}: {size:,.0f} bytes, declared {declared[name]:,.0f}"
        for name, size in sizes.items()
        if declared.get(name) is not None and abs(declared[name] - size) >= 1
    ]
    if names:
        what = "outputs with another size than declared: the real size is recorded"
        yield note("noticed", what, pl.Series(names))


def _find_output_sizes(transfers: JournalEntries) -> dict[str, float]:
    return {
        str(entry["file"]): float(entry["bytes"])
        for entry in transfers
        if entry["kind"] == "stage-out" and entry["reason"] == "completed"
    }


def add_copies(executions: pl.DataFrame, entries: dict[str, JournalEntries]) -> pl.DataFrame:
    """Add `launched` and `exited` to executions, the times of their processes.

    An execution whose files are copied starts before its processes, and ends after them. It has no
    end if its outputs were still being copied when the journal ended.
    """
    launched = pl.DataFrame(
        [[e[name] for name in (*EXECUTION_KEY, "pid", "t")] for e in entries["launch"]],
        schema=dict.fromkeys((*EXECUTION_KEY, "launched_pid"), pl.Int64) | {"launched": pl.Float64},
        orient="row",
    )
    out = pl.DataFrame(
        [[e[name] for name in ("task", "attempt", "t", "reason")] for e in entries["out"]],
        schema={"task": pl.Int64, "attempt": pl.Int64, "out": pl.Float64, "verdict": pl.String},
        orient="row",
    )
    copies = pl.col("reason") == COPYING
    return (
        executions.join(launched, on=EXECUTION_KEY, how="left", maintain_order="left")
        .join(out, on=("task", "attempt"), how="left", maintain_order="left")
        .with_columns(
            pid=pl.coalesce("pid", "launched_pid"),
            launched=pl.coalesce("launched", "start"),
            exited=pl.col("end"),
            end=pl.when(copies).then("out").otherwise("end"),
            reason=pl.when(copies).then("verdict").otherwise("reason"),
        )
        .drop("launched_pid", "out", "verdict")
    )
