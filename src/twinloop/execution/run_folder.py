"""The folder of a real run: plan, journal, output of tasks, and at the end the Trace."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

import polars as pl

from twinloop.description.errors import DamagedTraceError, InputError
from twinloop.description.files import make_write_error
from twinloop.description.locks import LOCK_FILE, FolderLock
from twinloop.description.replacement import (
    OwnedFiles,
    check_not_input,
    check_replaceable,
    is_set_aside,
    set_aside,
)
from twinloop.execution.announcement import COMMANDS, is_command_file
from twinloop.execution.run_journal import RunJournal, read_entries
from twinloop.execution.task_commands import file_name_from_id
from twinloop.trace import Trace
from twinloop.trace.folder import MANIFEST, make_ownership_rule, write_tables
from twinloop.trace.folder import find_owned_files as owned_by_trace
from twinloop.trace.parquet import read_parquet
from twinloop.trace.stored_workload import FILES as WORKLOAD_FILES
from twinloop.trace.tables import TABLES

#: Folder of the plan and the journal, until the run is over.
RECORDING: Final = "recording"
PLAN: Final = f"{RECORDING}/plan"
JOURNAL: Final = f"{RECORDING}/journal.jsonl"
OUTPUT: Final = "output"
#: Folder of the data stores of the run, which stay after it.
STORES: Final = "stores"
#: Working folders of tasks and incomplete files, until the run is over.
WORK: Final = f"{RECORDING}/work"
PARTIAL: Final = f"{RECORDING}/partial"

_TASK_TABLE: Final = "tasks.parquet"


class RunFolder:
    """A folder that becomes a trace folder when its run is over.

    Until then it has a `recording` and no manifest: `twinloop.read` reads the run so far. It is
    locked until then, so that no other run can begin in it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     folder = RunFolder.create(Path(parent) / "run", Trace())
    ...     folder.close()
    ...     sorted(entry.name for entry in folder.path.iterdir())
    ['output', 'recording']
    """

    def __init__(self, path: Path, journal: RunJournal, lock: FolderLock) -> None:
        #: Path of the folder.
        self.path = path
        #: The journal of the run.
        self.journal = journal
        self._lock = lock

    @classmethod
    def create(
        cls, path: Path, plan: Trace, *, overwrite: bool = False, inputs: Iterable[Path] = ()
    ) -> RunFolder:
        """Make the folder for a run of this plan, and lock it.

        With `overwrite`, a run in the folder is replaced when the new run has begun; if that
        fails, it is kept.
        """
        path = path.absolute()
        check_run_folder(path, overwrite=overwrite, inputs=inputs)
        existed = path.exists()
        try:
            path.mkdir(parents=True, exist_ok=True)
            lock = FolderLock.acquire(path)
            try:
                _check_folder(path, overwrite=overwrite, inputs=inputs, ours=(LOCK_FILE,))
                with set_aside(path):
                    (path / RECORDING).mkdir()
                    (path / OUTPUT).mkdir()
                    plan.save(path / PLAN)
                    return cls(path, RunJournal(path / JOURNAL), lock)
            except BaseException:
                lock.release()
                if not existed:
                    with suppress(OSError):
                        path.rmdir()
                raise
        except (OSError, pl.exceptions.PolarsError) as error:
            raise make_write_error(path, _polars_to_os_error(error)) from None

    @property
    def output(self) -> Path:
        """Folder of the output of tasks."""
        return self.path / OUTPUT

    def finish(self, trace: Trace) -> None:
        """Write the Trace; the manifest, which makes the folder a trace folder, comes last."""
        self.journal.close()
        try:
            write_tables(trace.tables, trace.manifest, self.path, workload=trace.workload)
        except pl.exceptions.PolarsError as error:
            raise make_run_write_error(self.path, error) from None
        shutil.rmtree(self.path / RECORDING, ignore_errors=True)
        with suppress(OSError):  # it is not empty, or a task has removed it
            self.output.rmdir()
        self.close()

    def close(self) -> None:
        """Close the journal, and unlock the folder."""
        self.journal.close()
        self._lock.release()


def check_run_folder(path: Path, *, overwrite: bool, inputs: Iterable[Path] = ()) -> None:
    """Raise an InputError if a folder cannot be used for a run.

    Args:
        path: The folder.
        overwrite: Whether a run in the folder may be replaced.
        inputs: Inputs of the new run, which are not replaced.

    >>> check_run_folder(Path("/proc"), overwrite=True)
    Traceback (most recent call last):
    twinloop.InputError: /proc: exists and is not a run, so it is not replaced
    (choose another name, or remove it yourself) [TL0106]
    """
    _check_folder(path, overwrite=overwrite, inputs=inputs, ours=())


def _check_folder(
    path: Path, *, overwrite: bool, inputs: Iterable[Path], ours: tuple[str, ...]
) -> None:
    if path.exists() and not path.is_dir():
        raise _make_no_run_error(path)
    # Checked also without `overwrite`, so that the error about foreign files comes before the hint
    # at --overwrite.
    check_replaceable(path, find_run_files, ours=ours)
    if path.exists() and not _is_empty(path):
        if not overwrite:
            raise InputError(
                "exists already",
                kind="output-exists",
                file=path,
                remedy="--overwrite replaces it",
            )
        check_not_input(path, inputs)


def _is_empty(path: Path) -> bool:
    """Whether a folder has only a lock and the command file of a run that never began."""
    return all(
        entry.name == LOCK_FILE or (entry.name == COMMANDS and is_command_file(entry))
        for entry in path.iterdir()
    )


def find_run_files(path: Path) -> OwnedFiles:
    """Find the files of a run, finished or not; an InputError if the folder has none.

    Each task owns a folder of `output` with its contents; the tasks are those of the trace, or of
    the plan and the journal if there is no trace yet.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     plan = Trace(tasks=pl.DataFrame({"id": ["a/b"]}))
    ...     RunFolder.create(Path(parent), plan).close()
    ...     sorted(find_run_files(Path(parent)).trees)
    ['output/a%2Fb']
    """
    if (path / MANIFEST).is_file():
        files = make_ownership_rule("recorded")(path)
        if MANIFEST not in files.files:
            raise _make_no_run_error(path)
    else:
        try:
            files = owned_by_trace(path / PLAN).add_prefix(PLAN)
        except DamagedTraceError:
            return _find_first_files(path)
        # A run that was killed while its tables were written.
        files |= OwnedFiles.of([*(f"{name}.parquet" for name in TABLES), *WORKLOAD_FILES])
    if (path / RECORDING).is_dir():
        files |= OwnedFiles.of([JOURNAL])
        with suppress(DamagedTraceError):
            files |= owned_by_trace(path / PLAN).add_prefix(PLAN)
    trees = {f"{OUTPUT}/{file_name_from_id(task)}" for task in _list_tasks(path)}
    trees |= {f"{STORES}/{file_name_from_id(store)}" for store in _list_stores(path)}
    trees |= {tree for tree in (WORK, PARTIAL) if (path / tree).is_dir()}
    return files | OwnedFiles(frozenset({LOCK_FILE}), frozenset(trees)) | find_command_file(path)


def find_command_file(path: Path) -> OwnedFiles:
    """Find the command file of a folder, if there is one."""
    return OwnedFiles.of([COMMANDS] if is_command_file(path / COMMANDS) else [])


def _find_first_files(path: Path) -> OwnedFiles:
    """Find the files of a run that was killed before its plan was written."""
    names = {entry.name for entry in path.iterdir()} if path.is_dir() else set()
    set_aside_names = {name for name in names if is_set_aside(name)}
    commands = find_command_file(path)
    run_names = {RECORDING, *commands.files} | set_aside_names
    if not names <= {LOCK_FILE, OUTPUT} | run_names or not names & run_names:
        raise _make_no_run_error(path)
    return commands | OwnedFiles(frozenset({LOCK_FILE, JOURNAL}), frozenset({PLAN}))


def _list_tasks(path: Path) -> list[str]:
    """List the tasks of a run; empty if they cannot be read."""
    is_over = (path / MANIFEST).is_file()
    folder = path if is_over else path / PLAN
    if not (folder / _TASK_TABLE).is_file():
        return []
    try:
        tasks = [str(task) for task in read_parquet(folder / _TASK_TABLE)["id"].drop_nulls()]
        return tasks if is_over else tasks + _list_added_tasks(path / JOURNAL)
    except (pl.exceptions.PolarsError, OSError):
        return []  # the output of the tasks is then treated as foreign, and kept


def _list_stores(path: Path) -> list[str]:
    """List the data stores of a run that have a folder; empty if they cannot be read."""
    manifest = path / MANIFEST if (path / MANIFEST).is_file() else path / PLAN / MANIFEST
    try:
        stores = json.loads(manifest.read_bytes())["facts"]["files"]["stores"]
    except (OSError, ValueError, LookupError, TypeError):
        return []  # the files are then treated as foreign, and kept
    return [str(store) for store in stores] if isinstance(stores, list) else []


def _list_added_tasks(journal: Path) -> list[str]:
    """List the tasks that the source of a run has added, from its journal."""
    if not journal.is_file():
        return []
    entries = (entry for entry in read_entries(journal) if entry.get("e") == "add")
    columns = (entry.get("columns") for entry in entries)
    return [str(each["id"]) for each in columns if isinstance(each, dict) and "id" in each]


def _make_no_run_error(path: Path) -> InputError:
    return InputError(
        "exists and is not a run, so it is not replaced",
        kind="not-replaceable",
        file=path,
        remedy="choose another name, or remove it yourself",
    )


def make_run_write_error(path: Path, error: Exception) -> Exception:
    """Make the error for a run that cannot be written.

    >>> print(make_run_write_error(Path("run"), OSError(28, "No space left on device")))
    run: cannot be written: No space left on device (the recorded part is kept there) [TL0104]
    """
    remedy = "the recorded part is kept there"
    return make_write_error(path, _polars_to_os_error(error), remedy=remedy)


def _polars_to_os_error(error: Exception) -> Exception:
    """Convert an error of Polars, which has no error number; return any other unchanged."""
    if isinstance(error, pl.exceptions.PolarsError):
        return OSError(f"the disk may be full ({error})")
    return error
