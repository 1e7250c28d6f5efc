"""Readers and writers of trace formats."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from twinloop.description.cleaning import Cleaning
from twinloop.description.plugins import load_component
from twinloop.trace.formats import (
    csv_map,
    cts,
    flowbench,
    gwf,
    nextflow,
    opendc,
    sacct,
    schlouder,
    swf,
    trace_folder,
    unfinished_run,
    wfcommons,
)
from twinloop.trace.formats.registry import (
    Format,
    get_format,
    list_formats,
    list_path_options,
    list_related_files,
    read,
    recognise,
    register,
    write,
)
from twinloop.trace.trace import Trace

__all__ = [
    "Format",
    "get_format",
    "list_formats",
    "list_path_options",
    "list_related_files",
    "read",
    "recognise",
    "register",
    "write",
]


def _write_opendc(
    trace: Trace,
    path: Path,
    *,
    missing: str | None = None,
    platform: Any = None,
    reference_mhz: float | None = None,
) -> Iterable[Cleaning]:
    # The workload package is a higher layer, so it is imported by name, when it is used.
    notes: Iterable[Cleaning] = load_component("opendc-writer")(
        trace, path, missing=missing, platform=platform, reference_mhz=reference_mhz
    )
    return notes


# A file is tested against the formats in this order: the more specific, the earlier.
for _format in (
    trace_folder.FORMAT,
    unfinished_run.FORMAT,
    cts.FORMAT,
    replace(opendc.FORMAT, write=_write_opendc, suffixes=(".opendc",)),
    wfcommons.FORMAT,
    schlouder.FORMAT,
    flowbench.FORMAT,
    swf.FORMAT,
    gwf.FORMAT,
    sacct.FORMAT,
    nextflow.FORMAT,
    csv_map.FORMAT,
):
    register(_format)
