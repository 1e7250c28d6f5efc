"""The session graph of each user: which sessions wait for which, and for how long.

A session depends on every earlier one that had finished when it started (Definition 5 of Madon,
Da Costa and Pierson, "Replay with feedback", FGCS 155, 2024); the pause between the two is the
think time (Definition 6). Of this relation the graph keeps the transitive reduction. A session
that depends on no other hangs on a fictive root, with its recorded start as its think time. In a
replay a session starts at the latest of its predecessors' finish + think time.

"Earlier" is in the order of submission, then of the log: two sessions at the same instant that
took no time at all would otherwise wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from twinloop.description.cleaning import Cleaning
from twinloop.description.errors import InputError
from twinloop.trace.trace import Trace, format_count
from twinloop.workload import session_export
from twinloop.workload.fragments import Floats, Rows
from twinloop.workload.sessions import Delimitation, SessionPartition, find_sessions
from twinloop.workload.workload import Workload


class SessionGraphs:
    """The session graphs of all users of a log, as arrays.

    Session s depends on `predecessors[offsets[s]:offsets[s + 1]]`, with `think_times` beside them;
    one that has none starts `partition.start[s]` after the root.

    >>> log = Trace(tasks=pl.DataFrame({
    ...     "id": ["1", "2", "3"], "user": ["ann"] * 3, "submit": [0.0, 10.0, 100.0],
    ...     "requested_cores": [1.0] * 3, "run_time": [30.0, 40.0, 5.0]}))
    >>> graphs = SessionGraphs.from_log(log, threshold=0)
    >>> graphs
    <SessionGraphs of 1 user: 3 sessions, 2 edges>
    >>> graphs["ann"].edges.rows()
    [(None, 0, 0.0), (None, 1, 10.0), (0, 2, 70.0), (1, 2, 50.0)]
    >>> graphs["ann"].longest_path(), graphs["ann"].arity()
    (2, 1)
    """

    def __init__(self, partition: SessionPartition) -> None:
        #: The sessions, user by user.
        self.partition = partition
        self.offsets, self.predecessors = _reduction(partition)
        after = np.repeat(np.arange(len(partition)), np.diff(self.offsets))
        #: Seconds between the finish of the predecessor and the start of the session.
        self.think_times: Floats = partition.start[after] - partition.finish[self.predecessors]

    @classmethod
    def from_log(
        cls, log: Trace | Workload, *, by: Delimitation = "arrival", threshold: float = 3600.0
    ) -> SessionGraphs:
        """The graphs of a log whose sessions are found as `find_sessions` says."""
        return cls(find_sessions(log, by=by, threshold=threshold))

    @property
    def users(self) -> tuple[str, ...]:
        """The users, in the order in which they appear in the log."""
        return self.partition.users

    @property
    def cleaned(self) -> tuple[Cleaning, ...]:
        """What was assumed about jobs whose record is not complete."""
        return self.partition.cleaned

    @cached_property
    def successors(self) -> tuple[Rows, Rows]:
        """Offsets and sessions that depend on each session, as for `predecessors`."""
        counts = np.bincount(self.predecessors, minlength=len(self.partition))
        after = np.repeat(np.arange(len(self.partition)), np.diff(self.offsets))
        order = np.argsort(self.predecessors, kind="stable")
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), after[order]

    @cached_property
    def depths(self) -> Rows:
        """Sessions on the longest path from the root to each session, which counts itself."""
        before = self.predecessors.tolist()
        bounds = self.offsets.tolist()
        depth: list[int] = []
        for first, end in pairwise(bounds):
            depth.append(1 + max([depth[s] for s in before[first:end]], default=0))
        return np.array(depth, dtype=np.int64)

    def statistics(self) -> pl.DataFrame:
        """A row per user: jobs, sessions, edges without the root's, longest path and arity."""
        users = self.partition.user_offsets
        first, out = users[:-1], np.diff(self.successors[0])
        per_user = np.zeros(0, dtype=np.int64)
        return pl.DataFrame(
            {
                "user": pl.Series(self.users, dtype=pl.String),
                "jobs": np.diff(self.partition.offsets[users]),
                "sessions": np.diff(users),
                "edges": np.diff(self.offsets[users]),
                "longest_path": np.maximum.reduceat(self.depths, first) if len(first) else per_user,
                "arity": np.maximum.reduceat(out, first) if len(first) else per_user,
            }
        )

    def __getitem__(self, user: str) -> SessionGraph:
        try:
            place = self._places[user]
        except KeyError:
            raise InputError(
                f"no user is called {user!r}", remedy=f"one of {len(self.users)} in `users`"
            ) from None
        return SessionGraph(self, place)

    def __iter__(self) -> Iterator[SessionGraph]:
        return (SessionGraph(self, place) for place in range(len(self.users)))

    def __len__(self) -> int:
        return len(self.users)

    def __repr__(self) -> str:
        users, sessions = (
            format_count(len(self.users), "user"),
            format_count(len(self.partition), "session"),
        )
        return f"<SessionGraphs of {users}: {sessions}, {format_count(len(self.predecessors), 'edge')}>"

    @cached_property
    def _places(self) -> dict[str, int]:
        return {user: place for place, user in enumerate(self.users)}


class SessionGraph:
    """The session graph of one user; its sessions are numbered from 0 in order of submission."""

    def __init__(self, graphs: SessionGraphs, place: int) -> None:
        self._graphs = graphs
        self.user = graphs.users[place]
        first, end = graphs.partition.user_offsets[place : place + 2]
        self._first, self._end = int(first), int(end)

    @property
    def sessions(self) -> pl.DataFrame:
        """A row per session: start, finish, its jobs, and when after the start each is submitted.

        >>> log = Trace(tasks=pl.DataFrame({
        ...     "id": ["1", "2"], "user": ["ann", "ann"], "submit": [5.0, 15.0],
        ...     "requested_cores": [1.0, 1.0], "run_time": [30.0, 40.0]}))
        >>> SessionGraphs.from_log(log)["ann"].sessions.rows()
        [(0, 5.0, 55.0, ['1', '2'], [0.0, 10.0])]
        """
        found, span = self._graphs.partition, slice(self._first, self._end)
        bounds = found.offsets[self._first : self._end + 1]
        jobs = slice(int(bounds[0]), int(bounds[-1]))
        counts = np.diff(bounds)
        each = pl.DataFrame(
            {
                "session": np.repeat(np.arange(len(counts)), counts),
                "jobs": found.ids[jobs],
                "submits": found.submit[jobs] - np.repeat(found.start[span], counts),
            }
        )
        lists = each.group_by("session", maintain_order=True).agg("jobs", "submits")
        return pl.DataFrame(
            {
                "session": lists["session"],
                "start": found.start[span],
                "finish": found.finish[span],
                "jobs": lists["jobs"],
                "submits": lists["submits"],
            }
        )

    @property
    def edges(self) -> pl.DataFrame:
        """A row per edge: before (null: the root), after, think time."""
        graphs, count = self._graphs, self._end - self._first
        bounds = graphs.offsets[self._first : self._end + 1]
        span, waits = slice(int(bounds[0]), int(bounds[-1])), np.diff(bounds)
        inner = pl.DataFrame(
            {
                "before": graphs.predecessors[span] - self._first,
                "after": np.repeat(np.arange(count), waits),
                "think_time": graphs.think_times[span],
            }
        )
        roots = np.flatnonzero(waits == 0)
        start = graphs.partition.start[self._first : self._end]
        outer = pl.DataFrame(
            {
                "before": pl.Series([None] * len(roots), dtype=pl.Int64),
                "after": roots,
                "think_time": start[roots],
            }
        )
        return pl.concat([outer, inner]).sort("after", "before", nulls_last=False)

    def longest_path(self) -> int:
        """How many sessions there are on the longest path; the root is not counted."""
        return int(self._graphs.depths[self._first : self._end].max())

    def arity(self) -> int:
        """How many sessions at most depend directly on one; the root is not counted."""
        offsets = self._graphs.successors[0][self._first : self._end + 1]
        return int(np.diff(offsets).max())

    def to_dict(self) -> dict[str, Any]:
        """As plain values: the user, its sessions and its edges."""
        return session_export.graph_to_dict(self.user, self.sessions, self.edges)

    def to_json(self, path: str | Path) -> None:
        """Write the graph as JSON."""
        session_export.write_json(self.to_dict(), Path(path))

    def to_graphml(self, path: str | Path) -> None:
        """Write the graph as GraphML, which Gephi, yEd, igraph and NetworkX read."""
        session_export.write_graphml(self.to_dict(), Path(path))

    def to_svg(self) -> str:
        """A picture: time to the right, a bar per session, a line per edge."""
        return session_export.graph_to_svg(self.to_dict())

    def __repr__(self) -> str:
        return f"<SessionGraph of user {self.user}: {format_count(self._end - self._first, 'session')}>"


def _reduction(found: SessionPartition) -> tuple[Rows, Rows]:
    """Offsets and direct predecessors of every session.

    Let f be finishes and s starts, sessions be numbered by user and start, and P(j) be the i < j
    of the same user with f(i) <= s(j). Let x be the last of P(j), which has its latest start. An
    i in P(j) is not direct if f(i) <= s(y) for a y in P(j) with i < y; if there is such a y, x is
    one. So the direct ones are x and the i in P(j) with f(i) > s(x). With sessions in the order
    of (f, number), P(j) are all those of the user before (s(j), j), and the direct ones its end.
    """
    count = len(found)
    if not count:
        return np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int64)
    number = np.arange(count)
    user = np.repeat(np.arange(len(found.users)), np.diff(found.user_offsets))
    # One sort of three marks per session: its finish, its start as a bound for f(i) <= s(j) with
    # i < j, and its start as a bound for f(i) <= s(x) with any i.
    order = np.lexsort(
        (
            np.repeat([1, 0, 0], count),
            np.concatenate([number, number, np.full(count, count)]),
            np.concatenate([found.finish, found.start, found.start]),
            np.tile(user, 3),
        )
    )
    finished = np.cumsum(order < count)
    rank = np.empty(3 * count, dtype=np.int64)
    rank[order] = finished
    by_finish = order[order < count]
    until, past = rank[count : 2 * count], rank[2 * count :]
    some = until > found.user_offsets[user]
    # Users come one after the other, so the largest number so far is one of this user.
    x = np.where(some, np.maximum.accumulate(by_finish)[until - 1], 0)
    begin = np.where(some, np.minimum(past[x], until), until)
    # A session without length finishes with its own start, so it is not in that range itself.
    extra = some & (found.finish[x] <= found.start[x])
    widths = until - begin
    after = np.concatenate([np.repeat(number, widths), number[extra]])
    shift = np.repeat(begin - np.concatenate([[0], np.cumsum(widths)[:-1]]), widths)
    before = np.concatenate([by_finish[shift + np.arange(len(shift))], x[extra]])
    edges = np.lexsort((before, after))
    counts = np.bincount(after, minlength=count)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), before[edges]
