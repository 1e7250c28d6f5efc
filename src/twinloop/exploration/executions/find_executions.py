"""Finding the recorded executions that a study names: files, folders, patterns."""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from twinloop.description.errors import InputError
from twinloop.trace.folder import MANIFEST as TRACE_MANIFEST

#: The end of the name of a file with an execution.
SUFFIX: Final = ".tasks"


@dataclass(frozen=True, order=True)
class ExecutionFile:
    """A recorded execution: its name in tables, and its file or trace folder."""

    name: str
    path: str


def find_executions(patterns: Iterable[str | Path]) -> tuple[ExecutionFile, ...]:
    """Find executions: all below folders, each once, sorted by name.

    Below a folder these are the files that end with `.tasks` and the trace folders; a file or a
    trace folder that is named itself is always taken. Hidden files and folders are left out.

    Args:
        patterns: Files, folders, and patterns such as `logs/v3.*.tasks`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("b.tasks", "a.tasks", "readme.txt"):
    ...         _ = Path(folder, name).write_text("")
    ...     [each.name for each in find_executions([folder])]
    ['a', 'b']
    """
    paths: dict[Path, None] = {}
    for pattern in patterns:
        found = [each for path in _expand(Path(pattern)) for each in _list_below(path)]
        if not found:
            raise InputError(
                "contains no execution" if Path(pattern).is_dir() else "does not exist",
                kind="not-a-result" if Path(pattern).is_dir() else "file-not-found",
                file=Path(pattern),
                field="factors.run",
                remedy=f"an execution is a file that ends with {SUFFIX}, or a trace folder",
            )
        paths |= dict.fromkeys(path.resolve() for path in found)
    return tuple(sorted(_name_executions(list(paths))))


def _expand(pattern: Path) -> list[Path]:
    """Return the paths that match a pattern; a path that exists is itself, whatever its name."""
    if pattern.exists() or not glob.has_magic(str(pattern)):
        return [pattern] if pattern.exists() else []
    anchor = pattern.anchor
    return sorted(Path(anchor).glob(pattern.relative_to(anchor).as_posix()))


def _list_below(path: Path) -> Iterator[Path]:
    """Generate the executions at or below a path."""
    if not path.is_dir() or (path / TRACE_MANIFEST).is_file():
        yield path
        return
    for folder, subfolders, files in os.walk(path):
        subfolders[:] = sorted(each for each in subfolders if not each.startswith("."))
        for name in sorted(files):
            if name.endswith(SUFFIX) and not name.startswith("."):
                yield Path(folder, name)
        for name in tuple(subfolders):
            if Path(folder, name, TRACE_MANIFEST).is_file():
                subfolders.remove(name)
                yield Path(folder, name)


def _name_executions(paths: list[Path]) -> Iterator[ExecutionFile]:
    """Name each execution by its file, and by its whole path below all of them if names repeat."""
    names = [path.name.removesuffix(SUFFIX) for path in paths]
    counts = Counter(names)
    common = Path(os.path.commonpath([path.parent for path in paths])) if paths else Path()
    for path, name in zip(paths, names, strict=True):
        below = path.relative_to(common).as_posix().removesuffix(SUFFIX)
        yield ExecutionFile(name if counts[name] == 1 else below, path.as_posix())
