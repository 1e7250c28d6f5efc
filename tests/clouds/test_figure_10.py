"""Figures 7 and 10 of the article on DISSECT-CF: tasks in one instance, and levels of power."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.clouds.cases import IDLE, MAX, POWER, make_host, make_task, start
from twinloop.engine import Environment


def test_each_busy_core_adds_the_same_power() -> None:
    # One more core every 30 s; the first instance boots for 30 s, which takes no work.
    tasks = [make_task(i, submit=30 * i, run_time=1000) for i in range(8)]
    image = {"name": "base", "boot": {"delay": 30}}
    sim = start([make_host("a", cores=8, power=POWER)], tasks, image=image)
    energy = [0.0]
    for level in range(9):
        sim.run_until(30.0 * (level + 1) - 1e-6)
        energy.append(float(sim._run.energy()[0]))
    levels = [(b - a) / 30 for a, b in pairwise(energy)]
    expected = [IDLE + (MAX - IDLE) / 8 * level for level in range(9)]
    assert levels == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("cores", "limit", "ends"),
    [
        (4, 1.0, [4, 7.5, 10.5, 13, 15, 17, 19, 21]),
        (2, 1.0, [8, 15, 21, 26, 30, 33, 35, 37]),
        (4, 0.896, [4, 7.5, 10.5, 13, 15.232, 17.464, 19.696, 21.929]),
    ],
)
def test_eight_tasks_share_one_instance(cores: float, limit: float, ends: list[float]) -> None:
    # No client of a cloud runs more tasks in an instance than it has cores: a lease of the kernel.
    env = Environment()
    instance = env.resource(8.0).lease(cores)
    tasks = [instance.execute(2.0 * (i + 1), limit=limit) for i in range(8)]
    env.run()
    assert [task.finished for task in tasks] == pytest.approx(ends, abs=6e-4)
