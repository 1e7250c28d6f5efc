"""What workers are given to do; nothing else, so that they need to load nothing else."""

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any


def touchy(number: int) -> float:
    """Slow for some items, and an error for others."""
    time.sleep(0.002 * (number % 3))
    if number % 5 == 3:
        raise ValueError(f"{number}\nis\tno good")
    if number % 7 == 4:
        sys.exit(number)
    return 1.0 / (number + 0.1)


def doubled(item: bytes) -> bytes:
    return item + item


def identified(item: int) -> tuple[int, int]:
    """Who does it."""
    time.sleep(0.01)
    return os.getpid(), item


class Shared:
    """Something large that all items share; notes in a file how often it was loaded."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self.content = bytes(3_000_000)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = state
        with self.log.open("a") as stream:
            stream.write(f"{os.getpid()}\n")

    def __call__(self, item: int) -> int:
        return len(self.content) + item


def dying(folder: Path, number: int) -> int:
    """Kills its own process: for odd numbers the first time, for multiples of 10 always."""
    tried = folder / str(number)
    again = tried.exists()
    tried.touch()
    if number % 10 == 0 or (number % 2 and not again):
        os.kill(os.getpid(), signal.SIGKILL)
    return -number
