"""One run in execution and simulation: the events and decisions of the policy in both.

All times are whole nanoseconds, so that sums are exact and simultaneous events are simultaneous in
the simulator, too.
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
#: A rate so low that tasks never compete; a power of two, so that products are exact.
SLOW = 2.0**-10


def ns(seconds: float) -> int:
    return round(seconds * SECOND)


class TaskHistory(NamedTuple):
    """The times of a task in a recorded run: by the policy and by its processes."""

    task: str
    nodes: tuple[str, ...]
    #: Time of the first decision after it had become ready.
    offered: int
    decided: int
    #: Start of its first process.
    start: int
    #: End of its last process.
    end: int
    #: Time of the first decision after its end; None: there was none.
    seen: int | None
    #: Whether it waits for other tasks, so that its readiness is the end of one of these.
    waits: bool


class Chosen(NamedTuple):
    """Nodes and times of a task in the simulator."""

    nodes: tuple[str, ...]
    start: int
    end: int


def chosen(trace: Trace) -> dict[str, Chosen]:
    """Return the nodes and times of each task; the times of the trace are nanoseconds."""
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
    def histories(self) -> dict[str, TaskHistory]:
        """The tasks, in the order in which they became ready."""
        offered: dict[str, int] = {}
        seen: dict[str, int] = {}
        decided: dict[str, int] = {}
        nodes: dict[str, list[str]] = {}
        pending: list[tuple[dict[str, int], str]] = []
        order = []
        columns = ("t", "kind", "subject", "target")
        for t, kind, task, node in self.trace.decisions.select(columns).iter_rows():
            if kind == "ready":
                order.append(task)
                pending.append((offered, task))
            elif kind == "over":
                pending.append((seen, task))
            elif kind == "ask":
                for where, each in pending:
                    where[each] = ns(t)
                pending.clear()
            elif kind == "place":
                decided[task] = ns(t)
                nodes.setdefault(task, []).append(node)
        tasks = self.trace.tasks
        waits = dict(zip(tasks["id"], tasks["parents"].list.len().fill_null(0) > 0, strict=True))
        ran = self.trace.placements.group_by("task").agg(pl.min("start"), pl.max("end"))
        times = {task: (ns(start), ns(end)) for task, start, end in ran.iter_rows()}
        return {
            task: TaskHistory(
                task, tuple(sorted(nodes[task])), offered[task], decided[task], *times[task],
                seen.get(task), waits[task],
            )
            for task in order
        }  # fmt: skip

    @cached_property
    def dispatches(self) -> dict[str, int]:
        """From the decision to the start."""
        return {
            history.task: history.start - history.decided for history in self.histories.values()
        }

    @cached_property
    def releases(self) -> dict[str, int]:
        """From the end to the moment at which the policy saw the cores free."""
        return {x.task: x.seen - x.end for x in self.histories.values() if x.seen is not None}

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
        """The maximum time between an end and the start that it allowed."""
        return max(self.dispatches.values()) + max(self.releases.values())

    @cached_property
    def moments(self) -> dict[int, list[TaskHistory]]:
        """The tasks that each decision with placements placed."""
        found: dict[int, list[TaskHistory]] = {}
        for history in sorted(self.histories.values(), key=lambda history: history.decided):
            found.setdefault(history.decided, []).append(history)
        return found

    # --- the simulator with recorded events ------------------------------------------------------

    def until(self, moment: float = math.inf) -> Scenario:
        """Return the scenario in which all events of the policy before a time are as recorded.

        A task whose end was observed occupies its nodes from the decision to the observation of
        its end: it has its own latencies. All others have the latencies of the model and their
        run times. Tasks that were ready before, and tasks without parents, are submitted at their
        recorded time; the others become ready after their parents.

        The simulator has no other latency: tasks start at the time of their decision.
        """
        tasks = self.trace.tasks
        known = {row["id"]: row for row in tasks.iter_rows(named=True)}
        rows = []
        for history in self.histories.values():
            row, free = known[history.task], history.offered < moment or not history.waits
            held = self.dispatch + (history.end - history.start) + self.release
            if history.seen is not None and history.seen < moment:
                held = history.seen - history.decided
            cores, asked = row["requested_cores"], row["requested_time"]
            rows.append(
                {
                    "id": history.task,
                    "submit": float(history.offered if free else ns(row["submit"])),
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
        """Return whether no latency can change the state that the policy observed at a time.

        That holds unless an end that was observed then, or at most one latency later, is within the
        latency of another end or of a readiness.
        """
        ends = {history.task: history.end for history in self.histories.values()}
        readiness = [history.offered for history in self.histories.values() if not history.waits]
        return not any(
            abs(history.end - other) <= self.latency
            for history in self.histories.values()
            if history.decided < moment <= (math.inf if history.seen is None else history.seen)
            and history.end <= moment + self.latency
            for other in (*readiness, *(end for task, end in ends.items() if task != history.task))
        )

    def before(self, history: TaskHistory) -> TaskHistory | None:
        """Return the last task that ended on the nodes of a task before its placement."""
        there = [
            other
            for other in self.histories.values()
            if other.end <= history.decided and set(other.nodes) & set(history.nodes)
        ]
        return max(there, key=lambda other: other.end, default=None)

    # --- the replay with its own decisions -------------------------------------------------------

    def replay(self) -> Trace:
        """The simulator with the recorded service times and the latencies of the model, in seconds.

        With overcommitted nodes, the used CPU time is the input, and the simulator computes the
        sharing itself: only the service times are given then.
        """
        if "overcommit" not in self.scenario.policy.options:
            return tl.simulate(tl.replay_scenario(self.trace))
        served = tl.replay_scenario(self.trace.replace(usage=self.trace.usage.clear()))
        return tl.simulate(served.replace(model=served.model.replace(sharing="no-delay")))

    def gaps(
        self, ran: dict[str, Chosen], ready: dict[str, int], unseen: dict[str, int]
    ) -> dict[str, int]:
        """Return the time from free nodes and readiness to the start of each task.

        It begins at the latest end on one of its nodes, or at its readiness if that is later. Ends
        within `unseen` before its start came too late to be observed by the policy.
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

    def count_equal_tasks(self, twin: dict[str, Chosen], ready: dict[str, int]) -> int:
        """Compare the run and its replay until they diverge; return the number of equal tasks.

        A latency or a service time that differs from the recorded one moves all later events in the
        replay. `off` is the resulting maximum error of the end of each task, as observed by the
        policy. The error of a start is at most that of the end or readiness that caused it, and the
        nodes must be equal. The comparison ends at the first task for which that does not hold. The
        only valid cause is a changed order of two ends, or of an end and a readiness, whose
        distance is within their errors.
        """
        off: dict[tuple[str, str], int] = {}
        for history in self.histories.values():
            if not history.waits:
                off["ready", history.task] = abs(history.offered - ready[history.task])
        observed = {("ready", history.task): history.offered for history in self.histories.values()}
        observed |= {("end", x.task): x.seen for x in self.histories.values() if x.seen is not None}
        done = 0
        for moment, placed in self.moments.items():
            near = max(
                (off.get(each, 0) for each in observed if observed[each] == moment), default=0
            )
            near = max(
                (
                    off[each] for each in off
                    if each in observed and abs(observed[each] - moment) <= off[each] + near
                ),
                default=0,
            )  # fmt: skip
            for history in placed:
                one, task = twin[history.task], history.task
                late = abs(self.dispatches[task] - self.dispatch)
                if (
                    one.nodes != history.nodes
                    or abs(one.start - history.start) > near + late + 1000
                ):
                    assert self._is_reordered(moment, observed, off, twin, ready), (
                        history,
                        one,
                        near,
                    )
                    return done
                longer = abs((one.end - one.start) - (history.end - history.start))
                own = self.releases.get(task, self.release)
                off["end", task] = near + late + longer + abs(own - self.release)
                done += 1
        return done

    def _is_reordered(
        self,
        moment: int,
        observed: dict[tuple[str, str], int],
        off: dict[tuple[str, str], int],
        twin: dict[str, Chosen],
        ready: dict[str, int],
    ) -> bool:
        """Return whether the policy observed two events in another, possible order."""

        def time_in_replay(each: tuple[str, str]) -> int:
            kind, task = each
            return ready[task] if kind == "ready" else twin[task].end + self.release

        return any(
            (observed[a] < observed[b]) != (time_in_replay(a) < time_in_replay(b))
            and abs(observed[a] - observed[b]) <= off[a] + off[b]
            and min(observed[a], observed[b]) <= moment
            for a, b in itertools.permutations(observed.keys() & off.keys(), 2)
        )


def in_seconds(trace: Trace) -> dict[str, Chosen]:
    """Return the nodes and times of each task, for a trace with times in seconds."""
    times = (pl.col(name) * SECOND for name in ("start", "end"))
    return chosen(trace.replace(placements=trace.placements.with_columns(times)))
