"""Damaged files: a small valid sample of each format, and ways to damage it."""

import gzip
import hashlib
import io
import json
import random
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import zstandard

from twinloop.execution.run_folder import RunFolder
from twinloop.trace import Format, Manifest, Trace, list_formats

FORMATS = {form.name: form for form in list_formats()}
ROWS = 12


def small_trace() -> Trace:
    """A log with all fields that most formats have."""
    ids = [str(1 + row) for row in range(ROWS)]
    submit = [10.0 * row for row in range(ROWS)]
    return Trace(
        tasks=pl.DataFrame(
            {
                "id": ids,
                "user": [f"u{row % 3}" for row in range(ROWS)],
                "submit": submit,
                "requested_cores": [1.0 + row % 4 for row in range(ROWS)],
                "requested_time": [100.0] * ROWS,
                "run_time": [50.0] * ROWS,
                "status": ["completed"] * ROWS,
                "pid": [1000 + row for row in range(ROWS)],
            }
        ),
        placements=pl.DataFrame(
            {
                "task": ids,
                "attempt": [0] * ROWS,
                "machine": ["n1"] * ROWS,
                "cores": [1.0 + row % 4 for row in range(ROWS)],
                "start": [t + 5 for t in submit],
                "end": [t + 55 for t in submit],
                "reason": ["completed"] * ROWS,
            }
        ),
        usage=pl.DataFrame(
            {
                "task": ids,
                "machine": ["n1"] * ROWS,
                "pid": [1000 + row for row in range(ROWS)],
                "t": [t + 55 for t in submit],
                "dt": [50.0] * ROWS,
                "cpu": [25.0] * ROWS,
                "rss": [1e6] * ROWS,
            }
        ),
        nodes=pl.DataFrame({"node": ["n1"], "cores": [8.0], "mhz": [2400.0], "memory": [1e9]}),
    )


def _gwf(path: Path) -> None:
    rows = [
        [str(row), str(10 * row), "5", "60", "4", "50", "100", "8", "3600", "200", "1", f"u{row}"]
        for row in range(1, ROWS + 1)
    ]
    text = "".join(" ".join([*row, *["-1"] * 17]) + "\n" for row in rows)
    path.write_text("# a log\n" + text)


def _csv(path: Path) -> None:
    rows = [f"j{row},{10 * row}.5,u{row % 3},{row},{60 + row}" for row in range(1, ROWS + 1)]
    path.write_text("id,submit,user,cores,run_time\n" + "\n".join(rows) + "\n")


def _sacct(path: Path) -> None:
    names = "JobID|User|Submit|Start|End|State|ExitCode|Elapsed|AllocCPUS|ReqMem"
    rows = [
        f"{100 + row}|u{row}|2024-03-01T12:{row:02}:00|2024-03-01T13:{row:02}:00|"
        f"2024-03-01T14:{row:02}:00|COMPLETED|0:0|01:00:00|{row}|4Gn"
        for row in range(1, ROWS + 1)
    ]
    path.write_text(names + "\n" + "\n".join(rows) + "\n")


def _nextflow(path: Path) -> None:
    names = "task_id name status exit submit start complete realtime %cpu peak_rss cpus attempt"
    rows = [
        f"{row}\tSORT (s{row})\tCOMPLETED\t0\t2024-03-01 12:{row:02}:00.250\t"
        f"2024-03-01 12:{row:02}:01.000\t{1_709_294_700_000 + row}\t1m {row}s\t95.5%\t"
        f"{row}.5 MB\t2\t1"
        for row in range(1, ROWS + 1)
    ]
    path.write_text("\n".join([names.replace(" ", "\t"), *rows]) + "\n")


def _wfcommons(path: Path) -> None:
    tasks = [
        {
            "name": f"t{row}",
            "id": f"t{row}",
            "parents": [f"t{row - 1}"] if row else [],
            "children": [f"t{row + 1}"] if row < ROWS - 1 else [],
            "inputFiles": [f"f{row}"],
            "outputFiles": [f"f{row + 1}"],
        }
        for row in range(ROWS)
    ]
    files = [{"id": f"f{row}", "sizeInBytes": 100 + row} for row in range(ROWS + 1)]
    ran = [{"id": f"t{row}", "runtimeInSeconds": 1.5 * row, "avgCPU": 90} for row in range(ROWS)]
    machines = [{"nodeName": "n1", "cpu": {"coreCount": 4, "speedInMHz": 2000}}]
    workflow = {
        "specification": {"tasks": tasks, "files": files},
        "execution": {"makespanInSeconds": 9, "tasks": ran, "machines": machines},
    }
    document = {"name": "small", "schemaVersion": "1.5", "workflow": workflow}
    path.write_text(json.dumps(document, indent=1))


def _schlouder(path: Path) -> None:
    boots = [f"{40 + row} {10 * row} {row % 3}" for row in range(ROWS)]
    tasks = [
        f"t{row} {10 * row} 60 ~ {50 + row} 48.5 {1000 + row} {2000 + row} 1.5"
        + (f" -> t{row - 1}" if row % 2 else "")
        for row in range(ROWS)
    ]
    path.write_text("\n".join(["[boots]", *boots, "[tasks]", *tasks]) + "\n")


def _flowbench(path: Path) -> None:
    names = (
        ",anomaly_type,type,ready,submit,stage_in_start,stage_in_end,execute_start,execute_end,"
        "post_script_end,stage_in_bytes,kickstart_hostname,kickstart_executables_exitcode"
    )
    rows = [
        f"t{row},None,compute,{100 + row}.0,{105 + row}.0,{110 + row}.0,{115 + row}.0,"
        f"{108 + row}.0,{160 + row}.0,{165 + row}.0,{1000 + row}.0,n{row % 3},0"
        for row in range(ROWS)
    ]
    path.write_text("\n".join([names, *rows]) + "\n")


def _opendc(path: Path) -> None:
    path.mkdir()
    count = pl.Series(range(ROWS), dtype=pl.Int32)
    pl.DataFrame(
        {
            "id": count,
            "submission_time": pl.Series([row * 1000 for row in range(ROWS)]),
            "duration": [60_000] * ROWS,
            "cpu_count": [2] * ROWS,
            "cpu_capacity": [4000.0] * ROWS,
            "mem_capacity": [1000] * ROWS,
            "parents": [[]] + [[row] for row in range(ROWS - 1)],
        }
    ).write_parquet(path / "tasks.parquet")
    pl.DataFrame(
        {"id": count, "duration": [60_000] * ROWS, "cpu_usage": [500.0] * ROWS}
    ).write_parquet(path / "fragments.parquet")
    topology = {"clusters": [{"hosts": [{"cpu": {"coreCount": 4, "coreSpeed": 2000}}]}]}
    (path / "topology.json").write_text(json.dumps(topology))


def _unfinished(path: Path) -> None:
    names = [f"t{row}" for row in range(ROWS)]
    plan = Trace(
        manifest=Manifest(kind="recorded", facts={"run": {"policy": "fcfs"}}),
        tasks=pl.DataFrame({"id": names, "requested_cores": [1.0] * ROWS}),
        nodes=pl.DataFrame({"node": ["n1"], "cores": [4.0]}),
    )
    folder = RunFolder.create(path, plan)
    journal = folder.journal
    journal.write(e="begin", t=0.0, epoch_ms=1_700_000_000_000)
    for task in range(ROWS):
        place = {"task": task, "attempt": 0, "machine": 0}
        journal.write(e="submit", t=float(task), task=task)
        journal.write(e="ready", t=float(task), task=task)
        journal.write(e="place", t=float(task), task=task, on=[[0, 1.0]])
        journal.write(e="start", t=float(task), cores=1.0, pid=100 + task, **place)
        journal.write(e="use", t=task + 0.5, rows=[[task, 0, 0, 0.25, 4096.0, task + 0.5]])
    folder.close()


_BY_HAND: dict[str, tuple[str, Callable[[Path], None]]] = {
    "gwf": ("log.gwf", _gwf),
    "csv": ("log.csv", _csv),
    "sacct": ("log.txt", _sacct),
    "nextflow": ("trace.txt", _nextflow),
    "wfcommons": ("flow.json", _wfcommons),
    "schlouder": ("run.tasks", _schlouder),
    "flowbench": ("flow-run1.csv", _flowbench),
    "opendc": ("workload", _opendc),
    "unfinished": ("run", _unfinished),
}
#: Formats with a row per line, in one file.
LINES = [
    name
    for name in ("swf", "gwf", "csv", "sacct", "nextflow", "schlouder", "flowbench")
    if name in FORMATS
]


def sample(form: Format, folder: Path) -> Path:
    """Write a small valid file or folder of a format."""
    if form.name in _BY_HAND:
        name, make = _BY_HAND[form.name]
        make(folder / name)
        return folder / name
    assert form.write is not None, f"no sample of {form.name}: add one to _BY_HAND"
    suffix = form.suffixes[0] if form.suffixes else ""
    path = folder / ("sample" + ("" if suffix == "/" else suffix))
    for _ in form.write(small_trace(), path):
        pass
    return path


def files_of(path: Path) -> list[Path]:
    """List the files of a sample."""
    return sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]


def spoiled(data: bytes, rng: random.Random) -> Iterator[tuple[str, bytes]]:
    """Generate damaged versions of the bytes of a file."""
    yield "empty", b""
    for share in (0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99):
        yield f"cut at {share:.0%}", data[: int(len(data) * share)]
    for _ in range(3):
        at = rng.randrange(len(data))
        yield f"NUL at {at}", data[:at] + b"\0" + data[at:]
        yield f"latin-1 at {at}", data[:at] + "\xfc".encode("latin-1") + data[at:]
    yield "noise", rng.randbytes(4096)
    yield "noise behind", data + rng.randbytes(64)
    yield "twice", data + data
    yield "CRLF", data.replace(b"\n", b"\r\n")
    yield "CR", data.replace(b"\n", b"\r")
    yield "mixed ends", re.sub(b"\n", lambda _: rng.choice([b"\n", b"\r\n", b"\r"]), data)
    yield "one line", data.replace(b"\n", b" ")
    yield "UTF-16", data.decode("latin-1").encode("utf-16")
    yield "UTF-16 without mark", data.decode("latin-1").encode("utf-16-le")
    for huge in (b"1e400", b"99999999999999999999", b"-99999999999999999999", b"NaN", b"Infinity"):
        numbers = list(re.finditer(rb"(?<![\w.])\d+(?:\.\d+)?(?![\w.])", data))
        for found in rng.sample(numbers, min(4, len(numbers))):
            yield (
                f"{huge.decode()} at {found.start()}",
                (data[: found.start()] + huge + data[found.end() :]),
            )
    for separator in (b" ", b",", b"|", b"\t"):
        if separator in data:
            turned = [separator.join(reversed(line.split(separator))) for line in data.split(b"\n")]
            yield f"columns turned round at {separator!r}", b"\n".join(turned)
    packed = gzip.compress(data)
    yield "gzip, cut", packed[: len(packed) * 2 // 3]
    yield "gzip, spoiled", packed[:-6] + b"\xff" * 6
    yield "gzip of noise", gzip.compress(rng.randbytes(512))
    yield "no gzip", b"\x1f\x8b" + data
    strong = zstandard.compress(data)
    yield "zstd, cut", strong[: len(strong) * 2 // 3]
    yield "no zstd", b"\x28\xb5\x2f\xfd" + data
    yield "no xz", b"\xfd7zXZ\x00" + data
    yield "no bzip2", b"BZh9" + data


def spoiled_tables(data: bytes, rng: random.Random) -> Iterator[tuple[str, bytes]]:
    """Generate valid Parquet files with damaged tables."""

    def written(frame: pl.DataFrame) -> bytes:
        stream = io.BytesIO()
        frame.write_parquet(stream)
        return stream.getvalue()

    frame = pl.read_parquet(data)
    yield "no rows", written(frame.clear())
    yield "order of columns", written(frame.select(reversed(frame.columns)))
    for name in frame.columns:
        yield f"without {name}", written(frame.drop(name))
        nothing = pl.lit(None).alias(name)
        yield f"nothing in {name}", written(frame.with_columns(nothing))
        words = pl.lit("word").alias(name)
        yield f"words in {name}", written(frame.with_columns(words))
        yield f"lists in {name}", written(frame.with_columns(pl.lit([1.5]).alias(name)))
        yield f"flags in {name}", written(frame.with_columns(pl.lit(True).alias(name)))
        for huge in (float("nan"), float("inf"), 1e300, -1e300, -1.0):
            value = pl.lit(huge).alias(name)
            yield f"{huge} in {name}", written(frame.with_columns(value))
        yield (
            f"2**63 in {name}",
            written(frame.with_columns(pl.lit(2**63 - 1, dtype=pl.Int64).alias(name))),
        )
    for _ in range(10):
        at = rng.randrange(len(data))
        yield f"flip at {at}", data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :]


def copied(path: Path, folder: Path) -> Path:
    """Copy a sample, so that the copy can be damaged."""
    target = folder / path.name
    if path.is_dir():
        shutil.copytree(path, target)
    else:
        shutil.copy(path, target)
    return target


def sign(path: Path, document: dict[str, object] | None = None) -> None:
    """Update the hashes of a trace folder after a change."""
    file = path / "manifest.json"
    document = json.loads(file.read_text()) if document is None else document
    for name, entry in document["tables"].items() if isinstance(document["tables"], dict) else ():
        if (path / name).is_file() and isinstance(entry, dict):
            entry["sha256"] = hashlib.sha256((path / name).read_bytes()).hexdigest()
    rest = {key: value for key, value in document.items() if key != "sha256"}
    document["sha256"] = hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()
    file.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
