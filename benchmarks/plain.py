"""Hand-written FCFS and EASY on one pool of nodes, without a simulator.

Plain Python on lists, with a heap of ends and nothing else: no hosts, no users, no record of what
happened but the starts. They are tuned as far as they stay short, and the simulator must have the
same results.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Sequence
from heapq import heapify, heappop, heappush


def fcfs(
    submit: Sequence[float], nodes: Sequence[int], run: Sequence[float], total: int
) -> list[float]:
    """Compute the start of each job; jobs in order of submission, `nodes` at most `total`.

    A heap of what happens next, and a count of free nodes.

    >>> fcfs([0, 1, 2], [2, 3, 1], [10, 5, 1], total=4)
    [0, 10, 10]
    """
    ended, submitted = 0, 1
    events = [(at, submitted, job) for job, at in enumerate(submit)]
    heapify(events)
    queue: deque[int] = deque()
    starts: list[float] = [0.0] * len(submit)
    free = total
    while events:
        now, kind, job = heappop(events)
        if kind == ended:
            free += nodes[job]
        else:
            queue.append(job)
        while queue and nodes[queue[0]] <= free:
            first = queue.popleft()
            free -= nodes[first]
            starts[first] = now
            heappush(events, (now + run[first], ended, first))
    return starts


def fcfs_in_one_pass(
    submit: Sequence[float], nodes: Sequence[int], run: Sequence[float], total: int
) -> list[float]:
    """Compute the starts in one pass, which is possible only for FCFS without a record.

    A job starts when all before it have started and enough nodes are free: the ends alone go
    through the heap, and no job waits in a queue.

    >>> fcfs_in_one_pass([0, 1, 2], [2, 3, 1], [10, 5, 1], total=4)
    [0.0, 10.0, 10.0]
    """
    starts: list[float] = []
    ends: list[tuple[float, int]] = []
    free = total
    now = 0.0
    for at, wanted, length in zip(submit, nodes, run, strict=True):
        if at > now:
            now = at
        while ends and (free < wanted or ends[0][0] <= now):
            end, given = heappop(ends)
            free += given
            if end > now:
                now = end
        free -= wanted
        starts.append(now)
        heappush(ends, (now + length, wanted))
    return starts


def easy(
    submit: Sequence[float],
    nodes: Sequence[int],
    run: Sequence[float],
    requested: Sequence[float],
    total: int,
) -> list[float]:
    """Compute the start of each job under EASY backfilling; jobs in order of submission.

    The first in the queue has a reservation; another one may pass it if it ends before that, or
    takes only nodes that the first leaves over. Planned is the longer of requested and run time.

    >>> easy([0, 1, 2, 2], [3, 4, 1, 1], [10, 5, 8, 9], [10, 5, 8, 9], total=4)
    [0, 10, 2, 15]
    """
    count = len(submit)
    starts = [0.0] * count
    queue: deque[int] = deque()
    ends: list[tuple[float, int]] = []
    planned_ends: list[tuple[float, int]] = []
    free, next_job = total, 0

    def start(job: int, now: float) -> None:
        nonlocal free
        starts[job] = now
        free -= nodes[job]
        heappush(ends, (now + run[job], job))
        insort(planned_ends, (now + max(requested[job], run[job]), job))

    while next_job < count or ends:
        now = ends[0][0] if ends else submit[next_job]
        if next_job < count and submit[next_job] < now:
            now = submit[next_job]
        while ends and ends[0][0] == now:
            _, job = heappop(ends)
            free += nodes[job]
            planned_ends.remove((starts[job] + max(requested[job], run[job]), job))
        while next_job < count and submit[next_job] == now:
            queue.append(next_job)
            next_job += 1
        while queue and nodes[queue[0]] <= free:
            start(queue.popleft(), now)
        if len(queue) < 2 or not free:
            continue
        wanted = nodes[queue[0]]
        spare, shadow = free, now
        for end, job in planned_ends:
            if spare >= wanted and end > shadow:
                break
            spare += nodes[job]
            shadow = end
        spare -= wanted
        passing = []
        for job in queue:
            needed = nodes[job]
            # The first in the queue does not fit, so this skips it too.
            if needed > free:
                continue
            if now + max(requested[job], run[job]) > shadow:
                if needed > spare:
                    continue
                spare -= needed
            passing.append(job)
            start(job, now)
            if not free:
                break
        if passing:
            gone = set(passing)
            queue = deque(job for job in queue if job not in gone)
    return starts
