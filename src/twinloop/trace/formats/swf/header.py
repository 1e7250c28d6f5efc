"""Parsing and writing of the header of an SWF log."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from twinloop import __version__
from twinloop.trace.manifest import Manifest
from twinloop.trace.trace import Trace

_LABEL: Final = re.compile(r"\s*([A-Za-z]+)\s*:\s*(.*?)\s*", re.DOTALL)
_NUMBER: Final = re.compile(r"(\d{1,15})(?:\s.*)?", re.DOTALL)
_NUMBERED: Final = re.compile(r"(\d{1,15})\s+(.*)", re.DOTALL)
_TEXTS: Final = {
    "Version": "version",
    "Computer": "computer",
    "Installation": "installation",
    "Acknowledge": "acknowledge",
    "Information": "information",
    "Conversion": "conversion",
    "Preemption": "preemption",
    "TimeZoneString": "time_zone",
    "StartTime": "start_time",
    "EndTime": "end_time",
}
_NUMBERS: Final = {
    "MaxJobs": "max_jobs",
    "MaxRecords": "max_records",
    "MaxNodes": "max_nodes",
    "MaxProcs": "max_procs",
    "MaxRuntime": "max_run_time",
    "MaxMemory": "max_memory_kb",
    "UnixStartTime": "unix_start_time",
}
_LISTS: Final = {"Queue": "queues", "Partition": "partitions"}

#: Maximum number of names of a column that are listed in the header.
MAX_LISTED_NAMES: Final = 1000


def parse_header(header: Iterable[str]) -> dict[str, Any]:
    """Parse the labelled lines of a header.

    >>> parse_header([" MaxProcs: 100", " Queue:  0  interactive  ", " Note: free text"])
    {'max_procs': 100, 'queues': {'0': 'interactive'}}
    """
    facts: dict[str, Any] = {}
    for line in header:
        label, value = _split_label(line)
        if label in _TEXTS and value:
            facts.setdefault(_TEXTS[label], value)
        elif label in _NUMBERS and (number := _NUMBER.fullmatch(value)):
            facts.setdefault(_NUMBERS[label], int(number[1]))
        elif label in _LISTS and (entry := _NUMBERED.fullmatch(value)):
            facts.setdefault(_LISTS[label], {}).setdefault(entry[1], entry[2])
    return facts


def make_header(
    trace: Trace, epoch_s: int | None, records: int, names: Mapping[str, Sequence[str]]
) -> list[str]:
    """Make the header lines, without their semicolon.

    A log read from SWF keeps its header, corrected for the operations applied to it. `names` has
    the names that were numbered, from 1, by column.
    """
    manifest = trace.manifest
    actual = {"UnixStartTime": epoch_s}
    if manifest.source is not None and manifest.source.format == "swf":
        lines = list(manifest.source.header)
        if manifest.edits:
            actual |= {"MaxJobs": trace.tasks.height, "MaxRecords": records}
        lines = _correct_labels(lines, actual)
        lines += [
            f" Note: {edit.operation} {_format_plain(edit.parameters)}" for edit in manifest.edits
        ]
    else:
        actual |= {"MaxJobs": trace.tasks.height, "MaxRecords": records, **_get_size(trace)}
        lines = [" Version: 2.2", f" Conversion: twinloop {__version__}{_format_origin(manifest)}"]
        lines += [f" {label}: {value}" for label, value in actual.items() if value is not None]
    for column, values in names.items():
        if len(values) > MAX_LISTED_NAMES:
            lines.append(f" Note: {column}s are numbered in order of appearance")
            continue
        label = {"queue": "Queue: {0}  {1}", "partition": "Partition: {0}  {1}"}.get(
            column, f"Note: {column} {{0}} is {{1}}"
        )
        lines += [
            " " + label.format(i, _format_plain(name)) for i, name in enumerate(values, start=1)
        ]
    return lines


def _correct_labels(lines: Sequence[str], actual: Mapping[str, int | None]) -> list[str]:
    corrected = []
    seen = set()
    for line in lines:
        label, value = _split_label(line)
        if label in actual and actual[label] is not None and label not in seen:
            seen.add(label)
            number = _NUMBER.fullmatch(value)
            if number is None or int(number[1]) != actual[label]:
                line = f" {label}: {actual[label]}"
        corrected.append(line)
    return corrected + [
        f" {label}: {value}"
        for label, value in actual.items()
        if value is not None and label not in seen
    ]


def _split_label(line: str) -> tuple[str, str]:
    match = _LABEL.fullmatch(line)
    return (match[1], match[2]) if match else ("", "")


def _get_size(trace: Trace) -> dict[str, int | None]:
    nodes = trace.nodes
    cores = nodes["cores"].sum() if nodes.height and not nodes["cores"].null_count() else None
    return {
        "MaxNodes": nodes.height or None,
        "MaxProcs": None if cores is None else int(cores),
    }


def _format_origin(manifest: Manifest) -> str:
    if manifest.source is None:
        return ""
    files = ", ".join(file.name for file in manifest.source.files[:3])
    return f" from {manifest.source.format} {_format_plain(files)}".rstrip()


def _format_plain(value: Any) -> str:
    if isinstance(value, str) and value.isprintable():
        return value
    return json.dumps(value, ensure_ascii=True, default=str)
