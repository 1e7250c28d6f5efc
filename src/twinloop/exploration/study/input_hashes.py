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

RERUN_REMEDY: Final = (
    "run the same `twinloop explore` again: it simulates the changed configurations"
)


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


def find_changed_inputs(hashes: Hashes) -> list[str]:
    """Return the paths of existing files whose contents have changed.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = Path(folder, "log.swf")
    ...     _ = log.write_text("1 0 0 10 1")
    ...     hashes = {str(log): hash_input(log), "nowhere.swf": "abc"}
    ...     before = find_changed_inputs(hashes)
    ...     _ = log.write_text("1 0 0 1000 1")
    ...     before, find_changed_inputs(hashes) == [str(log)]
    ([], True)
    """
    return [name for name, before in hashes.items() if hash_input(name) not in (None, before)]


def check_inputs_unchanged(candidates: Iterable[Candidate]) -> None:
    """Raise an error if an input file of a candidate has changed since its simulation."""
    for each in candidates:
        for name, before in _select_hashes(each.scenario, each.inputs).items():
            now = hash_input(name)
            if now != before:
                problem = f"has changed since {each.name} was simulated"
                if now is None:
                    problem = f"does not exist any more, and {each.name} was simulated with it"
                raise InputError(problem, kind="different-inputs", file=name, remedy=RERUN_REMEDY)


def _select_hashes(scenario: Scenario, hashes: Hashes) -> dict[str, str | None]:
    """Select the hashes of the files of one scenario.

    If the workload is a folder, they include files that have been removed from it, and new files
    with None as their hash.
    """
    if not hashes:
        return {}
    folder = scenario.workload.path
    before = [name for name in hashes if folder is not None and Path(name).is_relative_to(folder)]
    now = [path.as_posix() for path in scenario._files()]
    added = [name for name in now if before and folder and Path(name).is_relative_to(folder)]
    return {name: hashes.get(name) for name in (*before, *now) if name in hashes or name in added}
