"""Hashes of the files that the runs of a study read: predictions are of what was in them then."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from twinloop.description.errors import InputError
from twinloop.description.files import hash_file, is_file
from twinloop.scenario import Scenario

if TYPE_CHECKING:
    from twinloop.exploration.ranking.candidate import Candidate

#: The hash of each file by its path; None: it was not there.
Hashes = Mapping[str, str | None]

AGAIN: Final = "give the same `twinloop explore` again: it simulates what has changed"


def hash_input(path: str | Path) -> str | None:
    """The hash of a file; None: it is not there.

    >>> hash_input("nowhere.swf") is None
    True
    """
    if not is_file(Path(path)):
        return None
    now = Path(path).stat()
    return _hash_of(str(path), now.st_mtime_ns, now.st_size)


@lru_cache(maxsize=64)
def _hash_of(path: str, _changed: int, _size: int) -> str:
    return hash_file(Path(path))


def find_changed_inputs(known: Hashes) -> list[str]:
    """The files that are there and are not what they were, by their paths.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as there:
    ...     log = Path(there, "log.swf")
    ...     _ = log.write_text("1 0 0 10 1")
    ...     known = {str(log): hash_input(log), "nowhere.swf": "abc"}
    ...     before = find_changed_inputs(known)
    ...     _ = log.write_text("1 0 0 1000 1")
    ...     before, find_changed_inputs(known) == [str(log)]
    ([], True)
    """
    return [name for name, old in known.items() if hash_input(name) not in (None, old)]


def check_inputs_unchanged(candidates: Iterable[Candidate]) -> None:
    """Complain if a candidate would run files that are not those that its prediction is of."""
    for each in candidates:
        for name, old in _read_by(each.scenario, each.inputs).items():
            now = hash_input(name)
            if now != old:
                what = f"has changed since {each.name} was simulated"
                if now is None:
                    what = f"is not there any more: {each.name} was simulated with it"
                raise InputError(what, file=name, remedy=AGAIN)


def _read_by(scenario: Scenario, known: Hashes) -> dict[str, str | None]:
    """The hashes of the files of one scenario, as far as they are known.

    Of a folder, also files that were in it then, and files that are new in it.
    """
    if not known:
        return {}
    folder = scenario.workload.path
    then = [name for name in known if folder is not None and Path(name).is_relative_to(folder)]
    now = [path.as_posix() for path in scenario._files()]
    new = [name for name in now if then and folder and Path(name).is_relative_to(folder)]
    return {name: known.get(name) for name in (*then, *now) if name in known or name in new}
