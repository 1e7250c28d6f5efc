"""Several logs made one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import polars as pl

from twinloop.description.cleaning import Cleaning
from twinloop.description.errors import InputError
from twinloop.trace.edit.time_shift import shift_times
from twinloop.trace.manifest import Edit, Manifest, TraceOrigin
from twinloop.trace.tables import TABLES
from twinloop.trace.trace import Trace

#: What the names of one kind are, and where they stand.
_NAMES: Final = {
    "tasks": (
        ("tasks", "id"),
        ("tasks", "parents"),
        ("placements", "task"),
        ("usage", "task"),
        ("task_files", "task"),
        ("decisions", "subject"),
    ),
    "arrays": (("tasks", "array"),),
    "users": (("tasks", "user"),),
    "groups": (("tasks", "group"),),
    "queues": (("tasks", "queue"),),
    "partitions": (("tasks", "partition"),),
    "programs": (("tasks", "name"),),
    "nodes": (
        ("nodes", "node"),
        ("placements", "machine"),
        ("usage", "machine"),
        ("node_states", "node"),
        ("power", "node"),
        ("decisions", "subject"),
        ("decisions", "target"),
    ),
    "files": (("files", "file"), ("task_files", "file")),
}
#: Tables whose equal rows are one thing, when the logs are of one site.
_OF_THE_SITE: Final = ("nodes", "node_states", "power", "files")


def merge(
    traces: Iterable[Trace],
    names: Sequence[str] | None = None,
    *,
    same_site: bool | None = None,
) -> Trace:
    """One log of several; the tasks are in the order of their submission.

    The logs are laid over each other by their epochs where all know theirs, else each begins at
    t = 0. Names that two logs have in common are told apart by a prefix, and counted: those of
    tasks and job arrays always; those of users, groups, nodes and files unless the logs are of
    one site.

    Args:
        traces: The logs.
        names: What each is called in a prefix; their numbers from 1 if not given.
        same_site: Whether a user, group, node or file is the same one in every log. If not
            given, that is taken from the manifests: parts of one source are of one site.

    >>> one = Trace(tasks=pl.DataFrame({"id": ["1", "2"], "submit": [0.0, 9.0]}))
    >>> two = Trace(tasks=pl.DataFrame({"id": ["1"], "submit": [5.0]}))
    >>> merge([one, two], names=["kth", "nasa"]).tasks["id"].to_list()
    ['kth/1', 'nasa/1', '2']
    """
    logs = list(traces)
    if not logs:
        raise InputError("there is nothing to merge", remedy="give at least one trace")
    if names is None:
        names = [str(number) for number in range(1, len(logs) + 1)]
    if len(names) != len(logs) or len(set(names)) != len(logs):
        raise InputError(f"{len(logs)} logs need as many names, all different", field="names")
    if same_site is None:
        same_site = _one_source(logs) is not None
    apart = ("tasks", "arrays") if same_site else tuple(_NAMES)
    # Parts of one log have all been cleaned in the same way, once.
    notes = [note for log in logs for note in log.manifest.cleaned]
    notes = list(dict.fromkeys(notes)) if same_site else notes
    logs = _in_one_unit(_aligned(logs, notes), notes)
    edit = Edit(
        operation="merge",
        parameters={
            "names": list(names),
            "same_site": same_site,
            "edits": [[step.model_dump() for step in log.manifest.edits] for log in logs],
        },
    )
    logs = _told_apart(logs, names, apart, notes, strangers=not same_site)
    tables = {table: pl.concat([log.tables[table] for log in logs]) for table in TABLES}
    if same_site:
        for table in _OF_THE_SITE:
            tables[table] = tables[table].unique(maintain_order=True)
    tables["tasks"] = tables["tasks"].sort("submit", maintain_order=True, nulls_last=True)
    source = _one_source(logs)
    if source is None:
        # A line says nothing when nobody knows of which file.
        for table in ("tasks", "usage"):
            tables[table] = tables[table].with_columns(line=pl.lit(None, dtype=pl.UInt32))
    return Trace(manifest=_manifest(logs, source), **tables).with_manifest(cleaned=notes, edit=edit)


def _one_source(logs: list[Trace]) -> TraceOrigin | None:
    """The source that all logs are parts of."""
    sources = {log.manifest.source for log in logs}
    source = sources.pop()
    return source if not sources and source is not None and source.files else None


def _aligned(logs: list[Trace], notes: list[Cleaning]) -> list[Trace]:
    epochs = [log.manifest.epoch_ms for log in logs]
    known = [epoch for epoch in epochs if epoch is not None]
    if len(known) < len(logs):
        if known:
            what = "logs with an epoch laid at t = 0, because others have none"
            notes.append(Cleaning(kind="assumed", what=what, count=len(known)))
        return [log.with_manifest(epoch_ms=None) for log in logs]
    first = min(known)
    return [
        shift_times(log, (epoch - first) / 1000).with_manifest(epoch_ms=first)
        if epoch != first
        else log
        for log, epoch in zip(logs, known, strict=True)
    ]


def _in_one_unit(logs: list[Trace], notes: list[Cleaning]) -> list[Trace]:
    """The logs with CPU seconds of the same core."""
    clocks = {log.manifest.reference_mhz for log in logs if log.usage.height}
    if len(clocks) < 2:
        clock = clocks.pop() if clocks else None
        return [log.with_manifest(reference_mhz=clock) for log in logs]
    if None in clocks:
        raise InputError(
            "some logs count CPU seconds of their own nodes, others of a reference core",
            field="reference_mhz",
            remedy="merge logs of one kind",
        )
    most = max(clock for clock in clocks if clock is not None)
    converted = []
    for log in logs:
        share = (log.manifest.reference_mhz or most) / most
        if share != 1.0:
            what = f"samples converted to CPU seconds of a core of {most:g} MHz"
            notes.append(Cleaning(kind="repaired", what=what, count=log.usage.height))
            log = log.replace(usage=log.usage.with_columns(pl.col("cpu") * share))
        converted.append(log.with_manifest(reference_mhz=most))
    return converted


def _told_apart(
    logs: list[Trace],
    names: Sequence[str],
    kinds: tuple[str, ...],
    notes: list[Cleaning],
    *,
    strangers: bool,
) -> list[Trace]:
    """The logs with a prefix to the names that several have.

    A parent that is no task of its own log may be one of another log of the same site; that of a
    stranger is another task of the same name.
    """
    for kind in kinds:
        own = [_own_names(log, kind, parents=strangers) for log in logs]
        times = Counter(name for part in own for name in part)
        common = {name for name, number in times.items() if number > 1}
        if not common:
            continue
        prefixed = {f"{prefix}/{name}" for prefix in names for name in common}
        if clash := sorted(prefixed & times.keys()):
            raise InputError(
                f"'{clash[0]}' is there already, so it cannot be told apart",
                field=kind,
                remedy="give other names",
            )
        what = f"names of {kind} that several logs have, prefixed"
        notes.append(
            Cleaning(kind="repaired", what=what, count=sum(len(part & common) for part in own))
        )
        logs = [
            _renamed(log, kind, {old: f"{prefix}/{old}" for old in part & common})
            for log, prefix, part in zip(logs, names, own, strict=True)
        ]
    return logs


def _own_names(log: Trace, kind: str, *, parents: bool) -> set[str]:
    """The names of a kind that stand in a log; whether those of parents that are no task of it."""
    found: set[str] = set()
    for table, column in _NAMES[kind]:
        if table != "decisions" and (parents or column != "parents"):
            names = log.tables[table][column]
            found.update((names.explode() if column == "parents" else names).drop_nulls())
    return found


def _renamed(log: Trace, kind: str, new: dict[str, str]) -> Trace:
    tables = log.tables
    for table, column in _NAMES[kind]:
        if tables[table].height:
            value = pl.element() if column == "parents" else pl.col(column)
            renamed = value.replace(new)
            if column == "parents":
                renamed = pl.col("parents").list.eval(renamed)
            tables = {**tables, table: tables[table].with_columns(renamed.alias(column))}
    return log.replace(manifest=log.manifest, **tables)


def _manifest(logs: list[Trace], source: TraceOrigin | None) -> Manifest:
    """What all logs agree on; what they do not is not known of the whole."""
    first = logs[0].manifest
    agreed = {
        field: getattr(first, field)
        for field in ("kind", "epoch_ms", "reference_mhz", "sampling_period")
        if len({getattr(log.manifest, field) for log in logs}) == 1
    }
    if source is None:
        files = [file for log in logs if log.manifest.source for file in log.manifest.source.files]
        source = TraceOrigin(format="merge", files=tuple(dict.fromkeys(files))) if files else None
    return Manifest(source=source, **agreed)
