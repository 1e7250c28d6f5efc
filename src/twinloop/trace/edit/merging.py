"""Merging of several logs into one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Final

import polars as pl

from twinloop.description.cleaning import Cleaning
from twinloop.description.errors import InputError
from twinloop.trace.edit.time_shift import shift_times
from twinloop.trace.manifest import Edit, Manifest, TraceOrigin
from twinloop.trace.tables import TABLES
from twinloop.trace.trace import Trace

#: The columns that contain the names of each kind.
_NAME_COLUMNS: Final = {
    "tasks": (
        ("tasks", "id"),
        ("tasks", "parents"),
        ("placements", "task"),
        ("usage", "task"),
        ("task_files", "task"),
        ("task_times", "task"),
        ("decisions", "subject"),
        ("transfers", "subject"),
    ),
    "arrays": (("tasks", "array"),),
    "users": (("tasks", "user"), ("instances", "user")),
    "groups": (("tasks", "group"),),
    "queues": (("tasks", "queue"),),
    "partitions": (("tasks", "partition"),),
    "programs": (("tasks", "name"),),
    "nodes": (
        ("nodes", "node"),
        ("placements", "machine"),
        ("usage", "machine"),
        ("node_states", "node"),
        ("node_periods", "node"),
        ("instances", "instance"),
        ("instances", "host"),
        ("instance_states", "instance"),
        ("boots", "instance"),
        ("power", "node"),
        ("decisions", "subject"),
        ("decisions", "target"),
        ("transfers", "subject"),
        ("transfers", "from"),
        ("transfers", "to"),
    ),
    "clouds": (("instances", "cloud"), ("node_periods", "cloud")),
    "files": (("files", "file"), ("task_files", "file"), ("transfers", "file")),
}
#: Tables whose duplicate rows are removed if the logs are of one site.
_SITE_TABLES: Final = (
    "nodes", "node_states", "node_periods", "instances", "instance_states", "power", "transfers",
    "files",
)  # fmt: skip
#: Tables whose columns have names of several kinds: these are collected from the other tables.
_MIXED_TABLES: Final = ("decisions", "transfers")


def merge(
    traces: Iterable[Trace],
    names: Sequence[str] | None = None,
    *,
    same_site: bool | None = None,
    shared: Collection[str] = (),
) -> Trace:
    """Merge several logs; tasks and boots are in the order of their submission and request.

    The logs are aligned by their epochs if all are known, otherwise each begins at t = 0. Names
    that several logs have in common get a prefix, and are counted: names of tasks and job arrays
    always; names of users, groups, queues, partitions, programs, nodes, instances, clouds and files
    unless the logs are of one site.

    Args:
        traces: The logs.
        names: The prefix of each log; their numbers from 1 by default.
        same_site: Whether equal names of users, nodes and so on mean the same in every log. By
            default this is derived from the manifests: parts of one source are of one site.
        shared: Kinds of names that mean the same in all logs, such as `users` and `queues`.

    >>> first = Trace(tasks=pl.DataFrame({"id": ["1", "2"], "submit": [0.0, 9.0]}))
    >>> second = Trace(tasks=pl.DataFrame({"id": ["1"], "submit": [5.0]}))
    >>> merge([first, second], names=["kth", "nasa"]).tasks["id"].to_list()
    ['kth/1', 'nasa/1', '2']
    """
    logs = list(traces)
    if not logs:
        raise InputError(
            "there is no trace to merge", kind="no-runs", remedy="give at least one trace"
        )
    if names is None:
        names = [str(number) for number in range(1, len(logs) + 1)]
    if len(names) != len(logs) or len(set(names)) != len(logs):
        raise InputError(
            f"{len(logs)} logs need as many names, all different",
            kind="not-mergeable",
            field="names",
        )
    if same_site is None:
        same_site = _find_common_origin(logs) is not None
    prefixed_kinds = ("tasks", "arrays") if same_site else tuple(_NAME_COLUMNS)
    prefixed_kinds = tuple(kind for kind in prefixed_kinds if kind not in shared)
    # Parts of one log have the same notes, which count once.
    notes = [note for log in logs for note in log.manifest.cleaned]
    notes = list(dict.fromkeys(notes)) if same_site else notes
    logs = _unify_clocks(_align_epochs(logs, notes), notes)
    edit = Edit(
        operation="merge",
        parameters={
            "names": list(names),
            "same_site": same_site,
            "edits": [[step.model_dump() for step in log.manifest.edits] for log in logs],
        },
    )
    logs = _prefix_common_names(logs, names, prefixed_kinds, notes, other_sites=not same_site)
    tables = {table: pl.concat([log.tables[table] for log in logs]) for table in TABLES}
    if same_site:
        for table in _SITE_TABLES:
            tables[table] = tables[table].unique(maintain_order=True)
    tables["tasks"] = tables["tasks"].sort("submit", maintain_order=True, nulls_last=True)
    tables["boots"] = tables["boots"].sort("provisioned", maintain_order=True, nulls_last=True)
    source = _find_common_origin(logs)
    if source is None:
        # Without a single source file, line numbers are meaningless.
        for table in ("tasks", "usage", "boots"):
            tables[table] = tables[table].with_columns(line=pl.lit(None, dtype=pl.UInt32))
    return Trace(manifest=_merge_manifests(logs, source), **tables).with_manifest(
        cleaned=notes, edit=edit
    )


def _find_common_origin(logs: list[Trace]) -> TraceOrigin | None:
    """Return the origin that all logs share; None if they differ."""
    sources = {log.manifest.source for log in logs}
    source = sources.pop()
    return source if not sources and source is not None and source.files else None


def _align_epochs(logs: list[Trace], notes: list[Cleaning]) -> list[Trace]:
    epochs = [log.manifest.epoch_ms for log in logs]
    known_epochs = [epoch for epoch in epochs if epoch is not None]
    if len(known_epochs) < len(logs):
        if known_epochs:
            what = "logs whose epoch is ignored, because other logs have none"
            notes.append(Cleaning(kind="assumed", what=what, count=len(known_epochs)))
        return [log.with_manifest(epoch_ms=None) for log in logs]
    first = min(known_epochs)
    return [
        shift_times(log, (epoch - first) / 1000).with_manifest(epoch_ms=first)
        if epoch != first
        else log
        for log, epoch in zip(logs, known_epochs, strict=True)
    ]


def _unify_clocks(logs: list[Trace], notes: list[Cleaning]) -> list[Trace]:
    """Convert CPU seconds of all logs to the same reference core."""
    clocks = {log.manifest.reference_mhz for log in logs if log.usage.height}
    if len(clocks) < 2:
        clock = clocks.pop() if clocks else None
        return [log.with_manifest(reference_mhz=clock) for log in logs]
    if None in clocks:
        raise InputError(
            "some logs count CPU seconds of their own nodes, others of a reference core",
            kind="not-mergeable",
            field="reference_mhz",
            remedy="merge logs of one kind",
        )
    max_clock = max(clock for clock in clocks if clock is not None)
    converted = []
    for log in logs:
        ratio = (log.manifest.reference_mhz or max_clock) / max_clock
        if ratio != 1.0:
            what = f"samples converted to CPU seconds of a core of {max_clock:g} MHz"
            notes.append(Cleaning(kind="repaired", what=what, count=log.usage.height))
            log = log.replace(usage=log.usage.with_columns(pl.col("cpu") * ratio))
        converted.append(log.with_manifest(reference_mhz=max_clock))
    return converted


def _prefix_common_names(
    logs: list[Trace],
    names: Sequence[str],
    kinds: tuple[str, ...],
    notes: list[Cleaning],
    *,
    other_sites: bool,
) -> list[Trace]:
    """Add a prefix to the names that several logs have in common.

    A parent that is not in its own log may be a task of another log of the same site; in logs of
    different sites (`other_sites`) it is another task of the same name.
    """
    for kind in kinds:
        names_by_log = [_collect_names(log, kind, parents=other_sites) for log in logs]
        counts = Counter(name for part in names_by_log for name in part)
        common = {name for name, number in counts.items() if number > 1}
        if not common:
            continue
        prefixed = {f"{prefix}/{name}" for prefix in names for name in common}
        if clash := sorted(prefixed & counts.keys()):
            raise InputError(
                f"the name '{clash[0]}' is used already, so it cannot be a prefixed name",
                kind="not-mergeable",
                field=kind,
                remedy="give other names",
            )
        what = f"names of {kind} that several logs have, prefixed"
        notes.append(
            Cleaning(
                kind="repaired", what=what, count=sum(len(part & common) for part in names_by_log)
            )
        )
        logs = [
            _rename(log, kind, {old: f"{prefix}/{old}" for old in part & common})
            for log, prefix, part in zip(logs, names, names_by_log, strict=True)
        ]
    return logs


def _collect_names(log: Trace, kind: str, *, parents: bool) -> set[str]:
    """Collect the names of a kind in a log; with `parents`, also of parents that are not in it."""
    collected: set[str] = set()
    for table, column in _NAME_COLUMNS[kind]:
        if table not in _MIXED_TABLES and (parents or column != "parents"):
            names = log.tables[table][column]
            collected.update((names.explode() if column == "parents" else names).drop_nulls())
    return collected


def _rename(log: Trace, kind: str, new: dict[str, str]) -> Trace:
    tables = log.tables
    for table, column in _NAME_COLUMNS[kind]:
        if tables[table].height:
            value = pl.element() if column == "parents" else pl.col(column)
            renamed = value.replace(new)
            if column == "parents":
                renamed = pl.col("parents").list.eval(renamed)
            tables = {**tables, table: tables[table].with_columns(renamed.alias(column))}
    return log.replace(manifest=log.manifest, **tables)


def _merge_manifests(logs: list[Trace], source: TraceOrigin | None) -> Manifest:
    """Make the manifest of the merged log; fields that differ between logs are unknown."""
    first = logs[0].manifest
    common = {
        field: getattr(first, field)
        for field in ("kind", "epoch_ms", "reference_mhz", "sampling_period")
        if len({getattr(log.manifest, field) for log in logs}) == 1
    }
    if source is None:
        files = [file for log in logs if log.manifest.source for file in log.manifest.source.files]
        source = TraceOrigin(format="merge", files=tuple(dict.fromkeys(files))) if files else None
    return Manifest(source=source, **common)
