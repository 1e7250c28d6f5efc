"""Tasks that share one machine, in exact fractions: slow, and plain enough to be checked by eye.

All tasks are on the machine from their submission on. At every event the capacity is divided anew
by its definition, max-min fair; in between all rates are constant. Nothing here is shared with the
simulator.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple


class Piece(NamedTuple):
    """A period of constant demand."""

    seconds: Fraction
    demand: Fraction


class Job(NamedTuple):
    submit: Fraction
    weight: Fraction
    pieces: tuple[Piece, ...]


class Period(NamedTuple):
    """A period of constant rates, by number of the job."""

    start: Fraction
    end: Fraction
    rates: dict[int, Fraction]

    @property
    def used(self) -> Fraction:
        return sum(self.rates.values(), Fraction(0))


def share(
    demands: dict[int, Fraction], weights: dict[int, Fraction], capacity: Fraction
) -> dict[int, Fraction]:
    """Divide a capacity max-min fair by weight: no share above its demand, none left over."""
    rates: dict[int, Fraction] = {}
    open_jobs = sorted(demands, key=lambda job: demands[job] / weights[job])
    while open_jobs:
        job = open_jobs.pop(0)
        total = weights[job] + sum(weights[other] for other in open_jobs)
        rates[job] = min(demands[job], capacity * weights[job] / total)
        capacity -= rates[job]
    return rates


def run(jobs: Sequence[Job], capacity: Fraction, *, delay: bool) -> list[Period]:
    """Return the periods up to the end of the last job.

    With delay a piece ends when its work is done, otherwise after its seconds.
    """
    submissions = {job.submit for job in jobs}
    now = min(submissions)
    pieces = [list(job.pieces) for job in jobs]
    left = [_measure(each[0], delay) for each in pieces]
    periods = []
    while True:
        present = [i for i, job in enumerate(jobs) if job.submit <= now and pieces[i]]
        demands = {i: pieces[i][0].demand for i in present}
        rates = share(demands, {i: jobs[i].weight for i in present}, capacity)
        speeds = {i: rates[i] if delay and demands[i] else Fraction(1) for i in present}
        events = [time for time in submissions if time > now]
        events += [now + left[i] / speeds[i] for i in present]
        if not events:
            return periods
        then = min(events)
        if then > now:
            periods.append(Period(now, then, rates))
        for i in present:
            left[i] -= speeds[i] * (then - now)
            if left[i] == 0:
                pieces[i].pop(0)
                if pieces[i]:
                    left[i] = _measure(pieces[i][0], delay)
        now = then


def _measure(piece: Piece, delay: bool) -> Fraction:
    """Return the work of a piece, or its seconds where these determine its end."""
    return piece.seconds * piece.demand if delay and piece.demand else piece.seconds
