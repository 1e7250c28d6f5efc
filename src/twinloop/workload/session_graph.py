"""Session graphs: the dependencies and think times between the sessions of a user.

A session depends on every earlier session that had finished when it started (Definition 5 of
Madon, Da Costa and Pierson, "Replay with feedback", FGCS 155, 2024); the pause between the two is
the think time (Definition 6). The graph is the transitive reduction of this relation. A session
without dependencies depends on an artificial root, with its recorded start as think time. In a
replay, a session starts at the maximum of finish + think time over its predecessors.

Earlier means: in the order of submission, then of the log. Otherwise two sessions of zero length
at the same time would depend on each other.
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
from twinloop.workload.delimitation import Delimitation
from twinloop.workload.fragments import Floats, Rows
from twinloop.workload.sessions import SessionPartition, find_sessions
from twinloop.workload.workload import Workload


class SessionGraphs:
    """The session graphs of all users of a log, as arrays.

    Session s depends on `predecessors[offsets[s]:offsets[s + 1]]`, with the same slice of
    `think_times`. A session without predecessors starts `partition.start[s]` after the root.

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
        #: The sessions, sorted by user.
        self.partition = partition
        self.offsets, self.predecessors = _reduce_transitively(partition)
        after = np.repeat(np.arange(len(partition)), np.diff(self.offsets))
        #: Time from the finish of the predecessor to the start of the session (s).
        self.think_times: Floats = partition.start[after] - partition.finish[self.predecessors]

    @classmethod
    def from_log(
        cls, log: Trace | Workload, *, by: Delimitation = "arrival", threshold: float = 3600.0
    ) -> SessionGraphs:
        """Create the session graphs of a log; see `find_sessions` for the arguments."""
        return cls(find_sessions(log, by=by, threshold=threshold))

    @property
    def users(self) -> tuple[str, ...]:
        """The users, in the order of their first job in the log."""
        return self.partition.users

    @property
    def cleaned(self) -> tuple[Cleaning, ...]:
        """Notes on jobs with incomplete records."""
        return self.partition.cleaned

    @cached_property
    def successors(self) -> tuple[Rows, Rows]:
        """The offsets and indices of the successors of each session."""
        counts = np.bincount(self.predecessors, minlength=len(self.partition))
        after = np.repeat(np.arange(len(self.partition)), np.diff(self.offsets))
        order = np.argsort(self.predecessors, kind="stable")
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), after[order]

    @cached_property
    def depths(self) -> Rows:
        """The number of sessions on the longest path from the root to each session, inclusive."""
        before = self.predecessors.tolist()
        bounds = self.offsets.tolist()
        depth: list[int] = []
        for first, end in pairwise(bounds):
            depth.append(1 + max([depth[s] for s in before[first:end]], default=0))
        return np.array(depth, dtype=np.int64)

    def statistics(self) -> pl.DataFrame:
        """Return a row per user: jobs, sessions, edges (without the root), longest path, arity."""
        users = self.partition.user_offsets
        first, successor_counts = users[:-1], np.diff(self.successors[0])
        empty = np.zeros(0, dtype=np.int64)
        return pl.DataFrame(
            {
                "user": pl.Series(self.users, dtype=pl.String),
                "jobs": np.diff(self.partition.offsets[users]),
                "sessions": np.diff(users),
                "edges": np.diff(self.offsets[users]),
                "longest_path": np.maximum.reduceat(self.depths, first) if len(first) else empty,
                "arity": np.maximum.reduceat(successor_counts, first) if len(first) else empty,
            }
        )

    def __getitem__(self, user: str) -> SessionGraph:
        try:
            index = self._indices[user]
        except KeyError:
            raise InputError(
                f"unknown user {user!r}",
                kind="unknown-reference",
                remedy=f"`users` lists the {len(self.users)} users",
            ) from None
        return SessionGraph(self, index)

    def __iter__(self) -> Iterator[SessionGraph]:
        return (SessionGraph(self, index) for index in range(len(self.users)))

    def __len__(self) -> int:
        return len(self.users)

    def __repr__(self) -> str:
        users, sessions = (
            format_count(len(self.users), "user"),
            format_count(len(self.partition), "session"),
        )
        edges = format_count(len(self.predecessors), "edge")
        return f"<SessionGraphs of {users}: {sessions}, {edges}>"

    @cached_property
    def _indices(self) -> dict[str, int]:
        return {user: index for index, user in enumerate(self.users)}


class SessionGraph:
    """The session graph of one user; sessions are numbered from 0 in order of submission."""

    def __init__(self, graphs: SessionGraphs, index: int) -> None:
        self._graphs = graphs
        self.user = graphs.users[index]
        first, end = graphs.partition.user_offsets[index : index + 2]
        self._first, self._end = int(first), int(end)

    @property
    def sessions(self) -> pl.DataFrame:
        """A row per session: start, finish, jobs, and their submissions relative to the start.

        >>> log = Trace(tasks=pl.DataFrame({
        ...     "id": ["1", "2"], "user": ["ann", "ann"], "submit": [5.0, 15.0],
        ...     "requested_cores": [1.0, 1.0], "run_time": [30.0, 40.0]}))
        >>> SessionGraphs.from_log(log)["ann"].sessions.rows()
        [(0, 5.0, 55.0, ['1', '2'], [0.0, 10.0])]
        """
        partition, span = self._graphs.partition, slice(self._first, self._end)
        bounds = partition.offsets[self._first : self._end + 1]
        jobs = slice(int(bounds[0]), int(bounds[-1]))
        counts = np.diff(bounds)
        each = pl.DataFrame(
            {
                "session": np.repeat(np.arange(len(counts)), counts),
                "jobs": partition.ids[jobs],
                "submits": partition.submit[jobs] - np.repeat(partition.start[span], counts),
            }
        )
        lists = each.group_by("session", maintain_order=True).agg("jobs", "submits")
        return pl.DataFrame(
            {
                "session": lists["session"],
                "start": partition.start[span],
                "finish": partition.finish[span],
                "jobs": lists["jobs"],
                "submits": lists["submits"],
            }
        )

    @property
    def edges(self) -> pl.DataFrame:
        """A row per edge: predecessor (null: the root), successor, think time."""
        graphs, count = self._graphs, self._end - self._first
        bounds = graphs.offsets[self._first : self._end + 1]
        span, counts = slice(int(bounds[0]), int(bounds[-1])), np.diff(bounds)
        inner = pl.DataFrame(
            {
                "before": graphs.predecessors[span] - self._first,
                "after": np.repeat(np.arange(count), counts),
                "think_time": graphs.think_times[span],
            }
        )
        roots = np.flatnonzero(counts == 0)
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
        """The number of sessions on the longest path, without the root."""
        return int(self._graphs.depths[self._first : self._end].max())

    def arity(self) -> int:
        """The maximum number of direct successors of a session, without the root."""
        offsets = self._graphs.successors[0][self._first : self._end + 1]
        return int(np.diff(offsets).max())

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values: the user, the sessions and the edges."""
        return session_export.graph_to_dict(self.user, self.sessions, self.edges)

    def to_json(self, path: str | Path) -> None:
        """Write the graph as JSON."""
        session_export.write_json(self.to_dict(), Path(path))

    def to_graphml(self, path: str | Path) -> None:
        """Write the graph as GraphML, for Gephi, yEd, igraph or NetworkX."""
        session_export.write_graphml(self.to_dict(), Path(path))

    def to_svg(self) -> str:
        """Convert to SVG: a bar per session on a time axis, a line per edge."""
        return session_export.graph_to_svg(self.to_dict())

    def __repr__(self) -> str:
        sessions = format_count(self._end - self._first, "session")
        return f"<SessionGraph of user {self.user}: {sessions}>"


def _reduce_transitively(partition: SessionPartition) -> tuple[Rows, Rows]:
    """Compute the offsets and direct predecessors of every session (transitive reduction).

    Let f be finishes and s starts, sessions be numbered by user and start, and P(j) be the i < j
    of the same user with f(i) <= s(j). Let x be the last of P(j), which has its latest start. An
    i in P(j) is not direct if f(i) <= s(y) for a y in P(j) with i < y; if such a y exists, x is one
    of them. So the direct predecessors are x and the i in P(j) with f(i) > s(x). With the sessions
    of a user in the order of (f, number), P(j) is the part before (s(j), j), and the direct
    predecessors are the end of this part.
    """
    count = len(partition)
    if not count:
        return np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int64)
    number = np.arange(count)
    user = np.repeat(np.arange(len(partition.users)), np.diff(partition.user_offsets))
    # One sort of three marks per session: its finish, its start as a bound for f(i) <= s(j) with
    # i < j, and its start as a bound for f(i) <= s(x) with any i.
    order = np.lexsort(
        (
            np.repeat([1, 0, 0], count),
            np.concatenate([number, number, np.full(count, count)]),
            np.concatenate([partition.finish, partition.start, partition.start]),
            np.tile(user, 3),
        )
    )
    finished = np.cumsum(order < count)
    rank = np.empty(3 * count, dtype=np.int64)
    rank[order] = finished
    by_finish = order[order < count]
    until, past = rank[count : 2 * count], rank[2 * count :]
    has_predecessor = until > partition.user_offsets[user]
    # Sessions are sorted by user, so the largest number so far belongs to this user.
    x = np.where(has_predecessor, np.maximum.accumulate(by_finish)[until - 1], 0)
    begin = np.where(has_predecessor, np.minimum(past[x], until), until)
    # A session of zero length finishes at its own start, so it is not in that range.
    extra = has_predecessor & (partition.finish[x] <= partition.start[x])
    widths = until - begin
    after = np.concatenate([np.repeat(number, widths), number[extra]])
    shift = np.repeat(begin - np.concatenate([[0], np.cumsum(widths)[:-1]]), widths)
    before = np.concatenate([by_finish[shift + np.arange(len(shift))], x[extra]])
    edges = np.lexsort((before, after))
    counts = np.bincount(after, minlength=count)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), before[edges]
