"""Schedulers of one pool of cores by their definitions: slow, and plain enough to be seen right.

Nothing here is shared with the simulator. Whatever is needed is computed anew whenever something
happens, by a walk over all jobs. EASY and conservative backfilling are those of Mu'alem and
Feitelson, "Utilization, predictability, workloads, and user runtime estimates in scheduling the
IBM SP2 with backfilling" (IEEE TPDS 12(6), 2001); the replay with feedback is Algorithm 1 of
Madon, Da Costa and Pierson, "Replay with feedback" (FGCS 155, 2024).

All that ends in an instant ends first, then all that is submitted in it is submitted, in the order
of the log; then the scheduler decides once. What starts and ends in the same instant is a further
round of the same instant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from math import exp, log
from typing import NamedTuple


class Job(NamedTuple):
    submit: float
    cores: int
    run: float
    requested: float
    user: str = "u"
    priority: float = 0.0
    #: How long it waited in the record; only users who react to the record know it.
    wait: float = 0.0

    @property
    def planned(self) -> float:
        """How long the scheduler thinks that it runs; the truth is not known to it to be less."""
        return max(self.requested, self.run)


class View(NamedTuple):
    """What a scheduler sees: who waits, in order of arrival; who runs, and who ran, since when."""

    now: float
    jobs: list[Job]
    total: int
    waiting: list[int]
    running: dict[int, float]
    over: dict[int, float]

    @property
    def free(self) -> int:
        return self.total - sum(self.jobs[i].cores for i in self.running)

    def planned_end(self, i: int) -> float:
        return self.running[i] + self.jobs[i].planned

    def with_started(self, i: int) -> View:
        waiting = [k for k in self.waiting if k != i]
        return self._replace(waiting=waiting, running={**self.running, i: self.now})


class Rigid:
    """Every job is submitted when it was."""

    def __init__(self, jobs: list[Job]) -> None:
        self.left = {i: job.submit for i, job in enumerate(jobs)}

    def finished(self, jobs: list[int], now: float) -> None:
        pass

    def next_time(self) -> float | None:
        return min(self.left.values(), default=None)

    def submitted(self, now: float) -> list[int]:
        due = [i for i, at in self.left.items() if at == now]
        for i in due:
            del self.left[i]
        return due


class Arrival:
    """First come, first served."""

    def sorted(self, view: View) -> list[int]:
        return view.waiting


class By:
    """The least by the key is first; of equals the one that arrived first, as sorting is stable."""

    def __init__(self, key: Callable[[Job, float], float]) -> None:
        self.key = key

    def sorted(self, view: View) -> list[int]:
        return sorted(view.waiting, key=lambda i: self.key(view.jobs[i], view.now))


class LeastUsed:
    """The user with the least decayed core-seconds is first; of equals, who arrived first."""

    def __init__(self, half_life: float) -> None:
        self.rate = log(2) / half_life
        #: Whether two users were so close that rounding decides between them.
        self.close = False

    def sorted(self, view: View) -> list[int]:
        usage = {view.jobs[i].user: self.usage(view, view.jobs[i].user) for i in view.waiting}
        found = sorted(value for value in usage.values() if value)
        self.close |= any(b - a < 1e-9 * b for a, b in pairwise(found))
        return sorted(view.waiting, key=lambda i: usage[view.jobs[i].user])

    def usage(self, view: View, user: str) -> float:
        """The integral of cores x 2^(-(now - s) / half-life) over the times s at which they ran."""
        ran = [(i, start, view.now) for i, start in view.running.items()]
        ran += [(i, start, start + view.jobs[i].run) for i, start in view.over.items()]
        return sum(
            view.jobs[i].cores
            / self.rate
            * (exp(-self.rate * (view.now - end)) - exp(-self.rate * (view.now - start)))
            for i, start, end in ran
            if view.jobs[i].user == user
        )


class Strict:
    """The head of the queue starts when it fits; no task overtakes it."""

    def __init__(self, order=None) -> None:
        self.order = order or Arrival()

    def next_time(self, now: float) -> float | None:
        return None

    def starts(self, view: View, early: bool) -> list[int]:
        chosen = []
        while view.waiting:
            head = self.order.sorted(view)[0]
            if view.jobs[head].cores > view.free:
                break
            view = view.with_started(head)
            chosen.append(head)
        return chosen


class Easy:
    """The first of the queue has a reservation, the others may pass it if they do not delay it."""

    def __init__(self, order=None, spare_cores: bool = True) -> None:
        self.order = order or Arrival()
        self.spare_cores = spare_cores

    def next_time(self, now: float) -> float | None:
        return None

    def starts(self, view: View, early: bool) -> list[int]:
        chosen = Strict(self.order).starts(view, early)
        for i in chosen:
            view = view.with_started(i)
        if not view.waiting:
            return chosen
        head, *others = self.order.sorted(view)
        for i in others:
            if self.may_pass(view, head, view.jobs[i]):
                view = view.with_started(i)
                chosen.append(i)
        return chosen

    def may_pass(self, view: View, head: int, job: Job) -> bool:
        if job.cores > view.free:
            return False

        def free_at(time: float) -> int:
            gone = [k for k in view.running if view.planned_end(k) <= time]
            return view.free + sum(view.jobs[k].cores for k in gone)

        wanted = view.jobs[head].cores
        ends = sorted(view.planned_end(k) for k in view.running)
        shadow = next(end for end in ends if free_at(end) >= wanted)
        in_time = view.now + job.planned <= shadow
        return in_time or (self.spare_cores and job.cores <= free_at(shadow) - wanted)


class Conservative:
    """Everybody has a reservation, made on submission where it delays no other one.

    With `compress`, when a job ends before its planned end all that wait are planned anew, in the
    order of arrival. Without it nobody starts before or after the reservation.
    """

    def __init__(self, compress: bool) -> None:
        self.compress = compress
        self.reserved: dict[int, float] = {}

    def next_time(self, now: float) -> float | None:
        return min((time for time in self.reserved.values() if time > now), default=None)

    def starts(self, view: View, early: bool) -> list[int]:
        if early and self.compress:
            self.reserved = {}
        for i in view.waiting:
            if i not in self.reserved:
                self.reserved[i] = self.earliest(view, view.jobs[i])
        chosen = []
        for i in view.waiting:
            if self.reserved[i] <= view.now and view.jobs[i].cores <= view.free:
                view = view.with_started(i)
                chosen.append(i)
                del self.reserved[i]
        return chosen

    def earliest(self, view: View, job: Job) -> float:
        taken = [(view.now, view.planned_end(k), view.jobs[k].cores) for k in view.running]
        taken += [
            (t, t + view.jobs[k].planned, view.jobs[k].cores) for k, t in self.reserved.items()
        ]
        profile = free_over_time(taken, view.total)
        times = sorted({view.now, *(time for time, _ in profile if time > view.now)})
        return next(
            time
            for time in times
            if least_free(profile, time, time + job.planned, view.total) >= job.cores
        )


def free_over_time(
    taken: Iterable[tuple[float, float, int]], total: int
) -> list[tuple[float, int]]:
    """(time, free from then on), from intervals (begin, end, cores)."""
    taken = list(taken)
    times = sorted({time for begin, end, _ in taken for time in (begin, end)})
    return [(t, total - sum(c for begin, end, c in taken if begin <= t < end)) for t in times]


def least_free(profile: list[tuple[float, int]], begin: float, end: float, total: int) -> int:
    """The fewest free cores from begin until before end."""
    bounded = [(float("-inf"), total), *profile, (float("inf"), total)]
    return min(
        free
        for (since, free), (until, _) in pairwise(bounded)
        if (since < end and until > begin) or since <= begin < until
    )


class Outcome(NamedTuple):
    submit: dict[int, float]
    start: dict[int, float]


def replay(jobs: list[Job], total: int, scheduler, source=None) -> Outcome:
    """When each job is submitted and started; jobs wider than the machine are left out."""
    source = source or Rigid(jobs)
    submit: dict[int, float] = {}
    start: dict[int, float] = {}
    waiting: list[int] = []
    running: dict[int, float] = {}
    now = float("-inf")
    while True:
        times = [running[i] + jobs[i].run for i in running]
        times += [t for t in (source.next_time(), scheduler.next_time(now)) if t is not None]
        if not times:
            assert not waiting
            return Outcome(submit, start)
        now = min(times)
        ended = [i for i in running if running[i] + jobs[i].run == now]
        early = any(jobs[i].run < jobs[i].planned for i in ended)
        for i in ended:
            del running[i]
        source.finished(ended, now)
        for i in sorted(source.submitted(now)):
            submit[i] = now
            if jobs[i].cores <= total:
                waiting.append(i)
        over = {i: at for i, at in start.items() if i not in running}
        view = View(now, jobs, total, waiting[:], dict(running), over)
        for i in scheduler.starts(view, early):
            waiting.remove(i)
            start[i] = running[i] = now


class Session:
    """A session of Algorithm 1: its jobs with their times after its start, and its dependencies."""

    def __init__(self, job_list: list[tuple[float, int]]) -> None:
        self.job_list = job_list
        self.unfinished = {i for _, i in job_list}
        self.dependencies: set[int] = set()
        self.successors: list[tuple[int, float]] = []
        self.start = 0.0


class Feedback:
    """Algorithm 1 with its lists F (free) and A (active), for all users at once.

    Args:
        sessions: For each session its jobs as (seconds after its start, job).
        edges: (before, after, think time); before is None for the fictive root.
    """

    def __init__(
        self,
        sessions: list[list[tuple[float, int]]],
        edges: list[tuple[int | None, int, float]],
    ) -> None:
        self.sessions = [Session(list(job_list)) for job_list in sessions]
        self.session_of = {i: s for s, jobs in enumerate(sessions) for _, i in jobs}
        for before, after, think in edges:
            if before is not None:
                self.sessions[after].dependencies.add(before)
                self.sessions[before].successors.append((after, think))
            else:
                self.sessions[after].start = think
        self.free = [s for s, session in enumerate(self.sessions) if not session.dependencies]
        self.active: list[int] = []

    def finished(self, jobs: list[int], now: float) -> None:
        """wake_on_feedback."""
        for j in jobs:
            s = self.session_of[j]
            self.sessions[s].unfinished.remove(j)
            if not self.sessions[s].unfinished:
                for after, think in self.sessions[s].successors:
                    session = self.sessions[after]
                    session.dependencies.remove(s)
                    session.start = max(session.start, now + think)
                    if not session.dependencies:
                        self.free.append(after)

    def submitted(self, now: float) -> list[int]:
        """jobs_to_submit."""
        due = []
        for s in self.free[:]:
            if self.sessions[s].start == now:
                self.active.append(s)
                self.free.remove(s)
        for s in self.active[:]:
            session = self.sessions[s]
            due += [i for after, i in session.job_list if session.start + after == now]
            session.job_list = [j for j in session.job_list if session.start + j[0] != now]
            if not session.job_list:
                self.active.remove(s)
        return due

    def next_time(self) -> float | None:
        starts = [self.sessions[s].start for s in self.free]
        active = [self.sessions[s] for s in self.active]
        starts += [session.start + min(session.job_list)[0] for session in active]
        return min(starts, default=None)


SCHEDULERS: dict[str, Callable[[], object]] = {
    "fcfs": Strict,
    "sjf": lambda: Strict(By(lambda job, now: job.planned)),
    "ljf": lambda: Strict(By(lambda job, now: -job.planned)),
    "easy": Easy,
    "easy-time": lambda: Easy(spare_cores=False),
    "conservative": lambda: Conservative(compress=False),
    "conservative, compressed": lambda: Conservative(compress=True),
}
