"""Periods that rented instances spent on a host in one state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from twinloop.description.errors import InputError
from twinloop.report.figures.time_axis import find_extent
from twinloop.report.quantity_text import format_count, format_number
from twinloop.trace import Trace
from twinloop.trace.trace import require_trace

#: The state of an instance whose states are not recorded.
UNKNOWN_STATE: Final = "state not recorded"


@dataclass(frozen=True, slots=True, eq=False)
class RentedPeriods:
    """Stays of rented instances on hosts, and their parts by state.

    >>> trace = Trace(
    ...     instances=pl.DataFrame({"instance": ["i"], "host": ["n1"], "cores": [2.0],
    ...                             "start": [1.0], "end": [9.0], "cloud": ["east"]}),
    ...     instance_states=pl.DataFrame({"instance": "i", "start": [0.0, 1.0, 4.0],
    ...         "end": [1.0, 4.0, 9.0], "state": ["queued", "startup", "running"]}),
    ... )
    >>> RentedPeriods.of(trace).parts.select("state", "start", "end").rows()
    [('startup', 1.0, 4.0), ('running', 4.0, 9.0)]
    """

    #: `number`, `instance`, `host`, `cores`, `start`, `end`, `type`, `image`, `user`.
    stays: pl.DataFrame
    #: `number` of the stay, `state`, `start`, `end`.
    parts: pl.DataFrame
    notes: tuple[str, ...]

    @classmethod
    def of(cls, trace: Trace) -> RentedPeriods:
        """Select the stays with a host and a duration; raise an error if there are none.

        A stay or a state without an end lasts until the end of the run. Before it has a host, an
        instance is in no stay.
        """
        rented = require_trace(trace).instances.drop_nulls("cloud")
        last = _find_end(trace, rented)
        stays = (
            rented.filter(pl.col("host").is_not_null() & pl.col("start").is_finite())
            .select(
                "instance", "host", pl.col("cores").fill_null(0.0), "start",
                pl.col("end").fill_null(last), "type", "image", "user",
            )
            .filter(pl.col("end") > pl.col("start"))
            .with_row_index("number")
        )  # fmt: skip
        if not stays.height:
            raise InputError(
                "there are no instances to draw: no rented instance was on a host for any time",
                kind="nothing-to-draw",
                remedy="simulate a platform with clouds and a policy that rents instances",
            )
        parts = _split_by_state(trace.instance_states, stays, last)
        return cls(stays, parts, tuple(_describe_gaps(rented, stays, parts)))

    @property
    def states(self) -> list[str]:
        """The states that occur, in alphabetical order."""
        return self.parts["state"].unique().sort().to_list()

    def select_window(self, window: tuple[float, float] | None) -> RentedPeriods:
        """Return the parts of the periods in a window of time (s), cut at its ends."""
        if window is None:
            return self
        first, last = window
        if not first < last:
            raise InputError(
                f"a window from {first} to {last} s is empty",
                kind="wrong-order",
                field="window",
                remedy="give the start before the end",
            )
        stays, parts = (
            frame.with_columns(
                pl.col("start").clip(lower_bound=first), pl.col("end").clip(upper_bound=last)
            ).filter(pl.col("end") > pl.col("start"))
            for frame in (self.stays, self.parts)
        )
        if not stays.height:
            raise InputError(
                f"there are no instances to draw between {first} and {last} s",
                kind="nothing-to-draw",
                field="window",
            )
        return RentedPeriods(stays, parts, self.notes)


def _find_end(trace: Trace, rented: pl.DataFrame) -> float:
    ends = pl.concat([rented["end"], trace.instance_states["end"]])
    return max(find_extent(trace)[1], float(ends.filter(ends.is_finite()).max() or -np.inf))  # type: ignore[arg-type]


def _split_by_state(states: pl.DataFrame, stays: pl.DataFrame, last: float) -> pl.DataFrame:
    """Split stays at the changes of state; an instance without any state has one part per stay."""
    known = states.filter(pl.col("start").is_finite()).select(
        "instance",
        pl.col("state").fill_null(UNKNOWN_STATE),
        begin="start",
        until=pl.col("end").fill_null(last),
    )
    unknown = stays.join(known, on="instance", how="anti").select(
        "number", "start", "end", state=pl.lit(UNKNOWN_STATE)
    )
    split = (
        stays.select("number", "instance", "start", "end")
        .join(known, on="instance", maintain_order="left_right")
        .select(
            "number",
            "state",
            start=pl.max_horizontal("start", "begin"),
            end=pl.min_horizontal("end", "until"),
        )
        .filter(pl.col("end") > pl.col("start"))
    )
    return pl.concat([split, unknown.select(split.columns)]).sort(
        "number", "start", maintain_order=True
    )


def _describe_gaps(rented: pl.DataFrame, stays: pl.DataFrame, parts: pl.DataFrame) -> list[str]:
    notes = []
    without_host = rented["instance"].n_unique() - stays["instance"].n_unique()
    if without_host:
        count = format_count(without_host, "instance")
        notes.append(f"not drawn: {count} that had no host for any time")
    drawn = float((parts["end"] - parts["start"]).sum())
    missing = float((stays["end"] - stays["start"]).sum()) - drawn
    if missing > 1e-9 * max(drawn, 1.0):
        notes.append(f"not drawn: {format_number(missing)} s on hosts without a recorded state")
    return notes
