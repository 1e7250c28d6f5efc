"""Writer of SWF logs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import polars as pl

from twinloop.description.cleaning import Cleaning
from twinloop.description.files import write_atomically
from twinloop.trace.formats.cleaning_counts import Tally
from twinloop.trace.formats.format_limits import note_unsupported_columns, number_tasks
from twinloop.trace.formats.swf.header import make_header
from twinloop.trace.formats.swf.numbers import find_shortest_decimal, format_column
from twinloop.trace.formats.swf.reader import (
    COMPLETES,
    CONTINUES,
    FAILS,
    KB,
    REQUESTED_PROCESSORS,
    USED_PROCESSORS,
)
from twinloop.trace.trace import Trace

_CODES: Final = {"completed": 1, "failed": 0, "cancelled": 5, "killed": 0, "lost": 0, "rejected": 5}
_BATCH_ROWS: Final = 1 << 16
_MAX_NUMBER: Final = 2.0**53  # the limit of the reader

_RECORD: Final = (
    *("job", "submit", "wait", "run_time", "allocated", "cpu", "memory", "requested"),
    *("requested_time", "requested_memory", "code", "user", "group", "executable", "queue"),
    *("partition", "preceding", "think_time"),
)
_NAMES: Final = {
    "user": "user",
    "group": "group",
    "name": "executable",
    "queue": "queue",
    "partition": "partition",
}
_SUPPORTED: Final = {
    "tasks": (
        *("id", "name", "user", "group", "queue", "partition", "submit", "requested_cores"),
        *("requested_memory", "requested_time", "run_time", "cpu_time", "memory_used"),
        *("status", "parents", "think_time", "line"),
    ),
    "placements": ("task", "attempt", "cores", "start", "end", "reason"),
}


def write(trace: Trace, path: Path) -> Iterable[Cleaning]:
    """Write a log in the Standard Workload Format, compressed if the name ends in .gz or .zst.

    Names that are not numbers are numbered in order of appearance; the header lists them. Numbers
    are written with the fewest digits that read back to the same values, except for the last bit of
    a total that is not a multiple of its processors.

    >>> import tempfile
    >>> trace = Trace(tasks=pl.DataFrame({"id": ["a"], "submit": [0.5], "user": ["ann"]}))
    >>> with tempfile.TemporaryDirectory() as temporary:
    ...     notes = write(trace, Path(temporary, "log.swf"))
    ...     print(Path(temporary, "log.swf").read_text().splitlines()[-1])
    1 0.5 -1 -1 -1 -1 -1 -1 -1 -1 -1 1 -1 -1 -1 -1 -1 -1
    >>> print(*notes, sep="\\n")
    assumed 1: jobs numbered in order of appearance
    assumed 1: users numbered in order of appearance
    """
    tally = Tally()
    note_unsupported_columns(trace, tally, **_SUPPORTED)
    tasks, shift = _shift_to_zero(number_tasks(trace), tally)
    executions = _merge_placements(trace, shift)
    names: dict[str, list[str]] = {}
    jobs = _compute_fields(_number_names(tasks, executions, names, tally), tally)
    records = _add_parts(jobs, executions)
    epoch = _get_epoch_s(trace, shift, tally)
    lines = pl.concat_str([format_column(name) for name in _RECORD], separator=" ")
    with write_atomically(path) as stream:
        for line in make_header(trace, epoch, records.height, names):
            stream.write(f";{line}\n".encode())
        for begin in range(0, records.height, _BATCH_ROWS):
            block: str = records.slice(begin, _BATCH_ROWS).select(lines.str.join("\n")).item()
            stream.write(block.encode() + b"\n")
    return tally.cleanings()


def _shift_to_zero(tasks: pl.DataFrame, tally: Tally) -> tuple[pl.DataFrame, int]:
    """Shift submissions by whole seconds so that none is negative, because -1 means unknown."""
    first = tasks["submit"].min()
    if not isinstance(first, float) or first >= 0.0:
        return tasks, 0
    shift = int(-(first // 1))
    what = f"submissions moved {shift} s later, so that none is before 0"
    tally.note("repaired", what, count=tasks.height)
    return tasks.with_columns(pl.col("submit") + shift), shift


def _merge_placements(trace: Trace, shift: int) -> pl.DataFrame:
    """Aggregate the placements of each attempt of a task over its machines."""
    return (
        trace.placements.group_by("task", "attempt", maintain_order=True)
        .agg(
            pl.when(pl.col("cores").null_count() < pl.len()).then(pl.col("cores").sum()),
            pl.col("start").min() + shift,
            pl.col("end").max() + shift,
            pl.col("reason").last(),
        )
        .sort("task", "attempt")
    )


def _get_epoch_s(trace: Trace, shift: int, tally: Tally) -> int | None:
    epoch = trace.manifest.epoch_ms
    if epoch is None:
        return None
    if epoch % 1000:
        tally.note("ignored", "milliseconds of the epoch")
    return epoch // 1000 - shift


def _number_names(
    tasks: pl.DataFrame, executions: pl.DataFrame, names: dict[str, list[str]], tally: Tally
) -> pl.DataFrame:
    """Number all names, and join the first execution of each task."""
    first = executions.group_by("task", maintain_order=True).first()
    jobs = tasks.join(first, left_on="id", right_on="task", how="left", maintain_order="left")
    has_several = jobs["parents"].list.len().fill_null(0) > 1
    tally.note("ignored", "parents beyond the first", count=int(has_several.sum()))
    jobs = jobs.with_columns(preceding=pl.col("parents").list.first())
    numbers = _names_to_numbers(jobs["id"], "job", names, tally)
    jobs = jobs.with_columns(job=numbers)
    if "job" in names:
        numbering = pl.DataFrame({"preceding": jobs["id"], "number": numbers})
        joined = jobs.select("preceding").join(
            numbering, on="preceding", how="left", maintain_order="left"
        )
        lost = joined.filter(pl.col("number").is_null() & pl.col("preceding").is_not_null())
        tally.note("ignored", "parents that are not tasks of the trace", count=lost.height)
        jobs = jobs.with_columns(preceding=joined["number"])
    else:
        jobs = jobs.with_columns(
            preceding=_names_to_numbers(jobs["preceding"], "parent", names, tally)
        )
    return jobs.with_columns(
        **{
            field: _names_to_numbers(jobs[column], field, names, tally)
            for column, field in _NAMES.items()
        }
    )


def _names_to_numbers(
    column: pl.Series, what: str, names: dict[str, list[str]], tally: Tally
) -> pl.Series:
    """Convert names to numbers: as they are if all are numbers, else in order of appearance."""
    # At most 18 digits fit; a leading zero would be lost.
    if column.drop_nulls().str.contains(r"^(0|[1-9]\d{0,17})$").all():
        return column.cast(pl.Int64)
    distinct = column.drop_nulls().unique(maintain_order=True)
    names[what] = distinct.to_list()
    tally.note("assumed", f"{what}s numbered in order of appearance", count=distinct.len())
    table = pl.DataFrame(
        {"name": distinct, "number": pl.int_range(1, distinct.len() + 1, eager=True)}
    )
    return (
        pl.DataFrame({"name": column})
        .join(table, on="name", how="left", maintain_order="left")
        .get_column("number")
    )


def _compute_fields(jobs: pl.DataFrame, tally: Tally) -> pl.DataFrame:
    """Compute the numeric fields of each record, with values per processor instead of totals."""
    jobs = jobs.with_columns(
        allocated=_round_up(jobs["cores"], "cores of placements", tally),
        requested=_round_up(jobs["requested_cores"], "requested cores", tally),
        run_time=pl.coalesce("run_time", pl.col("end") - pl.col("start")),
        code=pl.col("status").replace_strict(_CODES, default=None, return_dtype=pl.Int64),
    )
    tally.note(
        "repaired",
        "killed and lost tasks written as failed, rejected ones as cancelled",
        count=jobs.filter(pl.col("status").is_in(["killed", "lost", "rejected"])).height,
    )
    used, requested = jobs.select(
        USED_PROCESSORS.alias("used"), REQUESTED_PROCESSORS.alias("asked")
    ).get_columns()
    figures = {
        "submit": jobs["submit"],
        "wait": _subtract(jobs["submit"], jobs["start"]),
        "run_time": jobs["run_time"],
        "cpu": _divide(jobs["cpu_time"], used, tally),
        "memory": _divide(jobs["memory_used"], KB * used, tally),
        "requested_time": jobs["requested_time"],
        "requested_memory": _divide(jobs["requested_memory"], KB * requested, tally),
        "think_time": jobs["think_time"],
    }
    return jobs.with_columns(
        **{name: _clear_out_of_range(values, name, tally) for name, values in figures.items()}
    )


def _round_up(cores: pl.Series, what: str, tally: Tally) -> pl.Series:
    rounded = cores.ceil()
    tally.note(
        "repaired", f"{what} rounded up to whole numbers", count=int((rounded != cores).sum())
    )
    return _clear_out_of_range(rounded, what, tally)


def _clear_out_of_range(values: pl.Series, what: str, tally: Tally) -> pl.Series:
    beyond = ~values.is_between(0.0, _MAX_NUMBER)
    tally.note("ignored", f"{what} below zero or too large", count=int(beyond.sum()))
    return values.set(beyond.fill_null(False), None)


def _subtract(begin: pl.Series, end: pl.Series) -> pl.Series:
    since, until = (each.fill_null(0.0).to_numpy() for each in (begin, end))
    return find_shortest_decimal(end - begin, lambda each: since + each == until)


def _divide(total: pl.Series, processors: pl.Series, tally: Tally) -> pl.Series:
    """Divide a total by the number of processors, which the reader multiplies with it again."""
    lost = total.is_not_null() & processors.is_null()
    tally.note("ignored", f"{total.name} where the processors are unknown", count=int(lost.sum()))
    divisors, totals = processors.fill_null(1.0).to_numpy(), total.fill_null(0.0).to_numpy()
    return find_shortest_decimal(total / processors, lambda each: each * divisors == totals)


def _add_parts(jobs: pl.DataFrame, executions: pl.DataFrame) -> pl.DataFrame:
    """Add the records of partial executions after the job, if it was executed more than once.

    The wait of the first counts from the submission, of the others from the previous end.
    """
    parts = executions.filter(pl.len().over("task") > 1)
    if not parts.height:
        return jobs
    columns = ["id", "order", "job", "submit", "user", "group", "executable", "queue", "partition"]
    first = pl.col("attempt") == pl.col("attempt").min().over("task")
    last = pl.col("attempt") == pl.col("attempt").max().over("task")
    before = pl.when(first).then("submit").otherwise(pl.col("end").shift(1))
    parts = parts.join(
        jobs.select(columns), left_on="task", right_on="id", maintain_order="left"
    ).with_columns(
        part=pl.int_range(1, pl.len() + 1).over("task"),
        before=before,
        submit=pl.when(first).then("submit"),
        allocated=pl.col("cores").ceil(),
        code=pl.when(~last)
        .then(CONTINUES)
        .otherwise(pl.when(pl.col("reason") == "completed").then(COMPLETES).otherwise(FAILS)),
    )
    parts = parts.with_columns(
        wait=_subtract(parts["before"], parts["start"]),
        run_time=_subtract(parts["start"], parts["end"]),
    )
    both = [jobs.with_columns(part=pl.lit(0, pl.Int64)), parts]
    return pl.concat(
        [frame.select("order", "part", pl.col("^.*$").exclude("order", "part")) for frame in both],
        how="diagonal_relaxed",
    ).sort("order", "part")
