"""The boot of an instance: fixed and random times, failures and refusals."""

from __future__ import annotations

from functools import lru_cache
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from twinloop.description.description import Description
from twinloop.description.problems import ProblemCollector
from twinloop.description.quantities import (
    MAX_TIME,
    CoreSeconds,
    Count,
    LogSpread,
    Positive,
    Seconds,
    Share,
)

#: Number of equally likely values by which a distribution is represented.
VALUES: Final = 1024
#: Significant digits of these values: the same on all machines.
_DIGITS: Final = 12


class SlowBoots(Description):
    """A heavy tail: a share of the boots takes an additional time with a Pareto distribution.

    The additional time exceeds t with probability (scale / t)^shape, for t of at least `scale`.

    >>> SlowBoots(share=0.2, scale="5 min").shape
    1.0
    """

    share: Share = Field(description="share of the boots, from 0 to 1")
    scale: Seconds = Field(description="least additional time (s)")
    shape: Positive = Field(
        1.0, description="shape of the Pareto distribution; the smaller, the heavier the tail"
    )


class Boot(Description):
    """The boot of an instance: a delay, then work on the cores of the instance.

    The delay is (delay + per_booting x instances of the cloud that boot) x a lognormal factor with
    median 1 and standard deviation `spread` of its logarithm, plus the time of a slow boot.

    >>> Boot(work=30, limit=1, delay="2s").delay
    2.0
    >>> Boot(delay="48s", per_booting="6s", slow={"share": 0.1, "scale": "5 min"}).is_random
    True
    """

    work: CoreSeconds = Field(0.0, description="work (reference core-seconds)")
    limit: Positive = Field(1.0, description="maximum number of cores that the work uses")
    delay: Seconds = Field(0.0, description="time before the work (s)")
    per_booting: Seconds = Field(
        0.0,
        description="additional delay for each instance of the cloud that boots when the boot "
        "begins, itself included (s)",
    )
    spread: LogSpread = Field(0.0, description="standard deviation of the logarithm of the delay")
    slow: SlowBoots | None = Field(
        None, description="share of boots that take much longer; by default none"
    )
    failed: Share = Field(
        0.0, description="share of the boots that fail: the instance is lost after the delay"
    )
    refused: Share = Field(
        0.0, description="share of the requests that the provider refuses at once"
    )

    @property
    def is_random(self) -> bool:
        """Whether two boots under the same conditions may differ."""
        return bool(self.spread or self.slow or self.failed or self.refused)


class Shortage(Description):
    """A shortage of hosts in a share of the runs, because other clients use them.

    Requests beyond the free hosts wait at the provider until an instance ends.

    >>> Shortage(share=0.3, hosts=[2, 10]).hosts
    (2, 10)
    """

    share: Share = Field(description="share of the runs, from 0 to 1")
    hosts: tuple[Count, Count] = Field(
        description="least and most free hosts in such a run, all numbers equally likely"
    )

    @model_validator(mode="after")
    def _check_hosts(self) -> Shortage:
        if self.hosts[0] > self.hosts[1]:
            findings = ProblemCollector()
            findings.add(("hosts",), "must be the least, then the most", kind="out-of-range")
            findings.check()
        return self


def make_factors(boot: Boot) -> NDArray[np.float64]:
    """Make equally likely factors of the delay; empty without a spread.

    >>> factors = make_factors(Boot(spread=0.5))
    >>> len(factors), round(float(np.median(factors)), 3)
    (1024, 1.0)
    """
    return _make_lognormal(boot.spread) if boot.spread else np.empty(0)


def make_slow_times(boot: Boot) -> NDArray[np.float64]:
    """Make equally likely additional times of slow boots; empty without them.

    >>> times = make_slow_times(Boot(slow={"share": 0.1, "scale": "60s", "shape": 2}))
    >>> round(float((times > 120).mean()), 2)
    0.25
    """
    return _make_pareto(boot.slow.scale, boot.slow.shape) if boot.slow else np.empty(0)


def _list_probabilities() -> NDArray[np.float64]:
    """List the middles of equally wide intervals from 0 to 1."""
    return (np.arange(VALUES) + 0.5) / VALUES


@lru_cache(maxsize=64)
def _make_lognormal(spread: float) -> NDArray[np.float64]:
    normal = np.array([NormalDist().inv_cdf(p) for p in _list_probabilities()])
    return _round(np.exp(spread * normal))


@lru_cache(maxsize=64)
def _make_pareto(scale: float, shape: float) -> NDArray[np.float64]:
    with np.errstate(over="ignore"):
        times = scale * (1.0 - _list_probabilities()) ** (-1.0 / shape)
    return _round(np.minimum(times, MAX_TIME))


def _round(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round to the digits that do not depend on the mathematical library of the machine."""
    return np.array([float(f"{each:.{_DIGITS}g}") for each in values])
