"""Cache of the pages of a folder, which are written on request from its contents."""

from __future__ import annotations

import os
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, Final

from twinloop.description import InputError
from twinloop.description.file_names import join_below
from twinloop.report.pages.templating import render_fragment
from twinloop.report.view.comparison import MAX_RUNS, write_comparison_page
from twinloop.report.view.kinds import PAGE, find_kind, read_run

#: Maximum number of pages in the cache.
_MAX_PAGES: Final = 16


class PageCache:
    """Pages in memory; a page is written again if its data have changed.

    Args:
        root: The folder.
        base: The URL path of the server.

    >>> from twinloop.trace import Trace
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Trace().save(folder + "/run")
    ...     pages = PageCache(Path(folder))
    ...     page = pages.make_report("run")
    ...     again = pages.make_report("run") is page
    >>> again, page.startswith(b"<!DOCTYPE html>")
    (True, True)
    """

    def __init__(self, root: Path, base: str = "/") -> None:
        self.root = root.resolve()
        self._base = base
        self._cache: OrderedDict[tuple[str, ...], tuple[Any, bytes]] = OrderedDict()
        # Plotting is not thread-safe, and simultaneous requests are often for the same page.
        self._lock = Lock()

    def make_report(self, name: str) -> bytes:
        """Return the page of the result with this name in the list."""
        return self._get_page("report", [name], lambda page: self._write_report(name, page))

    def make_comparison(self, names: Sequence[str]) -> bytes:
        """Return the page that compares these runs."""
        names = list(dict.fromkeys(names))
        if not 2 <= len(names) <= MAX_RUNS:
            raise InputError(
                f"{len(names)} runs cannot be compared",
                kind="wrong-count",
                remedy=f"select 2 to {MAX_RUNS} runs",
            )
        return self._get_page(
            "compare",
            names,
            lambda page: write_comparison_page(
                {name: read_run(self.find_path(name)) for name in names}, page, self._base
            ),
        )

    def make_assessment(self, real: str, twin: str) -> bytes:
        """Return the page of the assessment of a run as the twin of another."""
        return self._get_page(
            "assess", [real, twin], lambda page: self._write_assessment(real, twin, page)
        )

    def find_path(self, name: str) -> Path:
        """Return the path of a name in the list.

        Raise an error if the path is missing, hidden or outside of the folder, or if it contains a
        link out of the folder.
        """
        error = InputError("is not in this folder", kind="outside-folder", file=name)
        try:
            path = self.root if name in ("", ".") else join_below(self.root, name, deep=True)
        except InputError:
            raise error from None
        hidden = any(part.startswith(".") for part in path.relative_to(self.root).parts)
        if hidden or not path.exists():
            raise error
        links = (
            Path(parent, entry)
            for parent, folders, files in os.walk(path)
            for entry in (*folders, *files)
            if os.path.islink(os.path.join(parent, entry))  # noqa: PTH114, PTH118
        )
        for link in links:
            if not self._is_inside(link):
                raise InputError(
                    f"contains a link out of this folder: {link.name}",
                    kind="outside-folder",
                    file=name,
                )
        return path

    def _is_inside(self, path: Path) -> bool:
        try:
            return path.resolve().is_relative_to(self.root)
        except (OSError, RuntimeError):
            return False

    def _write_report(self, name: str, page: Path) -> Path:
        path = self.find_path(name)
        return find_kind(path).write(path, page)

    def _write_assessment(self, real: str, twin: str, page: Path) -> Path:
        from twinloop.fidelity import assess
        from twinloop.report.pages.assessment import write_assessment_page

        return write_assessment_page(
            assess(read_run(self.find_path(real)), read_run(self.find_path(twin))), page
        )

    def _get_page(self, what: str, names: Sequence[str], write: Callable[[Path], Path]) -> bytes:
        state = [_get_state(self.find_path(name)) for name in names]
        key = (what, *names)
        with self._lock:
            cached = self._cache.get(key)
            if cached is None or cached[0] != state:
                back = render_fragment("back_link", self._base)
                with tempfile.TemporaryDirectory() as folder:
                    text = write(Path(folder, PAGE)).read_text(encoding="utf-8")
                cached = state, text.replace("<main>", f"<main>\n{back}", 1).encode()
                self._cache[key] = cached
            self._cache.move_to_end(key)
            while len(self._cache) > _MAX_PAGES:
                self._cache.popitem(last=False)
            return cached[1]


def _get_state(path: Path) -> list[tuple[str, int, int]]:
    """List the files with the times of their last changes."""
    files = [path] if path.is_file() else [
        Path(folder, name) for folder, _, names in os.walk(path) for name in names if name != PAGE
    ]  # fmt: skip
    state = []
    for file in sorted(files):
        try:
            status = file.stat()
        except OSError:
            continue  # deleted meanwhile, or a dangling link
        state.append((str(file), status.st_mtime_ns, status.st_size))
    return state
