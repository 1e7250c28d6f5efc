"""Readers of recorded node failures: CSV files and the failure traces of OpenDC."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from twinloop.description.address import suggest_name
from twinloop.description.errors import FormatError, InputError
from twinloop.description.files import read_first_bytes, require_input
from twinloop.description.quantities import DURATION, number_to_text
from twinloop.trace.formats import parquet
from twinloop.trace.formats.opendc import read_failures
from twinloop.trace.formats.text_rows import MAX_LOG_TIME, has_unreadable_bytes, read_lines
from twinloop.workload.generators.elementary import Floats
from twinloop.workload.generators.random_stream import Integers, RandomStream

#: Indices of nodes with the start and end of a failure of each.
FailureBlock = tuple[Integers, Floats, Floats]

_COLUMNS = ("node", "start", "end")
#: Texts of the cell `end` of a permanent failure.
_PERMANENT: Final = ("", "inf", "infinity")


def read_failure_log(
    path: str | Path, nodes: Sequence[str], horizon: float, seed: int
) -> pl.DataFrame:
    """Read the failures of a file that start before the horizon (s).

    A CSV file names the failed nodes; from a failure trace of OpenDC they are drawn at random.
    The `end` of a permanent failure (an empty cell or `inf`) is null.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "failures.csv")
    ...     _ = file.write_text("node,start,end\\nb,1h,2h\\na,60,90\\nb,100000,200000\\n")
    ...     read_failure_log(file, ["a", "b"], horizon=86400.0, seed=0).rows()
    [('a', 60.0, 90.0), ('b', 3600.0, 7200.0)]
    """
    path = Path(path)
    require_input(path)
    if read_first_bytes(path, len(parquet.MAGIC)) == parquet.MAGIC:
        return failures_to_frame(nodes, _read_opendc_failures(path, nodes, horizon, seed))
    node_indices = {node: index for index, node in enumerate(nodes)}
    rows = [row for row in _read_rows(path, node_indices) if row[1] < horizon]
    index, start, end = zip(*rows, strict=True) if rows else ((), (), ())
    part = (np.asarray(index, dtype=np.int64), np.asarray(start), np.asarray(end))
    return failures_to_frame(nodes, [part])


def failures_to_frame(nodes: Sequence[str], parts: Iterable[FailureBlock]) -> pl.DataFrame:
    """Convert failures to a frame; overlapping or adjacent failures of a node are merged.

    An infinite end becomes null.
    """
    parts = [(np.empty(0, dtype=np.int64), np.empty(0), np.empty(0)), *parts]
    index, start, end = (np.concatenate(column) for column in zip(*parts, strict=True))
    # A new failure starts after the end of all earlier failures of its node.
    latest = pl.col("end").cum_max().shift(1).over("index")
    merged = (
        pl.DataFrame({"index": index, "start": start, "end": end})
        .sort("index", "start", "end")
        .with_columns(failure=(pl.col("start") > latest).fill_null(True).cum_sum())
        .group_by("failure")
        .agg(pl.col("index", "start").first(), pl.col("end").max())
        .sort("start", "index")
    )
    names = pl.Series("node", list(nodes), dtype=pl.String)
    ends = pl.when(pl.col("end").is_finite()).then("end").alias("end")
    return merged.select(names.gather(merged["index"]), "start", ends)


def _read_rows(path: Path, node_indices: dict[str, int]) -> Iterator[tuple[int, float, float]]:
    header: list[str] | None = None
    for number, text in read_lines(path):
        if has_unreadable_bytes(text):
            raise InputError("is not UTF-8 text", kind="not-utf8", file=path, line=number)
        if not text.strip():
            continue
        cells = [cell.strip() for cell in next(csv.reader([text]))]
        if header is None:
            header = _check_header(cells, path, number)
            continue
        if len(cells) != len(header):
            raise InputError(
                f"has {len(cells)} cells, not {len(header)}",
                kind="malformed-row",
                file=path,
                line=number,
            )
        yield _parse_row(dict(zip(header, cells, strict=True)), node_indices, path, number)
    if header is None:
        raise FormatError(
            "is empty", kind="empty-log", file=path, remedy=f"first line: {','.join(_COLUMNS)}"
        )


def _check_header(cells: list[str], path: Path, number: int) -> list[str]:
    for name in _COLUMNS:
        if cells.count(name) != 1:
            raise FormatError(
                f"has {'no' if name not in cells else 'more than one'} column '{name}'",
                kind="wrong-columns",
                file=path,
                line=number,
                remedy=f"first line: {','.join(_COLUMNS)}",
            )
    return cells


def _parse_row(
    cells: dict[str, str], node_indices: dict[str, int], path: Path, number: int
) -> tuple[int, float, float]:
    node = cells["node"]
    if node not in node_indices:
        raise InputError(
            f"the platform has no node '{node}'",
            kind="unknown-reference",
            file=path,
            line=number,
            field="node",
            remedy=suggest_name(node, list(node_indices)),
        )
    start = _parse_time(cells["start"], "start", path, number)
    is_permanent = cells["end"].lower() in _PERMANENT
    end = np.inf if is_permanent else _parse_time(cells["end"], "end", path, number)
    if end < start:
        raise InputError(
            f"{number_to_text(end)} s is before the start, {number_to_text(start)} s",
            kind="wrong-order",
            file=path,
            line=number,
            field="end",
        )
    return node_indices[node], start, end


def _parse_time(text: str, field: str, path: Path, number: int) -> float:
    try:
        time = DURATION.read(text)
    except InputError as error:
        raise error.at(file=path, line=number, field=field) from None
    if not 0 <= time <= MAX_LOG_TIME:
        problem = f"{number_to_text(time)} s is not between 0 and {MAX_LOG_TIME:,.0f} s"
        remedy = "leave it empty if the failure is permanent" if field == "end" else None
        raise InputError(
            problem, kind="invalid-value", file=path, line=number, field=field, remedy=remedy
        )
    return time


def _read_opendc_failures(
    path: Path, nodes: Sequence[str], horizon: float, seed: int
) -> Iterator[FailureBlock]:
    """Yield the failures of a failure trace of OpenDC, one block each."""
    failures = read_failures(path)
    ends = (failures["interval"] + failures["duration"]).cum_sum()
    failures = failures.with_columns(end=ends, start=ends - failures["duration"])
    failures = failures.filter(pl.col("start") < horizon)
    # Each node draws a number per failure; the nodes with the smallest numbers fail.
    draws = np.empty((len(nodes), failures.height))
    for index, node in enumerate(nodes):
        draws[index] = RandomStream(seed, f"failures of {node}").uniform(failures.height)
    for column, (start, end, share) in enumerate(
        failures.select("start", "end", "share").iter_rows()
    ):
        # A share such as 0.29 of 100 is slightly less than 29 in floating point.
        count = int(share * len(nodes) + 1e-9)
        failed = np.sort(np.argsort(draws[:, column], kind="stable")[:count])
        yield failed, np.full(count, start), np.full(count, end)
