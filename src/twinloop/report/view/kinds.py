"""What a file or folder is, and the page that shows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from twinloop.calibration.fit import MANIFEST as FIT
from twinloop.description import FormatError, InputError
from twinloop.trace import Trace, read, recognise
from twinloop.trace.folder import MANIFEST as TRACE

#: The page of a folder that keeps its own.
PAGE: Final = "report.html"
_ENDINGS: Final = (".swf", ".gwf", ".csv", ".json", ".txt", ".gz", ".zst", ".bz2", ".xz")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of folder: what it is called, the file it is known by, and what writes its page.

    >>> [kind.name for kind in KINDS]
    ['loop', 'confirmation', 'study', 'fit', 'run']
    """

    name: str
    marker: str
    write: Callable[[Path, Path], Path]


def _write_loop(folder: Path, page: Path) -> Path:
    from twinloop.exploration.closed_loop.result import Loop
    from twinloop.report.pages.loop import write_loop_page

    return write_loop_page(Loop.load(folder), page)


def _write_confirmation(folder: Path, page: Path) -> Path:
    from twinloop.exploration.confirmation.result import Confirmation
    from twinloop.report.pages.confirmation import write_confirmation_page

    return write_confirmation_page(Confirmation.load(folder), page)


def _write_study(folder: Path, page: Path) -> Path:
    from twinloop.exploration.study.study import Study
    from twinloop.report.pages.study import write_study_page

    return write_study_page(Study.load(folder), page)


def _write_fit(folder: Path, page: Path) -> Path:
    from twinloop.calibration import Fit
    from twinloop.report.pages.calibration import write_calibration_page

    return write_calibration_page(Fit.load(folder), page)


def _write_run(path: Path, page: Path) -> Path:
    from twinloop.report.pages.run import write_run_page

    return write_run_page(read_run(path), page)


#: What a folder may be. One that holds others comes first.
KINDS: Final = (
    Kind("loop", "loop.json", _write_loop),
    Kind("confirmation", "confirmation.json", _write_confirmation),
    Kind("study", "study.json", _write_study),
    Kind("fit", FIT, _write_fit),
    Kind("run", TRACE, _write_run),
)


def find_kind(path: Path) -> Kind:
    """What there is to report at a path; an error says what was looked for.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as there:
    ...     find_kind(Trace().save(there + "/run")).name
    'run'
    >>> find_kind(Path("nowhere"))
    Traceback (most recent call last):
    twinloop.InputError: nowhere: does not exist
    """
    if not path.exists():
        raise InputError("does not exist", file=path)
    for kind in KINDS:
        if (path / kind.marker).is_file():
            return kind
    try:
        recognise(path)
    except FormatError as error:
        *others, last = (kind.name for kind in KINDS)
        markers = ", ".join(kind.marker for kind in KINDS)
        raise InputError(
            f"is no {', '.join(others)} or {last}, so there is nothing to report",
            file=path,
            remedy=f"looked for {markers}; as a log, it {error.problem}"
            if path.is_dir()
            else f"as a log, it {error.problem}",
        ) from None
    return KINDS[-1]


def read_run(path: Path) -> Trace:
    """The run in a trace folder or a log.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as there:
    ...     read_run(Trace().save(there + "/run")).tasks.height
    0
    """
    if not path.exists():
        raise InputError("does not exist", file=path)
    return read(path)


def choose_page_path(path: Path, kind: Kind) -> Path:
    """Where the page of this goes: into a folder that keeps its own, beside a run.

    >>> choose_page_path(Path("studies/a"), KINDS[2])
    PosixPath('studies/a/report.html')
    >>> choose_page_path(Path("logs/week.swf.gz"), KINDS[-1])
    PosixPath('logs/week.html')
    """
    if kind.marker != TRACE:
        return path / PAGE
    return make_page_path(path, "")


def make_page_path(path: Path, ending: str) -> Path:
    """A page beside a run, with its name and this ending.

    >>> make_page_path(Path("runs/twin.v2"), "-assessment").name
    'twin.v2-assessment.html'
    >>> make_page_path(Path("week.swf.gz"), "").name
    'week.html'
    """
    if path.name in ("", ".."):
        path = path.resolve()
    name = path.name
    while not path.is_dir() and name.endswith(_ENDINGS):
        name = name.rpartition(".")[0]
    return path.with_name(f"{name or path.name}{ending}.html")
