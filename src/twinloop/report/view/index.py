"""Index of a folder: its runs, fits, studies, confirmations and loops, newest first."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import polars as pl

from twinloop.description.errors import InputError
from twinloop.exploration.study.study import JOURNAL
from twinloop.report.quantity_text import format_count
from twinloop.report.view.kinds import KINDS, Kind
from twinloop.trace.parquet import scan_parquet

#: Maximum depth of the search, and maximum number of entries of the list.
MAX_DEPTH: Final = 8
MAX_LISTED: Final = 2000
#: Maximum size of a description that is read for the list, in bytes.
_MAX_SIZE: Final = 64 << 20
#: Maximum number of rows of a table that is read to compute the makespan of a run.
_MAX_ROWS: Final = 200_000
_KEY_PATTERN: Final = re.compile(rb'\{"key":"([^"]+)"')
_LOG_SUFFIXES: Final = tuple(
    ending + compression
    for ending in (".swf", ".gwf")
    for compression in ("", ".gz", ".zst", ".bz2", ".xz")
)
_RUN_KINDS: Final = {
    "recorded": "real run", "simulated": "simulated run", "generated": "generated log", "log": "log"
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Entry:
    """Entry of the list; a field is None if the description of the result does not have it.

    >>> Entry("runs/easy", "simulated run", changed=0.0, is_run=True).title
    ''
    """

    #: The path relative to the folder, with slashes.
    path: str
    kind: str
    #: The time of the last change of its description, in Unix time.
    changed: float
    #: Whether it is a single run, which can be compared with others.
    is_run: bool = False
    title: str = ""
    tasks: int | None = None
    makespan: float | None = None
    policy: str = ""
    #: The verdict or the progress.
    verdict: str = ""
    problem: str = ""


class Index:
    """List of the results in a folder; a description is read again only if it has changed.

    >>> import tempfile
    >>> from twinloop.trace import Trace
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Trace(tasks=pl.DataFrame({"id": ["a", "b"]})).save(folder + "/runs/week")
    ...     (entry,), more = Index(Path(folder)).entries()
    >>> entry.path, entry.kind, entry.tasks, more
    ('runs/week', 'log', 2, False)
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._cache: dict[str, tuple[Any, Entry]] = {}

    def entries(self) -> tuple[list[Entry], bool]:
        """Return the entries, newest first, and whether there are more than the limit."""
        entries: list[Entry] = []
        for path, kind in _find_results(self.root):
            if len(entries) == MAX_LISTED:
                return _sort_entries(entries), True
            entries.append(self._get_entry(path, kind))
        return _sort_entries(entries), False

    def _get_entry(self, path: Path, kind: Kind | None) -> Entry:
        name = path.relative_to(self.root).as_posix()
        marker = path if kind is None else path / kind.marker
        # The journal of a running study grows while its description stays the same.
        state = tuple(map(_get_state, (marker, path / JOURNAL)))
        cached = self._cache.get(name)
        if cached is None or cached[0] != state:
            blank = Entry(name, "log", state[0][0] / 1e9, is_run=True)
            cached = state, blank if kind is None else _describe(blank, path, kind)
            self._cache[name] = cached
        return cached[1]


def _sort_entries(entries: list[Entry]) -> list[Entry]:
    return sorted(entries, key=lambda entry: (-entry.changed, entry.path))


def _find_results(root: Path) -> Iterator[tuple[Path, Kind | None]]:
    """Find result folders and logs; links are not followed, hidden folders are left out."""
    for folder, folders, files in os.walk(root):
        path = Path(folder)
        depth = len(path.relative_to(root).parts)
        names = set(files)
        kind = next((kind for kind in KINDS if kind.marker in names), None)
        if kind is not None and not (path / kind.marker).is_symlink():
            yield path, kind
        if depth >= MAX_DEPTH or (kind is not None and kind.name == "run"):
            folders.clear()
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names) if kind is None else ():
            if (
                name.endswith(_LOG_SUFFIXES)
                and not name.startswith(".")
                and not (path / name).is_symlink()
            ):
                yield path / name, None


def _get_state(file: Path) -> tuple[int, int]:
    try:
        status = file.stat()
    except OSError:
        return 0, 0
    return status.st_mtime_ns, status.st_size


def _describe(entry: Entry, folder: Path, kind: Kind) -> Entry:
    entry = replace(entry, kind=kind.name, is_run=kind.name == "run")
    try:
        content = read_description(folder / kind.marker)
    except InputError as error:
        return replace(entry, problem=error.problem)
    return {
        "run": _describe_run,
        "fit": _describe_fit,
        "study": _describe_study,
        "detail": _describe_detail,
        "confirmation": _describe_confirmation,
    }.get(kind.name, _describe_loop)(entry, folder, content)


def read_description(file: Path) -> dict[str, Any]:
    """Read the JSON object in a file that describes its folder."""
    try:
        if file.stat().st_size > _MAX_SIZE:
            raise InputError("is too large to be listed", kind="too-large", file=file)
        content = json.loads(file.read_bytes())
    except OSError as error:
        raise InputError(
            f"cannot be read: {error.strerror}", kind="cannot-read", file=file
        ) from None
    except (ValueError, RecursionError):
        raise InputError(f"{file.name} is not valid JSON", kind="damaged-file", file=file) from None
    if not isinstance(content, dict):
        raise InputError(f"{file.name} is not a JSON object", kind="damaged-file", file=file)
    return content


def _describe_run(entry: Entry, folder: Path, content: Mapping[str, Any]) -> Entry:
    tables, scenario = get_object(content, "tables"), get_object(content, "scenario")
    run = get_object(get_object(content, "facts"), "run")
    rows = {
        name: get_object(tables, f"{name}.parquet").get("rows") for name in ("tasks", "placements")
    }
    makespan = _read_number(run.get("makespan_s"))
    is_small = all(type(count) is int and count <= _MAX_ROWS for count in rows.values())
    if makespan is None and is_small and not any(file.is_symlink() for file in folder.iterdir()):
        makespan = _read_makespan(folder)
    files = get_object(content, "source").get("files")
    source = files[0] if isinstance(files, list) and files else None
    title = scenario.get("name") or (source.get("name") if isinstance(source, dict) else "")
    return replace(
        entry,
        kind=_RUN_KINDS.get(str(content.get("kind")), "run"),
        title=str(title or ""),
        tasks=rows["tasks"] if type(rows["tasks"]) is int else None,
        makespan=makespan,
        policy=str(run.get("policy") or ""),
        verdict="interrupted" if run.get("interrupted") is True else "",
    )


def _read_makespan(folder: Path) -> float | None:
    """Compute the makespan from two columns of the tables of tasks and placements."""
    try:
        placements, tasks = (
            scan_parquet(folder / f"{name}.parquet") for name in ("placements", "tasks")
        )
        started = placements.filter(pl.col("start").is_not_null())
        first = (
            tasks.join(started, left_on="id", right_on="task", how="semi").select("submit").min()
        )
        times = pl.concat([first, started.select("end").max()], how="horizontal").collect()
    except (pl.exceptions.PolarsError, OSError):
        return None  # the page of this run reports the error
    submit, end = times.row(0)
    return None if submit is None or end is None else float(end - submit)


def _describe_fit(entry: Entry, folder: Path, content: Mapping[str, Any]) -> Entry:
    after = list(get_object(get_object(content, "verdicts"), "after").values())
    passed = sum(status == "PASS" for status in after)
    verdict = f"{passed} of {len(after)} PASS" if len(after) > 1 else "".join(map(str, after))
    values = get_object(content, "values")
    title = ", ".join(f"{name} {_format_value(value)}" for name, value in values.items())
    return replace(entry, title=title, verdict=verdict)


def _describe_study(entry: Entry, folder: Path, content: Mapping[str, Any]) -> Entry:
    keys = content.get("keys")
    planned = set(map(str, keys)) if isinstance(keys, list) else set()
    done = len(planned & _read_finished_keys(folder / JOURNAL))
    progress = f"{format_count(len(keys or ()), 'run')}"
    if done < len(planned):
        progress = f"{done:,} of {format_count(len(planned), 'run')} done"
    title = ", ".join(get_object(get_object(content, "design"), "factors"))
    return replace(entry, title=title, verdict=progress)


def _describe_detail(entry: Entry, folder: Path, content: Mapping[str, Any]) -> Entry:
    factors = content.get("factors")
    names = [
        str(factor.get("name"))
        for factor in (factors if isinstance(factors, list) else ())
        if isinstance(factor, dict)
    ]
    recommended = get_object(content, "results").get("recommended")
    return replace(entry, title=", ".join(names), verdict=str(recommended or ""))


def _read_finished_keys(journal: Path) -> set[str]:
    """Read the keys of the finished runs from a journal, without the rest of each row."""
    try:
        with journal.open("rb") as lines:
            matches = (_KEY_PATTERN.match(line) for line in lines if line.endswith(b"\n"))
            return {match[1].decode() for match in matches if match}
    except OSError:
        return set()


def _describe_confirmation(entry: Entry, folder: Path, content: Mapping[str, Any]) -> Entry:
    recommendations = content.get("recommendations")
    first = (
        recommendations[0]
        if isinstance(recommendations, list)
        and recommendations
        and isinstance(recommendations[0], dict)
        else {}
    )
    title = f"{first['candidate']} against {first['against']}" if "against" in first else ""
    return replace(entry, title=title, verdict=str(content.get("status") or ""))


def _describe_loop(entry: Entry, folder: Path, content: Mapping[str, Any]) -> Entry:
    title = get_object(get_object(content, "plan"), "scenario").get("name")
    return replace(entry, title=str(title or ""))


def get_object(content: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the object of this name; an empty one if there is none.

    >>> get_object({"run": None}, "run"), get_object({"run": {"cores": 2}}, "run")
    ({}, {'cores': 2})
    """
    value = content.get(name)
    return value if isinstance(value, dict) else {}


def _read_number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and value == value else None


def _format_value(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
