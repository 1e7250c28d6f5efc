"""The pages of a folder, made when they are asked for, and only of what lies in it."""

from __future__ import annotations

import os
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, Final

from twinloop.description import InputError
from twinloop.description.file_names import below
from twinloop.report.view.comparison import MOST, comparison_page
from twinloop.report.view.kinds import PAGE, kind_of, run_at

#: How many pages are kept.
_KEPT: Final = 16


class Pages:
    """Pages in memory, each made anew when what it shows has changed.

    Args:
        root: The folder.
        base: The path below which they are served.

    >>> from twinloop.trace import Trace
    >>> with tempfile.TemporaryDirectory() as there:
    ...     _ = Trace().save(there + "/run")
    ...     pages = Pages(Path(there))
    ...     page = pages.report("run")
    ...     again = pages.report("run") is page
    >>> again, page.startswith(b"<!DOCTYPE html>")
    (True, True)
    """

    def __init__(self, root: Path, base: str = "/") -> None:
        self.root = root.resolve()
        self._base = base
        self._back = f'<main>\n<p class="origin"><a href="{base}">All runs and studies</a></p>'
        self._kept: OrderedDict[tuple[str, ...], tuple[Any, bytes]] = OrderedDict()
        # What draws is not made for several threads, and the second to ask wants the same page.
        self._lock = Lock()

    def report(self, name: str) -> bytes:
        """The page of what has this name in the list."""
        return self._page("report", [name], lambda page: self._written(name, page))

    def compared(self, names: Sequence[str]) -> bytes:
        """The page that shows these runs side by side."""
        names = list(dict.fromkeys(names))
        if not 2 <= len(names) <= MOST:
            raise InputError(f"{len(names)} runs cannot be compared", remedy=f"tick 2 to {MOST}")
        return self._page(
            "compare",
            names,
            lambda page: comparison_page(
                {name: run_at(self.place(name)) for name in names}, page, self._base
            ),
        )

    def assessed(self, real: str, twin: str) -> bytes:
        """The assessment of a run as the twin of another."""
        return self._page("assess", [real, twin], lambda page: self._assess(real, twin, page))

    def place(self, name: str) -> Path:
        """Where a name of the list is; one that leads out of the folder does not exist."""
        absent = InputError("is not in this folder", file=name)
        try:
            path = self.root if name in ("", ".") else below(self.root, name, deep=True)
        except InputError:
            raise absent from None
        hidden = any(part.startswith(".") for part in path.relative_to(self.root).parts)
        if hidden or not path.exists():
            raise absent
        links = (
            Path(place, entry)
            for place, folders, files in os.walk(path)
            for entry in (*folders, *files)
            if os.path.islink(os.path.join(place, entry))  # noqa: PTH114, PTH118
        )
        for link in links:
            if not self._inside(link):
                raise InputError(f"holds a link out of this folder: {link.name}", file=name)
        return path

    def _inside(self, path: Path) -> bool:
        try:
            return path.resolve().is_relative_to(self.root)
        except (OSError, RuntimeError):
            return False

    def _written(self, name: str, page: Path) -> Path:
        place = self.place(name)
        return kind_of(place).write(place, page)

    def _assess(self, real: str, twin: str, page: Path) -> Path:
        from twinloop.fidelity import assess
        from twinloop.report.pages.assessment import assessment_page

        return assessment_page(assess(run_at(self.place(real)), run_at(self.place(twin))), page)

    def _page(self, what: str, names: Sequence[str], write: Callable[[Path], Path]) -> bytes:
        state = [_state(self.place(name)) for name in names]
        key = (what, *names)
        with self._lock:
            known = self._kept.get(key)
            if known is None or known[0] != state:
                with tempfile.TemporaryDirectory() as there:
                    text = write(Path(there, PAGE)).read_text(encoding="utf-8")
                known = state, text.replace("<main>", self._back, 1).encode()
                self._kept[key] = known
            self._kept.move_to_end(key)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
            return known[1]


def _state(path: Path) -> list[tuple[str, int, int]]:
    """Which files there are, and when each was last written."""
    files = [path] if path.is_file() else [
        Path(place, name) for place, _, names in os.walk(path) for name in names if name != PAGE
    ]  # fmt: skip
    found = []
    for file in sorted(files):
        try:
            known = file.stat()
        except OSError:
            continue  # gone since, or a link to nothing
        found.append((str(file), known.st_mtime_ns, known.st_size))
    return found
