"""What tasks of constant demand draw, worked out from where they ran and when.

Nothing of the run is used but its placements: a task draws on its machines at one rate, from the
end of its start-up to its own, unless they are shared and stretch it.
"""

from collections import defaultdict
from itertools import pairwise

from tests.cluster.test_laws_runs import Finished


def rates(done: Finished) -> dict[int, list[tuple[float, float, float, int]]]:
    """By machine: from, to, reference cores asked for, task."""
    case = done.case
    parts = defaultdict(list)
    for task, attempt, machine, cores, start, end in done.executions():
        parts[task, attempt].append((machine, cores, start, end))
    asked = defaultdict(list)
    for (number, _), places in parts.items():
        task = case.tasks[number]
        speed = 1.0
        if case.model["demand"] == "elastic":
            slowest = min(done.host(machine)["speed"] for machine, *_ in places)
            speed = slowest * case.model["speed_factor"]
        for machine, cores, start, end in places:
            begin = start + case.model["startup_overhead"]
            if end > begin:
                asked[machine].append((begin, end, cores * task.use * speed, number))
    return asked


def steps(done: Finished, machine: int, asked: list) -> list[tuple[float, float, float | None]]:
    """From, to and the reference cores asked for in between; None where the machine is off."""
    downs = [
        (start, done.run.now if end is None else end)
        for node, start, end in done.compiled.outages.select("node", "start", "end").iter_rows()
        if node == done.names[machine]
    ]
    edges = {done.run.start_time, done.run.now}
    edges |= {t for begin, end, *_ in asked for t in (begin, end)}
    edges |= {t for window in downs for t in window}
    within = sorted(t for t in edges if done.run.start_time <= t <= done.run.now)
    found = []
    for start, end in pairwise(within):
        off = any(begin <= start and end <= back for begin, back in downs)
        total = sum(rate for begin, until, rate, _ in asked if begin <= start and end <= until)
        found.append((start, end, None if off else total))
    return found


def got(done: Finished) -> dict[int, float]:
    """Reference core-seconds of each task, where machines share their capacity max-min fair."""
    work = defaultdict(float)
    for machine, asked in rates(done).items():
        for start, end, total in steps(done, machine, asked):
            if not total:
                continue
            left = done.capacity(machine)
            here = sorted(
                (rate, task)
                for begin, until, rate, task in asked
                if begin <= start and end <= until
            )
            for place, (rate, task) in enumerate(here):
                share = min(rate, left / (len(here) - place))
                left -= share
                work[task] += share * (end - start)
    return work
