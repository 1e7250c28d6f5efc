"""Statuses of tasks, and reasons for the end of an execution, by native code."""

from __future__ import annotations

from typing import Final

#: The status of a task; None if it has not ended.
STATUSES: Final[tuple[str | None, ...]] = (
    None,
    "completed",
    "rejected",
    "killed",
    "failed",
    "lost",
    "cancelled",
)
#: The native code of each status.
STATUS_CODES: Final = {name: code for code, name in enumerate(STATUSES) if name is not None}
#: The reason for the end of an execution.
REASONS: Final = ("completed", "killed", "failed", "lost", "preempted")
