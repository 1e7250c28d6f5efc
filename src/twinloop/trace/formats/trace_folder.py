"""The working form of a Trace: a folder of Parquet files with a manifest."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from twinloop.description.cleaning import Cleaning
from twinloop.trace.folder import MANIFEST
from twinloop.trace.formats.registry import Format
from twinloop.trace.trace import Trace


def read(path: Path, *, strict: bool = False) -> Trace:
    """Read a trace folder; it is always checked against its own hashes, strict or not."""
    return Trace.load(path)


def write(trace: Trace, path: Path) -> Iterable[Cleaning]:
    """Write a trace folder; it holds everything."""
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
