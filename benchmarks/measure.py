"""Timing in turns, and benchmark results: tables, goals, failures."""

from __future__ import annotations

import gc
import os
import shlex
import subprocess
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import process_time
from typing import Any

HERE = Path(__file__).resolve().parent
BUILD = HERE.parent / "build" / "benchmarks"


@dataclass
class ResultTable:
    """Rows of raw figures; `columns` maps each heading to its print format.

    `rates` and `costs` are the headings of the figures of twinloop, on which two builds are
    compared: a rate is better when it is higher, a cost when it is lower.
    """

    title: str
    columns: Mapping[str, str]
    rows: list[list[Any]] = field(default_factory=list)
    note: str = ""
    rates: Sequence[str] = ()
    costs: Sequence[str] = ()


@dataclass
class Goal:
    """A requirement, its measurement, and whether it is met (None: undecided)."""

    name: str
    goal: str
    measured: str
    met: bool | None


@dataclass
class BenchmarkResult:
    """Tables, goals and failures; `omitted` has a line for each part that was not compared."""

    tables: list[ResultTable] = field(default_factory=list)
    goals: list[Goal] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    omitted: list[str] = field(default_factory=list)

    def extend(self, other: BenchmarkResult) -> None:
        """Append the content of another result."""
        self.tables += other.tables
        self.goals += other.goals
        self.failures += other.failures
        self.omitted += other.omitted


# Called before each timed piece of work: `beside` measures another build at these points.
turn_hooks: list[Callable[[], None]] = []


def take_turn() -> None:
    """Let the other contestant of a comparison of two builds go first, if there is one."""
    for hook in turn_hooks:
        hook()


def side_by_side(
    contestants: Mapping[str, Callable[[], Any]],
    repetitions: int,
    clock: Callable[[], float] = process_time,
) -> tuple[dict[str, float], dict[str, Any]]:
    """Return the best time of each contestant, and its last result.

    Each repetition runs all contestants in turn, so that a slow period of the machine affects all.
    The best is used because noise only adds time. The default clock counts CPU time, so that
    other processes do not affect the figures.
    """
    best = dict.fromkeys(contestants, float("inf"))
    answers: dict[str, Any] = {}
    for _ in range(repetitions):
        for name, contestant in contestants.items():
            answers.pop(name, None)
            take_turn()
            gc.collect()
            begin = clock()
            answers[name] = contestant()
            best[name] = min(best[name], clock() - begin)
    return best, answers


def compile_cpp(source: str, *options: str) -> Path:
    """Compile benchmarks/<source> with $CXX (or c++) unless the same build exists already."""
    compiler = shlex.split(os.environ.get("CXX", "c++"))
    command = [*compiler, "-O3", "-std=c++20", str(HERE / source), *options]
    key = zlib.crc32(" ".join(command).encode() + (HERE / source).read_bytes())
    target = BUILD / f"{Path(source).stem}-{key:08x}"
    if not target.exists():
        BUILD.mkdir(parents=True, exist_ok=True)
        partial = target.with_suffix(f".{os.getpid()}")
        subprocess.run([*command, "-o", str(partial)], check=True, capture_output=True, text=True)
        partial.replace(target)
    return target
