"""The Standard Workload Format: text, 18 fields a line, as the Parallel Workloads Archive has it.

Comments start with `;`; the comments at the beginning of the file are its header. An unknown field
is -1. Times are seconds (fractions are allowed), memory is kilobytes per processor, CPU time is the
mean over the processors.

Source of the fields and their meaning: www.cs.huji.ac.il/labs/parallel/workload/swf.html.
"""

from __future__ import annotations

import re
from pathlib import Path

from twinloop.trace.formats.registry import Format
from twinloop.trace.formats.swf.reader import read
from twinloop.trace.formats.swf.writer import write

__all__ = ["FORMAT", "read", "write"]

_NUMBER = r"-?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_RECORD = re.compile(rf"[ \t]*(?:{_NUMBER}[ \t]+){{17}}{_NUMBER}[ \t]*")
_HEADER = re.compile(r"[ \t]*;\s*(?:Version|Computer|UnixStartTime|MaxJobs|MaxProcs)\s*:")


def _recognises(path: Path, start: bytes) -> bool:
    if path.is_dir():
        return False
    lines = start.decode("utf-8-sig", errors="replace").splitlines()[:10_000]
    records = [line for line in lines if line.strip() and not line.lstrip().startswith(";")]
    if not records:
        return any(_HEADER.match(line) for line in lines)
    return any(_RECORD.fullmatch(line) for line in records[:20])


FORMAT: Format = Format(
    name="swf",
    title="Standard Workload Format",
    recognises=_recognises,
    read=read,
    write=write,
    suffixes=(".swf",),
)
