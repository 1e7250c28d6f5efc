"""Hashes of the input files of a study.

Predictions hold for the contents of the files at the time of the simulation.
"""

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

#: The hash of each file by its path; None: the file did not exist.
Hashes = Mapping[str, str | None]

AGAIN: Final = "run the same `twinloop explore` again: it simulates the changed configurations"


def hash_input(path: str | Path) -> str | None:
    """Return the hash of a file; None if it does not exist.

    >>> hash_input("nowhere.swf") is None
    True
    """
    if not is_file(Path(path)):
        return None
    now = Path(path).stat()
    return _hash_version(str(path), now.st_mtime_ns, now.st_size)


@lru_cache(maxsize=64)
def _hash_version(path: str, _changed: int, _size: int) -> str:
    return hash_file(Path(path))


def find_changed_inputs(known: Hashes) -> list[str]:
    """Return the paths of existing files whose contents have changed.

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
    """Raise an error if an input file of a candidate has changed since its simulation."""
    for each in candidates:
        for name, old in _select_hashes(each.scenario, each.inputs).items():
            now = hash_input(name)
            if now != old:
                what = f"has changed since {each.name} was simulated"
                if now is None:
                    what = f"does not exist any more, and {each.name} was simulated with it"
                raise InputError(what, kind="different-inputs", file=name, remedy=AGAIN)


def _select_hashes(scenario: Scenario, known: Hashes) -> dict[str, str | None]:
    """Select the known hashes of the files of one scenario.

    For a folder they include files that have been removed from it, and new ones without a hash.
    """
    if not known:
        return {}
    folder = scenario.workload.path
    then = [name for name in known if folder is not None and Path(name).is_relative_to(folder)]
    now = [path.as_posix() for path in scenario._files()]
    new = [name for name in now if then and folder and Path(name).is_relative_to(folder)]
    return {name: known.get(name) for name in (*then, *now) if name in known or name in new}
