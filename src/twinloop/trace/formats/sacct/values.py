"""Parsing of the values of `sacct`: durations, memory, lists of resources, states."""

from __future__ import annotations

import re
from typing import Any, Final

import polars as pl

from twinloop.trace.formats.text_rows import parse_text

#: Texts for a missing value.
EMPTY_VALUES: Final = (
    "Unknown",
    "None",
    "NONE",
    "N/A",
    "(null)",
    "None assigned",
    "INVALID",
    "NOT_SET",
)
#: Time limits that are not a duration.
NO_LIMIT: Final = ("UNLIMITED", "Partition_Limit")

#: The status in a Trace of each final state of a job.
STATUS_OF_STATE: Final = {
    "COMPLETED": "completed",
    "FAILED": "failed",
    "BOOT_FAIL": "failed",
    "CANCELLED": "cancelled",
    "REVOKED": "cancelled",
    "TIMEOUT": "killed",
    "DEADLINE": "killed",
    "OUT_OF_MEMORY": "killed",
    "PREEMPTED": "killed",
    "NODE_FAIL": "lost",
}
#: States of a job that has not ended, or whose end is in another record.
UNFINISHED_STATES: Final = (
    *("PENDING", "RUNNING", "SUSPENDED", "REQUEUED", "RESIZING", "COMPLETING", "CONFIGURING"),
    *("REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "STAGE_OUT", "STOPPED", "SIGNALING"),
)

_LENGTH = r"^(?:([0-9]{1,6})-)?(?:([0-9]{1,6}):)?([0-9]{1,6}):([0-9]{1,6}(?:\.[0-9]{1,9})?)$"
_MEMORY = r"^([0-9]{1,15}(?:\.[0-9]{1,9})?)([KMGTP]?)([nc]?)$"
_POWERS: Final = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_TRES = re.compile(r"^(?:gres|license)/([^:=]+)(:[^=]*)?=([0-9]{1,15})$")


def parse_cell(column: str) -> pl.Expr:
    """Parse the text of a column; null for a missing value."""
    text = parse_text(column)
    return pl.when(~text.is_in(EMPTY_VALUES)).then(text)


def has_time_zone(column: str) -> pl.Expr:
    """Whether a time has a zone; null if there is no time.

    >>> frame = pl.DataFrame({"t": ["2024-01-01T00:00:00", "2024-01-01T00:00:00+0100", "Unknown"]})
    >>> frame.select(t=has_time_zone("t"))["t"].to_list()
    [False, True, None]
    """
    return parse_cell(column).str.contains(r"(?:Z|[+-][0-9]{2}:?[0-9]{2})$")


def duration_to_seconds(column: str) -> pl.Expr:
    """Convert `[DD-][HH:]MM:SS[.mmm]` to seconds; null for any other text.

    >>> frame = pl.DataFrame({"t": ["1-02:00:03", "05:06.5", "UNLIMITED"]})
    >>> frame.select(t=duration_to_seconds("t"))["t"].to_list()
    [93603.0, 306.5, None]
    """
    part = parse_cell(column).str.extract_groups(_LENGTH).struct.field
    days, hours, minutes, seconds = (part(str(group)).cast(pl.Float64) for group in (1, 2, 3, 4))
    return ((days.fill_null(0) * 24 + hours.fill_null(0)) * 60 + minutes) * 60 + seconds


def memory_to_bytes(column: str, default: str = "") -> pl.Expr:
    """Convert `4G`, `2.5Mc`, `1180K` to bytes; `default` is the unit of a bare number."""
    text = parse_cell(column)
    unit = text.str.extract(_MEMORY, 2)
    unit = pl.when(unit == "").then(pl.lit(default)).otherwise(unit)
    power = unit.replace_strict(_POWERS, default=None, return_dtype=pl.Int64)
    return text.str.extract(_MEMORY, 1).cast(pl.Float64) * pl.lit(1024.0).pow(power)


def parse_memory_basis(column: str) -> pl.Expr:
    """Parse the basis of memory: `n` per node, `c` per core, empty for the whole job."""
    return parse_cell(column).str.extract(_MEMORY, 3)


def parse_resources(text: str | None) -> list[dict[str, Any]]:
    """Parse the generic resources in a list such as `cpu=4,gres/gpu=2,gres/gpu:a100=2,mem=16G`.

    An entry without a type is the sum of the entries with a type.

    >>> parse_resources("billing=4,cpu=4,gres/gpu:a100=2,gres/gpu=2")
    [{'name': 'gpu', 'amount': 2.0}]
    """
    plain: dict[str, float] = {}
    typed: dict[str, float] = {}
    for entry in (text or "").split(","):
        if match := _TRES.match(entry.strip()):
            name, kind, amount = match.groups()
            table = typed if kind else plain
            table[name] = table.get(name, 0.0) + float(amount)
    return [{"name": name, "amount": amount} for name, amount in {**typed, **plain}.items()]


def parse_state(column: str) -> pl.Expr:
    """Parse the first word of a state: `CANCELLED by 1000` is CANCELLED."""
    return parse_cell(column).str.extract(r"^([A-Z_]+)")


def parse_exit_code(column: str) -> pl.Expr:
    """Parse the status of `status:signal`; minus the signal if there is one."""
    status = parse_cell(column).str.extract(r"^([0-9]{1,9}):[0-9]{1,9}$", 1).cast(pl.Int64)
    signal = parse_cell(column).str.extract(r"^[0-9]{1,9}:([0-9]{1,9})$", 1).cast(pl.Int64)
    return pl.when(signal > 0).then(-signal).otherwise(status)
