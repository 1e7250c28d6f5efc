"""Bytes per live activity: growth of the resident set, each case in a fresh process."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from pathlib import Path

from measure import BenchmarkResult, Goal, ResultTable


def resident(which: str) -> int:
    """Resident set of this process in bytes: `VmRSS` now, `VmHWM` its peak (Linux)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(which):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"no {which} in /proc/self/status")


def reset_memory() -> None:
    """Release freed memory and reset the peak."""
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")


def grow(case: str, count: int) -> tuple[float, int]:
    """Return the growth of the peak memory per activity (B), and the size of a handle."""
    from load import grouped

    from twinloop.engine import Environment, run_columns

    load = grouped(count, count)  # one group: all live at once
    work = load.work.tolist() if case == "objects" else []
    run_columns(load.start[:1000], load.work[:1000])
    reset_memory()
    before = resident("VmRSS")
    handle = 0
    if case == "columns":
        run = run_columns(load.start, load.work)
        if run.finish.min() <= load.start.max():
            raise RuntimeError("the activities were not all live at once")
    else:
        env = Environment()
        host = env.resource(1.0)
        for amount in work:
            handle = sys.getsizeof(host.execute(amount))
        env.run(until=1.0)
    return (resident("VmHWM") - before) / count, handle


def run(quick: bool) -> BenchmarkResult:
    count = 200_000 if quick else 1_000_000
    measured: dict[str, tuple[float, int]] = {}
    for case in ("columns", "objects"):
        answer = subprocess.run(
            [sys.executable, __file__, case, str(count)], check=True, capture_output=True, text=True
        )
        measured[case] = json.loads(answer.stdout)
    columns, _ = measured["columns"]
    objects, handle = measured["objects"]
    table = ResultTable(
        f"{count:,} live activities on one resource (bytes each)",
        {"case": "s", "bytes": ".0f"},
        [
            ["columnar entry, with its finish times (8 bytes)", columns],
            ["objects", objects],
            ["  of that the Python handle (a live activity keeps its handle)", handle],
            ["  of that native", objects - handle],
        ],
        "Peak resident set minus the resident set before, input already loaded.",
    )
    native = (("columns", columns), ("objects, without the Python handle", objects - handle))
    goals = [
        Goal(f"memory per live activity, {name}", "under 200 bytes", f"{n:.0f} bytes", n < 200)
        for name, n in native
    ]
    return BenchmarkResult([table], goals)


if __name__ == "__main__":
    print(json.dumps(grow(sys.argv[1], int(sys.argv[2]))))
