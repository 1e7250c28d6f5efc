"""In which core's seconds a trace counts, and how fast the cores were that its tasks ran on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from twinloop.description.cleaning import Cleaning
from twinloop.description.errors import InputError
from twinloop.trace.trace import NODE_SPEEDS, Trace
from twinloop.workload.cleaning_notes import note


class Clocks:
    """The reference clock, and the clock of every node relative to it.

    Where the trace says in which clock it counts, its CPU seconds are that clock's; otherwise
    they are those of the node that a sample comes from. The reference is what was asked for, else
    the clock the trace counts in, else the highest clock of a node. Where the facts of the trace
    have the speeds of its nodes (`NODE_SPEEDS`), these hold, whatever the clocks are, and its CPU
    seconds are those of the nodes.

    >>> nodes = pl.DataFrame({"node": ["slow", "fast"], "mhz": [1200.0, 2400.0]})
    >>> clocks = Clocks(Trace(nodes=nodes), None)
    >>> clocks.reference
    2400.0
    >>> fast = Trace(nodes=nodes).with_manifest(facts={NODE_SPEEDS: {"slow": 3.0, "fast": 3.0}})
    >>> Clocks(fast, None).speeds(pl.Series(["a"]))[0].to_list()
    [3.0]
    """

    def __init__(self, trace: Trace, reference_mhz: float | None) -> None:
        if reference_mhz is not None and not 0 < reference_mhz < float("inf"):
            raise InputError(f"{reference_mhz} is no clock", field="reference_mhz")
        counted = trace.manifest.reference_mhz
        nodes = trace.nodes.filter(pl.col("mhz") > 0)
        highest = nodes["mhz"].max()
        self.reference: float | None = (
            reference_mhz or counted or (float(highest) if isinstance(highest, float) else None)
        )
        self._counted = counted
        unknown = self.reference is None
        relative = pl.lit(1.0) if unknown else pl.col("mhz") / self.reference
        self._nodes = nodes.select(pl.col("node").alias("machine"), relative.alias("speed"))
        said = trace.manifest.facts.get(NODE_SPEEDS)
        self._said = said is not None
        if said is not None:
            self._nodes = _said_speeds(said)
        speeds = self._nodes["speed"].unique()
        #: The speed of all nodes, if it is one.
        self._common = float(speeds[0]) if speeds.len() == 1 else None
        self._differ = speeds.len() > 1
        self._placements = trace.placements.select("task", "attempt", "machine")

    def of_nodes(self, names: Iterable[str]) -> dict[str, float]:
        """The speed of a core of each of these nodes, as tasks that ran there are counted.

        >>> nodes = pl.DataFrame({"node": ["slow", "fast"], "mhz": [1200.0, 2400.0]})
        >>> Clocks(Trace(nodes=nodes), None).of_nodes(["slow", "other"])
        {'slow': 0.5, 'other': 1.0}
        """
        if self._counted is not None and self.reference is not None and not self._said:
            return dict.fromkeys(names, self._counted / self.reference)
        other = 1.0 if self._common is None else self._common
        known = dict(self._nodes.iter_rows())
        return {name: known.get(name, other) for name in names}

    def counted(self, usage: pl.DataFrame) -> tuple[pl.DataFrame, list[Cleaning]]:
        """Samples with their rates in reference cores."""
        if self._counted is not None and self.reference is not None and not self._said:
            factor = self._counted / self.reference
        elif self._differ:
            return self._by_machine(usage)
        else:
            factor = 1.0 if self._common is None else self._common
        if factor == 1.0:
            return usage, []
        return usage.with_columns(pl.col("rate") * factor), []

    def speeds(self, tasks: pl.Series) -> tuple[pl.Series, tuple[Cleaning, ...]]:
        """The speed of the core that each task ran on; null where it is not known."""
        if self._counted is not None and self.reference is not None and not self._said:
            return self._all(tasks, self._counted / self.reference), ()
        if not self._differ:
            return self._all(tasks, self._common), ()
        last = pl.col("attempt").fill_null(0)
        ran = self._placements.filter(last == last.max().over("task")).join(
            self._nodes, on="machine"
        )
        slowest = ran.group_by("task").agg(pl.min("speed"), pl.col("speed").n_unique().alias("n"))
        found = pl.DataFrame({"task": tasks}).join(
            slowest, on="task", how="left", maintain_order="left"
        )
        mixed = found.filter(pl.col("n") > 1)["task"]
        what = "tasks on nodes of several clocks: they ran at the lowest"
        unknown = found.filter(pl.col("n").is_null())["task"]
        which = "tasks on nodes whose clock is not known: they ran on reference cores"
        return found["speed"], (note("assumed", what, mixed), note("assumed", which, unknown))

    def _by_machine(self, usage: pl.DataFrame) -> tuple[pl.DataFrame, list[Cleaning]]:
        placed = self._placements.group_by("task").agg(
            pl.when(pl.col("machine").n_unique() == 1)
            .then(pl.col("machine").first())
            .alias("placed")
        )
        usage = (
            usage.join(placed, on="task", how="left", maintain_order="left")
            .with_columns(pl.coalesce("machine", "placed").alias("machine"))
            .join(self._nodes, on="machine", how="left", maintain_order="left")
        )
        unknown = usage["speed"].null_count()
        usage = usage.with_columns(pl.col("rate") * pl.col("speed").fill_null(1.0))
        what = "samples of a node whose clock is not known: counted as reference cores"
        return usage.drop("placed", "speed"), [note("assumed", what, count=unknown)]

    @staticmethod
    def _all(tasks: pl.Series, speed: float | None) -> pl.Series:
        return pl.Series("speed", [speed], dtype=pl.Float64).new_from_index(0, tasks.len())


def _said_speeds(said: Any) -> pl.DataFrame:
    """The speeds of nodes that a manifest names, if they can be speeds."""
    kinds = {"machine": pl.String, "speed": pl.Float64}
    rows = list(said.items()) if isinstance(said, Mapping) else [("", None)]
    for name, speed in rows:
        if isinstance(speed, bool) or not isinstance(speed, int | float) or not 0 < speed < 1e15:
            problem = f"{speed!r} is no speed of a core" if name else "is no mapping of speeds"
            raise InputError(problem, field=f"facts.{NODE_SPEEDS}" + (f".{name}" if name else ""))
    return pl.DataFrame(rows, schema=kinds, orient="row")
