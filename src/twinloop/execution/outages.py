"""Outages of nodes in a real run: the failures and maintenance of its scenario."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from typing import NamedTuple

from twinloop.engine import CompiledScenario


class Outage(NamedTuple):
    """The start or the end of an outage of a node."""

    t: float
    machine: int
    #: State of the node during the outage; None if the outage ends.
    state: str | None


class Outages:
    """The outages of a run, in the order of time.

    >>> from twinloop.scenario import Scenario
    >>> given = Scenario.from_text('''
    ... platform: {clusters: [{hosts: [{cores: 1}]}], maintenance: [{start: 5, end: 8}]}
    ... workload: {tasks: [{id: a, run_time: 1}]}
    ... policy: fcfs
    ... ''')
    >>> outages = Outages(CompiledScenario(given))
    >>> outages.due, [(outage.t, outage.state) for outage in outages.pop_until(9.0)], outages.due
    (5.0, [(5.0, 'maintenance'), (8.0, None)], inf)
    """

    def __init__(self, compiled: CompiledScenario) -> None:
        self._compiled = compiled
        #: Outages that have not begun: start, machine, state, end.
        self._future: list[tuple[float, int, str, float]] = []
        #: Ends of current outages, with the machine.
        self._returns: list[tuple[float, int]] = []
        self._add(-math.inf)

    @property
    def due(self) -> float:
        """Time of the next event (s); infinite if there is none.

        The end of the known failures is such an event: more are then drawn.
        """
        begin = self._future[0][0] if self._future else math.inf
        return min(begin, self.next_return, self._compiled.horizon)

    @property
    def next_return(self) -> float:
        """Time of the next end of an outage (s); infinite if no current outage ends."""
        return self._returns[0][0] if self._returns else math.inf

    def pop_until(self, now: float) -> Iterator[Outage]:
        """Remove and yield the events up to a time."""
        # Random failures are drawn up to a horizon, which is extended as the run goes on.
        if (horizon := self._compiled.horizon) <= now:
            self._compiled.extend_failures(now)
            self._add(horizon)
        while self.due <= now:
            if self._returns and self.due == self.next_return:
                yield Outage(*heapq.heappop(self._returns), None)
                continue
            start, machine, state, end = heapq.heappop(self._future)
            if end < math.inf:
                heapq.heappush(self._returns, (end, machine))
            yield Outage(start, machine, state)

    def _add(self, time: float) -> None:
        """Add the outages that begin at this time or later."""
        machine_index = {name: number for number, name in enumerate(self._compiled.names.machines)}
        for node, start, end, state in self._compiled.outages.iter_rows():
            end_time = math.inf if end is None else end
            if start >= time:
                heapq.heappush(self._future, (start, machine_index[node], state, end_time))
