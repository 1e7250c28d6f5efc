"""Users with sessions of a few submissions."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, ClassVar, Final, Self

import numpy as np
import polars as pl
from pydantic import model_validator

from twinloop.workload.generators import mix
from twinloop.workload.generators.description import MAX_TASKS, parameter
from twinloop.workload.generators.elementary import Floats, exp, log
from twinloop.workload.generators.random_stream import Integers
from twinloop.workload.generators.requests import RequestGenerator
from twinloop.workload.generators.shares import apportion

_HOUR: Final = 3600.0
_DAY: Final = 86400.0


class SessionTasks(RequestGenerator):
    """Users with sessions: tasks with short pauses, separated by long absences.

    The pause between two submissions of a session is below the threshold, that between two
    sessions of a user above it. Tasks are divided among the users by Zipf's law. More sessions
    start by day than by night; if the sessions of a user do not fit in the days, they continue
    after them. Each user has a number of cores and a mean run time.

    >>> trace = SessionTasks(tasks=100, users=3).generate(seed=1)
    >>> trace.tasks["user"].value_counts(sort=True).rows()
    [('user1', 55), ('user2', 27), ('user3', 18)]
    """

    name: ClassVar[str] = "sessions"
    title: ClassVar[str] = "users with sessions, think times, days and nights"

    tasks: int = parameter(1000, "number of tasks", ge=1, le=MAX_TASKS)
    users: int = parameter(20, "number of users", ge=1, le=1_000_000)
    days: float = parameter(7.0, "period in which sessions start", unit="d", gt=0.0, le=1e4)
    activity: float = parameter(
        1.0,
        "exponent s of Zipf's law: the user of rank r submits in proportion to r^-s",
        ge=0.0,
        le=20.0,
    )
    session_size: float = parameter(
        5.0,
        "mean number of tasks of a session (geometric distribution)",
        unit="tasks",
        ge=1.0,
        le=1e6,
    )
    think_time: float = parameter(
        300.0,
        "mean pause between two submissions (exponential, truncated at the threshold)",
        unit="s",
        gt=0.0,
        le=1e9,
    )
    threshold: float = parameter(
        3600.0, "pauses within a session are shorter, absences longer", unit="s", ge=1.0, le=1e9
    )
    day_start: float = parameter(8.0, "start of the working day", unit="h", ge=0.0, le=24.0)
    day_end: float = parameter(18.0, "end of the working day", unit="h", ge=0.0, le=24.0)
    night: float = parameter(
        0.1, "sessions per hour at night, relative to sessions per hour by day", ge=0.0, le=1.0
    )
    mean_length: float = parameter(600.0, "mean run time over all users", unit="s", gt=0.0, le=1e9)
    user_cv: float = parameter(
        1.0, "coefficient of variation of the users' mean run times", ge=0.0, le=100.0
    )
    cv: float = parameter(
        1.0, "coefficient of variation of the run times of one user", ge=0.0, le=100.0
    )
    cores: mix.Mix = parameter(
        ((1, 5.0), (2, 2.0), (4, 2.0), (8, 1.0)),
        "cores of the tasks of a user, with weights, as 1:5,2:2,4:2,8:1",
        unit="cores",
    )

    @model_validator(mode="after")
    def _check_day(self) -> Self:
        if self.day_start >= self.day_end:
            raise ValueError(
                f"the working day ends ({self.day_end}) before it starts ({self.day_start})"
            )
        if self.night == 0.0 and self.days * 24.0 <= self.day_start:
            raise ValueError(f"{self.days} days end before the first working day starts")
        return self

    def _tasks(self, seed: int) -> Mapping[str, Any]:
        ranks = np.arange(1.0, self.users + 1.0)
        tasks_of_user = apportion(self.tasks, exp(-self.activity * log(ranks)))
        user = np.repeat(np.arange(self.users), tasks_of_user)
        submit = self._draw_submissions(seed, user)
        own_length = self._stream(seed, "users").lognormal(
            self.users, self.mean_length, self.user_cv
        )
        own_cores = mix.draw(self.cores, self._stream(seed, "cores"), self.users)
        drawn = self._stream(seed, "lengths").lognormal(self.tasks, own_length[user], self.cv)
        order = np.argsort(submit, kind="stable")
        number = pl.Series(user[order] + 1).cast(pl.String)
        return {
            "name": "program" + number,
            "user": "user" + number,
            "submit": submit[order],
            **self._requests(seed, self._round_lengths(drawn[order]), own_cores[user[order]]),
        }

    def _draw_submissions(self, seed: int, user: Integers) -> Floats:
        """Draw the submission time of each task; tasks are sorted by user."""
        new_user = np.diff(user, prepend=-1) > 0
        ends_session = self._stream(seed, "sizes").uniform(user.size) < 1.0 / self.session_size
        new_session = new_user | np.concatenate([[False], ends_session[:-1]])
        # Slightly below the threshold (and slightly above it for absences), so that rounding errors
        # neither split nor join sessions.
        max_pause = self.threshold * (1.0 - 1e-6)
        pause = self.think_time * self._stream(seed, "pauses").exponential(
            user.size, below=max_pause / self.think_time
        )
        pause = np.where(new_session, 0.0, self._round_down(pause))
        session = np.cumsum(new_session) - 1
        since_first = np.cumsum(pause)
        since_begin = since_first - since_first[new_session][session]
        begin = self._draw_begins(seed, user[new_session], _take_last(since_begin, session))
        return np.asarray(begin[session] + since_begin)

    def _draw_begins(self, seed: int, user: Integers, span: Floats) -> Floats:
        """Draw the start of each session; sessions of a user are more than a threshold apart."""
        drawn = self._round_down(
            self._compute_quantile(self._stream(seed, "begins").uniform(user.size))
        )
        drawn = drawn[np.lexsort((drawn, user))]
        absence = np.floor(self.threshold) + 1.0
        begin = np.empty(user.size)
        bounds = np.append(np.flatnonzero(np.diff(user, prepend=-1) > 0), user.size)
        for first, end in pairwise(bounds):
            busy = np.cumsum(span[first:end] + absence)
            before = np.concatenate([[0.0], busy[:-1]])
            begin[first:end] = before + np.maximum.accumulate(drawn[first:end] - before)
        return begin

    def _compute_quantile(self, share: Floats) -> Floats:
        """Compute the quantile function of the starts of sessions (s), with days and nights."""
        start, end = self.day_start * _HOUR, self.day_end * _HOUR
        morning, day = self.night * start, end - start
        day_weight = morning + day + self.night * (_DAY - end)
        full_days = np.floor(self.days)
        # The last day may be partial.
        rest = (self.days - full_days) * _DAY
        last = self.night * min(rest, start) + min(max(rest - start, 0.0), day)
        last += self.night * max(rest - end, 0.0)
        weight = share * (full_days * day_weight + last)
        full_day = np.floor(weight / day_weight)
        weight_of_day = np.maximum(weight - full_day * day_weight, 0.0)
        at_night = max(self.night, 1e-300)
        time = np.where(
            weight_of_day < morning,
            weight_of_day / at_night,
            np.where(
                weight_of_day < morning + day,
                start + (weight_of_day - morning),
                end + (weight_of_day - morning - day) / at_night,
            ),
        )
        return np.asarray(full_day * _DAY + np.minimum(time, _DAY))


def _take_last(figures: Floats, group: Integers) -> Floats:
    """Return the last value of each group."""
    return figures[np.flatnonzero(np.diff(group, append=group[-1] + 1) > 0)]
