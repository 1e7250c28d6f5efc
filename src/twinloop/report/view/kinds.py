"""Kinds of results in files and folders, and the functions that write their pages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from twinloop.calibration.detail.study import MANIFEST as DETAIL_MANIFEST
from twinloop.calibration.fit import MANIFEST as FIT_MANIFEST
from twinloop.description import FormatError, InputError
from twinloop.description.files import is_file, read_first_bytes, write_atomically
from twinloop.trace import Trace, read, recognise
from twinloop.trace.folder import MANIFEST as TRACE_MANIFEST

#: The name of the page inside a result folder.
PAGE: Final = "report.html"
#: The first characters of a picture of this program.
PICTURE_TAG: Final = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800'
_SUFFIXES: Final = (".swf", ".gwf", ".csv", ".json", ".txt", ".gz", ".zst", ".bz2", ".xz")


@dataclass(frozen=True, slots=True)
class Kind:
    """Kind of result folder: its name, its marker file, and the function that writes its page.

    >>> [kind.name for kind in KINDS]
    ['loop', 'confirmation', 'study', 'detail', 'fit', 'run']
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
    from twinloop.exploration.executions.storage import is_execution_study
    from twinloop.exploration.executions.study import ExecutionStudy
    from twinloop.exploration.study.study import Study
    from twinloop.report.pages.execution_study import write_execution_study_page
    from twinloop.report.pages.study import write_study_page

    if is_execution_study(folder):
        return write_execution_study_page(ExecutionStudy.load(folder), page)
    return write_study_page(Study.load(folder), page)


def _write_detail(folder: Path, page: Path) -> Path:
    from twinloop.calibration import DetailStudy
    from twinloop.report.pages.detail_study import write_detail_study_page

    return write_detail_study_page(DetailStudy.load(folder), page)


def _write_fit(folder: Path, page: Path) -> Path:
    from twinloop.calibration import Fit
    from twinloop.report.pages.calibration import write_calibration_page

    return write_calibration_page(Fit.load(folder), page)


def _write_run(path: Path, page: Path) -> Path:
    from twinloop.report.pages.run import write_run_page

    return write_run_page(read_run(path), page)


#: All kinds of folders; a kind that contains others comes before them.
KINDS: Final = (
    Kind("loop", "loop.json", _write_loop),
    Kind("confirmation", "confirmation.json", _write_confirmation),
    Kind("study", "study.json", _write_study),
    Kind("detail", DETAIL_MANIFEST, _write_detail),
    Kind("fit", FIT_MANIFEST, _write_fit),
    Kind("run", TRACE_MANIFEST, _write_run),
)


def find_kind(path: Path) -> Kind:
    """Find the kind of the result at a path; raise an error if there is none.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     find_kind(Trace().save(folder + "/run")).name
    'run'
    >>> find_kind(Path("nowhere"))
    Traceback (most recent call last):
    twinloop.InputError: nowhere: does not exist [TL0101]
    """
    if not path.exists():
        raise InputError("does not exist", kind="file-not-found", file=path)
    for kind in KINDS:
        if (path / kind.marker).is_file():
            return kind
    try:
        recognise(path)
    except FormatError as error:
        from twinloop.calibration.client_models import refuse_client_models

        refuse_client_models(path)
        *others, last = (kind.name for kind in KINDS)
        markers = ", ".join(kind.marker for kind in KINDS)
        raise InputError(
            f"is not a {', '.join(others)} or {last}",
            kind="not-a-result",
            file=path,
            remedy=f"give a folder with one of {markers}; as a log, it {error.problem}"
            if path.is_dir()
            else f"as a log, it {error.problem}",
        ) from None
    return KINDS[-1]


def write_picture(source: Path, path: Path) -> Path:
    """Write a run or a study as a static SVG picture.

    An existing picture of Twinloop is replaced; any other file is left alone.

    >>> import tempfile
    >>> import polars as pl
    >>> run = Trace(
    ...     tasks=pl.DataFrame({"id": ["a"], "submit": [0.0]}),
    ...     placements=pl.DataFrame({"task": ["a"], "start": [0.0], "end": [5.0]}),
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     picture = write_picture(run.save(folder + "/run"), Path(folder, "run.svg"))
    ...     picture.read_text("utf-8").startswith(PICTURE_TAG)
    True
    """
    from twinloop.exploration.executions.storage import is_execution_study

    kind = find_kind(source)
    if is_file(path) and not read_first_bytes(path).startswith(PICTURE_TAG.encode()):
        raise InputError(
            "exists and is not a picture of Twinloop, so it is not replaced",
            kind="not-replaceable",
            file=path,
            remedy="give another file with -o, or move this one",
        )
    if kind.marker == TRACE_MANIFEST:
        from twinloop.report.figures.svg import render_run_svg

        picture = render_run_svg(read_run(source))
    elif kind.name == "study" and not is_execution_study(source):
        from twinloop.exploration.study.study import Study
        from twinloop.report.figures.study_svg import render_study_svg

        picture = render_study_svg(Study.load(source))
    else:
        raise InputError(
            f"a {kind.name} of this kind has no picture",
            kind="unsupported-page",
            file=source,
            remedy="give a page, FILE.html",
        )
    with write_atomically(path) as stream:
        stream.write(picture.encode())
    return path


def read_run(path: Path) -> Trace:
    """Read the run in a trace folder or a log.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     read_run(Trace().save(folder + "/run")).tasks.height
    0
    """
    if not path.exists():
        raise InputError("does not exist", kind="file-not-found", file=path)
    return read(path)


def choose_page_path(path: Path, kind: Kind) -> Path:
    """Choose the path of a page: inside a result folder, or beside a run.

    >>> choose_page_path(Path("studies/a"), KINDS[2])
    PosixPath('studies/a/report.html')
    >>> choose_page_path(Path("logs/week.swf.gz"), KINDS[-1])
    PosixPath('logs/week.html')
    """
    if kind.marker != TRACE_MANIFEST:
        return path / PAGE
    return make_page_path(path, "")


def make_page_path(path: Path, suffix: str) -> Path:
    """Make the path of a page beside a run, with the name of the run and this suffix.

    >>> make_page_path(Path("runs/twin.v2"), "-assessment").name
    'twin.v2-assessment.html'
    >>> make_page_path(Path("week.swf.gz"), "").name
    'week.html'
    """
    if path.name in ("", ".."):
        path = path.resolve()
    name = path.name
    while not path.is_dir() and name.endswith(_SUFFIXES):
        name = name.rpartition(".")[0]
    return path.with_name(f"{name or path.name}{suffix}.html")
