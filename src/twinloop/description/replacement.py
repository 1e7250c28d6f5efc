"""Replacing what is there: only what the same program wrote, and only when nothing else is lost.

Each kind of folder knows the files that it owns from its own manifest. A folder that holds any
other file is not replaced, nor is one in which a process is at work, nor one that is an input of
what replaces it.
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
#: Files that a process has locked which works in a folder.
_LOCKS: Final = (LOCK_FILE, "journal.jsonl", "power-journal.jsonl")
#: The folder in which replaced files wait for the new ones, as a process names what it writes.
_ASIDE: Final = "replaced"
#: What a process that was killed leaves: the name of what it wrote, and its own number.
_LEFT: Final = re.compile(r"\.(?P<name>.+)-[0-9]{1,9}-[0-9a-f]{8}")
#: How many foreign files are named.
_NAMED: Final = 5


@dataclass(frozen=True)
class OwnedFiles:
    """The files of a folder that are known to be written by this program.

    >>> OwnedFiles.of(["plan.json"]).add_prefix("runs") | OwnedFiles(trees=frozenset({"output"}))
    OwnedFiles(files=frozenset({'runs/plan.json'}), trees=frozenset({'output'}))
    """

    #: Paths below the folder, with slashes.
    files: frozenset[str] = frozenset()
    #: Folders below it of which everything is owned.
    trees: frozenset[str] = frozenset()

    @classmethod
    def of(cls, files: Iterable[str]) -> OwnedFiles:
        """These files and nothing else."""
        return cls(frozenset(files))

    def add_prefix(self, name: str) -> OwnedFiles:
        """The same of a folder that lies in another one under this name."""
        return OwnedFiles(
            frozenset(f"{name}/{file}" for file in self.files),
            frozenset(f"{name}/{tree}" for tree in self.trees),
        )

    def __or__(self, other: OwnedFiles) -> OwnedFiles:
        return OwnedFiles(self.files | other.files, self.trees | other.trees)

    def has(self, path: str) -> bool:
        """Whether a file is owned, or was left by a process that was killed while writing one."""
        if path in self.files:
            return True
        above, _, name = path.rpartition("/")
        left = _LEFT.fullmatch(name)
        written = left["name"] if left else name.removeprefix(".")
        return written != name and (f"{above}/{written}" if above else written) in self.files

    def has_tree(self, path: str) -> bool:
        """Whether all of a folder is owned."""
        above, _, name = path.rpartition("/")
        left = _LEFT.fullmatch(name)
        written = left["name"] if left else name
        whole = f"{above}/{written}" if above else written
        return whole in self.trees or (left is not None and left["name"] == _ASIDE)


#: Says which files of a folder are owned; an error if it is no folder of this kind.
OwnershipRule = Callable[[Path], OwnedFiles]


def find_foreign_files(folder: Path, owned: OwnedFiles) -> list[str]:
    """The files of a folder that are not owned, by their paths below it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as there:
    ...     for name in ("plan.json", "thesis.tex", ".plan.json-17-0123abcd"):
    ...         Path(there, name).touch()
    ...     find_foreign_files(Path(there), OwnedFiles.of(["plan.json"]))
    ['thesis.tex']
    """
    return [path for path in _files(folder, owned) if not owned.has(path)]


def check_replaceable(
    path: Path,
    owner: OwnershipRule,
    *,
    inputs: Iterable[Path] = (),
    ours: Collection[str] = (),
) -> None:
    """Raise an error unless all that is at a path may be replaced.

    Args:
        path: What is to be replaced. Nothing there, or an empty folder, is always fine.
        owner: Says what may be replaced in a folder.
        inputs: Files and folders that are read for what is to be written.
        ours: Lock files of it that this process holds itself.
    """
    check_not_input(path, inputs)
    if not _is_there(path):
        return
    if not path.is_dir():
        raise InputError(
            "is there and is no folder, so it is not replaced",
            file=path,
            remedy="choose another name, or remove it yourself",
        )
    try:
        check_unlocked(path, [LOCK_FILE] if LOCK_FILE not in ours else [])
        if all(entry.name == LOCK_FILE for entry in path.iterdir()):
            return
        owned = owner(path) | OwnedFiles.of([LOCK_FILE])  # one that was killed leaves it
        strange = find_foreign_files(path, owned)
        locks = [each for each in _files(path, owned) if each.rpartition("/")[2] in _LOCKS]
    except OSError as error:
        problem = f"cannot be read: {error.strerror or error}"
        raise InputError(problem, file=path) from None
    if strange:
        more = ", ..." if len(strange) > _NAMED else ""
        raise InputError(
            "is there and holds something else, so it is not replaced: "
            f"{', '.join(strange[:_NAMED])}{more}",
            file=path,
            remedy="choose another name, or move these files away",
        )
    check_unlocked(path, [each for each in locks if each not in ours])


def check_not_input(path: Path, inputs: Iterable[Path]) -> None:
    """Raise an error if what is at a path is an input, holds one, or lies in one.

    >>> check_not_input(Path("runs/real"), [Path("runs/real/manifest.json")])
    Traceback (most recent call last):
    twinloop.InputError: runs/real: holds the input runs/real/manifest.json ...
    """
    place = path.resolve()
    for given in inputs:
        other = given.resolve()
        if place == other or _is_same(path, given):
            raise InputError("is the input", file=path, remedy="write to another place")
        if other.is_relative_to(place):
            problem = f"holds the input {given}"
        elif given.is_dir() and place.is_relative_to(other):
            problem = f"lies in the input {given}"
        else:
            continue
        raise InputError(problem, file=path, remedy="write to another place")


def check_regular_file(path: Path) -> None:
    """Raise an error if a path is something else than a regular file, or nothing.

    >>> check_regular_file(Path("/dev/null"))
    Traceback (most recent call last):
    twinloop.InputError: /dev/null: is no regular file, so it is not replaced ...
    """
    try:
        mode = path.lstat().st_mode
    except (OSError, ValueError):
        return  # nothing is there, or writing says why not
    if stat.S_ISREG(mode):
        return
    what = "is a folder" if stat.S_ISDIR(mode) else "is a link" if stat.S_ISLNK(mode) else ""
    raise InputError(
        f"{what or 'is no regular file'}, so it is not replaced",
        file=path,
        remedy="choose another name, or remove it yourself",
    )


@contextmanager
def set_aside(folder: Path, keep: Collection[str] = (LOCK_FILE,)) -> Iterator[None]:
    """Move all that is in a folder aside while its successor is begun in the same place.

    When the block ends well, the old files are removed; else those that the block made are, and
    the old ones are put back. The folder itself stays: it may be a mount point, or the working
    directory of a shell. The caller has checked that all may be replaced, and holds its lock.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as there:
    ...     old = Path(there, "old")
    ...     old.touch()
    ...     try:
    ...         with set_aside(Path(there)):
    ...             Path(there, "new").touch()
    ...             raise OSError(28, "No space left on device")
    ...     except OSError:
    ...         print([entry.name for entry in Path(there).iterdir()])
    ['old']
    """
    entries = [entry for entry in folder.iterdir() if entry.name not in keep]
    aside = folder / f".{_ASIDE}-{os.getpid()}-{secrets.token_hex(4)}"
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
    """Whether a folder of this name holds what a killed process was replacing.

    >>> is_set_aside(".replaced-4711-0123abcd"), is_set_aside("replaced")
    (True, False)
    """
    left = _LEFT.fullmatch(name)
    return left is not None and left["name"] == _ASIDE


def remove_path(path: Path) -> None:
    """Remove a file, a link, or a folder with all that is in it."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def write_file_list(folder: Path, kind: str) -> None:
    """Write the list of all files of a folder, by which it is known again as ours."""
    files = {
        each: _digest(folder / each)
        for each in sorted(_files(folder, OwnedFiles()))
        if each != FILE_LIST
    }
    document = {"twinloop": kind, "files": files}
    (folder / FILE_LIST).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def read_file_list(folder: Path) -> OwnedFiles:
    """The files that the list of a folder names, as far as they are as they were written.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as there:
    ...     for name in ("tasks.parquet", "topology.json"):
    ...         Path(there, name).touch()
    ...     write_file_list(Path(there), "opendc")
    ...     _ = Path(there, "topology.json").write_text("changed by hand")
    ...     find_foreign_files(Path(there), read_file_list(Path(there)))
    ['topology.json']
    """
    try:
        document = json.loads((folder / FILE_LIST).read_bytes())
        known = dict(document["files"]) if isinstance(document["twinloop"], str) else {}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return OwnedFiles()  # without a list, all is foreign
    held = set(_files(folder, OwnedFiles()))
    return OwnedFiles.of(
        [FILE_LIST, *(n for n in held & known.keys() if _digest(folder / n) == known[n])]
    )


def _digest(file: Path) -> str | None:
    if file.is_symlink() or not file.is_file():
        return None
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _files(folder: Path, owned: OwnedFiles) -> Iterator[str]:
    """All that is in a folder and is no folder, apart from trees that are owned as a whole."""
    for place, inner, names in os.walk(folder, onerror=_raised):
        above = Path(place).relative_to(folder)
        walked = []
        for name in sorted(inner):
            path = (above / name).as_posix()
            if (Path(place) / name).is_symlink():
                yield path
            elif not owned.has_tree(path):
                walked.append(name)
        inner[:] = walked
        yield from ((above / name).as_posix() for name in sorted(names))


def _raised(error: OSError) -> None:
    raise error


def _is_there(path: Path) -> bool:
    return os.path.lexists(path)


def _is_same(one: Path, other: Path) -> bool:
    with suppress(OSError):
        return one.samefile(other)
    return False
