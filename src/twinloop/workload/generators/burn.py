"""Bags, bursts, DAGs and sessions of `twinloop-burn`, for execution on real machines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, Self

import numpy as np
import polars as pl
from pydantic import BeforeValidator, model_validator

from twinloop.trace import Trace
from twinloop.workload.generators import mix
from twinloop.workload.generators.description import parameter
from twinloop.workload.generators.elementary import Floats
from twinloop.workload.generators.random_stream import Integers
from twinloop.workload.generators.requests import RequestGenerator
from twinloop.workload.generators.shares import apportion

#: The program of the tasks.
PROGRAM: Final = "twinloop-burn"

BurnKind = Literal["cpu", "memory", "stream", "cache", "mixed", "sleep", "io"]

#: The phases of each kind of work: share of the run time, and utilisation of the cores.
PHASES: Final[Mapping[str, tuple[tuple[float, float], ...]]] = {
    **dict.fromkeys(("cpu", "memory", "stream", "cache"), ((1.0, 1.0),)),
    "mixed": ((0.4, 1.0), (0.2, 0.0), (0.4, 1.0)),
    "sleep": ((1.0, 0.0),),
    # A typical value: it mostly waits for its timer and for the disk.
    "io": ((1.0, 0.01),),
}

#: Limit of the number of tasks of a real run.
_MAX_TASKS: Final = 1_000_000


def _parse_kinds(value: Any) -> tuple[tuple[str, float], ...]:
    if isinstance(value, str):
        value = [part.split(":") if ":" in part else (part, 1.0) for part in value.split(",")]
    pairs = value.items() if isinstance(value, Mapping) else value
    try:
        kinds = tuple((str(kind), float(share)) for kind, share in pairs)
    except (TypeError, ValueError):
        raise ValueError("kinds are written as kind:share,kind:share") from None
    names = [kind for kind, _ in kinds]
    for kind in names:
        if kind not in PHASES:
            raise ValueError(f"unknown kind {kind!r}; the kinds are {', '.join(PHASES)}")
    if not kinds or len(set(names)) < len(names):
        raise ValueError("give at least one kind, and each kind once")
    if not all(0.0 < share <= 1e9 for _, share in kinds):
        raise ValueError("the shares of kinds must be positive")
    return kinds


class Burn(RequestGenerator):
    """Tasks of `twinloop-burn` with known work, with their commands.

    The number of tasks of each kind is exactly in the ratio of the shares, in random order; lengths
    are uniform between the shortest and the longest. A task runs one thread on each of its cores,
    so its work is its length times its cores; for `sleep` it is 0, for `mixed` four fifths of it.

    - `bag`: all tasks at t = 0.
    - `bursts`: a burst of tasks per period, an interval apart. The defaults are ten bursts of ten
      tasks, for a minute on two cores.
    - `dag`: layers of tasks; each task depends on some tasks of the layer before.
    - `sessions`: users who submit a few tasks, wait until all of them have ended (without
      contention), think from half to one and a half times the think time, and submit again.

    >>> trace = Burn(kinds="cpu:3,cache:1").generate(seed=1)
    >>> trace.tasks["kind"].value_counts(sort=True).rows()
    [('cpu', 75), ('cache', 25)]
    >>> trace.tasks["command"][0].to_list()[:2]
    ['twinloop-burn', 'cache']
    """

    name: ClassVar[str] = "burn"
    title: ClassVar[str] = "known work for real machines, with twinloop-burn"

    shape: Literal["bag", "bursts", "dag", "sessions"] = parameter(
        "bursts", "pattern of the tasks: bag, bursts, dag or sessions"
    )
    tasks: int | None = parameter(None, "number of tasks; none: bursts x size", ge=1, le=_MAX_TASKS)
    bursts: int = parameter(10, "number of bursts", ge=1, le=_MAX_TASKS)
    size: int = parameter(10, "tasks in a burst, or in a session", ge=1, le=_MAX_TASKS)
    period: float = parameter(6.0, "time between two bursts", unit="s", gt=0.0, le=1e9)
    interval: float = parameter(
        0.1, "time between two tasks of a burst or a session", unit="s", ge=0.0, le=1e9
    )
    kinds: Annotated[tuple[tuple[BurnKind, float], ...], BeforeValidator(_parse_kinds)] = parameter(
        (("cpu", 1.0),), "kinds of work with shares, as cpu:3,cache:1"
    )
    shortest: float = parameter(0.5, "shortest length of a task", unit="s", ge=1e-3, le=1e6)
    longest: float = parameter(1.5, "longest length of a task", unit="s", ge=1e-3, le=1e6)
    cores: mix.Mix = parameter(
        ((1, 1.0),), "cores of a task on each of its nodes, with weights", unit="cores"
    )
    nodes: int = parameter(1, "nodes of a task", unit="nodes", ge=1, le=_MAX_TASKS)
    users: int = parameter(3, "number of users", ge=1, le=_MAX_TASKS)
    think_time: float = parameter(
        2.0, "mean pause between two sessions of a user", unit="s", ge=0.0, le=1e9
    )
    width: int = parameter(5, "tasks in a layer of the DAG", ge=1, le=_MAX_TASKS)
    parents: int = parameter(
        2, "maximum number of parents of a task, in the layer before", ge=1, le=1000
    )
    resolution: Literal["s", "ms", "exact"] = parameter(
        "ms",
        "resolution of times: whole seconds (s), whole milliseconds (ms) or not rounded (exact)",
    )

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        if self.shortest > self.longest:
            raise ValueError(f"the shortest ({self.shortest}) is longer than the longest")
        if self.count > _MAX_TASKS:
            raise ValueError(f"bursts x size is more than {_MAX_TASKS:,} tasks")
        return self

    @property
    def count(self) -> int:
        """The number of tasks.

        >>> Burn(bursts=2, size=3).count
        6
        """
        return self.bursts * self.size if self.tasks is None else self.tasks

    def generate(self, seed: int) -> Trace:
        """Generate the tasks of a seed; `usage` has the demand of kinds with idle phases.

        >>> from twinloop.workload import Workload
        >>> generated = Burn(kinds="mixed", tasks=1, shortest=10, longest=10).generate(seed=1)
        >>> Workload.from_trace(generated).tasks["work"].to_list()
        [8.0]
        """
        trace = super().generate(seed)
        if all(PHASES[kind] == PHASES["cpu"] for kind, _ in self.kinds):
            return trace
        return trace.replace(usage=_make_usage(trace.tasks))

    def _tasks(self, seed: int) -> Mapping[str, Any]:
        names = [kind for kind, _ in self.kinds]
        shares = apportion(self.count, np.array([share for _, share in self.kinds]))
        kind = np.repeat(np.arange(len(names)), shares)
        kind = kind[self._stream(seed, "kinds").permutation(self.count)]
        drawn = self._stream(seed, "lengths").uniform(self.count)
        run_time = self._round_lengths(self.shortest + (self.longest - self.shortest) * drawn)
        cores = mix.draw(self.cores, self._stream(seed, "cores"), self.count)
        submit, user = self._draw_submissions(seed, run_time)
        # Sort by submission, after all values of the tasks are drawn.
        order = np.argsort(submit, kind="stable")
        kind, run_time, cores = kind[order], run_time[order], cores[order]
        kinds = pl.Series(names).gather(kind)
        parents = {"parents": self._draw_parents(seed)} if self.shape == "dag" else {}
        return {
            "name": pl.Series([PROGRAM]).new_from_index(0, self.count),
            "user": "user" + pl.Series(user[order] + 1).cast(pl.String),
            "kind": kinds,
            "submit": submit[order],
            "requested_nodes": np.full(self.count, self.nodes),
            **self._requests(seed, run_time, cores * self.nodes),
            "command": _make_commands(kinds, run_time, cores),
            **parents,
        }

    def _draw_submissions(self, seed: int, run_time: Floats) -> tuple[Floats, Integers]:
        """Draw the submission time and the user of each task."""
        if self.shape == "sessions":
            return self._draw_sessions(seed, run_time)
        slots = np.arange(self.count)
        user = self._stream(seed, "users").integers(0, self.users - 1, self.count)
        if self.shape != "bursts":
            return np.zeros(self.count), user
        planned = (slots // self.size) * self.period + (slots % self.size) * self.interval
        submit = np.sort(self._round_down(planned), kind="stable")
        return submit, user

    def _draw_sessions(self, seed: int, run_time: Floats) -> tuple[Floats, Integers]:
        user = np.arange(self.count) % self.users
        position = np.arange(self.count) // self.users % self.size
        rounds = -(-self.count // (self.users * self.size))
        think = self._stream(seed, "think times").uniform(rounds * self.users)
        think = think.reshape(rounds, self.users)
        submit = np.empty(self.count)
        begin = self.think_time * think[0]
        for number in range(rounds):
            first = number * self.users * self.size
            rows = np.arange(first, min(first + self.users * self.size, self.count))
            submit[rows] = self._round_down(begin[user[rows]] + position[rows] * self.interval)
            end = np.zeros(self.users)
            np.maximum.at(end, user[rows], submit[rows] + run_time[rows])
            if number + 1 < rounds:
                begin = self._round_up(end + self.think_time * (0.5 + think[number + 1]))
        return submit, user

    def _draw_parents(self, seed: int) -> pl.Series:
        drawn = self._stream(seed, "parents").integers(0, self.width - 1, self.count * self.parents)
        parents = []
        for task, chosen in enumerate(drawn.reshape(self.count, self.parents)):
            layer = task // self.width
            before = (layer - 1) * self.width
            parents.append([str(before + each + 1) for each in np.unique(chosen)] if layer else [])
        return pl.Series(parents, dtype=pl.List(pl.String))


def _make_commands(kinds: pl.Series, run_time: Floats, cores: Floats) -> pl.Series:
    """Make the command of each task on each of its nodes; its number is the seed of its work."""
    each = zip(kinds, run_time, cores, strict=True)
    return pl.Series(
        [
            [
                *(PROGRAM, kind, "--seconds", np.format_float_positional(seconds, trim="-")),
                *("--threads", str(int(threads)), "--seed", str(number)),
            ]
            for number, (kind, seconds, threads) in enumerate(each, start=1)
        ],
        dtype=pl.List(pl.String),
    )


def _make_usage(tasks: pl.DataFrame) -> pl.DataFrame:
    """Make the usage of the tasks by phase, from their submission on, without contention."""
    phases = pl.DataFrame(
        [(kind, share, level) for kind, parts in PHASES.items() for share, level in parts],
        schema=["kind", "share", "level"],
        orient="row",
    )
    length = pl.col("share") * pl.col("run_time")
    return tasks.join(phases, on="kind", how="left", maintain_order="left_right").select(
        pl.col("id").alias("task"),
        (pl.col("submit") + length.cum_sum().over("id")).alias("t"),
        length.alias("dt"),
        (length * pl.col("level") * pl.col("requested_cores")).alias("cpu"),
    )
