"""The reference clock of a trace, and the speeds of its nodes relative to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from twinloop.description.cleaning import Cleaning
from twinloop.description.errors import InputError
from twinloop.trace.trace import NODE_SPEEDS, Trace
from twinloop.workload.cleaning_notes import note


class Clocks:
    """The reference clock of a trace, and the speed of every node relative to it.

    CPU seconds of a trace with a reference clock in its manifest are seconds of that clock, of
    other traces seconds of the sampled node. The reference clock is the given one, else that of
    the manifest, else the highest clock of a node. Speeds of nodes in the facts of the trace
    (`NODE_SPEEDS`) take precedence over clocks; CPU seconds are then seconds of the nodes.

    >>> nodes = pl.DataFrame({"node": ["slow", "fast"], "mhz": [1200.0, 2400.0]})
    >>> clocks = Clocks(Trace(nodes=nodes), None)
    >>> clocks.reference
    2400.0
    >>> fast = Trace(nodes=nodes).with_manifest(facts={NODE_SPEEDS: {"slow": 3.0, "fast": 3.0}})
    >>> Clocks(fast, None).task_speeds(pl.Series(["a"]))[0].to_list()
    [3.0]
    """

    def __init__(self, trace: Trace, reference_mhz: float | None) -> None:
        if reference_mhz is not None and not 0 < reference_mhz < float("inf"):
            raise InputError(
                f"{reference_mhz} is not a clock frequency",
                kind="unknown-core-speed",
                field="reference_mhz",
            )
        recorded = trace.manifest.reference_mhz
        nodes = trace.nodes.filter(pl.col("mhz") > 0)
        highest = nodes["mhz"].max()
        self.reference: float | None = (
            reference_mhz or recorded or (float(highest) if isinstance(highest, float) else None)
        )
        self._recorded = recorded
        unknown = self.reference is None
        relative = pl.lit(1.0) if unknown else pl.col("mhz") / self.reference
        self._nodes = nodes.select(pl.col("node").alias("machine"), relative.alias("speed"))
        given = trace.manifest.facts.get(NODE_SPEEDS)
        self._given = given is not None
        if given is not None:
            self._nodes = _given_speeds(given)
        speeds = self._nodes["speed"].unique()
        #: The speed of the nodes, if it is the same for all.
        self._common = float(speeds[0]) if speeds.len() == 1 else None
        self._differ = speeds.len() > 1
        self._placements = trace.placements.select("task", "attempt", "machine")

    def node_speeds(self, names: Iterable[str]) -> dict[str, float]:
        """The speed of a core of each of these nodes.

        >>> nodes = pl.DataFrame({"node": ["slow", "fast"], "mhz": [1200.0, 2400.0]})
        >>> Clocks(Trace(nodes=nodes), None).node_speeds(["slow", "other"])
        {'slow': 0.5, 'other': 1.0}
        """
        if self._recorded is not None and self.reference is not None and not self._given:
            return dict.fromkeys(names, self._recorded / self.reference)
        other = 1.0 if self._common is None else self._common
        known = dict(self._nodes.iter_rows())
        return {name: known.get(name, other) for name in names}

    def to_reference(self, usage: pl.DataFrame) -> tuple[pl.DataFrame, list[Cleaning]]:
        """Convert the rates of samples to reference cores."""
        if self._recorded is not None and self.reference is not None and not self._given:
            factor = self._recorded / self.reference
        elif self._differ:
            return self._by_machine(usage)
        else:
            factor = 1.0 if self._common is None else self._common
        if factor == 1.0:
            return usage, []
        return usage.with_columns(pl.col("rate") * factor), []

    def task_speeds(self, tasks: pl.Series) -> tuple[pl.Series, tuple[Cleaning, ...]]:
        """The speed of the cores of each task; null if unknown."""
        if self._recorded is not None and self.reference is not None and not self._given:
            return self._repeat(tasks, self._recorded / self.reference), ()
        if not self._differ:
            return self._repeat(tasks, self._common), ()
        last = pl.col("attempt").fill_null(0)
        ran = self._placements.filter(last == last.max().over("task")).join(
            self._nodes, on="machine"
        )
        slowest = ran.group_by("task").agg(pl.min("speed"), pl.col("speed").n_unique().alias("n"))
        found = pl.DataFrame({"task": tasks}).join(
            slowest, on="task", how="left", maintain_order="left"
        )
        mixed = found.filter(pl.col("n") > 1)["task"]
        what = "tasks on nodes with different clocks: the lowest clock is used"
        unknown = found.filter(pl.col("n").is_null())["task"]
        which = "tasks on nodes with unknown clock: the reference clock is used"
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
        what = "samples of nodes with unknown clock: the reference clock is used"
        return usage.drop("placed", "speed"), [note("assumed", what, count=unknown)]

    @staticmethod
    def _repeat(tasks: pl.Series, speed: float | None) -> pl.Series:
        return pl.Series("speed", [speed], dtype=pl.Float64).new_from_index(0, tasks.len())


def _given_speeds(given: Any) -> pl.DataFrame:
    """Check the speeds of nodes in the facts of a manifest."""
    kinds = {"machine": pl.String, "speed": pl.Float64}
    rows = list(given.items()) if isinstance(given, Mapping) else [("", None)]
    for name, speed in rows:
        if isinstance(speed, bool) or not isinstance(speed, int | float) or not 0 < speed < 1e15:
            problem = (
                f"{speed!r} is not a speed of a core" if name else "is not a mapping of speeds"
            )
            raise InputError(
                problem,
                kind="unknown-core-speed",
                field=f"facts.{NODE_SPEEDS}" + (f".{name}" if name else ""),
            )
    return pl.DataFrame(rows, schema=kinds, orient="row")
