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
        recorded_mhz = trace.manifest.reference_mhz
        nodes = trace.nodes.filter(pl.col("mhz") > 0)
        highest = nodes["mhz"].max()
        self.reference: float | None = (
            reference_mhz
            or recorded_mhz
            or (float(highest) if isinstance(highest, float) else None)
        )
        self._recorded_mhz = recorded_mhz
        unknown = self.reference is None
        relative = pl.lit(1.0) if unknown else pl.col("mhz") / self.reference
        self._nodes = nodes.select(pl.col("node").alias("machine"), relative.alias("speed"))
        given = trace.manifest.facts.get(NODE_SPEEDS)
        self._speeds_given = given is not None
        if given is not None:
            self._nodes = _parse_node_speeds(given)
        speeds = self._nodes["speed"].unique()
        #: The speed of the nodes, if it is the same for all.
        self._common_speed = float(speeds[0]) if speeds.len() == 1 else None
        self._speeds_differ = speeds.len() > 1
        self._placements = trace.placements.select("task", "attempt", "machine")

    def node_speeds(self, names: Iterable[str]) -> dict[str, float]:
        """Return the speed of a core of each of these nodes, in reference cores.

        A node of unknown speed has the speed that all others have in common, else 1. If the CPU
        seconds of the trace are those of a reference clock, every node has the speed of that clock.

        >>> nodes = pl.DataFrame({"node": ["slow", "fast"], "mhz": [1200.0, 2400.0]})
        >>> Clocks(Trace(nodes=nodes), None).node_speeds(["slow", "other"])
        {'slow': 0.5, 'other': 1.0}
        """
        if self._recorded_mhz is not None and self.reference is not None and not self._speeds_given:
            return dict.fromkeys(names, self._recorded_mhz / self.reference)
        default = 1.0 if self._common_speed is None else self._common_speed
        speeds = dict(self._nodes.iter_rows())
        return {name: speeds.get(name, default) for name in names}

    def to_reference(self, usage: pl.DataFrame) -> tuple[pl.DataFrame, list[Cleaning]]:
        """Convert the rates of samples to reference cores."""
        if self._recorded_mhz is not None and self.reference is not None and not self._speeds_given:
            factor = self._recorded_mhz / self.reference
        elif self._speeds_differ:
            return self._convert_by_machine(usage)
        else:
            factor = 1.0 if self._common_speed is None else self._common_speed
        if factor == 1.0:
            return usage, []
        return usage.with_columns(pl.col("rate") * factor), []

    def task_speeds(self, tasks: pl.Series) -> tuple[pl.Series, tuple[Cleaning, ...]]:
        """Return the speed of the cores of each task, in reference cores; null if unknown."""
        if self._recorded_mhz is not None and self.reference is not None and not self._speeds_given:
            return self._repeat(tasks, self._recorded_mhz / self.reference), ()
        if not self._speeds_differ:
            return self._repeat(tasks, self._common_speed), ()
        attempt = pl.col("attempt").fill_null(0)
        placements = self._placements.filter(attempt == attempt.max().over("task")).join(
            self._nodes, on="machine"
        )
        slowest = placements.group_by("task").agg(
            pl.min("speed"), pl.col("speed").n_unique().alias("n")
        )
        joined = pl.DataFrame({"task": tasks}).join(
            slowest, on="task", how="left", maintain_order="left"
        )
        mixed = joined.filter(pl.col("n") > 1)["task"]
        mixed_note = "tasks on nodes with different clocks: the lowest clock is used"
        unknown = joined.filter(pl.col("n").is_null())["task"]
        unknown_note = "tasks on nodes with unknown clock: the reference clock is used"
        return joined["speed"], (
            note("assumed", mixed_note, mixed),
            note("assumed", unknown_note, unknown),
        )

    def _convert_by_machine(self, usage: pl.DataFrame) -> tuple[pl.DataFrame, list[Cleaning]]:
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


def _parse_node_speeds(given: Any) -> pl.DataFrame:
    """Parse the speeds of nodes in the facts of a manifest; an invalid speed is an error."""
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
