"""Fast paths of the engine and their slow twins, side by side on random scenarios.

- Machines without sharing use timers; the same machines with sharing use activities.
- Shared machines use virtual times, price integrals and counters at the edges of windows; `fluid`
  divides the capacity anew at every event and integrates period by period, in exact fractions.

Schedulers have their slow twins in `reference`.
"""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from tests.cluster import fluid
from tests.cluster.scenarios import BATCH, FITTING, MODELS, Case, Task, cases, few

NEAR = 1e-9


# --- timers and activities ------------------------------------------------------------------------

# Binary fractions, so that ends coincide in both or in none.
ALONE = MODELS.map(
    lambda model: {
        **model,
        "sharing": "stretch",
        "effective_capacity": 1.0,
        "decision_interval": 2.0 * (model["decision_interval"] > 0),
    }
)
#: Contention without effect: machines count as shared, and no task is slower.
NO_EFFECT = {"linear": {"slope": 0.0}}


def in_order(columns, keys):
    """The rows by task and machine, then in the order of the keys."""
    if not keys:
        return columns
    order = np.lexsort([columns[key] for key in (*keys, "machine", "task")])
    return {name: column[order] for name, column in columns.items()}


#: The machine fails when the task has started up: a task without work has ended before.
NO_WORK = Case(
    machines=({"cores": 1.0, "power": {"model": "constant", "power": 80.0}},),
    tasks=(Task(submit=4.0, run_time=0.0),),
    model={"startup_overhead": 0.5},
    failures=((0, 4.5, 1.0),),
)


@given(cases(policies=BATCH + FITTING, model=ALONE, contention=False), st.sampled_from([0.5, 3.0]))
@example(NO_WORK, 0.5)
def test_activities_of_tasks_that_do_not_share_end_when_timers_do(case, step):
    logs = {"placements": True, "usage_step": step}
    timers = case.run_to_end(**logs)
    assume(not timers.shared)
    activities = case.but(model={**case.model, "contention": NO_EFFECT}).run_to_end(**logs)
    assert activities.shared
    # Timers end in the order of their tasks, activities machine by machine.
    for table, keys in (("outcomes", ()), ("placements", ("end",)), ("usage", ("t",))):
        found, expected = (in_order(getattr(run, table)(), keys) for run in (activities, timers))
        for name, column in expected.items():
            np.testing.assert_allclose(found[name], column, rtol=NEAR, atol=NEAR, err_msg=name)
    np.testing.assert_allclose(activities.energy(), timers.energy(), rtol=NEAR, atol=NEAR)


# --- one shared machine ---------------------------------------------------------------------------

CAPACITY = 4
POWERS = st.sampled_from(
    [
        {"model": "linear", "idle": 100.0, "max": 200.0},
        {"model": "cubic", "idle": 0.0, "max": 50.0},
        {"model": "table", "points": [[0.0, 30.0], [0.5, 120.0], [1.0, 150.0]]},
    ]
)
_PIECES = st.lists(
    st.tuples(st.sampled_from([0.5, 1.0, 3.0]), st.sampled_from([1.0, 0.5, 0.25, 0.0])),
    min_size=1,
    max_size=3,
)
CROWDS = st.lists(
    st.builds(
        lambda submit, cores, pieces: Task(float(submit), cores=cores, fragments=tuple(pieces)),
        st.integers(0, 6),
        st.sampled_from([1.0, 2.0, 3.0, 4.0]),
        _PIECES,
    ),
    min_size=1,
    max_size=9,
)


class Crowd:
    """Tasks on one machine, by the engine and by its slow twin."""

    def __init__(self, tasks, power, speed, delay, step):
        self.case = Case(
            ({"cores": float(CAPACITY), "speed": speed, "power": power},),
            tuple(tasks),
            {"name": "pack-ic", "options": {"overcommit": 100.0}},
            {"sharing": "stretch" if delay else "no-delay"},
        )
        self.speed = Fraction(speed)
        self.run = self.case.run_to_end(use=True, usage_step=step)
        jobs = [
            fluid.Job(
                Fraction(task.submit),
                Fraction(task.cores) if delay else Fraction(1),
                tuple(
                    fluid.Piece(
                        Fraction(seconds) / self.speed,
                        Fraction(use) * Fraction(task.cores) * self.speed,
                    )
                    for seconds, use in task.fragments
                ),
            )
            for task in self.case.tasks
        ]
        self.periods = fluid.run(jobs, CAPACITY * self.speed, delay=delay)
        self.ends = [
            max(p.end for p in self.periods if i in p.rates) for i in range(len(self.case.tasks))
        ]

    def watts(self, period):
        [(_, host)] = self.case.scenario.platform.hosts()
        return float(host.power.watts(float(period.used / (CAPACITY * self.speed))))

    def integrate(self, task, start, end):
        """Core-seconds of the machine that a task has used in a period."""
        return float(
            sum(
                p.rates[task] * max(Fraction(0), min(p.end, end) - max(p.start, start))
                for p in self.periods
                if task in p.rates
            )
            / self.speed
        )


crowds = st.builds(
    Crowd,
    CROWDS,
    POWERS,
    st.sampled_from([1.0, 2.0]),
    st.booleans(),
    st.sampled_from([0.5, 0.75, 2.0, 1000.0]),
)


@few
@given(crowds)
def test_shared_tasks_end_and_work_as_by_water_filling(crowd):
    found = crowd.run.outcomes()
    np.testing.assert_allclose(found["end"], [float(end) for end in crowd.ends], rtol=NEAR)
    used = [crowd.integrate(i, Fraction(0), end) for i, end in enumerate(crowd.ends)]
    np.testing.assert_allclose(found["used"], used, rtol=NEAR, atol=NEAR)


@few
@given(crowds)
def test_the_price_integral_is_the_sum_over_periods(crowd):
    energy = [0.0] * len(crowd.case.tasks)
    total = 0.0
    for period in crowd.periods:
        joules = crowd.watts(period) * float(period.end - period.start)
        total += joules
        for task, rate in period.rates.items():
            if period.used:
                energy[task] += joules * float(rate / period.used)
    np.testing.assert_allclose(crowd.run.outcomes()["energy"], energy, rtol=NEAR, atol=NEAR)
    assert crowd.run.energy()[0] == pytest.approx(total, rel=NEAR)


@few
@given(crowds)
def test_windows_of_usage_are_integrals_between_their_edges(crowd):
    usage = crowd.run.usage()
    for task, t, dt, cpu in zip(*(usage[n] for n in ("task", "t", "dt", "cpu")), strict=True):
        expected = crowd.integrate(int(task), Fraction(t - dt), Fraction(t))
        assert cpu == pytest.approx(expected, rel=NEAR, abs=NEAR)
    assert sum(usage["dt"]) == pytest.approx(
        float(sum(crowd.ends) - sum(Fraction(task.submit) for task in crowd.case.tasks)), rel=NEAR
    )


@few
@given(crowds)
def test_the_use_of_the_machine_is_recorded_at_every_change(crowd):
    log = crowd.run.use()
    for period in crowd.periods:
        middle = float((period.start + period.end) / 2)
        last = np.searchsorted(log["t"], middle) - 1
        assert log["used"][last] == pytest.approx(float(period.used), rel=NEAR, abs=NEAR)
