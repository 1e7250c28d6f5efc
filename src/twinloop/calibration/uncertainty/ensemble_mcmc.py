"""Ensemble Markov chain Monte Carlo over the unit cube."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: The scale parameter a of the stretch move, as proposed by its authors.
_STRETCH: Final = 2.0


def sample_by_ensemble(
    log_density: Callable[[Floats], Floats],
    start: Floats,
    logs: Floats,
    rounds: int,
    rng: np.random.Generator,
) -> tuple[Floats, Floats]:
    """Sample a density: points (rounds, walkers, dimensions) and the logarithms of the density.

    In each half round one half of the walkers moves, with proposals from the other half, so that
    proposals are evaluated in one call. Two moves alternate at random, both independent of the
    scale and orientation of the density: the stretch move of Goodman and Weare, "Ensemble samplers
    with affine invariance" (2010), and the differential-evolution move of ter Braak, "A Markov
    chain Monte Carlo version of the genetic algorithm differential evolution" (2006). Outside the
    cube the density is zero.

    Args:
        log_density: A function from points (n, dimensions) to logarithms, -inf for density 0.
        start: The initial points of at least 4 walkers, not all on one line.
        logs: The logarithm of the density at each.
        rounds: The number of rounds; each takes an evaluation per proposal inside the cube.
        rng: The random generator.

    >>> rng = np.random.default_rng(1)
    >>> def normal(points):
    ...     return -0.5 * (((points - 0.5) / 0.05) ** 2).sum(axis=1)
    >>> start = 0.5 + 0.01 * rng.standard_normal((40, 2))
    >>> samples, _ = sample_by_ensemble(normal, start, normal(start), 400, rng)
    >>> bool(abs(samples[100:].reshape(-1, 2).std(axis=0) - 0.05).max() < 0.005)
    True
    """
    walkers, dimensions = start.shape
    positions, current = start.copy(), logs.copy()
    samples = np.empty((rounds, walkers, dimensions))
    densities = np.empty((rounds, walkers))
    for number in range(rounds):
        order = rng.permutation(walkers)
        for movers, others in (
            (order[: walkers // 2], order[walkers // 2 :]),
            (order[walkers // 2 :], order[: walkers // 2]),
        ):
            propose = _propose_stretch if rng.random() < 0.5 else _propose_shift
            proposal, log_ratio = propose(positions[movers], positions[others], rng)
            inside = ((proposal >= 0) & (proposal <= 1)).all(axis=1)
            found = np.full(len(movers), -np.inf)
            if inside.any():
                found[inside] = log_density(proposal[inside])
            with np.errstate(invalid="ignore"):
                accepted = np.log(rng.random(len(movers))) < found - current[movers] + log_ratio
            positions[movers[accepted]] = proposal[accepted]
            current[movers[accepted]] = found[accepted]
        samples[number], densities[number] = positions, current
    return samples, densities


def _propose_stretch(
    movers: Floats, others: Floats, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    count, dimensions = movers.shape
    # The density 1/sqrt(z) between 1/a and a.
    stretch = np.square((_STRETCH - 1.0) * rng.random(count) + 1.0) / _STRETCH
    fixed = others[rng.integers(len(others), size=count)]
    return fixed + stretch[:, np.newaxis] * (movers - fixed), (dimensions - 1) * np.log(stretch)


def _propose_shift(
    movers: Floats, others: Floats, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    count, dimensions = movers.shape
    first = rng.integers(len(others), size=count)
    second = (first + rng.integers(1, len(others), size=count)) % len(others)
    # A jump by the whole difference, with probability 0.1, moves walkers between modes.
    scale = np.where(rng.random(count) < 0.1, 1.0, 2.38 / np.sqrt(2 * dimensions))
    scale *= np.exp(0.1 * rng.standard_normal(count))
    shift = scale[:, np.newaxis] * (others[first] - others[second])
    return movers + shift, np.zeros(count)
