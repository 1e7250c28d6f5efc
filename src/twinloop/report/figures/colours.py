"""Which colour what has, in every picture of a run."""

from __future__ import annotations

from typing import Final, Literal

import polars as pl

from twinloop.description.errors import InputError

ColourBy = Literal["user", "queue", "status", "kind"]

#: Told apart by most eyes, on white and on black.
GROUPS: Final = (
    "#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2",
    "#edc948", "#b07aa1", "#ff9da7", "#9c755f",
)  # fmt: skip
OTHERS: Final = "#9aa0a6"
STATUS: Final = {
    "completed": "#4e79a7",
    "failed": "#e15759",
    "killed": "#f28e2b",
    "cancelled": "#edc948",
    "lost": "#b07aa1",
    "preempted": "#76b7b2",
    "migrated": "#59a14f",
}
CURVE: Final = "#4e79a7"
SECOND: Final = "#f28e2b"
USED: Final = "#59a14f"
LIMIT: Final = "#808080"
AWAY: Final = "rgba(128, 128, 128, 0.45)"


def choose_grouping(executions: pl.DataFrame, by: ColourBy | None) -> ColourBy:
    """What the executions are coloured by: as asked, else user, queue or status.

    It is the first of these three of which anything is known.

    >>> frame = pl.DataFrame({"user": [None], "queue": ["q"], "status": [None], "reason": [None]})
    >>> choose_grouping(frame, None)
    'queue'
    """
    if by is None:
        names: tuple[ColourBy, ...] = ("user", "queue")
        return next((n for n in names if executions[n].null_count() < executions.height), "status")
    if by not in ("user", "queue", "status", "kind"):
        raise InputError(f"{by!r} is no colour", remedy="colour by user, queue, status or kind")
    return by


def group_executions(
    executions: pl.DataFrame, by: ColourBy, most: int = len(GROUPS)
) -> pl.DataFrame:
    """A row per group, largest first: `group` (null: unknown), `core_seconds`, `label`, `members`.

    At most so many groups stand for themselves; the last row, with `members` above one, is all
    the others together. By status, an execution counts by why it ended, else by its task.

    >>> frame = pl.DataFrame({"user": ["a", "b", "c"], "cores": 1.0, "start": 0.0,
    ...                       "end": [3.0, 2.0, 1.0]})
    >>> group_executions(frame, "user", most=1).select("label", "core_seconds").rows()
    [('a', 3.0), ('others (2)', 3.0)]
    """
    sizes = (
        executions.group_by(group=get_group_key(by))
        .agg(core_seconds=(pl.col("cores") * (pl.col("end") - pl.col("start"))).sum())
        .sort(["core_seconds", "group"], descending=[True, False], nulls_last=True)
        .with_columns(label=pl.col("group").fill_null(f"{by} unknown"), members=pl.lit(1))
    )
    if sizes.height <= most + 1:
        return sizes
    rest = sizes[most:]
    others = pl.DataFrame(
        {
            "group": [None],
            "core_seconds": [rest["core_seconds"].sum()],
            "label": [f"others ({rest.height:,})"],
            "members": [rest.height],
        },
        schema=sizes.schema,
    )
    return pl.concat([sizes[:most], others])


def get_group_key(by: ColourBy) -> pl.Expr:
    """The value that an execution is grouped by."""
    return pl.coalesce("reason", "status") if by == "status" else pl.col(by)


def get_colour(by: ColourBy, label: str, place: int, members: int) -> str:
    """The colour of a group at its place among the largest.

    >>> get_colour("status", "failed", 3, 1), get_colour("user", "others (12)", 9, 12)
    ('#e15759', '#9aa0a6')
    """
    if by == "status":
        return STATUS.get(label, OTHERS)
    return GROUPS[place] if members == 1 and place < len(GROUPS) else OTHERS
