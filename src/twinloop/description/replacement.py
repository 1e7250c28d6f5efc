"""Safe replacement of existing files and folders.

A folder is replaced only if its manifest lists all files in it, no process has it locked, and it
is not an input of the new content.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from twinloop.description.errors import InputError
from twinloop.description.locks import LOCK_FILE, check_unlocked

#: The list of the files of a folder whose format has no manifest.
FILE_LIST: Final = ".twinloop.json"
#: Files that a process locks while it works in a folder.
_LOCKED_FILES: Final = (LOCK_FILE, "journal.jsonl", "power-journal.jsonl")
#: Start of the name of the folder for replaced files, which is a temporary name.
_ASIDE_NAME: Final = "replaced"
#: Temporary names, which a killed process leaves behind: the final name, the process id and random
#: digits.
_TEMPORARY_NAME: Final = re.compile(r"\.(?P<name>.+)-[0-9]{1,9}-[0-9a-f]{8}")
#: Number of foreign files that an error lists.
_MAX_LISTED: Final = 5


@dataclass(frozen=True)
class OwnedFiles:
    """The files of a folder that this program has written.

    >>> OwnedFiles.of(["plan.json"]).add_prefix("runs") | OwnedFiles(trees=frozenset({"output"}))
    OwnedFiles(files=frozenset({'runs/plan.json'}), trees=frozenset({'output'}))
    """

    #: Paths relative to the folder, with slashes.
    files: frozenset[str] = frozenset()
    #: Subfolders that are owned with all their content.
    trees: frozenset[str] = frozenset()

    @classmethod
    def of(cls, files: Iterable[str]) -> OwnedFiles:
        """Make a set of owned files without subfolders."""
        return cls(frozenset(files))

    def add_prefix(self, name: str) -> OwnedFiles:
        """Return the same files relative to the parent folder, given the name of the folder."""
        return OwnedFiles(
            frozenset(f"{name}/{file}" for file in self.files),
            frozenset(f"{name}/{tree}" for tree in self.trees),
        )

    def __or__(self, other: OwnedFiles) -> OwnedFiles:
        return OwnedFiles(self.files | other.files, self.trees | other.trees)

    def has(self, path: str) -> bool:
        """Whether a file is owned, or is the temporary file of an owned one."""
        if path in self.files:
            return True
        parent, _, name = path.rpartition("/")
        temporary = _TEMPORARY_NAME.fullmatch(name)
        final_name = temporary["name"] if temporary else name.removeprefix(".")
        final_path = f"{parent}/{final_name}" if parent else final_name
        return final_name != name and final_path in self.files

    def has_tree(self, path: str) -> bool:
        """Whether a subfolder is owned with all its content, or is left by a killed `set_aside`."""
        parent, _, name = path.rpartition("/")
        temporary = _TEMPORARY_NAME.fullmatch(name)
        final_name = temporary["name"] if temporary else name
        final_path = f"{parent}/{final_name}" if parent else final_name
        return final_path in self.trees or (
            temporary is not None and temporary["name"] == _ASIDE_NAME
        )


#: Returns the owned files of a folder; raises an error if it is not a folder of the right kind.
OwnershipRule = Callable[[Path], OwnedFiles]


def find_foreign_files(folder: Path, owned: OwnedFiles) -> list[str]:
    """List the files of a folder that are not owned, by their relative paths.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("plan.json", "thesis.tex", ".plan.json-17-0123abcd"):
    ...         Path(folder, name).touch()
    ...     find_foreign_files(Path(folder), OwnedFiles.of(["plan.json"]))
    ['thesis.tex']
    """
    return [path for path in _iterate_files(folder, owned) if not owned.has(path)]


def check_replaceable(
    path: Path,
    owner: OwnershipRule,
    *,
    inputs: Iterable[Path] = (),
    ours: Collection[str] = (),
) -> None:
    """Raise an error unless a path does not exist, is an empty folder, or may be replaced.

    Args:
        path: The folder to replace.
        owner: Returns the files of a folder that may be replaced.
        inputs: Files and folders that are read to produce the new content.
        ours: Lock files of the folder that this process holds itself.
    """
    check_not_input(path, inputs)
    if not os.path.lexists(path):
        return
    if not path.is_dir():
        raise InputError(
            "exists and is not a folder, so it is not replaced",
            kind="not-replaceable",
            file=path,
            remedy="choose another name, or remove it yourself",
        )
    try:
        check_unlocked(path, [LOCK_FILE] if LOCK_FILE not in ours else [])
        if all(entry.name == LOCK_FILE for entry in path.iterdir()):
            return
        owned = owner(path) | OwnedFiles.of([LOCK_FILE])  # a killed process leaves it
        foreign = find_foreign_files(path, owned)
        lock_files = [
            file for file in _iterate_files(path, owned) if file.rpartition("/")[2] in _LOCKED_FILES
        ]
    except OSError as error:
        problem = f"cannot be read: {error.strerror or error}"
        raise InputError(problem, kind="not-replaceable", file=path) from None
    if foreign:
        more = ", ..." if len(foreign) > _MAX_LISTED else ""
        raise InputError(
            "exists and contains other files, so it is not replaced: "
            f"{', '.join(foreign[:_MAX_LISTED])}{more}",
            kind="not-replaceable",
            file=path,
            remedy="choose another name, or move these files away",
        )
    check_unlocked(path, [file for file in lock_files if file not in ours])


def check_not_input(path: Path, inputs: Iterable[Path]) -> None:
    """Raise an error if a path is an input, contains an input, or is inside an input.

    >>> check_not_input(Path("runs/real"), [Path("runs/real/manifest.json")])
    Traceback (most recent call last):
    twinloop.InputError: runs/real: contains the input runs/real/manifest.json ...
    """
    resolved = path.resolve()
    for given in inputs:
        resolved_input = given.resolve()
        if resolved == resolved_input or _is_same_file(path, given):
            raise InputError(
                "is the input", kind="output-is-input", file=path, remedy="write to another path"
            )
        if resolved_input.is_relative_to(resolved):
            problem = f"contains the input {given}"
        elif given.is_dir() and resolved.is_relative_to(resolved_input):
            problem = f"is inside the input {given}"
        else:
            continue
        raise InputError(problem, kind="output-is-input", file=path, remedy="write to another path")


def check_regular_file(path: Path) -> None:
    """Raise an error if a path exists and is not a regular file.

    >>> check_regular_file(Path("/dev/null"))
    Traceback (most recent call last):
    twinloop.InputError: /dev/null: is not a regular file, so it is not replaced ...
    """
    try:
        mode = path.lstat().st_mode
    except (OSError, ValueError):
        return  # it does not exist, or writing raises the error
    if stat.S_ISREG(mode):
        return
    what = "is a folder" if stat.S_ISDIR(mode) else "is a link" if stat.S_ISLNK(mode) else ""
    raise InputError(
        f"{what or 'is not a regular file'}, so it is not replaced",
        kind="not-replaceable",
        file=path,
        remedy="choose another name, or remove it yourself",
    )


@contextmanager
def set_aside(folder: Path, keep: Collection[str] = (LOCK_FILE,)) -> Iterator[None]:
    """Move the content of a folder aside during the block, which writes its new content.

    When the block ends without error, the old files are removed; otherwise the new files are
    removed and the old ones restored. The folder itself stays: it may be a mount point, or the
    working directory of a shell. The caller has checked that all files may be replaced, and holds
    the lock.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     old = Path(folder, "old")
    ...     old.touch()
    ...     try:
    ...         with set_aside(Path(folder)):
    ...             Path(folder, "new").touch()
    ...             raise OSError(28, "No space left on device")
    ...     except OSError:
    ...         print([entry.name for entry in Path(folder).iterdir()])
    ['old']
    """
    entries = [entry for entry in folder.iterdir() if entry.name not in keep]
    aside = folder / f".{_ASIDE_NAME}-{os.getpid()}-{secrets.token_hex(4)}"
    aside.mkdir()
    try:
        for entry in entries:
            entry.rename(aside / entry.name)
        yield
    except BaseException:
        unmoved = {entry for entry in entries if not os.path.lexists(aside / entry.name)}
        for entry in list(folder.iterdir()):
            if entry != aside and entry.name not in keep and entry not in unmoved:
                remove_path(entry)
        for entry in list(aside.iterdir()):
            entry.rename(folder / entry.name)
        aside.rmdir()
        raise
    shutil.rmtree(aside, ignore_errors=True)


def is_set_aside(name: str) -> bool:
    """Whether this is the name of a folder in which `set_aside` of a killed process left files.

    >>> is_set_aside(".replaced-4711-0123abcd"), is_set_aside("replaced")
    (True, False)
    """
    temporary = _TEMPORARY_NAME.fullmatch(name)
    return temporary is not None and temporary["name"] == _ASIDE_NAME


def remove_path(path: Path) -> None:
    """Remove a file, a link, or a folder with its content."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def write_file_list(folder: Path, kind: str) -> None:
    """Write the list of all files of a folder, by which `read_file_list` recognises them."""
    files = {
        file: _hash_regular_file(folder / file)
        for file in sorted(_iterate_files(folder, OwnedFiles()))
        if file != FILE_LIST
    }
    document = {"twinloop": kind, "files": files}
    (folder / FILE_LIST).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def read_file_list(folder: Path) -> OwnedFiles:
    """Return the files in the file list of a folder that have not changed since it was written.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("tasks.parquet", "topology.json"):
    ...         Path(folder, name).touch()
    ...     write_file_list(Path(folder), "opendc")
    ...     _ = Path(folder, "topology.json").write_text("changed by hand")
    ...     find_foreign_files(Path(folder), read_file_list(Path(folder)))
    ['topology.json']
    """
    try:
        document = json.loads((folder / FILE_LIST).read_bytes())
        hashes = dict(document["files"]) if isinstance(document["twinloop"], str) else {}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return OwnedFiles()  # without a list, all files are foreign
    listed = set(_iterate_files(folder, OwnedFiles())) & hashes.keys()
    unchanged = [file for file in listed if _hash_regular_file(folder / file) == hashes[file]]
    return OwnedFiles.of([FILE_LIST, *unchanged])


def _hash_regular_file(file: Path) -> str | None:
    """Compute the SHA-256 of a file; None if it is a link or not a regular file."""
    if file.is_symlink() or not file.is_file():
        return None
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _iterate_files(folder: Path, owned: OwnedFiles) -> Iterator[str]:
    """Yield all files below a folder, except in subfolders that are owned as a whole.

    A link to a folder counts as a file.
    """
    for current, subfolders, names in os.walk(folder, onerror=_raise):
        relative = Path(current).relative_to(folder)
        entered = []
        for name in sorted(subfolders):
            path = (relative / name).as_posix()
            if (Path(current) / name).is_symlink():
                yield path
            elif not owned.has_tree(path):
                entered.append(name)
        subfolders[:] = entered
        yield from ((relative / name).as_posix() for name in sorted(names))


def _raise(error: OSError) -> None:
    raise error


def _is_same_file(first: Path, second: Path) -> bool:
    with suppress(OSError):
        return first.samefile(second)
    return False
