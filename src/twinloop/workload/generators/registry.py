"""Registry of workload generators."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from twinloop.description import InputError
from twinloop.description.address import suggest_name
from twinloop.trace import Trace
from twinloop.workload.generators.arrays import Arrays
from twinloop.workload.generators.benchmark_workflows import Chain, ForkJoin
from twinloop.workload.generators.burn import Burn
from twinloop.workload.generators.bursts import Bursts
from twinloop.workload.generators.description import Generator
from twinloop.workload.generators.ffmpeg import FFmpeg
from twinloop.workload.generators.lublin import Lublin
from twinloop.workload.generators.parallel import ParallelTasks
from twinloop.workload.generators.poisson import PoissonTasks
from twinloop.workload.generators.recipe import Recipe
from twinloop.workload.generators.sessions import SessionTasks

_GENERATORS: Mapping[str, type[Generator]] = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            PoissonTasks,
            Bursts,
            ParallelTasks,
            Lublin,
            SessionTasks,
            Arrays,
            FFmpeg,
            Burn,
            Chain,
            ForkJoin,
            Recipe,
        )
    }
)


def list_generators() -> Mapping[str, type[Generator]]:
    """Return the classes of all generators by name.

    >>> list_generators()["lublin"].title
    "Lublin and Feitelson's rigid jobs of supercomputers, with a daily cycle"
    """
    return _GENERATORS


def make_generator(name: str, **parameters: Any) -> Generator:
    """Create the generator with this name and these parameters.

    >>> make_generator("poisson", tasks=10).generate(seed=3)
    <Trace of 10 tasks>
    >>> make_generator("lubin")
    Traceback (most recent call last):
    twinloop.InputError: generator: unknown generator 'lubin' (did you mean 'lublin'?) [TL0209]
    """
    kind = _GENERATORS.get(name)
    if kind is None:
        raise InputError(
            f"unknown generator {name!r}",
            kind="unknown-name",
            field="generator",
            remedy=suggest_name(name, list(_GENERATORS)),
        )
    return kind(**parameters)


def generate(name: str, *, seed: int = 0, **parameters: Any) -> Trace:
    """Generate a log with the generator of this name.

    >>> generate("lublin", seed=1, tasks=500)
    <Trace of 500 tasks>
    """
    return make_generator(name, **parameters).generate(seed)
