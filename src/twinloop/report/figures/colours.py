"""Colours of the figures, and the grouping of executions by colour."""

from __future__ import annotations

from typing import Final, Literal

import polars as pl

from twinloop.description.errors import InputError

ColourBy = Literal["user", "queue", "status", "kind"]

#: Distinguishable with most kinds of colour vision, on white and on black.
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
#: Colours of the states of an instance on a host, in the order of its life cycle.
INSTANCE_STATE: Final = {
    "allocated": "#9c755f",
    "initial-transfer": "#edc948",
    "startup": "#f28e2b",
    "running": "#4e79a7",
    "migrating": "#59a14f",
    "stopped": "#e15759",
    "suspend-transfer": "#b07aa1",
    "suspended": "#5f6b73",
    "resume-transfer": "#76b7b2",
}
#: Colours of the parts of the power of hosts, from the bottom of a stack to its top.
HOST_POWER: Final = {
    "off": "#9aa0a6",
    "switching-off": "#b07aa1",
    "switching-on": "#f28e2b",
    "running, idle part": "#a5bfdb",
    "running, variable part": "#4e79a7",
}
CURVE: Final = "#4e79a7"
SECOND: Final = "#f28e2b"
USED: Final = "#59a14f"
LIMIT: Final = "#808080"
UNAVAILABLE: Final = "rgba(128, 128, 128, 0.45)"


def choose_grouping(executions: pl.DataFrame, by: ColourBy | None) -> ColourBy:
    """Choose the column that colours the executions: `by`, else user, queue or status.

    Without `by` it is the first of these three columns that has a value.

    >>> frame = pl.DataFrame({"user": [None], "queue": ["q"], "status": [None], "reason": [None]})
    >>> choose_grouping(frame, None)
    'queue'
    """
    if by is None:
        names: tuple[ColourBy, ...] = ("user", "queue")
        return next((n for n in names if executions[n].null_count() < executions.height), "status")
    if by not in ("user", "queue", "status", "kind"):
        raise InputError(
            f"colour: {by!r} is not a column to colour by",
            kind="not-a-choice",
            remedy="use user, queue, status or kind",
        )
    return by


def group_executions(
    executions: pl.DataFrame, by: ColourBy, max_groups: int = len(GROUPS)
) -> pl.DataFrame:
    """Group executions by a column, largest group first.

    Columns: `group` (null: unknown), `core_seconds`, `label`, `members`. Of more than
    `max_groups` + 1 groups, the first `max_groups` have a row each, and the last row, with
    `members` above one, is the sum of all others. By status, an execution has the reason of its
    end, else the status of its task.

    >>> frame = pl.DataFrame({"user": ["a", "b", "c"], "cores": 1.0, "start": 0.0,
    ...                       "end": [3.0, 2.0, 1.0]})
    >>> group_executions(frame, "user", max_groups=1).select("label", "core_seconds").rows()
    [('a', 3.0), ('others (2)', 3.0)]
    """
    sizes = (
        executions.group_by(group=get_group_key(by))
        .agg(core_seconds=(pl.col("cores") * (pl.col("end") - pl.col("start"))).sum())
        .sort(["core_seconds", "group"], descending=[True, False], nulls_last=True)
        .with_columns(label=pl.col("group").fill_null(f"{by} unknown"), members=pl.lit(1))
    )
    if sizes.height <= max_groups + 1:
        return sizes
    rest = sizes[max_groups:]
    others = pl.DataFrame(
        {
            "group": [None],
            "core_seconds": [rest["core_seconds"].sum()],
            "label": [f"others ({rest.height:,})"],
            "members": [rest.height],
        },
        schema=sizes.schema,
    )
    return pl.concat([sizes[:max_groups], others])


def get_group_key(by: ColourBy) -> pl.Expr:
    """Return the expression that an execution is grouped by."""
    return pl.coalesce("reason", "status") if by == "status" else pl.col(by)


def get_colour(by: ColourBy, label: str, rank: int, members: int) -> str:
    """Return the colour of a group by its rank in size, from 0; of a status by its name.

    >>> get_colour("status", "failed", 3, 1), get_colour("user", "others (12)", 9, 12)
    ('#e15759', '#9aa0a6')
    """
    if by == "status":
        return STATUS.get(label, OTHERS)
    return GROUPS[rank] if members == 1 and rank < len(GROUPS) else OTHERS
