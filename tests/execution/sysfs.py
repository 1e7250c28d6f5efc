"""A simulated tree of energy counters of Linux, with updates, wrap-arounds, errors and removal."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path


class Zone:
    """One counter, which a separate thread writes every few milliseconds.

    `truth` is the true sum, without wrap-arounds.
    """

    def __init__(
        self, folder: Path, name: str | None, *, wraps_at: int | None, value: int = 0
    ) -> None:
        self.folder = folder
        self.wraps_at = wraps_at
        self.truth = self.seen = value
        self.lock = threading.Lock()
        folder.mkdir(parents=True)
        if name is not None:
            (folder / "name").write_text(f"{name}\n")
        if wraps_at is not None:
            (folder / "max_energy_range_uj").write_text(f"{wraps_at}\n")
        self.write()

    def write(self) -> None:
        shown = self.truth if self.wraps_at is None else self.truth % self.wraps_at
        # As in sysfs, a reader never sees a partial number: the file is replaced as a whole.
        new = self.folder / ".new"
        new.write_text(f"{shown}\n")
        new.replace(self.folder / "energy_uj")

    def add(self, microjoules: int) -> None:
        with self.lock:
            # A delayed reader must not miss a complete wrap-around of the counter.
            behind = self.truth + microjoules - self.seen
            if self.wraps_at is not None and behind >= self.wraps_at / 2:
                return
            self.truth += microjoules
            self.write()

    def read(self) -> None:
        """Note that the counter was read: it may advance by half of its range again."""
        with self.lock:
            self.seen = self.truth

    def vanish(self) -> None:
        with self.lock:
            shutil.rmtree(self.folder)


class Ticking:
    """A context in which threads update zones."""

    def __init__(self, *zones: tuple[Zone, float, int]) -> None:
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=zone) for zone in zones]

    def _run(self, zone: Zone, pause: float, microjoules: int) -> None:
        while not self._stop.wait(pause):
            if zone.folder.exists():
                zone.add(microjoules)

    def __enter__(self) -> Ticking:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=10)
