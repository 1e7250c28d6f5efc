"""Random numbers that are identical on every machine and with every version of NumPy.

NumPy guarantees the bits of PCG64 for a seed, but not the values of its distributions. Here the
distributions are computed from these bits with arithmetic that IEEE 754 defines exactly.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from twinloop.workload.generators.elementary import Floats, exp, log

Integers = npt.NDArray[np.int64]


class RandomStream:
    """A stream of random numbers, defined by a seed and a name.

    Streams with different names are independent: drawing from one stream (the lengths, say) does
    not change the numbers of another one (the arrivals).

    >>> first, second = (RandomStream(7, "lengths").uniform(2).tolist() for _ in range(2))
    >>> first == second
    True
    """

    def __init__(self, seed: int, stream: str) -> None:
        key = zlib.crc32(stream.encode())
        self._bits = np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(key,)))

    def uniform(self, count: int) -> Floats:
        """Draw uniform numbers from [0, 1)."""
        return (self._bits.random_raw(count) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def integers(self, low: int, high: int, count: int) -> Integers:
        """Draw whole numbers from `low` to `high`, inclusive."""
        return low + (self.uniform(count) * (high - low + 1)).astype(np.int64)

    def permutation(self, count: int) -> Integers:
        """Return the numbers 0 to `count` - 1 in random order."""
        return np.argsort(self.uniform(count), kind="stable").astype(np.int64)

    def choice(self, weights: npt.ArrayLike, count: int) -> Integers:
        """Draw indices of `weights` with probabilities in proportion to the weights."""
        cumulative = np.cumsum(np.asarray(weights, dtype=np.float64))
        drawn = np.searchsorted(cumulative, self.uniform(count) * cumulative[-1], side="right")
        return np.asarray(np.minimum(drawn, cumulative.size - 1), dtype=np.int64)

    def exponential(self, count: int, *, below: float | None = None) -> Floats:
        """Draw from the exponential distribution with mean 1, truncated at `below` if given."""
        share = 1.0 if below is None else 1.0 - float(exp(-min(below, 700.0)))
        return -log(1.0 - self.uniform(count) * share)

    def normal(self, count: int) -> Floats:
        """Draw from the standard normal distribution, by Marsaglia's polar method."""
        pairs = (count + 1) // 2
        parts = []
        while pairs > 0:
            x, y = 2.0 * self.uniform(2 * pairs).reshape(2, -1) - 1.0
            square = x * x + y * y
            inside = (square < 1.0) & (square > 0.0)
            x, y, square = x[inside], y[inside], square[inside]
            factor = np.sqrt(-2.0 * log(square) / square)
            parts += [x * factor, y * factor]
            pairs -= square.size
        return np.concatenate(parts)[:count] if parts else np.empty(0)

    def lognormal(self, count: int, mean: npt.ArrayLike, cv: float) -> Floats:
        """Draw from the lognormal distribution with this mean and coefficient of variation."""
        variance = float(log(1.0 + cv * cv))
        return np.asarray(mean) * exp(np.sqrt(variance) * self.normal(count) - variance / 2.0)

    def gamma(self, shape: Floats) -> Floats:
        """Draw from the gamma distribution with scale 1 for each shape; shapes are at least 1.

        The method is that of Marsaglia and Tsang (ACM TOMS 26(3), 2000).
        """
        d = shape - 1.0 / 3.0
        c = 1.0 / np.sqrt(9.0 * d)

        def attempt(indices: Integers) -> tuple[Floats, npt.NDArray[np.bool_]]:
            x = self.normal(indices.size)
            cube = 1.0 + c[indices] * x
            positive = cube > 0.0
            v = np.where(positive, cube * cube * cube, 1.0)
            bound = 0.5 * x * x + d[indices] * (1.0 - v + log(v))
            return d[indices] * v, positive & (log(1.0 - self.uniform(indices.size)) < bound)

        return sample_by_rejection(shape.size, attempt)


def sample_by_rejection(
    count: int, attempt: Callable[[Integers], tuple[Floats, npt.NDArray[np.bool_]]]
) -> Floats:
    """Rejection sampling: `attempt` draws for some indices and returns which are accepted.

    >>> sample_by_rejection(2, lambda indices: (indices + 0.5, indices >= 0)).tolist()
    [0.5, 1.5]
    """
    values = np.empty(count)
    indices = np.arange(count, dtype=np.int64)
    while indices.size:
        drawn, accepted = attempt(indices)
        values[indices[accepted]] = drawn[accepted]
        indices = indices[~accepted]
    return values
