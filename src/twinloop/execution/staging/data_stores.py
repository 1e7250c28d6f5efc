"""The data stores of a real execution: a folder for each, and which file is in which."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

import numpy as np

from twinloop.execution.staging.file_plan import FilePlan, PlannedFile
from twinloop.execution.task_commands import file_name_from_id
from twinloop.platform import Platform
from twinloop.platform.network import LOCAL, list_local_stores

#: Bytes that are written at a time when files are created.
_BLOCK: Final = 1 << 20


class DataStores:
    """The files in the data stores of a run, in a folder for each store.

    A file gets its name in its store when it is complete, so that an interrupted run leaves no
    partial files there.

    Args:
        plan: The files of the run.
        platform: The platform, with its stores.
        folder: Folder of the folders of the stores.
        partial: Folder of incomplete files, on the same disk.
    """

    def __init__(self, plan: FilePlan, platform: Platform, folder: Path, partial: Path) -> None:
        #: The files of the run.
        self.plan = plan
        self._folder = folder
        self._partial = partial
        self._local = list_local_stores(platform)
        stores = {store.name: store for store in platform.stores} | self._local
        self._capacity = {
            name: store.capacity for name, store in stores.items() if store.capacity is not None
        }
        #: The store of each file that exists, and its size (bytes).
        self._places = {file.name: file.store for file in plan.initial}
        self._sizes = {file.name: float(file.size) for file in plan.initial}
        #: Bytes of outputs that are being copied to a store.
        self._promised: dict[str, float] = {}
        self._partial_count = 0

    def create_initial_files(self) -> None:
        """Create or copy the files that exist at the start, and write them to the disk."""
        self._partial.mkdir()
        for file in self.plan.initial:
            target = self.path(file.store, file.name)
            target.parent.mkdir(parents=True, exist_ok=True)
            temporary = self.new_partial()
            with temporary.open("xb") as stream:
                if file.path is None:
                    _write_random_bytes(stream.fileno(), file, self.plan.seed)
                else:
                    _copy(file.path, stream.fileno())
                os.fsync(stream.fileno())  # else the kernel writes it during the run
            temporary.replace(target)

    def path(self, store: str, file: str) -> Path:
        """Return the path of a file in a store."""
        return self._folder / file_name_from_id(store) / file

    def new_partial(self) -> Path:
        """Return a new path for an incomplete file."""
        self._partial_count += 1
        return self._partial / str(self._partial_count)

    def find(self, file: str) -> str | None:
        """Return the store that a file is in; None if it has not been written yet."""
        return self._places.get(file)

    def choose(self, file: str, node: str) -> str | None:
        """Return the store that a task on a node writes a file to; None if the host has none."""
        store = self.plan.files[file].store
        if store != LOCAL:
            return store
        return node if node in self._local else None

    def promise(self, store: str, size: float) -> bool:
        """Reserve space in a store; returns whether it has enough."""
        promised = self._promised.get(store, 0.0)
        used = sum(self._sizes[file] for file, place in self._places.items() if place == store)
        if used + promised + size > self._capacity.get(store, float("inf")):
            return False
        self._promised[store] = promised + size
        return True

    def withdraw(self, store: str, size: float) -> None:
        """Give reserved space back."""
        self._promised[store] -= size

    def add(self, store: str, file: str, size: float, temporary: Path) -> None:
        """Put a complete file into a store; it replaces an earlier version."""
        target = self.path(store, file)
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary.replace(target)
        earlier = self._places.get(file)
        if earlier is not None and earlier != store:
            self.path(earlier, file).unlink(missing_ok=True)
        self._places[file] = store
        self._sizes[file] = size


def _write_random_bytes(target: int, file: PlannedFile, seed: int) -> None:
    """Write pseudo-random bytes that depend on the seed and the name of the file."""
    name = int.from_bytes(hashlib.sha256(file.name.encode()).digest()[:8], "little")
    generator = np.random.Generator(np.random.PCG64([abs(seed), name]))
    for start in range(0, file.size, _BLOCK):
        _write_all(target, generator.bytes(min(_BLOCK, file.size - start)))


def _copy(source: Path, target: int) -> None:
    with source.open("rb") as stream:
        while block := stream.read(_BLOCK):
            _write_all(target, block)


def _write_all(target: int, block: bytes) -> None:
    rest = memoryview(block)
    while rest:
        rest = rest[os.write(target, rest) :]
