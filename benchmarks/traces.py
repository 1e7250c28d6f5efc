"""Reading traces: SWF against pandas, CTS against Polars and json, OpenDC; and their memory."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from measure import BUILD, HERE, BenchmarkResult, Goal, ResultTable, side_by_side
from memory import reset_memory, resident

from twinloop._core import JsonLinesParser, SwfParser
from twinloop.description.files import iterate_chunks
from twinloop.trace.formats import cts, opendc, swf
from twinloop.trace.formats.cts.reader import SAMPLES
from twinloop.workload import Workload, WorkloadArrays

JOBS = 202_871  # as many as HPC2N-2002 has
FASTER = 2.0
MB_PER_SECOND = 100.0
TIMES_THE_ARRAYS = 3.0
TASKS, FRAGMENTS = 7_850, 2_323_475  # as many as SURF's week has
SECONDS = 1.5
DATA = Path(os.environ.get("TWINLOOP_DATA", HERE.parent.parent / "shared" / "data"))


def made_swf(jobs: int) -> Path:
    """Write a log in the layout of the archive: aligned columns, some fields always unknown."""
    path = BUILD / f"made-{jobs}.swf"
    if path.exists():
        return path
    rng = np.random.default_rng(1)
    submit = np.sort(rng.integers(0, 100_000_000, jobs))
    wait, run = rng.integers(0, 100_000, jobs), rng.integers(0, 200_000, jobs)
    cores, cpu = rng.integers(1, 241, jobs), rng.random(jobs) * run
    user, code = rng.integers(1, 258, jobs), rng.integers(0, 2, jobs)
    BUILD.mkdir(parents=True, exist_ok=True)
    with path.open("w") as stream:
        stream.write("; Version: 2.2\n; Computer: made up\n; MaxProcs: 240\n")
        for i in range(jobs):
            stream.write(
                f"{i:6} {submit[i]:9} {wait[i]:6} {run[i]:6} {cores[i]:4} {cpu[i]:9.2f}    -1 "
                f"{cores[i]:4}  43200    -1 {code[i]:2} {user[i]:3}   1  -1 -1  1 -1 -1\n"
            )
    return path


def real_swf() -> Path | None:
    packed = DATA / "swf" / "HPC2N-2002-2.2-cln.swf.gz"
    if not packed.exists():
        return None
    path = BUILD / "hpc2n.swf"
    BUILD.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.decompress(packed.read_bytes()))
    return path


def made_cts(samples: int) -> Path:
    """Write samples of 200 concurrent tasks on eight nodes, five per second, with reused PIDs."""
    folder = BUILD / f"made-{samples}.cts"
    if folder.exists():
        return folder
    rng = np.random.default_rng(1)
    each = 250
    tasks = samples // each
    start = 1_726_128_000_000 + 250 * np.arange(tasks)
    pid, node = rng.integers(1000, 4000, tasks), rng.integers(0, 8, tasks)
    owner = np.repeat(np.arange(tasks), each)
    end = (start[:, None] + 200 * np.arange(1, each + 1)).ravel()
    order = np.argsort(end, kind="stable")
    folder.mkdir(parents=True)
    with (folder / "proc_metrics.jsonl").open("w") as stream:
        for t, i in zip(end[order].tolist(), owner[order].tolist(), strict=True):
            stream.write(
                f'{{"ts_ms":{t},"pid":{pid[i]},"dt_ms":200,"cpu_ms":{t % 197},'
                f'"rss_kb":{420_000 + t % 997},"node_id":"node-{node[i]}"}}\n'
            )
    with (folder / "invocations.jsonl").open("w") as stream:
        for i in range(tasks):
            stream.write(
                f'{{"trace_id":"job-{i:06}","pid":{pid[i]},"ts_enqueue":{start[i] - 99},'
                f'"ts_start":{start[i]},"ts_end":{end[each * i + each - 1]},'
                f'"node_id":"node-{node[i]}","exit_status":0}}\n'
            )
    (folder / "nodes.json").write_text("[]")
    return folder


def made_opendc(tasks: int, fragments: int) -> Path:
    """Tasks of 16 cores with fragments of 30 s, a fifth of them without any.

    No fragment has the use of the one before, so that none are merged.
    """
    folder = BUILD / f"distinct-{fragments}.opendc"
    if folder.exists():
        return folder
    rng = np.random.default_rng(1)
    submit = np.sort(rng.integers(0, 7 * 86_400_000, tasks))
    shares = rng.pareto(1.0, tasks) * (np.arange(tasks) % 5 > 0)
    count = np.floor(shares / shares.sum() * fragments).astype(int)
    count[np.argmax(count)] += fragments - count.sum()
    ids = [str(2_000_000 + i) for i in range(tasks)]
    folder.mkdir(parents=True)
    pl.DataFrame(
        {
            "id": ids,
            "submission_time": pl.Series(1_665_093_600_000 + submit).cast(pl.Datetime("ms")),
            "duration": count * 30_000 + 5_000,
            "cpu_count": pl.Series([16] * tasks, dtype=pl.Int32),
            "cpu_capacity": [33_600.0] * tasks,
            "mem_capacity": [100_000] * tasks,
        }
    ).write_parquet(folder / "tasks.parquet")
    pl.DataFrame(
        {
            "id": pl.Series(ids).gather(np.repeat(np.arange(tasks), count)),
            "duration": np.full(fragments, 30_000),
            "cpu_usage": (np.cumsum(rng.integers(1, 33_600, fragments)) % 33_600).astype(float),
        }
    ).write_parquet(folder / "fragments.parquet")
    return folder


def columns(path: Path, parser: SwfParser | JsonLinesParser) -> pl.DataFrame:
    for chunk in iterate_chunks(path):
        parser.feed(chunk)
    return pl.DataFrame(parser.finish())


def with_pandas(path: Path) -> Any:
    import pandas

    return pandas.read_csv(path, sep=r"\s+", comment=";", header=None)


def with_json(path: Path) -> int:
    total = 0
    with path.open("rb") as stream:
        for line in stream:
            total += json.loads(line)["cpu_ms"]
    return total


def read_swf(result: BenchmarkResult, quick: bool) -> None:
    table = ResultTable(
        "SWF log from an uncompressed file (CPU seconds)",
        {
            "log": "s",
            "MB": ".1f",
            "pandas": ".3f",
            "columns": ".3f",
            "Trace": ".3f",
            "ratio": ".2f",
        },
        note="columns: the 18 fields as Polars columns; Trace: all of it, with checks and the hash "
        "of the file; ratio: pandas against the Trace.",
    )
    logs = {"made up": made_swf(JOBS), "HPC2N-2002": real_swf()}
    for name, path in logs.items():
        if path is None:
            continue
        contestants: dict[str, Callable[[], Any]] = {
            "pandas": lambda path=path: with_pandas(path),
            "columns": lambda path=path: columns(path, SwfParser()),
            "Trace": lambda path=path: swf.read(path),
        }
        seconds, answers = side_by_side(contestants, 5 if quick else 15)
        ratio = seconds["pandas"] / seconds["Trace"]
        size = path.stat().st_size / 1e6
        table.rows.append([name, size, *(seconds[c] for c in contestants), ratio])
        ours = answers["columns"].drop("line").fill_null(-1).to_numpy()
        if not np.array_equal(ours, answers["pandas"].to_numpy()):
            result.failures.append(f"traces: {name}: pandas reads other numbers")
        if answers["Trace"].tasks.height != len(ours):
            result.failures.append(f"traces: {name}: the Trace has another number of tasks")
        result.goals.append(
            Goal(
                f"SWF to a Trace against pandas, {name}",
                f"at least {FASTER:.0f}x",
                f"{ratio:.2f}x",
                ratio >= FASTER,
            )
        )
    result.tables.append(table)


def read_cts(result: BenchmarkResult, quick: bool) -> None:
    folder = made_cts(250_000 if quick else 1_000_000)
    path = folder / "proc_metrics.jsonl"
    size = path.stat().st_size / 1e6
    contestants: dict[str, Callable[[], Any]] = {
        "json.loads, line by line": lambda: with_json(path),
        "polars.read_ndjson": lambda: pl.read_ndjson(path),
        "twinloop, columns": lambda: columns(path, JsonLinesParser(SAMPLES)),
        "twinloop, Trace": lambda: cts.read(folder),
    }
    seconds, answers = side_by_side(contestants, 3 if quick else 5)
    table = ResultTable(
        f"CTS samples, {size:.0f} MB of JSON Lines (MB per CPU second)",
        {"code": "s", "MB/s": ".0f"},
        [[name, size / time] for name, time in seconds.items()],
        "Trace: with the invocations, each sample given to its task, and the hashes of the files.",
    )
    result.tables.append(table)
    frame = answers["twinloop, columns"]
    if not frame.drop("line").equals(answers["polars.read_ndjson"]):
        result.failures.append("traces: polars reads other samples")
    if frame["cpu_ms"].sum() != answers["json.loads, line by line"]:
        result.failures.append("traces: json reads other samples")
    if answers["twinloop, Trace"].usage["task"].null_count():
        result.failures.append("traces: samples without their task")
    speed = size / seconds["twinloop, Trace"]
    result.goals.append(
        Goal(
            "CTS to a Trace",
            f"at least {MB_PER_SECOND:.0f} MB/s",
            f"{speed:.0f} MB/s",
            speed >= MB_PER_SECOND,
        )
    )


def compiled(folder: Path) -> WorkloadArrays:
    return Workload.from_trace(opendc.read(folder)).to_arrays()


def compile_opendc(result: BenchmarkResult, quick: bool) -> None:
    table = ResultTable(
        "OpenDC's tables, loaded and compiled to the arrays of a simulation (elapsed seconds)",
        {"log": "s", "fragments": ",d", "Parquet alone": ".2f", "Trace": ".2f", "arrays": ".2f"},
        note="Parquet alone: polars.read_parquet of both files; Trace: read, checked, hashed; "
        "arrays: that and the demand of every task. Best of the repetitions.",
    )
    surf = DATA / "surf"
    logs = {"made up": made_opendc(TASKS, FRAGMENTS), "SURF": surf if surf.exists() else None}
    for name, folder in logs.items():
        if folder is None:
            continue
        contestants: dict[str, Callable[[], Any]] = {
            "Parquet alone": lambda folder=folder: [
                pl.read_parquet(folder / name) for name in ("tasks.parquet", "fragments.parquet")
            ],
            "Trace": lambda folder=folder: opendc.read(folder),
            "arrays": lambda folder=folder: compiled(folder),
        }
        seconds, answers = side_by_side(contestants, 3 if quick else 7, clock=time.perf_counter)
        rows = answers["Parquet alone"][1].height
        if answers["Trace"].usage.height != rows:
            result.failures.append(f"traces: {name}: the Trace has another number of fragments")
        table.rows.append([name, rows, *(seconds[c] for c in contestants)])
        result.goals.append(
            Goal(
                f"OpenDC loaded and compiled, {name}",
                f"under {SECONDS} s",
                f"{seconds['arrays']:.2f} s",
                seconds["arrays"] < SECONDS,
            )
        )
    result.tables.append(table)


def size(frame: pl.DataFrame) -> int:
    """Return the bytes of the arrays with known values.

    A text takes 16 bytes, and its own where they are more than 12.
    """
    total = 0
    for column in frame.get_columns():
        if column.null_count() == frame.height:
            continue
        if column.dtype == pl.String:
            lengths = column.str.len_bytes()
            total += 16 * frame.height + int(lengths.filter(lengths > 12).sum())
        else:
            total += int(column.estimated_size())
    return total


def grow(kind: str, path: Path) -> tuple[int, int]:
    """Measure the growth of the resident set while reading, and the size of the arrays."""
    read, small = {
        "swf": (swf.read, lambda: made_swf(1000)),
        "cts": (cts.read, lambda: made_cts(1000)),
        "opendc": (opendc.read, lambda: made_opendc(10, 1000)),
    }[kind]
    read(small())
    reset_memory()
    before = resident("VmRSS")
    trace = read(path)
    peak = resident("VmHWM")
    return peak - before, sum(map(size, trace.tables.values()))


def keep_small(result: BenchmarkResult, quick: bool) -> None:
    table = ResultTable(
        "Memory while reading (MB)",
        {"file": "s", "peak": ".1f", "arrays": ".1f", "ratio": ".2f"},
        note="Peak resident set minus the resident set before, against the size of the arrays.",
    )
    for kind, path in (
        ("swf", made_swf(JOBS)),
        ("cts", made_cts(250_000 if quick else 1_000_000)),
        ("opendc", made_opendc(TASKS, FRAGMENTS)),
    ):
        answer = subprocess.run(
            [sys.executable, __file__, kind, str(path)], check=True, capture_output=True, text=True
        )
        peak, arrays = json.loads(answer.stdout)
        table.rows.append([kind, peak / 1e6, arrays / 1e6, peak / arrays])
        result.goals.append(
            Goal(
                f"memory while reading {kind.upper()}",
                f"at most {TIMES_THE_ARRAYS:.0f}x the arrays",
                f"{peak / arrays:.2f}x",
                peak <= TIMES_THE_ARRAYS * arrays,
            )
        )
    result.tables.append(table)


# One function per table, in the order in which they are printed.
PARTS: tuple[Callable[[BenchmarkResult, bool], None], ...] = (
    read_swf,
    read_cts,
    compile_opendc,
    keep_small,
)


def run(quick: bool) -> BenchmarkResult:
    result = BenchmarkResult()
    for part in PARTS:
        part(result, quick)
    return result


if __name__ == "__main__":
    print(json.dumps(grow(sys.argv[1], Path(sys.argv[2]))))
