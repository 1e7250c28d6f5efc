"""Small traces that keep every rule of the quality gate, and ways to break them."""

from typing import Any

import polars as pl

from twinloop.description import SourceFile
from twinloop.trace import Manifest, Trace, TraceOrigin


def source(form: str, *names: str) -> TraceOrigin:
    files = tuple(SourceFile(name=name, size=1, sha256="0" * 64) for name in names)
    return TraceOrigin(format=form, files=files)


def recorded() -> Trace:
    """A recorded run: two nodes, three tasks, one sample per second.

    a runs 1..4 s on n1, b waits for a and runs 5..7 s on n1, c runs 2..4 s on n2.
    """
    samples = [(task, t) for task, times in {"a": (2, 3, 4), "b": (6, 7), "c": (3, 4)}.items()
               for t in times]  # fmt: skip
    machine, pid = {"a": "n1", "b": "n1", "c": "n2"}, {"a": 11, "b": 12, "c": 11}
    return Trace(
        tasks=pl.DataFrame(
            {
                "id": ["a", "b", "c"],
                "user": ["u", "u", "v"],
                "submit": [0.0, 0.5, 1.0],
                "requested_cores": [2.0, 1.0, 4.0],
                "run_time": [3.0, 2.0, 2.0],
                "status": ["completed", "failed", "completed"],
                "parents": [None, ["a"], None],
                "pid": [11, 12, 11],
                "line": [1, 2, 3],
            }
        ),
        placements=pl.DataFrame(
            {
                "task": ["a", "b", "c"],
                "attempt": 0,
                "machine": ["n1", "n1", "n2"],
                "cores": [2.0, 1.0, 4.0],
                "start": [1.0, 5.0, 2.0],
                "end": [4.0, 7.0, 4.0],
                "reason": ["completed", "failed", "completed"],
            }
        ),
        usage=pl.DataFrame(
            {
                "task": [task for task, _ in samples],
                "machine": [machine[task] for task, _ in samples],
                "pid": [pid[task] for task, _ in samples],
                "t": [float(t) for _, t in samples],
                "dt": 1.0,
                "cpu": 0.5,
                "rss": 1e6,
                "line": range(1, len(samples) + 1),
            }
        ),
        nodes=pl.DataFrame({"node": ["n1", "n2"], "cores": 4.0, "mhz": 2000.0, "memory": 8e9}),
        node_states=pl.DataFrame({"node": ["n1"], "start": [0.0], "end": [9.0], "state": ["up"]}),
        power=pl.DataFrame({"node": ["n1", "n1"], "t": [1.0, 2.0], "dt": 1.0, "watts": 90.0}),
        decisions=pl.DataFrame({"t": [1.0], "kind": ["place"], "subject": ["a"], "target": ["n1"]}),
        files=pl.DataFrame({"file": ["in"], "size": [10.0]}),
        task_files=pl.DataFrame({"task": ["a"], "file": ["in"], "access": ["read"]}),
        manifest=Manifest(
            source=source("cts", "invocations.jsonl.gz", "proc_metrics.jsonl", "nodes.json"),
            sampling_period=1.0,
            epoch_ms=1_726_128_000_000,
        ),
    )


def rented() -> Trace:
    """A simulated run: a is on n1, then on n2, b is released, c is refused, d is
    suspended, and e waits in another cloud.
    """
    names = ["a", "a", "b", "c", "d", "e", "e"]
    return Trace(
        tasks=pl.DataFrame(
            {"id": ["t"], "submit": [0.0], "requested_cores": [1.0], "run_time": [1.0]}
        ),
        nodes=pl.DataFrame({"node": ["n1", "n2"], "cores": 4.0, "memory": 8e9}),
        instances=pl.DataFrame(
            {
                "instance": names,
                "host": ["n1", "n2", "n2", None, "n2", "n2", None],
                "cores": [4.0, 4.0, 2.0, 9.0, 2.0, 1.0, 1.0],
                "memory": [8e9, 8e9, 1e9, 1e9, 1e9, 1e9, 1e9],
                "start": [1.0, 6.0, 2.0, None, 5.0, 5.0, None],
                "end": [6.0, None, 4.0, 3.0, 9.0, 8.0, None],
                "reason": ["moved", None, "released", "refused", "suspended", "left", None],
                "cloud": ["east"] * 6 + ["west"],
                "requested": [0.0, None, 0.0, 3.0, 5.0, 5.0, None],
                "ready": [3.0, None, None, None, 5.0, 5.0, None],
            }
        ),
        instance_states=pl.DataFrame(
            {
                "instance": ["a", "a", "a", "b", "b", "d", "d"],
                "start": [0.0, 1.0, 3.0, 0.0, 2.0, 5.0, 9.0],
                "end": [1.0, 3.0, None, 2.0, 4.0, 9.0, None],
                "state": [
                    "queued", "initial-transfer", "running", "queued", "startup", "running",
                    "suspended",
                ],
            }
        ),
        transfers=pl.DataFrame(
            {
                "kind": ["image", "migration", "message"],
                "subject": ["a", "a", "b"],
                "from": ["images", "n1", "hub"],
                "to": ["a", "n2", "n2"],
                "bytes": 1e6,
                "start": [1.0, 4.0, 0.0],
                "end": [3.0, 6.0, 0.5],
                "reason": "completed",
            }
        ),
        manifest=Manifest(
            kind="simulated",
            scenario={
                "platform": {"stores": [{"name": "images"}], "network": {"switches": ["hub"]}}
            },
        ),
    )  # fmt: skip


def log() -> Trace:
    """A log of jobs without samples, as an SWF file gives it; its header has four lines."""
    return Trace(
        tasks=pl.DataFrame(
            {
                "id": ["1", "2", "3"],
                "user": ["u", "v", None],
                "queue": ["q", "r", "q"],
                "submit": [0.0, 10.0, 10.0],
                "requested_cores": [4.0, None, 1.0],
                "requested_time": [60.0, 60.0, None],
                "run_time": [50.0, 20.0, 5.0],
                "status": ["completed", "failed", "cancelled"],
                "line": [5, 6, 8],
            }
        ),
        placements=pl.DataFrame(
            {
                "task": ["1", "2", "3"],
                "attempt": 0,
                "cores": [4.0, 2.0, 1.0],
                "start": [0.0, 12.0, 30.0],
                "end": [50.0, 32.0, 35.0],
            }
        ),
        manifest=Manifest(source=source("swf", "log.swf")),
    )


def fragments() -> Trace:
    """Tasks with known usage only, as in the tables of OpenDC."""
    return Trace(
        tasks=pl.DataFrame(
            {
                "id": ["x", "y"],
                "submit": [0.0, 30.0],
                "requested_cores": [2.0, 8.0],
                "run_time": [60.0, 30.0],
                "line": [1, 2],
            }
        ),
        usage=pl.DataFrame(
            {
                "task": ["x", "x", "y"],
                "t": [30.0, 60.0, 60.0],
                "dt": 30.0,
                "cpu": [60.0, 6.0, 240.0],
                "line": [1, 2, 3],
            }
        ),
        nodes=pl.DataFrame({"node": ["h1", "h2"], "cores": 8.0, "mhz": 2100.0, "memory": 1e9}),
        manifest=Manifest(
            source=source("opendc", "tasks.parquet", "fragments.parquet"), reference_mhz=2100.0
        ),
    )


def change(trace: Trace, table: str, row: int, **values: Any) -> Trace:
    """The trace with other values in one row of a table."""
    frame = trace.tables[table]
    there = pl.int_range(frame.height) == row
    columns = [
        pl.when(there).then(pl.lit(value, dtype=frame.schema[name])).otherwise(name).alias(name)
        for name, value in values.items()
    ]
    return put(trace, table, frame.with_columns(columns))


def add(trace: Trace, table: str, **values: Any) -> Trace:
    """The trace with one more row in a table."""
    frame = trace.tables[table]
    schema = {name: frame.schema[name] for name in values}
    more = pl.DataFrame({name: [value] for name, value in values.items()}, schema=schema)
    return put(trace, table, pl.concat([frame, more], how="diagonal"))


def drop(trace: Trace, table: str, *rows: int) -> Trace:
    """The trace without some rows of a table."""
    frame = trace.tables[table]
    return put(trace, table, frame.filter(~pl.int_range(frame.height).is_in(rows)))


def put(trace: Trace, table: str, frame: pl.DataFrame) -> Trace:
    return Trace(manifest=trace.manifest, **{**trace.tables, table: frame})
