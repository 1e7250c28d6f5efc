"""The folder of a run: what was planned, the journal, what tasks printed, and at last the Trace."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final

import polars as pl

from twinloop.execute.journal import Journal
from twinloop.trace import Trace
from twinloop.trace.errors import InputError
from twinloop.trace.folder import MANIFEST, complete
from twinloop.trace.tables import TABLES

#: What a run keeps until it is over.
RECORDING: Final = "recording"
OUTPUT: Final = "output"

_OWN: Final = {RECORDING, OUTPUT, MANIFEST, *(f"{name}.parquet" for name in TABLES)}


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
        try:
            if path.exists():
                shutil.rmtree(path)
            (path / RECORDING).mkdir(parents=True)
        except OSError as error:
            raise InputError(f"cannot be written: {_why(error)}", file=path) from None
        try:
            (path / OUTPUT).mkdir()
            plan.save(path / RECORDING / "plan")
            return cls(path, Journal(path / RECORDING / "journal.jsonl"))
        except (OSError, InputError, pl.exceptions.PolarsError) as error:
            shutil.rmtree(path, ignore_errors=True)
            if isinstance(error, InputError):
                raise
            raise InputError(f"cannot be written: {_why(error)}", file=path) from None

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
    if not path.exists():
        return
    if not path.is_dir() or not {each.name for each in path.iterdir()} <= _OWN:
        raise InputError(
            "is there and is no run, so it is not replaced",
            file=path,
            remedy="choose another name, or remove it yourself",
        )
    if not overwrite and any(path.iterdir()):
        raise InputError("is there already", file=path, remedy="--overwrite replaces it")


def unwritable(path: Path, error: Exception) -> InputError:
    """What to say if a run cannot be kept.

    >>> print(unwritable(Path("run"), OSError(28, "No space left on device")))
    run: cannot be written: No space left on device (what was recorded so far is kept there)
    """
    return InputError(
        f"cannot be written: {_why(error)}",
        file=path,
        remedy="what was recorded so far is kept there",
    )


def _why(error: Exception) -> str:
    if isinstance(error, pl.exceptions.PolarsError):  # it hides what the system said
        return f"the disk may be full ({error})"
    return getattr(error, "strerror", None) or str(error)
