"""The registry of trace formats, and the recognition of the format of a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, Final

from twinloop.description.cleaning import Cleaning
from twinloop.description.errors import FormatError, InputError
from twinloop.description.files import (
    PARQUET_KIND,
    detect_binary_kind,
    iterate_chunks,
    read_first_bytes,
    require_input,
)
from twinloop.trace.trace import Trace


@dataclass(frozen=True)
class Format:
    """A trace format: its recogniser, its reader and, if it is writable, its writer."""

    name: str
    title: str
    #: Whether a path is in this format, given its first bytes (decompressed; empty for a folder).
    recognises: Callable[[Path, bytes], bool]
    read: Callable[..., Trace]
    #: Writes a Trace to a path; returns notes on data that the format cannot represent.
    write: Callable[..., Iterable[Cleaning]] | None = None
    #: Suffixes of file names that select this format for writing.
    suffixes: tuple[str, ...] = ()
    #: Returns the other files that are read with a file, by their names.
    related_files: Callable[[Path], Iterable[Path]] = lambda path: ()
    #: Options of the reader that are paths of further files.
    path_options: tuple[str, ...] = ()


_FORMATS: dict[str, Format] = {}
_EMPTY: Final = "is empty"
_TABLE: Final = "looks like a table in text with columns of unknown meaning"
_MAP_REMEDY: Final = (
    "name them id, submit, run_time, requested_cores and so on, or map them: twinloop convert "
    "--column submit=NAME --unit submit=ms; columns= and units= in Python; in a scenario, "
    "{path: ..., format: csv, options: {columns: {submit: NAME}, units: {submit: ms}}}; another "
    "format is chosen by --format NAME or `format: NAME`"
)


def register(form: Format) -> None:
    """Register a format; it replaces a format of the same name."""
    _FORMATS[form.name] = form


def list_formats() -> tuple[Format, ...]:
    """List all formats, in the order in which a file is tested against them."""
    return tuple(_FORMATS.values())


def get_format(name: str) -> Format:
    """Return the format with this name."""
    try:
        return _FORMATS[name]
    except KeyError:
        known = ", ".join(sorted(_FORMATS))
        raise FormatError(
            f"no format is called '{name}'", kind="unknown-format", remedy=f"one of: {known}"
        ) from None


def list_path_options() -> frozenset[str]:
    """List the options of all readers that are paths.

    >>> sorted(list_path_options())
    ['dag', 'sstat']
    """
    return frozenset(name for form in _FORMATS.values() for name in form.path_options)


def list_related_files(path: Path, options: Mapping[str, Any]) -> list[Path]:
    """List the files that are read together with a file: by their names, and by options.

    >>> [each.as_posix() for each in list_related_files(Path("jobs.txt"), {"sstat": "samples.txt"})]
    ['samples.txt']
    """
    by_name = [file for form in _FORMATS.values() for file in form.related_files(path)]
    by_option = [options[name] for name in sorted(list_path_options() & options.keys())]
    return by_name + [Path(each) for each in by_option if isinstance(each, str | Path)]


def recognise(path: str | Path) -> Format:
    """Recognise the format of a file or folder by its content."""
    path = Path(path)
    require_input(path, folder=True)
    start = b"" if path.is_dir() else read_first_bytes(path)
    for form in _FORMATS.values():
        if form.recognises(path, start):
            return form
    binary = detect_binary_kind(start)
    if binary is not None:
        raise FormatError(
            f"is {binary}, not a log",
            kind="wrong-format",
            file=path,
            remedy=_suggest_remedy(binary),
        )
    known = ", ".join(sorted(_FORMATS))
    what = _describe_unknown(path, start)
    raise FormatError(
        what,
        kind="empty-log" if what == _EMPTY else "unknown-format",
        file=path,
        remedy=_MAP_REMEDY
        if what == _TABLE
        else "name the format: twinloop convert --format NAME, format=NAME in Python, or "
        f"format: NAME beside the path in a scenario; known: {known}",
    )


def _suggest_remedy(binary: str) -> str:
    if binary == PARQUET_KIND:
        return (
            "Parquet is read from folders: a trace folder with manifest.json, or tasks.parquet and "
            "fragments.parquet of OpenDC; write any other table as CSV, and map its columns"
        )
    return "export its content as text, such as CSV"


def _describe_unknown(path: Path, start: bytes) -> str:
    if path.is_file() and not start:
        # This raises an error if the file cannot be decompressed.
        for _ in iterate_chunks(path):
            break
        return _EMPTY
    first = start.partition(b"\n")[0]
    if any(first.count(mark) > 1 for mark in (b",", b";", b"\t")):
        return _TABLE
    whole = len(start) < 1 << 16
    if whole and {line.lstrip()[:1] for line in start.splitlines()} - {b""} == {b";"}:
        return "has no job, only comments, like the header of an SWF log"
    return "is in no known format"


def read(path: str | Path, format: str | None = None, **options: Any) -> Trace:
    """Read a Trace from a file or folder in any known format.

    The format is recognised by content unless it is given. Options are passed to its reader.
    """
    path = Path(path)
    if format is None and "columns" in options:
        format = "csv"
    form = recognise(path) if format is None else get_format(format)
    require_input(path, folder=True)
    _check_options(form, form.read, path, options)
    return form.read(path, **options)


def write(
    trace: Trace,
    path: str | Path,
    format: str | None = None,
    *,
    overwrite: bool = False,
    **options: Any,
) -> tuple[Cleaning, ...]:
    """Write a Trace in any writable format, selected by the suffix unless it is given.

    An existing file, or a folder that this function wrote and that contains no other file, is
    replaced only with `overwrite`. Returns notes on data that the format cannot represent, or that
    were added for it.
    """
    path = Path(path)
    form = format_from_path(path) if format is None else get_format(format)
    if form.write is None:
        writable = ", ".join(sorted(f.name for f in _FORMATS.values() if f.write))
        raise FormatError(
            f"{form.title} can only be read",
            kind="format-not-writable",
            remedy=f"writable: {writable}",
        )
    if path.exists() and not overwrite:
        raise InputError(
            "exists already", kind="output-exists", file=path, remedy="overwrite=True replaces it"
        )
    _check_options(form, form.write, path, options)
    return tuple(note for note in form.write(trace, path, **options) if note.count)


def _check_options(
    form: Format, function: Callable[..., Any], path: Path, options: Iterable[str]
) -> None:
    known = signature(function).parameters.values()
    names = [option.name for option in known if option.kind is Parameter.KEYWORD_ONLY]
    for name in options:
        if name not in names:
            raise InputError(
                f"the format '{form.name}' has no option '{name}'",
                kind="option-of-other-format",
                file=path,
                remedy=f"it has: {', '.join(names) or 'none'}",
            )


def format_from_path(path: Path) -> Format:
    """Return the format for writing to a path, by its suffix; a trace folder if it has none.

    >>> from pathlib import Path
    >>> format_from_path(Path("runs/first")).name, format_from_path(Path("log.swf.gz")).name
    ('trace', 'swf')
    """
    name = path.name
    if not path.suffix:
        return get_format("trace")
    for compression in (".gz", ".zst"):
        name = name.removesuffix(compression)
    for form in _FORMATS.values():
        if any(name.endswith(suffix) for suffix in form.suffixes):
            return form
    known = "; ".join(f"{f.name}: {', '.join(f.suffixes)}" for f in _FORMATS.values() if f.suffixes)
    raise FormatError(
        "has a suffix that no writable format uses",
        kind="unknown-format",
        file=path,
        remedy=f"name the format with --to, or use a suffix ({known})",
    )
