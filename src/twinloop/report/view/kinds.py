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


def _loop(folder: Path, page: Path) -> Path:
    from twinloop.exploration.closed_loop.result import Loop
    from twinloop.report.pages.loop import loop_page

    return loop_page(Loop.load(folder), page)


def _confirmation(folder: Path, page: Path) -> Path:
    from twinloop.exploration.confirmation.result import Confirmation
    from twinloop.report.pages.confirmation import confirmation_page

    return confirmation_page(Confirmation.load(folder), page)


def _study(folder: Path, page: Path) -> Path:
    from twinloop.exploration.study.study import Study
    from twinloop.report.pages.study import study_page

    return study_page(Study.load(folder), page)


def _fit(folder: Path, page: Path) -> Path:
    from twinloop.calibration import Fit
    from twinloop.report.pages.calibration import calibration_page

    return calibration_page(Fit.load(folder), page)


def _run(path: Path, page: Path) -> Path:
    from twinloop.report.pages.run import run_page

    return run_page(run_at(path), page)


#: What a folder may be. One that holds others comes first.
KINDS: Final = (
    Kind("loop", "loop.json", _loop),
    Kind("confirmation", "confirmation.json", _confirmation),
    Kind("study", "study.json", _study),
    Kind("fit", FIT, _fit),
    Kind("run", TRACE, _run),
)


def kind_of(path: Path) -> Kind:
    """What there is to report at a path; an error says what was looked for.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as there:
    ...     kind_of(Trace().save(there + "/run")).name
    'run'
    >>> kind_of(Path("nowhere"))
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


def run_at(path: Path) -> Trace:
    """The run in a trace folder or a log.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as there:
    ...     run_at(Trace().save(there + "/run")).tasks.height
    0
    """
    if not path.exists():
        raise InputError("does not exist", file=path)
    return read(path)


def default_page(path: Path, kind: Kind) -> Path:
    """Where the page of this goes: into a folder that keeps its own, beside a run.

    >>> default_page(Path("studies/a"), KINDS[2]), default_page(Path("logs/week.swf.gz"), KINDS[-1])
    (PosixPath('studies/a/report.html'), PosixPath('logs/week.html'))
    """
    if kind.marker != TRACE:
        return path / PAGE
    return beside(path, "")


def beside(path: Path, ending: str) -> Path:
    """A page beside a run, with its name and this ending.

    >>> beside(Path("runs/twin.v2"), "-assessment").name, beside(Path("week.swf.gz"), "").name
    ('twin.v2-assessment.html', 'week.html')
    """
    if path.name in ("", ".."):
        path = path.resolve()
    name = path.name
    while not path.is_dir() and name.endswith(_ENDINGS):
        name = name.rpartition(".")[0]
    return path.with_name(f"{name or path.name}{ending}.html")
