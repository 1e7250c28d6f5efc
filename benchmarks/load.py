"""The synthetic load (groups of tasks that share one core) and the bare loop that runs it."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache

import numpy as np
from measure import compile_cpp
from numpy.typing import NDArray

Floats = NDArray[np.float64]
SPREAD = 10.0  # all tasks of a group start within this many seconds
SHORTEST, LONGEST = 10.0, 90.0  # work of a task, in seconds of the whole core


@dataclass
class Load:
    start: Floats  # ascending
    work: Floats

    def __len__(self) -> int:
        return len(self.start)


def grouped(tasks: int, parallel: int, seed: int = 1) -> Load:
    """`tasks` tasks in groups of `parallel`; a group starts after the end of the previous one."""
    rng = np.random.default_rng(seed)
    groups = max(1, tasks // parallel)
    work = rng.uniform(SHORTEST, LONGEST, (groups, parallel))
    offset = np.sort(rng.uniform(0.0, SPREAD, (groups, parallel)), axis=1)
    length = SPREAD + work.sum(axis=1)  # one core: no group can need more than this
    begin = np.concatenate([[0.0], np.cumsum(length)[:-1]])
    return Load((begin[:, None] + offset).ravel(), work.ravel())


@cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(compile_cpp("limit.cpp", "-shared", "-fPIC")))
    column = np.ctypeslib.ndpointer(np.float64, flags="C_CONTIGUOUS")
    library.limit_run.argtypes = [ctypes.c_int64, column, column, ctypes.c_double, column]
    library.limit_run.restype = None
    return library


def bare_loop(load: Load) -> Floats:
    """Finish times of the load on one core of speed 1, by limit.cpp."""
    finish = np.empty(len(load))
    _library().limit_run(len(load), load.start, load.work, 1.0, finish)
    return finish


def disagreement(one: Floats, other: Floats) -> float:
    """Return the largest relative difference; infinite for NaN or missing tasks."""
    if one.shape != other.shape:
        return float("inf")
    worst = float(np.max(np.abs(one - other) / np.maximum(np.abs(one), 1.0)))
    return worst if worst == worst else float("inf")
