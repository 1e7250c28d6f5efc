"""The format of trace folders: Parquet files with a manifest."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from twinloop.description.cleaning import Cleaning
from twinloop.trace.folder import MANIFEST
from twinloop.trace.formats.registry import Format
from twinloop.trace.trace import Trace


def read(path: Path, *, strict: bool = False) -> Trace:
    """Read a trace folder; its hashes are always checked, strict or not."""
    return Trace.load(path)


def write(trace: Trace, path: Path) -> Iterable[Cleaning]:
    """Write a trace folder, which represents all data."""
    trace.save(path, overwrite=path.exists())
    return ()


FORMAT: Format = Format(
    name="trace",
    title="Twinloop trace folder",
    recognises=lambda path, start: (path / MANIFEST).is_file(),
    read=read,
    write=write,
    suffixes=(".trace",),
)
