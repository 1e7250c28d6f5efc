"""One run in execution and simulation: the events and decisions of the policy in both.

All times here are whole nanoseconds, so that sums of them are exact and what happened at one
moment happens at one moment in the simulator too.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import polars as pl

import twinloop as tl
from twinloop.scenario import Scenario
from twinloop.scenario.replay import with_measured_latencies
from twinloop.trace import Trace

SECOND = 1_000_000_000
#: Rates so low that nobody is ever in the way of anybody, and a power of two, to be exact.
SLOW = 2.0**-10


def ns(seconds: float) -> int:
    return round(seconds * SECOND)


class Life(NamedTuple):
    """A task of a recorded run, as the policy knew it and as it was."""

    task: str
    nodes: tuple[str, ...]
    #: When the policy was first asked after it had become ready.
    offered: int
    decided: int
    #: Of its first process.
    start: int
    #: Of its last process.
    end: int
    #: When the policy was first asked after it had ended; None: it was not asked any more.
    seen: int | None
    #: Whether it waits for other tasks, so that its readiness is the end of one of these.
    waits: bool


class Chosen(NamedTuple):
    """What the simulator did with a task."""

    nodes: tuple[str, ...]
    start: int
    end: int


def chosen(trace: Trace) -> dict[str, Chosen]:
    """Where and when each task ran; times as they stand, which are nanoseconds here."""
    return {
        task: Chosen(tuple(sorted(nodes)), int(start), int(end))
        for task, nodes, start, end in trace.placements.group_by("task")
        .agg("machine", pl.min("start"), pl.max("end"))
        .iter_rows()
    }


@dataclass(frozen=True)
class Recorded:
    """A real run of a scenario."""

    scenario: Scenario
    trace: Trace

    @cached_property
    def lives(self) -> dict[str, Life]:
        """The tasks, in the order in which they became ready."""
        offered: dict[str, int] = {}
        seen: dict[str, int] = {}
        decided: dict[str, int] = {}
        nodes: dict[str, list[str]] = {}
        told: list[tuple[dict[str, int], str]] = []
        order = []
        columns = ("t", "kind", "subject", "target")
        for t, kind, task, node in self.trace.decisions.select(columns).iter_rows():
            if kind == "ready":
                order.append(task)
                told.append((offered, task))
            elif kind == "over":
                told.append((seen, task))
            elif kind == "ask":
                for where, each in told:
                    where[each] = ns(t)
                told.clear()
            elif kind == "place":
                decided[task] = ns(t)
                nodes.setdefault(task, []).append(node)
        tasks = self.trace.tasks
        waits = dict(zip(tasks["id"], tasks["parents"].list.len().fill_null(0) > 0, strict=True))
        ran = self.trace.placements.group_by("task").agg(pl.min("start"), pl.max("end"))
        times = {task: (ns(start), ns(end)) for task, start, end in ran.iter_rows()}
        return {
            task: Life(
                task, tuple(sorted(nodes[task])), offered[task], decided[task], *times[task],
                seen.get(task), waits[task],
            )
            for task in order
        }  # fmt: skip

    @cached_property
    def dispatches(self) -> dict[str, int]:
        """From the decision to the start."""
        return {life.task: life.start - life.decided for life in self.lives.values()}

    @cached_property
    def releases(self) -> dict[str, int]:
        """From the end to the moment at which the policy saw the cores free."""
        return {x.task: x.seen - x.end for x in self.lives.values() if x.seen is not None}

    @cached_property
    def model(self) -> tl.Model:
        """With the latencies of a replay: one for all tasks, from the measured latencies."""
        return with_measured_latencies(self.trace)

    @cached_property
    def dispatch(self) -> int:
        return ns(self.model.dispatch_latency)

    @cached_property
    def release(self) -> int:
        return ns(self.model.release_latency)

    @cached_property
    def latency(self) -> int:
        """The most that lay between an end and the start that it led to, or could have."""
        return max(self.dispatches.values()) + max(self.releases.values())

    @cached_property
    def moments(self) -> dict[int, list[Life]]:
        """The tasks that were placed each time the policy was asked and placed any."""
        found: dict[int, list[Life]] = {}
        for life in sorted(self.lives.values(), key=lambda life: life.decided):
            found.setdefault(life.decided, []).append(life)
        return found

    # --- the simulator, set on the recorded path -------------------------------------------------

    def until(self, moment: float = math.inf) -> Scenario:
        """The scenario in which all that the policy had seen before that moment is as recorded.

        A task whose end it had seen holds its nodes from the decision to the moment at which its
        end was seen: it has latencies of its own. All others take the latencies of the model and
        the time that they took. Who had been offered before is offered when he was, and so are all
        who wait for no other task; the rest become ready by themselves.

        The simulator gets no latency beside: where tasks are `decided` is where they start.
        """
        tasks = self.trace.tasks
        known = {row["id"]: row for row in tasks.iter_rows(named=True)}
        rows = []
        for life in self.lives.values():
            row, free = known[life.task], life.offered < moment or not life.waits
            held = self.dispatch + (life.end - life.start) + self.release
            if life.seen is not None and life.seen < moment:
                held = life.seen - life.decided
            cores, asked = row["requested_cores"], row["requested_time"]
            rows.append(
                {
                    "id": life.task,
                    "submit": float(life.offered if free else ns(row["submit"])),
                    "cores": cores,
                    "nodes": row["requested_nodes"],
                    "work": held * cores * SLOW,
                    "limit": cores * SLOW,
                    "requested_time": None if asked is None else asked * SECOND,
                    "parents": [] if free else row["parents"],
                }
            )
        kinds = {"nodes": pl.Int64, "requested_time": pl.Float64, "parents": pl.List(pl.String)}
        workload = tl.Workload(tasks=pl.DataFrame(rows, schema_overrides=kinds))
        return self.scenario.replace(
            workload=workload, source="rigid", model=tl.Model(), time_scale=1.0
        )

    def settled(self, moment: int) -> bool:
        """Whether no latency can change what the policy saw at that moment.

        That is so unless an end that it saw then, or that came no later than a latency after that,
        lies within the latency of another end or of a readiness.
        """
        ends = {life.task: life.end for life in self.lives.values()}
        readiness = [life.offered for life in self.lives.values() if not life.waits]
        return not any(
            abs(life.end - other) <= self.latency
            for life in self.lives.values()
            if life.decided < moment <= (math.inf if life.seen is None else life.seen)
            and life.end <= moment + self.latency
            for other in (*readiness, *(end for task, end in ends.items() if task != life.task))
        )

    def before(self, life: Life) -> Life | None:
        """What ended last on the nodes of a task before it was placed."""
        there = [
            other
            for other in self.lives.values()
            if other.end <= life.decided and set(other.nodes) & set(life.nodes)
        ]
        return max(there, key=lambda other: other.end, default=None)

    # --- the replay, which goes its own way ------------------------------------------------------

    def replay(self) -> Trace:
        """The simulator with the recorded service times and the latencies of the model, in seconds.

        Where nodes are given away twice, what tasks used says what they got, and the simulator
        works out anew how they share: only the service times go in then, and they hold.
        """
        if "overcommit" not in self.scenario.policy.options:
            return tl.simulate(tl.replay_scenario(self.trace))
        served = tl.replay_scenario(self.trace.replace(usage=self.trace.usage.clear()))
        return tl.simulate(served.replace(model=served.model.replace(sharing="no-delay")))

    def gaps(
        self, ran: dict[str, Chosen], ready: dict[str, int], unseen: dict[str, int]
    ) -> dict[str, int]:
        """How long each task still took to start when its nodes had become free and it was ready.

        From the latest end on one of its nodes, or from its readiness if that came later. Ends that
        are no longer before its start than `unseen` came too late for the policy to see.
        """
        found = {}
        for task, one in ran.items():
            ends = (
                other.end
                for name, other in ran.items()
                if name != task and set(other.nodes) & set(one.nodes)
            )
            latest = max((end for end in ends if end <= one.start - unseen[task]), default=0)
            found[task] = one.start - max(latest, ready[task])
        return found

    def followed(self, twin: dict[str, Chosen], ready: dict[str, int]) -> int:
        """Go along the run and its replay together, until they part; how many tasks that are.

        Every latency that is not the model's moves what follows in the replay, and so does a
        service time that is not quite the recorded one. `off` is the most by which the end of each
        task, as the policy sees it, may be off for that. A start may be no further off than the end
        or the readiness that led to it, and the nodes must be the same. From the first task on for
        which that is not so, the two are not compared: but it may be so only because two ends, or
        an end and a readiness, came in another order, and no farther from each other than both may
        be off.
        """
        off: dict[tuple[str, str], int] = {}
        for life in self.lives.values():
            if not life.waits:
                off["ready", life.task] = abs(life.offered - ready[life.task])
        told = {("ready", life.task): life.offered for life in self.lives.values()}
        told |= {("end", x.task): x.seen for x in self.lives.values() if x.seen is not None}
        done = 0
        for moment, placed in self.moments.items():
            near = max((off.get(each, 0) for each in told if told[each] == moment), default=0)
            near = max(
                (
                    off[each] for each in off
                    if each in told and abs(told[each] - moment) <= off[each] + near
                ),
                default=0,
            )  # fmt: skip
            for life in placed:
                one, task = twin[life.task], life.task
                late = abs(self.dispatches[task] - self.dispatch)
                if one.nodes != life.nodes or abs(one.start - life.start) > near + late + 1000:
                    assert self._swapped(moment, told, off, twin, ready), (life, one, near)
                    return done
                longer = abs((one.end - one.start) - (life.end - life.start))
                own = self.releases.get(task, self.release)
                off["end", task] = near + late + longer + abs(own - self.release)
                done += 1
        return done

    def _swapped(
        self,
        moment: int,
        told: dict[tuple[str, str], int],
        off: dict[tuple[str, str], int],
        twin: dict[str, Chosen],
        ready: dict[str, int],
    ) -> bool:
        """Whether the policy saw two events in another order that was possible."""

        def there(each: tuple[str, str]) -> int:
            kind, task = each
            return ready[task] if kind == "ready" else twin[task].end + self.release

        return any(
            (told[a] < told[b]) != (there(a) < there(b))
            and abs(told[a] - told[b]) <= off[a] + off[b]
            and min(told[a], told[b]) <= moment
            for a, b in itertools.permutations(told.keys() & off.keys(), 2)
        )


def in_seconds(trace: Trace) -> dict[str, Chosen]:
    """Where and when each task ran, of a trace whose times are seconds."""
    times = (pl.col(name) * SECOND for name in ("start", "end"))
    return chosen(trace.replace(placements=trace.placements.with_columns(times)))
