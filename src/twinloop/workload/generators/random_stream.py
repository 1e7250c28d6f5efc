"""Random figures that are the same on every machine and with every version of NumPy.

NumPy promises the bits of PCG64 for a seed, but not what its distributions make of them. Here the
distributions are made from those bits, with arithmetic that IEEE 754 fixes to the last place.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from twinloop.workload.generators.elementary import Floats, exp, log

Integers = npt.NDArray[np.int64]


class RandomStream:
    """A stream of random figures, fixed by a seed and the name of what is drawn.

    Streams with different names are independent: what is drawn from one (the lengths, say) does
    not move what is drawn from another (the arrivals).

    >>> one, other = (RandomStream(7, "lengths").uniform(2).tolist() for _ in range(2))
    >>> one == other
    True
    """

    def __init__(self, seed: int, stream: str) -> None:
        key = zlib.crc32(stream.encode())
        self._bits = np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(key,)))

    def uniform(self, count: int) -> Floats:
        """Figures of [0, 1)."""
        return (self._bits.random_raw(count) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def integers(self, low: int, high: int, count: int) -> Integers:
        """Whole figures from `low` to `high`, both included."""
        return low + (self.uniform(count) * (high - low + 1)).astype(np.int64)

    def order(self, count: int) -> Integers:
        """The figures 0 to `count` - 1 in random order."""
        return np.argsort(self.uniform(count), kind="stable").astype(np.int64)

    def pick(self, weights: npt.ArrayLike, count: int) -> Integers:
        """Positions in `weights`, each as likely as its weight says."""
        reach = np.cumsum(np.asarray(weights, dtype=np.float64))
        drawn = np.searchsorted(reach, self.uniform(count) * reach[-1], side="right")
        return np.asarray(np.minimum(drawn, reach.size - 1), dtype=np.int64)

    def exponential(self, count: int, *, below: float | None = None) -> Floats:
        """Figures of the exponential distribution of mean 1; all less than `below`, if given."""
        share = 1.0 if below is None else 1.0 - float(exp(-min(below, 700.0)))
        return -log(1.0 - self.uniform(count) * share)

    def normal(self, count: int) -> Floats:
        """Figures of the standard normal distribution, by Marsaglia's polar method."""
        pairs = (count + 1) // 2
        found = []
        while pairs > 0:
            x, y = 2.0 * self.uniform(2 * pairs).reshape(2, -1) - 1.0
            square = x * x + y * y
            inside = (square < 1.0) & (square > 0.0)
            x, y, square = x[inside], y[inside], square[inside]
            stretch = np.sqrt(-2.0 * log(square) / square)
            found += [x * stretch, y * stretch]
            pairs -= square.size
        return np.concatenate(found)[:count] if found else np.empty(0)

    def lognormal(self, count: int, mean: npt.ArrayLike, cv: float) -> Floats:
        """Lognormal figures of this mean and coefficient of variation (deviation by mean)."""
        variance = float(log(1.0 + cv * cv))
        return np.asarray(mean) * exp(np.sqrt(variance) * self.normal(count) - variance / 2.0)

    def gamma(self, shape: Floats) -> Floats:
        """A figure of the gamma distribution of scale 1 for each shape, all at least 1.

        The method is Marsaglia and Tsang's (ACM TOMS 26(3), 2000).
        """
        d = shape - 1.0 / 3.0
        c = 1.0 / np.sqrt(9.0 * d)

        def attempt(places: Integers) -> tuple[Floats, npt.NDArray[np.bool_]]:
            x = self.normal(places.size)
            cube = 1.0 + c[places] * x
            positive = cube > 0.0
            v = np.where(positive, cube * cube * cube, 1.0)
            bound = 0.5 * x * x + d[places] * (1.0 - v + log(v))
            return d[places] * v, positive & (log(1.0 - self.uniform(places.size)) < bound)

        return sample_by_rejection(shape.size, attempt)


def sample_by_rejection(
    count: int, attempt: Callable[[Integers], tuple[Floats, npt.NDArray[np.bool_]]]
) -> Floats:
    """A figure for each place: `attempt` draws for some and says which it keeps.

    >>> sample_by_rejection(2, lambda places: (places + 0.5, places >= 0)).tolist()
    [0.5, 1.5]
    """
    figures = np.empty(count)
    places = np.arange(count, dtype=np.int64)
    while places.size:
        drawn, accepted = attempt(places)
        figures[places[accepted]] = drawn[accepted]
        places = places[~accepted]
    return figures
