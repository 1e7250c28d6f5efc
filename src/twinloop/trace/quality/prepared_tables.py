"""The tables of a Trace prepared for the rules: with row numbers, joined, sorted."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import polars as pl
import polars.selectors as cs

from twinloop.trace.trace import Trace


class PreparedTables:
    """Tables of one Trace that several rules need, computed on first use.

    >>> import polars as pl
    >>> from twinloop.trace import Trace
    >>> usage = pl.DataFrame({"task": ["a", "a"], "t": [1.0, 2.0], "dt": [1.0, 1.0]})
    >>> PreparedTables(Trace(usage=usage)).period
    1.0
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.manifest = trace.manifest
        self._tables = {name: frame.with_row_index("row") for name, frame in trace.tables.items()}
        self._finite_tables: dict[str, pl.DataFrame] = {}

    def raw(self, name: str) -> pl.DataFrame:
        """Return an unchanged table with the index of each row."""
        return self._tables[name]

    def table(self, name: str) -> pl.DataFrame:
        """Return a table in which numbers that are not finite are null.

        All rules use it, except `complete` and `finite`.
        """
        if name not in self._finite_tables:
            numbers = cs.float()
            self._finite_tables[name] = self._tables[name].with_columns(
                pl.when(numbers.is_finite()).then(numbers)
            )
        return self._finite_tables[name]

    @cached_property
    def is_cts(self) -> bool:
        """Whether the trace was read from the Core Trace Schema."""
        return self.manifest.source is not None and self.manifest.source.format == "cts"

    @cached_property
    def is_recorded(self) -> bool:
        """Whether executions were recorded, so that every start and end must be known."""
        return self.manifest.kind == "recorded" or self.is_cts

    @cached_property
    def period(self) -> float | None:
        """The sampling period of the manifest, else the median window (s); None if unknown."""
        if self.manifest.sampling_period is not None:
            return self.manifest.sampling_period
        usage = self.table("usage")
        median = usage["dt"].median()
        return float(median) if isinstance(median, (int, float)) else None

    @cached_property
    def ids(self) -> pl.DataFrame:
        """The row of each task by its id; the first row if an id is repeated."""
        tasks = self.table("tasks").select(task="id", task_row="row").drop_nulls("task")
        return tasks.unique("task", keep="first", maintain_order=True)

    @cached_property
    def placements(self) -> pl.DataFrame:
        """The placements with the row and the submission of their task."""
        tasks = self.table("tasks").select(task_row="row", submit="submit")
        return (
            self.table("placements")
            .join(self.ids, on="task", how="left", maintain_order="left")
            .join(tasks, on="task_row", how="left", maintain_order="left")
        )

    @cached_property
    def spans(self) -> pl.DataFrame:
        """The first start and the last end of each task whose executions all have both times."""
        return (
            self.placements.filter(pl.col("task_row").is_not_null())
            .group_by("task_row", maintain_order=True)
            .agg(
                start=pl.col("start").min(),
                end=pl.col("end").max(),
                known=(pl.col("start").is_not_null() & pl.col("end").is_not_null()).all(),
            )
            .filter("known")
            .drop("known")
        )

    @cached_property
    def rented_instances(self) -> pl.DataFrame:
        """The names of the instances that were rented from a cloud."""
        return self.table("instances").drop_nulls("cloud").select("instance").unique()

    @cached_property
    def edges(self) -> pl.DataFrame:
        """A row per task and parent: `row`, `parent`, `parent_row` (null: no such task)."""
        tasks = self.table("tasks").select("row", parent="parents").drop_nulls()
        return (
            tasks.explode("parent")
            .drop_nulls("parent")
            .join(
                self.ids.rename({"task": "parent", "task_row": "parent_row"}),
                on="parent",
                how="left",
                maintain_order="left",
            )
        )

    @cached_property
    def samples(self) -> pl.DataFrame:
        """The samples with a known time, sorted by series, each in the order of the file.

        `series` identifies one process of one task on one node; `previous` is the time of the
        previous sample of the series; `task_row` and `node_row` are the rows of task and node,
        null if they do not exist.
        """
        usage = self.table("usage").drop_nulls("t")
        nodes = self.table("nodes").select(machine="node", node_row="row").unique("machine")
        task = _ValueCodes.from_column(usage["task"])
        machine = _ValueCodes.from_column(usage["machine"])
        return sort_by_series(
            usage.select(
                "row",
                task.look_up(self.ids),
                machine.look_up(nodes),
                _ValueCodes.combine(task, machine, _ValueCodes.from_column(usage["pid"])).alias(
                    "series"
                ),
                "t",
                "dt",
                "cpu",
                "rss",
            )
        )

    @cached_property
    def power(self) -> pl.DataFrame:
        """The power windows with a known time, sorted by node, each in the order of the file."""
        power = self.table("power").drop_nulls("t")
        return sort_by_series(
            power.select("row", _ValueCodes.from_column(power["node"]).codes, "t", "dt")
        )

    @cached_property
    def sampled(self) -> pl.DataFrame:
        """Begin of the first sample, end of the last, and total length, by task."""
        return (
            self.samples.filter(pl.col("task_row").is_not_null())
            .group_by("task_row")
            .agg(
                first=(pl.col("t") - pl.col("dt").fill_null(0.0)).min(),
                last=pl.col("t").max(),
                total=pl.col("dt").sum(),
            )
        )


def sort_by_series(frame: pl.DataFrame) -> pl.DataFrame:
    """Sort rows by series, and add the time of the previous row of the series."""
    if not frame["series"].is_sorted():
        frame = frame.sort("series", maintain_order=True)
    same = pl.col("series") == pl.col("series").shift(1)
    return frame.with_columns(previous=pl.when(same).then(pl.col("t").shift(1)))


def sort_by_time(frame: pl.DataFrame) -> pl.DataFrame:
    """Sort the rows of `sort_by_series` by time within each series."""
    if not (frame["t"] < frame["previous"]).any():
        return frame
    return sort_by_series(frame.sort("series", "t", maintain_order=True))


@dataclass(frozen=True, slots=True)
class _ValueCodes:
    """The distinct values of a column, and for every row the code of its value."""

    values: pl.DataFrame
    codes: pl.Series

    @classmethod
    def from_column(cls, column: pl.Series) -> _ValueCodes:
        values = column.unique(maintain_order=True).to_frame()
        if values.height < 2:
            codes = pl.Series("series", [0], dtype=pl.UInt32).new_from_index(0, column.len())
        else:
            codes = column.to_frame().join(
                values.with_row_index("series"),
                on=column.name,
                how="left",
                nulls_equal=True,
                maintain_order="left",
            )["series"]
        return cls(values, codes)

    @staticmethod
    def combine(*parts: _ValueCodes) -> pl.Series:
        """Return one code per combination of values."""
        codes = parts[0].codes.cast(pl.UInt64)
        for part in parts[1:]:
            if part.values.height > 1:
                codes = codes * part.values.height + part.codes
        return codes

    def look_up(self, table: pl.DataFrame) -> pl.Series:
        """Look up the value of every row in a table of two columns, value and result."""
        key, result = table.columns
        results = self.values.join(table, on=key, how="left", maintain_order="left")[result]
        return results.gather(self.codes) if self.codes.len() else results.clear()
