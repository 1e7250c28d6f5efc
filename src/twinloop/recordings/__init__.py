"""Recorded runs that are part of the package, each set as one archive.

The sets are real runs of `twinloop.execute` on a machine with two cores, so that the whole loop can
be followed without executing anything. `python -m twinloop.recordings` lists and extracts them.

>>> import twinloop as tl
>>> with open_set("trust") as runs:
...     tl.read(runs / "one").tasks.height
16
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from twinloop.description.errors import InputError
from twinloop.recordings.archive import SUFFIX, extract_archive, open_runs, pack_folder

__all__ = ["SETS", "archive_path", "extract_archive", "open_runs", "open_set", "pack_folder"]

#: The sets by name, with a description.
SETS: Final = {
    "demo": "the runs of `make demo`: the scenario, five probes, and the confirmation",
    "trust": "one and two tasks per core, each run twice: examples/trust",
}


def archive_path(name: str) -> Path:
    """Return the path of the archive of a set.

    >>> archive_path("demo").name
    'demo.tar.zst'
    >>> archive_path("dmeo")
    Traceback (most recent call last):
    twinloop.InputError: no set of recorded runs is called 'dmeo' (one of: demo, trust) [TL0209]
    """
    if name not in SETS:
        raise InputError(
            f"no set of recorded runs is called {name!r}",
            kind="unknown-name",
            remedy=f"one of: {', '.join(SETS)}",
        )
    return Path(__file__).with_name(f"{name}{SUFFIX}")


def open_set(name: str) -> AbstractContextManager[Path]:
    """Open a set as a temporary folder, which is removed when the block ends."""
    return open_runs(archive_path(name))
