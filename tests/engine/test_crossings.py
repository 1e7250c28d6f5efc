"""Activities that cross between limit and level and back within one instant end once, in time."""

import random

import pytest

from twinloop.engine import Environment


@pytest.mark.parametrize("seed", range(10))
def test_each_ends_once_however_often_it_crosses(seed: int) -> None:
    rng = random.Random(seed)
    env = Environment()
    host = env.resource(20)
    ended: list[str] = []
    env.observe(ended=lambda activity: ended.append(activity.name))
    jobs = []
    for _ in range(300):
        for _ in range(rng.randrange(6)):
            jobs.append(host.execute(rng.randint(1, 7), limit=rng.randint(1, 4) / 2))
        for _ in range(rng.randrange(3)):
            # Pushes all others off their limits, and is gone in the same instant.
            host.execute(0, weight=rng.randint(1, 500), name="passer-by")
            env.step()
        env.run(until=env.now + rng.randrange(5) / 4)
    for _ in range(10 * len(jobs)):
        if not env.step():
            break
    names = [name for name in ended if name != "passer-by"]
    assert sorted(names) == sorted(job.name for job in jobs)
    work = sum(job.done for job in jobs)
    assert host.done == pytest.approx(work, rel=1e-9)
    assert all(job.finished - job.started >= job.done / job.limit * (1 - 1e-9) for job in jobs)
