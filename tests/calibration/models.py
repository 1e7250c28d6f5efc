"""Simulators of a few lines whose identifiability is known."""

from __future__ import annotations

import numpy as np

from twinloop.calibration.parameters.kinds import ExponentialParameter, LinearParameter
from twinloop.calibration.parameters.space import Space


class LossOnly:
    """An objective without outputs: only its loss is available."""

    def __init__(self, whole):
        self._whole = whole
        self.space = whole.space

    def __call__(self, points):
        return self._whole(points)


class Compared:
    """A model whose outputs are relative differences from a truth."""

    def outputs(self, points):
        return self.seen(points) / self.truth - 1

    def __call__(self, points):
        return abs(self.outputs(points)).mean(axis=1)


class Transportation(Compared):
    """Cargo is loaded, driven and unloaded: the example of McDonald's thesis, section 3.1.1.

    `stages`: the times of the three are compared, not only their sum. `tied`: unloading is known
    to be twice as fast as loading.
    """

    def __init__(self, cargo, distance, *, stages=False, tied=False):
        self.cargo, self.distance = np.array(cargo, float), np.array(distance, float)
        self.stages, self.tied = stages, tied
        names = ("handling", "driving") if tied else ("loading", "driving", "unloading")
        self.space = Space([ExponentialParameter(name, 0.1, 10) for name in names])
        self.best = np.array([0.4, 0.6, 0.55])[: len(names)]
        self.truth = self.seen(self.best[np.newaxis])

    def seen(self, points):
        speeds = [column[:, np.newaxis] for column in self.space.decode(points).values()]
        load, drive = speeds[:2]
        unload = 2 * load if self.tied else speeds[2]
        parts = (self.cargo / load, self.distance / drive, self.cargo / unload)
        return np.hstack(parts) if self.stages else sum(parts)


ONE_RATIO = ([1, 2, 3], [2, 4, 6])
MANY_RATIOS = ([1, 2, 3, 1], [6, 2, 1, 1])


class Gravity:
    """A t² + B v t + C h, sampled every 0.01 s: McDonald's section 2.1.1.

    The time of impact is compared, or the elevation during the flight.
    """

    space = Space(
        [LinearParameter("A", -10, -1), LinearParameter("B", 0.2, 3), LinearParameter("C", 0.2, 3)]
    )
    starts = np.array([(0, 10), (5, 10), (5, 2), (10, 1), (0, 100), (20, 50)], float)
    step = 0.01

    def __init__(self, compared):
        self.compared = compared
        self.best = self.space.encode({"A": -4.9, "B": 1.0, "C": 1.0})
        self.truth = self.seen(self.best[np.newaxis])

    def seen(self, points):
        a, b, c = (column[:, np.newaxis] for column in self.space.decode(points).values())
        v, h = self.starts.T
        if self.compared == "impact":
            exact = (-b * v - np.sqrt((b * v) ** 2 - 4 * a * c * h)) / (2 * a)
            return np.ceil(exact / self.step) * self.step
        t = np.arange(0.0, 1.0, 5 * self.step)
        a, bv, ch = a[:, :, np.newaxis], (b * v)[:, :, np.newaxis], (c * h)[:, :, np.newaxis]
        return np.maximum(a * t**2 + bv * t + ch, 0.0).reshape(len(points), -1)

    def outputs(self, points):
        return (self.seen(points) - self.truth) / np.maximum(self.truth, 1.0)

    def __call__(self, points):
        return abs(self.outputs(points)).mean(axis=1)


class Planted:
    """A random model of 3 to 8 parameters with a known null space.

    One parameter may have no effect, and up to two sets of two or three parameters have an effect
    only through combinations with one direction missing. The outputs are linear in the remaining
    directions or mildly curved, and noisy.
    """

    noise = 1e-3

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        d = int(rng.integers(3, 9))
        order = rng.permutation(d)
        used = int(rng.integers(0, 2))
        null = [np.eye(d)[axis] for axis in order[:used]]
        for _ in range(int(rng.integers(0, 3))):
            size = int(rng.integers(2, 4))
            if used + size > d - 1:
                break
            direction = np.zeros(d)
            members = order[used : used + size]
            direction[members] = rng.uniform(0.3, 1, size) * rng.choice([-1, 1], size)
            null.append(direction / np.linalg.norm(direction))
            used += size
        directions = np.array(null).reshape(-1, d)
        seen = np.eye(d) - directions.T @ directions
        self.space = Space([LinearParameter(f"p{axis}", 0, 1) for axis in range(d)])
        self.loose = {
            name for name, v in zip(self.space.names, directions.T, strict=True) if v.any()
        }
        self.groups = {
            tuple(self.space.names[axis] for axis in np.flatnonzero(v))
            for v in directions
            if np.count_nonzero(v) > 1
        }
        self._slopes = rng.normal(size=(int(rng.integers(d, 3 * d)), d)) @ seen / np.sqrt(d)
        self._bend = str(rng.choice(["none", "tanh", "square"]))
        self.best = rng.uniform(0.15, 0.85, d)
        real = self._model(self.best[np.newaxis])
        self._real = real + self.noise * rng.standard_normal(real.shape)

    def _model(self, points):
        z = points @ self._slopes.T
        return z + {"none": 0.0, "tanh": 0.3 * np.tanh(z), "square": 0.1 * z**2}[self._bend]

    def outputs(self, points):
        return self._model(points) - self._real

    def __call__(self, points):
        return np.sqrt((self.outputs(points) ** 2).mean(axis=1))


class Bag(Compared):
    """Bags of equal tasks on a few cores, executed with noise, and one to be predicted.

    `loose`: the outputs depend only on the ratio of speed and service.
    """

    tasks = np.array([8, 16, 32, 4, 64, 16, 8, 100], float)
    cores = np.array([4, 4, 4, 4, 8, 8, 8, 4], float)
    work = np.array([10, 10, 5, 20, 5, 40, 2, 1], float)

    def __init__(self, seed, *, loose=False, noise=0.05, repeats=2, lognormal=False):
        rng = np.random.default_rng(seed)
        parameters = [
            ExponentialParameter("speed", 0.3, 3),
            ExponentialParameter("startup", 0.05, 5),
            LinearParameter("contention", 0, 1),
        ]
        self.space = Space(parameters + [ExponentialParameter("service", 0.3, 3)] * loose)
        kept = np.repeat(rng.permutation(len(self.tasks))[:6], repeats)
        self._runs = (self.tasks[kept], self.cores[kept], self.work[kept])
        true = rng.uniform(0.1, 0.9, (1, len(self.space)))

        def noisy(exact):
            drawn = noise * rng.standard_normal(exact.shape)
            return exact * (np.exp(drawn) if lognormal else 1 + drawn)

        self.truth = noisy(self.makespan(true, *self._runs))
        self.new = (np.array([48.0]), np.array([8.0]), np.array([15.0]))
        self.outcome = float(noisy(self.makespan(true, *self.new))[0, 0])

    def makespan(self, points, tasks, cores, work):
        speed, startup, contention, *service = (
            column[:, np.newaxis] for column in self.space.decode(points).values()
        )
        inflation = 1 + contention * np.minimum(tasks / cores, 4) / 8
        factor = service[0] if service else 1.0
        return np.ceil(tasks / cores) * (startup + work * factor / speed * inflation)

    def seen(self, points):
        return self.makespan(points, *self._runs)
