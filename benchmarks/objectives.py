"""Objectives for optimisers, in two sets drawn by two seeds; a loss of 0 is the truth.

Every optimum is random, so that none is in the middle. The first set is smooth or has the kinks of
absolute errors; the second is noisy, has plateaus, whole numbers and categories, and truths on a
bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from twinloop.calibration.parameters.kinds import (
    CategoricalParameter,
    ExponentialParameter,
    LinearParameter,
)
from twinloop.calibration.parameters.space import Space

Floats = NDArray[np.float64]


@dataclass
class BenchmarkObjective:
    """A loss over a space; with noise, the observed loss differs from the true one."""

    name: str
    space: Space
    loss: Callable[[Floats], Floats]
    noise: float = 0.0
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def __call__(self, points: Floats) -> Floats:
        true = self.loss(points)
        if not self.noise:
            return true
        return true * np.exp(self.noise * self.rng.standard_normal(len(true)))


def cube(dimensions: int, low: float = 0.0, high: float = 1.0) -> Space:
    return Space([LinearParameter(f"x{i}", low, high) for i in range(dimensions)])


def rotation(rng: np.random.Generator, dimensions: int) -> Floats:
    return np.linalg.qr(rng.standard_normal((dimensions, dimensions)))[0]


def sphere(rng: np.random.Generator, dimensions: int = 8) -> BenchmarkObjective:
    """Sum of squares in the unit cube, the optimum at 0.1 to 0.9 of each range."""
    truth = rng.uniform(0.1, 0.9, dimensions)
    return BenchmarkObjective(
        f"sphere {dimensions}-d", cube(dimensions), lambda u: ((u - truth) ** 2).sum(axis=1)
    )


def rosenbrock(rng: np.random.Generator, dimensions: int = 6) -> BenchmarkObjective:
    """Rosenbrock's valley with every x in -2..2 and the optimum moved to a random place."""
    shift = rng.uniform(-0.5, 0.5, dimensions)

    def loss(u: Floats) -> Floats:
        x = 4.0 * u - 2.0 - shift
        return (100 * (x[:, 1:] - x[:, :-1] ** 2) ** 2 + (1 - x[:, :-1]) ** 2).sum(axis=1)

    return BenchmarkObjective(f"rosenbrock {dimensions}-d", cube(dimensions, -2.0, 2.0), loss)


def ellipsoid(rng: np.random.Generator, dimensions: int = 10) -> BenchmarkObjective:
    """A rotated ellipsoid whose axes weigh 1 to 1,000, in the unit cube, as the sphere."""
    truth = rng.uniform(0.1, 0.9, dimensions)
    axes = rotation(rng, dimensions) * np.sqrt(
        10.0 ** (3 * np.arange(dimensions) / (dimensions - 1))
    )
    return BenchmarkObjective(
        f"ellipsoid {dimensions}-d",
        cube(dimensions),
        lambda u: (((u - truth) @ axes) ** 2).sum(axis=1) / 10.0,
    )


# Parameters of the time of a workflow: name, lowest, highest.
WORKFLOW = (
    ("core_speed", 1e8, 1e11),  # operations/s
    ("disk_read", 1e7, 1e10),  # B/s
    ("disk_write", 1e7, 1e10),  # B/s
    ("link_bandwidth", 1e6, 1e10),  # B/s
    ("link_latency", 1e-5, 1e-1),  # s
    ("submit_overhead", 1e-3, 1e1),  # s
    ("startup_overhead", 1e-3, 1e2),  # s
    ("stage_overhead", 1e-2, 1e2),  # s
)


class Workflows:
    """Makespans of fork-join workflows: stages of equal tasks on some cores, one shared link."""

    def __init__(self, rng: np.random.Generator, cases: int = 16) -> None:
        self.tasks = rng.integers(4, 200, cases).astype(float)
        self.stages = rng.integers(1, 8, cases).astype(float)
        self.cores = rng.choice([4.0, 8.0, 16.0, 48.0], cases)
        self.work = 10.0 ** rng.uniform(9.0, 12.0, cases)  # operations a task
        self.data = 10.0 ** rng.uniform(6.0, 9.5, cases)  # B a task
        self.messages = rng.integers(1, 200, cases).astype(float)

    def makespans(self, values: dict[str, Floats]) -> Floats:
        speed, read, write, bandwidth, latency, submit, startup, stage = (
            np.asarray(values[name], dtype=float)[:, None] for name, *_ in WORKFLOW
        )
        waves = np.ceil(self.tasks / self.cores)
        compute = self.work / speed
        inputs = np.maximum(
            self.data / read, self.data * np.minimum(self.cores, self.tasks) / bandwidth
        )
        outputs = self.data / write
        network = self.messages * latency
        dispatch = submit * self.tasks / self.stages
        busy = waves * (startup + inputs + np.maximum(compute, network) + outputs)
        return self.stages * (stage + np.maximum(busy, dispatch))


def workflow(rng: np.random.Generator) -> BenchmarkObjective:
    """Mean relative error of the makespans of 16 workflows, all eight parameters exponential."""
    cases = Workflows(rng)
    space = Space([ExponentialParameter(*each) for each in WORKFLOW])
    truth = rng.uniform(0.1, 0.9, len(space))
    real = cases.makespans(space.decode(truth[None]))

    def loss(u: Floats) -> Floats:
        return (np.abs(cases.makespans(space.decode(u)) - real) / real).mean(axis=1)

    return BenchmarkObjective("workflow 8-d", space, loss)


def noisy(rng: np.random.Generator) -> BenchmarkObjective:
    """An 8-d ellipsoid whose observed losses have an error of 20 %."""
    plain = ellipsoid(rng, 8)
    return BenchmarkObjective(
        "noisy ellipsoid 8-d", plain.space, lambda u: plain.loss(u) + 1e-3, noise=0.2
    )


def stepped(rng: np.random.Generator) -> BenchmarkObjective:
    """Plateaus: absolute errors of eight mixed quantities, rounded to steps."""
    truth = rng.uniform(0.1, 0.9, 6)
    mixing = rng.standard_normal((6, 8))

    def loss(u: Floats) -> Floats:
        return np.floor(20.0 * np.abs((u - truth) @ mixing)).mean(axis=1) / 20.0 + 0.005

    return BenchmarkObjective("plateaus 6-d", cube(6), loss)


def mixed(rng: np.random.Generator) -> BenchmarkObjective:
    """Three continuous, three integer and two categorical parameters with interactions."""
    space = Space(
        [
            *(LinearParameter(f"x{i}", 0.0, 1.0) for i in range(3)),
            LinearParameter("n0", 1, 8, integer=True),
            LinearParameter("n1", 0, 30, integer=True),
            ExponentialParameter("n2", 1, 256, integer=True),
            CategoricalParameter("c0", list("abcd")),
            CategoricalParameter("c1", list("pqr")),
        ]
    )
    truth = space.decode_one(rng.random(8))
    shifts = {(a, b): rng.uniform(-0.3, 0.3, 3) for a in "abcd" for b in "pqr"}
    extra = {key: rng.uniform(0.1, 1.0) for key in shifts}
    right = (truth["c0"], truth["c1"])
    shifts[right], extra[right] = np.zeros(3), 0.0
    goal = np.array([truth[f"x{i}"] for i in range(3)]) * 0.8 + 0.1

    def loss(u: Floats) -> Floats:
        values = space.decode(u)
        x = np.column_stack([values[f"x{i}"] for i in range(3)])
        keys = list(zip(values["c0"], values["c1"], strict=True))
        moved = np.array([shifts[key] for key in keys])
        n0 = (values["n0"] - truth["n0"]) / 7.0
        n1 = (values["n1"] - truth["n1"]) / 30.0
        n2 = np.log2(values["n2"] / truth["n2"]) / 8.0
        near = ((x - goal - moved) ** 2).sum(axis=1) + (x[:, 0] - goal[0] + n1) ** 2
        return near + n0**2 + n1**2 + n2**2 + np.array([extra[key] for key in keys]) + 1e-4

    return BenchmarkObjective("mixed 3+3+2", space, loss)


def bounded(rng: np.random.Generator) -> BenchmarkObjective:
    """A rotated 8-d ellipsoid with the unconstrained optimum outside: the best is on the bounds."""
    dimensions = 8
    weights = 10.0 ** (2 * np.arange(dimensions) / (dimensions - 1))
    truth = rng.uniform(0.1, 0.9, dimensions)
    on = rng.permutation(dimensions)[:4]
    truth[on] = rng.integers(0, 2, 4)
    pull = np.zeros(dimensions)
    pull[on] = np.where(truth[on] == 0, 1.0, -1.0) * rng.uniform(0.5, 2.0, 4)
    axes = rotation(rng, dimensions) * np.sqrt(weights)

    def loss(u: Floats) -> Floats:
        # The slope towards the outside makes the truth on its bound the optimum of the cube.
        return (((u - truth) @ axes) ** 2).sum(axis=1) / 10.0 + (u - truth) @ pull

    return BenchmarkObjective("on a bound 8-d", cube(dimensions), loss)


def rough_workflow(rng: np.random.Generator) -> BenchmarkObjective:
    """The workflow with makespans in whole seconds, whole overheads and errors of 5 %."""
    cases = Workflows(rng)
    space = Space(
        [
            *(ExponentialParameter(*each) for each in WORKFLOW[:5]),
            *(
                ExponentialParameter(name, 1, round(1000 * high), integer=True)
                for name, _, high in WORKFLOW[5:]
            ),
        ]
    )

    def makespans(u: Floats) -> Floats:
        values = space.decode(u)
        for name, *_ in WORKFLOW[5:]:
            values[name] = values[name] / 1000.0  # ms
        return np.rint(cases.makespans(values))

    real = makespans(rng.uniform(0.1, 0.9, (1, len(space))))
    return BenchmarkObjective(
        "rough workflow 8-d",
        space,
        lambda u: (np.abs(makespans(u) - real) / np.maximum(real, 1.0)).mean(axis=1) + 0.01,
        noise=0.05,
    )


SETS: dict[str, tuple[int, tuple[Callable[[np.random.Generator], BenchmarkObjective], ...]]] = {
    "first": (1, (workflow, sphere, rosenbrock, ellipsoid)),
    "second": (2, (noisy, stepped, mixed, bounded, rough_workflow)),
}


def objectives(which: str, repetition: int) -> list[BenchmarkObjective]:
    """The objectives of a set, with truths of this repetition."""
    seed, kinds = SETS[which]
    return [
        kind(np.random.default_rng([seed, place, repetition])) for place, kind in enumerate(kinds)
    ]
