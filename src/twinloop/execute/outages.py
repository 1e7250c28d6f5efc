"""When nodes go and come, as failures and maintenance of a scenario say."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from typing import NamedTuple

from twinloop.engine import Compiled


class Outage(NamedTuple):
    """A node goes, or comes back."""

    t: float
    machine: int
    #: What it is from then on; None: it is there again.
    state: str | None

    @property
    def returns(self) -> bool:
        """Whether the node comes back."""
        return self.state is None


class Outages:
    """The outages of a run, in the order in which they come.

    >>> from twinloop.scenario import Scenario
    >>> given = Scenario.from_text('''
    ... platform: {clusters: [{hosts: [{cores: 1}]}], maintenance: [{start: 5, end: 8}]}
    ... workload: {tasks: [{id: a, run_time: 1}]}
    ... policy: fcfs
    ... ''')
    >>> outages = Outages(Compiled(given))
    >>> outages.due, [(outage.t, outage.state) for outage in outages.until(9.0)], outages.due
    (5.0, [(5.0, 'maintenance'), (8.0, None)], inf)
    """

    def __init__(self, compiled: Compiled) -> None:
        self._compiled = compiled
        self._left = self._from(-math.inf)

    @property
    def due(self) -> float:
        """When there is something to do next (s); infinite: never."""
        return min(self._left[0].t if self._left else math.inf, self._compiled.horizon)

    @property
    def next_return(self) -> float:
        """When a node comes back next (s); infinite: none is away, or none comes back."""
        return min((outage.t for outage in self._left if outage.returns), default=math.inf)

    def until(self, now: float) -> Iterator[Outage]:
        """Those that have come."""
        # Failures that are drawn at random are drawn for a while; if the run goes on, for longer.
        if (known := self._compiled.horizon) <= now:
            self._compiled.extend_failures(now)
            self._left += self._from(known)
            heapq.heapify(self._left)
        while self._left and self._left[0].t <= now:
            yield heapq.heappop(self._left)

    def _from(self, time: float) -> list[Outage]:
        """The outages of periods that begin at this time or later, as a heap."""
        place = {name: number for number, name in enumerate(self._compiled.names.machines)}
        found = []
        for node, start, end, state in self._compiled.downs.iter_rows():
            if start >= time:
                found.append(Outage(start, place[node], state))
                if end is not None:
                    found.append(Outage(end, place[node], None))
        heapq.heapify(found)
        return found
