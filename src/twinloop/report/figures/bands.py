"""Rows of a Gantt chart: a band per machine, with a height equal to its cores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from twinloop.metrics.weighted_intervals import WeightedIntervals
from twinloop.report.figures.executions import get_capacity
from twinloop.report.figures.figure_base import escape_label
from twinloop.report.figures.packing import pack_boxes
from twinloop.trace import Trace

#: Maximum number of names that are legible beside an axis.
MAX_LABELS: Final = 40
UNRECORDED: Final = "machine not recorded"
#: The gap between two bands, as a fraction of the highest band so far.
_GAP: Final = 0.08


@dataclass(frozen=True, slots=True, eq=False)
class Bands:
    """Vertical position of each execution, in cores.

    >>> ran = pl.DataFrame({"machine": ["n1", "n1"], "cores": [1.0, 2.0], "start": [0.0, 1.0],
    ...                     "end": [5.0, 2.0]})
    >>> Bands.of(Trace(), ran).pieces.rows()
    [(0, 0.0, 1.0), (1, 1.0, 3.0)]
    """

    #: `number` of the execution, `low` and `high`; several rows if its cores are not adjacent.
    pieces: pl.DataFrame
    #: Lower and upper end of the band of each machine, in order.
    rows: dict[str, tuple[float, float]]

    @classmethod
    def of(cls, trace: Trace, ran: pl.DataFrame) -> Bands:
        """Make a band for each node of the trace, in order, and for each other machine."""
        ran = ran.with_row_index("number").with_columns(pl.col("machine").fill_null(UNRECORDED))
        cores: dict[str, float | None] = dict(trace.nodes.select("node", "cores").iter_rows())
        used = ran["machine"].unique().sort().to_list()
        if used == [UNRECORDED]:
            cores = {UNRECORDED: get_capacity(trace)}
        parts = {str(key[0]): part for key, part in ran.group_by("machine", maintain_order=True)}
        pieces: list[tuple[int, float, float]] = []
        rows: dict[str, tuple[float, float]] = {}
        base = gap = 0.0
        for name in [*cores, *(name for name in used if name not in cores)]:
            part = parts.get(name, ran.clear())
            size = cores.get(name) or _find_peak(part)
            top = size
            boxes = part.select("start", "end", "cores").rows()
            numbers = part["number"].to_list()
            for box, spans in pack_boxes(boxes, size):
                pieces += [(numbers[box], base + low, base + high) for low, high in spans]
                top = max(top, spans[-1][1])
            rows[name] = (base, base + top)
            base += top
            gap = max(gap, _GAP * top)
            base += gap
        frame = pl.DataFrame(
            pieces,
            schema={"number": pl.UInt32, "low": pl.Float64, "high": pl.Float64},
            orient="row",
        )
        return cls(frame.sort("number", "low"), rows)

    def layout(self) -> dict[str, Any]:
        """Return the vertical axis as a Plotly layout."""
        top = max((high for _, high in self.rows.values()), default=1.0)
        if list(self.rows) == [UNRECORDED]:
            return {"title": {"text": "cores, packed from below"}, "range": [0.0, top]}
        stride = -(-len(self.rows) // MAX_LABELS)
        shown = list(self.rows.items())[::stride]
        return {
            "range": [top, 0.0],
            "tickmode": "array",
            "tickvals": [(low + high) / 2 for _, (low, high) in shown],
            "ticktext": [escape_label(name) for name, _ in shown],
            "showgrid": False,
            "zeroline": False,
        }


def _find_peak(part: pl.DataFrame) -> float:
    boxes = (part[name].to_numpy() for name in ("start", "end", "cores"))
    _, level = WeightedIntervals.of(*boxes).steps()
    return float(level.max()) if level.size else 1.0
