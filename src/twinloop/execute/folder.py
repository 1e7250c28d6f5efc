"""The folder of a run: what was planned, the journal, what tasks printed, and at last the Trace."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final

import polars as pl

from twinloop.execute.announcement import COMMANDS, is_command_file
from twinloop.execute.journal import Journal
from twinloop.trace import Trace
from twinloop.trace.errors import InputError, UnwritableError
from twinloop.trace.folder import MANIFEST, complete
from twinloop.trace.tables import TABLES

#: What a run keeps until it is over.
RECORDING: Final = "recording"
PLAN: Final = f"{RECORDING}/plan"
JOURNAL: Final = f"{RECORDING}/journal.jsonl"
OUTPUT: Final = "output"

_OWN: Final = {COMMANDS, RECORDING, OUTPUT, MANIFEST, *(f"{name}.parquet" for name in TABLES)}


class RunFolder:
    """A folder that becomes a trace folder when its run is over.

    Until then it has a `recording` and no manifest: `twinloop.read` reads it as far as it got.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as there:
    ...     folder = RunFolder.create(Path(there) / "run", Trace())
    ...     folder.journal.close()
    ...     sorted(entry.name for entry in folder.path.iterdir())
    ['output', 'recording']
    """

    def __init__(self, path: Path, journal: Journal) -> None:
        #: Where it is.
        self.path = path
        #: What happens, as it happens.
        self.journal = journal

    @classmethod
    def create(cls, path: Path, plan: Trace, *, overwrite: bool = False) -> RunFolder:
        """Make the folder for a run of this plan. A run that is there is replaced if asked."""
        path = path.absolute()
        check(path, overwrite=overwrite)
        was_there = path.exists()
        try:
            _clear(path)
            (path / RECORDING).mkdir(parents=True)
        except OSError as error:
            raise UnwritableError(f"cannot be written: {_why(error)}", file=path) from None
        try:
            (path / OUTPUT).mkdir()
            plan.save(path / PLAN)
            return cls(path, Journal(path / JOURNAL))
        except (OSError, InputError, pl.exceptions.PolarsError) as error:
            _clear(path)
            if not was_there:
                path.rmdir()
            if isinstance(error, InputError):
                raise
            raise UnwritableError(f"cannot be written: {_why(error)}", file=path) from None

    @property
    def output(self) -> Path:
        """Where what tasks print is kept."""
        return self.path / OUTPUT

    def finish(self, trace: Trace) -> None:
        """Write the Trace. The folder is a trace folder when its manifest appears, last of all."""
        self.journal.close()
        try:
            complete(trace.tables, trace.manifest, self.path)
        except pl.exceptions.PolarsError as error:
            raise unwritable(self.path, error) from None
        shutil.rmtree(self.path / RECORDING, ignore_errors=True)
        with suppress(OSError):  # it holds something, or a task has taken it away
            self.output.rmdir()


def check(path: Path, *, overwrite: bool) -> None:
    """An error if a run cannot be kept there.

    >>> check(Path("/proc"), overwrite=True)
    Traceback (most recent call last):
    twinloop.trace.errors.InputError: /proc: is there and is no run, so it is not replaced
    (choose another name, or remove it yourself)
    """
    if not path.exists() or _is_empty(path):
        return
    if not _is_run(path):
        raise InputError(
            "is there and is no run, so it is not replaced",
            file=path,
            remedy="choose another name, or remove it yourself",
        )
    if not overwrite:
        raise InputError("is there already", file=path, remedy="--overwrite replaces it")


def _is_empty(path: Path) -> bool:
    """Whether a folder holds nothing, or the commands of a run that never began."""
    if not path.is_dir():
        return False
    return all(is_command_file(each) and each.name == COMMANDS for each in path.iterdir())


def _is_run(path: Path) -> bool:
    """Whether a folder holds a run, finished or not, and nothing else."""
    if not path.is_dir() or not {each.name for each in path.iterdir()} <= _OWN:
        return False
    return (path / MANIFEST).is_file() or (path / PLAN / MANIFEST).is_file()


def _clear(path: Path) -> None:
    """Empty a folder of a run; the folder itself may be where somebody stands."""
    for name in _OWN if path.exists() else ():
        if (path / name).is_dir() and not (path / name).is_symlink():
            shutil.rmtree(path / name)
        else:
            (path / name).unlink(missing_ok=True)


def unwritable(path: Path, error: Exception) -> UnwritableError:
    """What to say if a run cannot be kept.

    >>> print(unwritable(Path("run"), OSError(28, "No space left on device")))
    run: cannot be written: No space left on device (what was recorded so far is kept there)
    """
    return UnwritableError(
        f"cannot be written: {_why(error)}",
        file=path,
        remedy="what was recorded so far is kept there",
    )


def _why(error: Exception) -> str:
    if isinstance(error, pl.exceptions.PolarsError):  # it hides what the system said
        return f"the disk may be full ({error})"
    return getattr(error, "strerror", None) or str(error)
