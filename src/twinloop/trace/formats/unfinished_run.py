"""The format of folders of real runs that are still running, or were interrupted."""

from __future__ import annotations

from pathlib import Path

from twinloop.description.plugins import load_component
from twinloop.trace.folder import MANIFEST
from twinloop.trace.formats.registry import Format
from twinloop.trace.trace import Trace


def read(path: Path, *, strict: bool = False) -> Trace:
    """Read a run up to the end of its journal; tasks that were running then are `lost`."""
    # The execution package is a higher layer, so it is imported by name, when it is used.
    trace: Trace = load_component("unfinished-run-reader")(path)
    return trace


FORMAT: Format = Format(
    name="unfinished",
    title="folder of a real run that is still running, or was interrupted",
    recognises=lambda path, start: (
        not (path / MANIFEST).is_file() and (path / "recording" / "journal.jsonl").is_file()
    ),
    read=read,
)
