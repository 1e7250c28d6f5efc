"""Reader of folders in the Core Trace Schema."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import polars as pl

from twinloop._core import JsonLinesParser
from twinloop.description.errors import FormatError, InputError
from twinloop.description.files import describe_source_file
from twinloop.trace.formats import native
from twinloop.trace.formats.cleaning_counts import Tally
from twinloop.trace.formats.clock import scale_ticks
from twinloop.trace.formats.cts.attribution import attribute_samples
from twinloop.trace.formats.cts.nodes import NODES_FILE, read_nodes
from twinloop.trace.formats.cts.units import KB, MAX_INTEGER
from twinloop.trace.manifest import Manifest, TraceOrigin
from twinloop.trace.tables import make_empty_table
from twinloop.trace.trace import Trace

INVOCATIONS_FILE: Final = "invocations.jsonl"
SAMPLES_FILE: Final = "proc_metrics.jsonl"
FILES: Final = (INVOCATIONS_FILE, SAMPLES_FILE, NODES_FILE)
COMPRESSIONS: Final = {"gz": ".gz", "zst": ".zst"}

INVOCATIONS: Final = (
    ("trace_id", "string"),
    ("pid", "int64"),
    ("ts_enqueue", "int64"),
    ("ts_start", "int64"),
    ("ts_end", "int64"),
    ("node_id", "string"),
    ("exit_status", "int64"),
)
SAMPLES: Final = (
    ("ts_ms", "int64"),
    ("pid", "int64"),
    ("dt_ms", "int64"),
    ("cpu_ms", "int64"),
    ("rss_kb", "int64"),
    ("node_id", "string"),
)


def read(path: Path, *, strict: bool = False) -> Trace:
    """Read a folder in the Core Trace Schema.

    Args:
        path: The folder; its JSON Lines may be compressed.
        strict: Raise at the first line that cannot be read, instead of skipping it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as temporary:
    ...     folder = Path(temporary)
    ...     _ = (folder / "invocations.jsonl").write_text(
    ...         '{"trace_id":"a","pid":7,"ts_enqueue":1000,"ts_start":1500,"ts_end":4000}')
    ...     _ = (folder / "proc_metrics.jsonl").write_text(
    ...         '{"ts_ms":2500,"pid":7,"dt_ms":1000,"cpu_ms":800,"rss_kb":2048}')
    ...     _ = (folder / "nodes.json").write_text(
    ...         '{"node_id":"n1","cpu_cores":8,"mem_mb":16384,"cpu_freq_mhz":2400}')
    ...     trace = read(folder)
    >>> trace.usage.select("task", "t", "dt", "cpu").row(0)
    ('a', 1.5, 1.0, 0.8)
    >>> trace.manifest.epoch_ms
    1000
    """
    tally = Tally()
    files = {name: find_files(path, name) for name in FILES}
    for name, paths in files.items():
        if len(paths) > 1:
            names = " and ".join(file.name for file in paths)
            raise InputError(
                f"contains both {names}",
                kind="duplicate-name",
                file=path,
                remedy="remove one of them",
            )
        if not paths and name == INVOCATIONS_FILE:
            raise FormatError(f"has no {name}", kind="wrong-format", file=path)
        if not paths:
            tally.note("assumed", f"there is no {name}: its values are unknown")
    invocations = _parse_lines(files[INVOCATIONS_FILE], INVOCATIONS, strict, tally)
    samples = _parse_lines(files[SAMPLES_FILE], SAMPLES, strict, tally)
    nodes = [read_nodes(file, strict=strict, tally=tally) for file in files[NODES_FILE]]
    epoch = _find_epoch(invocations, samples)
    return Trace(
        tasks=_make_tasks(invocations, epoch),
        placements=_make_placements(invocations, epoch),
        usage=_make_usage(samples, invocations, epoch),
        nodes=nodes[0] if nodes else make_empty_table("nodes"),
        manifest=Manifest(
            source=TraceOrigin(
                format="cts",
                files=tuple(
                    describe_source_file(file) for paths in files.values() for file in paths
                ),
            ),
            epoch_ms=epoch,
            cleaned=tally.cleanings(),
        ),
    )


def find_files(folder: Path, name: str) -> list[Path]:
    """Find the files of a name, plain and compressed."""
    candidates = (folder / f"{name}{end}" for end in ("", *COMPRESSIONS.values()))
    return [file for file in candidates if file.is_file()]


def _parse_lines(
    files: Sequence[Path], columns: Sequence[tuple[str, str]], strict: bool, tally: Tally
) -> pl.DataFrame:
    parser = JsonLinesParser(columns, MAX_INTEGER)
    if not files:
        return pl.DataFrame(parser.finish())
    table = native.parse_text_file(
        files[0], parser, [name for name, _ in columns], strict=strict, tally=tally
    )
    for name, count in parser.others.items():
        what = f"field '{name}'" if name else "further fields"
        tally.note("ignored", f"{what} of {files[0].name}", count=count)
    return table


def _find_epoch(invocations: pl.DataFrame, samples: pl.DataFrame) -> int | None:
    """Return the earliest submission; if none is known, the earliest start, end or sample."""
    times = (invocations["ts_enqueue"], invocations["ts_start"], invocations["ts_end"])
    for column in (*times, samples["ts_ms"]):
        earliest = column.min()
        if isinstance(earliest, int):
            return earliest
    return None


def _seconds_since(epoch: int | None, times: pl.Series) -> pl.Series:
    return scale_ticks(times - (epoch or 0))


def _decode_status(column: str) -> pl.Expr:
    code = pl.col(column)
    return pl.when(code == 0).then(pl.lit("completed")).when(code != 0).then(pl.lit("failed"))


def _make_tasks(invocations: pl.DataFrame, epoch: int | None) -> pl.DataFrame:
    return invocations.select(
        id="trace_id",
        submit=_seconds_since(epoch, invocations["ts_enqueue"]),
        status=_decode_status("exit_status"),
        exit_code="exit_status",
        pid="pid",
        line="line",
    )


def _make_placements(invocations: pl.DataFrame, epoch: int | None) -> pl.DataFrame:
    recorded = pl.any_horizontal(pl.col("node_id", "ts_start", "ts_end").is_not_null())
    invocations = invocations.filter(recorded)
    return invocations.select(
        task="trace_id",
        attempt=pl.lit(0, pl.Int64),
        machine="node_id",
        start=_seconds_since(epoch, invocations["ts_start"]),
        end=_seconds_since(epoch, invocations["ts_end"]),
        reason=_decode_status("exit_status"),
    )


def _make_usage(
    samples: pl.DataFrame, invocations: pl.DataFrame, epoch: int | None
) -> pl.DataFrame:
    return samples.select(
        task=invocations["trace_id"].gather(attribute_samples(samples, invocations)),
        machine="node_id",
        pid="pid",
        t=_seconds_since(epoch, samples["ts_ms"]),
        dt=scale_ticks(samples["dt_ms"]),
        cpu=scale_ticks(samples["cpu_ms"]),
        rss=pl.col("rss_kb").cast(pl.Float64) * KB,
        line="line",
    )
