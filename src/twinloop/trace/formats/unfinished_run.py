"""The folder of a real run that goes on, or that was cut short."""

from __future__ import annotations

from pathlib import Path

from twinloop.description.plugins import load_component
from twinloop.trace.folder import MANIFEST
from twinloop.trace.formats.registry import Format
from twinloop.trace.trace import Trace


def read(path: Path, *, strict: bool = False) -> Trace:
    """Read a run as far as its journal goes; what it says of tasks that ran then is `lost`."""
    # Recording is a matter of a higher layer: named here, loaded when used.
    found: Trace = load_component("unfinished-run-reader")(path)
    return found


FORMAT: Format = Format(
    name="unfinished",
    title="folder of a real run that is not over, or was cut short",
    recognises=lambda path, start: (
        not (path / MANIFEST).is_file() and (path / "recording" / "journal.jsonl").is_file()
    ),
    read=read,
)
