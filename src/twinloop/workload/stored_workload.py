"""Conversion of a Workload to plain tables, for storage with the trace of a run, and back."""

from __future__ import annotations

import pydantic

from twinloop.description.cleaning import Cleaning
from twinloop.description.errors import InputError
from twinloop.trace.content_hash import hash_tables
from twinloop.trace.stored_workload import StoredWorkload
from twinloop.workload.workload import Workload


class _Facts(pydantic.BaseModel):
    """The values of a Workload that are not tables."""

    model_config = pydantic.ConfigDict(extra="forbid", defer_build=True)

    reference_mhz: float | None = None
    epoch_ms: int | None = None
    cleaned: tuple[Cleaning, ...] = ()
    injected: tuple[str, ...] = ()
    skipped: int = 0


def to_stored(workload: Workload) -> StoredWorkload:
    """See `Workload.to_stored`."""
    tables = {
        "tasks": workload.tasks,
        "fragments": workload.fragments,
        "files": workload.files,
        "task_files": workload.task_files,
        "boots": workload.boots,
    }
    facts = _Facts(
        reference_mhz=workload.reference_mhz,
        epoch_ms=workload.epoch_ms,
        cleaned=workload.cleaned,
        injected=workload.injected,
        skipped=workload.skipped,
    )
    return StoredWorkload("Workload", facts.model_dump(mode="json"), tables)


def workload_from_stored(stored: StoredWorkload) -> Workload:
    """Create the Workload of stored tables.

    >>> import polars as pl
    >>> workload = Workload(tasks=pl.DataFrame({"id": ["a"], "submit": [0.0]}))
    >>> workload_from_stored(to_stored(workload)) == workload
    True
    """
    try:
        facts = _Facts.model_validate(stored.facts)
    except pydantic.ValidationError as error:
        raise InputError(
            f"is not a stored workload: {error.errors()[0]['msg']}", kind="damaged-file"
        ) from None
    unknown = set(stored.tables) - {"tasks", "fragments", "files", "task_files", "boots"}
    if unknown or "tasks" not in stored.tables:
        raise InputError(
            "is not a stored workload: it has unknown tables, or no tasks", kind="damaged-file"
        )
    tables = stored.tables
    return Workload(
        tasks=tables["tasks"],
        fragments=tables.get("fragments"),
        files=tables.get("files"),
        task_files=tables.get("task_files"),
        boots=tables.get("boots"),
        reference_mhz=facts.reference_mhz,
        epoch_ms=facts.epoch_ms,
        cleaned=facts.cleaned,
        injected=facts.injected,
        skipped=facts.skipped,
    )


def content_hash(workload: Workload) -> str:
    """See `Workload.content_hash`."""
    tables = {
        "tasks": workload.tasks,
        "files": workload.files,
        "task_files": workload.task_files,
        "boots": workload.boots,
    }
    varying = workload.fragment_arrays
    arrays = {name: getattr(varying, name) for name in ("tasks", "offsets", "durations", "rates")}
    facts = {
        "reference_mhz": workload.reference_mhz,
        "epoch_ms": workload.epoch_ms,
        "injected": list(workload.injected),
    }
    return hash_tables(tables, facts, arrays)
