"""Executions of Schlouder, a broker of clouds: boots of instances, and tasks with measured times.

The section `[boots]` has a line per instance in the order of the requests: boot time, provisioning
date, lag. The section `[tasks]` has a line per task: id, submission, prediction and, after `~`,
wall time, run time, bytes of input and output, management time; after `->` follow its parents.
Later fields may be absent. A file without sections has only tasks.

Source of the fields: the input files of the simulator SimSchlouder and the description of its
experiments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import polars as pl

from twinloop.description.errors import InputError
from twinloop.description.files import describe_source_file
from twinloop.trace.formats.cleaning_counts import Tally
from twinloop.trace.formats.registry import Format
from twinloop.trace.formats.text_rows import (
    MAX_LOG_TIME,
    MAX_NUMBER,
    RowFilter,
    batch_rows,
    make_number_check,
    parse_number,
    parse_text,
    read_lines,
)
from twinloop.trace.manifest import Manifest, TraceOrigin
from twinloop.trace.trace import Trace

_BOOTS: Final = "[boots]"
_TASKS: Final = "[tasks]"
_MEASURED_MARK: Final = "~"
_PARENTS: Final = "->"
_BOOT_FIELDS: Final = ("boot_time", "provisioned", "lag")
_DECLARED: Final = ("id", "submit", "prediction")
_MEASURED: Final = ("wall_time", "run_time", "input", "output", "management_time")
_SIZES: Final = ("input", "output")
#: Cells of a row: the section, the fields of a task, and its parents.
_WIDTH: Final = 2 + len(_DECLARED) + len(_MEASURED)
_PROBLEMS: Final = {
    _BOOTS: (
        "is not a boot: boot_time [provisioning_date [lag]]",
        "lines of [boots] with too many fields",
    ),
    _TASKS: (
        "is not a task: id submission prediction [~ wall_time run_time input output "
        "management_time] [-> parents]",
        "lines of [tasks] that are not tasks",
    ),
}
_OTHER_SECTION: Final = (
    "is in a section that is neither [boots] nor [tasks]",
    "lines of other sections than [boots] and [tasks]",
)

_NAME: Final = re.compile(
    r"(?P<broker>v\d+)\.(?P<campaign>[^.]+)\.(?P<use_case>[^.]+)\.(?P<strategy>[^.]+)"
    r"\.(?P<storage>[^.]+)\.(?P<cloud>[^.]+)\.(?P<cloud_version>v\d+)\.(?P<repetition>\d+)"
    r"(\.tasks)?(\.(gz|zst|bz2|xz))?"
)
#: The platform of each cloud: the sites of BonFIRE are one platform.
_PLATFORMS: Final = {
    "openstack-icps": "icps",
    "de-hlrs": "bonfire",
    "fr-inria": "bonfire",
    "uk-epcc": "bonfire",
}


def parse_execution_name(name: str) -> dict[str, str]:
    """Parse the labels of an execution from the name of its file; empty if it has another form.

    The application is Montage if the use case is the size of a mosaic (2x2), otherwise OMSSA.

    >>> labels = parse_execution_name("v3.standard.2x2.asap.regular.openstack-icps.v3.2.tasks")
    >>> labels["platform"], labels["application"], labels["strategy"], labels["repetition"]
    ('icps', 'montage', 'asap', '2')
    """
    match = _NAME.fullmatch(name)
    if match is None:
        return {}
    labels = {key: match[key] for key in _NAME.groupindex}
    is_mosaic = re.fullmatch(r"\d+x\d+", labels["use_case"]) is not None
    labels["application"] = "montage" if is_mosaic else "omssa"
    labels["platform"] = _PLATFORMS.get(labels["cloud"], labels["cloud"])
    return labels


def read(path: Path, *, strict: bool = False) -> Trace:
    """Read an execution of Schlouder.

    Args:
        path: The file (`.tasks`), possibly compressed.
        strict: Raise at the first line that cannot be read, instead of skipping it.

    >>> import tempfile
    >>> text = "[boots]\\n48 10 1\\n[tasks]\\na 10 60 ~ 52 50.5\\nb 10 60 ~ 58 57 1e6 2e6 1 -> a\\n"
    >>> with tempfile.TemporaryDirectory() as temporary:
    ...     file = Path(temporary, "run.tasks")
    ...     _ = file.write_text(text)
    ...     trace = read(file)
    >>> trace.tasks.select("id", "requested_time", "run_time", "parents").rows()
    [('a', 60.0, 52.0, None), ('b', 60.0, 58.0, ['a'])]
    >>> trace.boots.row(0)
    (None, 10.0, 48.0, 1.0, 2)
    """
    tally = Tally()
    row_filter = RowFilter(path, tally, strict=strict)
    boots, parts = [], []
    for batch in batch_rows(_read_rows(path, row_filter), _WIDTH):
        boots.append(_parse_boots(batch.filter(pl.col("0") == _BOOTS), row_filter))
        parts.append(_parse_tasks(batch.filter(pl.col("0") == _TASKS), row_filter))
    tasks = pl.concat(parts) if parts else None
    if tasks is None or not tasks.height:
        raise InputError("has no task that can be read", kind="empty-log", file=path)
    labels = parse_execution_name(path.name)
    manifest = Manifest(
        source=TraceOrigin(format="schlouder", files=(describe_source_file(path),)),
        cleaned=tally.cleanings(),
        facts={"labels": labels} if labels else {},
    )
    return Trace(
        manifest=manifest,
        tasks=_make_tasks(tasks),
        boots=pl.concat(boots),
        task_times=_make_task_times(tasks),
        **_make_file_tables(tasks),
    )


def _read_rows(path: Path, row_filter: RowFilter) -> Iterator[tuple[int, list[str]]]:
    """Yield the section, the fields and the parents of each line; absent fields are empty."""
    section = _TASKS
    row: list[str] | None
    for number, text in read_lines(path):
        cells = text.split()
        if not cells or not row_filter.is_readable(number, text):
            continue
        if len(cells) == 1 and cells[0].startswith("["):
            section = cells[0]
            row = [] if section in (_BOOTS, _TASKS) else None
        elif section == _BOOTS:
            row = _split_boot(cells)
        else:
            row = _split_task(cells) if section == _TASKS else None
        if row is None:
            problem, what = _PROBLEMS.get(section, _OTHER_SECTION)
            row_filter.reject(number, problem, what=what)
        elif row:
            yield number, [section, *row]


def _split_boot(cells: list[str]) -> list[str] | None:
    """Split the fields of a boot, as many as those of a task; None if there are too many."""
    if len(cells) > len(_BOOT_FIELDS):
        return None
    return cells + [""] * (_WIDTH - 1 - len(cells))


def _split_task(cells: list[str]) -> list[str] | None:
    """Split the fields of a task and its parents, joined by blanks; None if it is not a task."""
    parents: list[str] = []
    if _PARENTS in cells:
        cut = cells.index(_PARENTS)
        cells, parents = cells[:cut], cells[cut + 1 :]
    declared, mark, measured = cells[:3], cells[3:4], cells[4:]
    if len(declared) < 3 or mark not in ([], [_MEASURED_MARK]) or len(measured) > len(_MEASURED):
        return None
    absent = [""] * (len(_MEASURED) - len(measured))
    return [*declared, *measured, *absent, " ".join(parents)]


def _parse_boots(batch: pl.DataFrame, row_filter: RowFilter) -> pl.DataFrame:
    columns = {name: str(1 + index) for index, name in enumerate(_BOOT_FIELDS)}
    checks = [make_number_check(cell, name, MAX_LOG_TIME) for name, cell in columns.items()]
    numbers = [parse_number(cell).alias(name) for name, cell in columns.items()]
    return row_filter.filter_rows(batch, checks).select("line", *numbers)


def _parse_tasks(batch: pl.DataFrame, row_filter: RowFilter) -> pl.DataFrame:
    """Convert the cells of tasks to typed columns: the line, a column per field, the parents."""
    columns = {name: str(1 + index) for index, name in enumerate((*_DECLARED, *_MEASURED))}
    identifier = columns.pop("id")
    checks = [
        make_number_check(cell, name, MAX_NUMBER if name in _SIZES else MAX_LOG_TIME)
        for name, cell in columns.items()
    ]
    numbers = [parse_number(cell).alias(name) for name, cell in columns.items()]
    parents = parse_text(str(_WIDTH - 1)).str.split(" ")
    return row_filter.filter_rows(batch, checks).select(
        "line", pl.col(identifier).alias("id"), *numbers, parents.alias("parents")
    )


def _make_tasks(tasks: pl.DataFrame) -> pl.DataFrame:
    return tasks.select(
        "id",
        "submit",
        requested_cores=pl.lit(1.0),
        requested_time="prediction",
        run_time="wall_time",
        parents="parents",
        line="line",
    )


def _make_task_times(tasks: pl.DataFrame) -> pl.DataFrame:
    return tasks.filter(pl.col("wall_time").is_not_null()).select(
        "wall_time", "run_time", "management_time", task="id"
    )


def _make_file_tables(tasks: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Make the file that each task reads and the file that it writes."""
    files = []
    for size, access in (("input", "read"), ("output", "write")):
        name = pl.concat_str(pl.lit(f"{size}/"), "id")
        known = tasks.filter(pl.col(size).is_not_null())
        files.append(known.select(task="id", file=name, access=pl.lit(access), size=size))
    both = pl.concat(files)
    return {"files": both.select("file", "size"), "task_files": both.drop("size")}


def _recognises(path: Path, start: bytes) -> bool:
    for text in start.decode("utf-8", "replace").removeprefix("\ufeff").splitlines():
        cells = text.split()
        if cells:
            is_task = len(cells) > 4 and cells[3] == _MEASURED_MARK and _is_number(cells[2])
            return cells in ([_BOOTS], [_TASKS]) or is_task
    return False


def _is_number(text: str) -> bool:
    return text.lstrip("-").replace(".", "", 1).isdigit()


FORMAT: Format = Format(
    name="schlouder",
    title="execution of Schlouder (.tasks)",
    recognises=_recognises,
    read=read,
)
