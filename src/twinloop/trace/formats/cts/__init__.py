"""The Core Trace Schema: a folder of JSON Lines, one line per invocation and per usage sample.

`invocations.jsonl` has trace_id, pid, ts_enqueue, ts_start and ts_end; `proc_metrics.jsonl` has
ts_ms (the end of the window), pid, dt_ms, cpu_ms and rss_kb; `nodes.json` has node_id, cpu_cores,
mem_mb and cpu_freq_mhz of one node or of a list. All times are integer Unix milliseconds, and a
kilobyte is 1,024 bytes. Two fields are added, always written and optional when read: `node_id` in
invocations and samples (without it, the pids of two nodes are ambiguous), and `exit_status` in
invocations. The JSON Lines may be compressed.
"""

from __future__ import annotations

from pathlib import Path

from twinloop.trace.formats.cts.reader import INVOCATIONS_FILE, find_files, read
from twinloop.trace.formats.cts.writer import write
from twinloop.trace.formats.registry import Format

__all__ = ["FORMAT", "read", "write"]


def _recognises(path: Path, start: bytes) -> bool:
    return path.is_dir() and bool(find_files(path, INVOCATIONS_FILE))


FORMAT: Format = Format(
    name="cts",
    title="Core Trace Schema",
    recognises=_recognises,
    read=read,
    write=write,
    suffixes=(".cts",),
)
