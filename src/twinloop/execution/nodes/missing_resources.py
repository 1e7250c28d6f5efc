"""Resources that a machine lacks for the nodes of a run, and limits that are not enforced."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from twinloop.description.errors import InputError
from twinloop.execution.local_machine import LocalMachine
from twinloop.execution.nodes.cpu_layout import CORE_TOLERANCE


class NodeSpec(NamedTuple):
    """The size of a node on this machine.

    >>> NodeSpec("a", cores=0.5, memory=2.0**30).cores
    0.5
    """

    name: str
    cores: float
    """Number of cores; may be a fraction."""
    memory: float | None
    """Memory in bytes; None for no limit."""


def check_fits(specs: Sequence[NodeSpec], machine: LocalMachine) -> None:
    """Check that the machine has the cores and the memory of the nodes.

    Raises:
        InputError: It has too few cores or too little memory, or a node has an invalid size.

    >>> small = LocalMachine((0, 1), 2.0, 2**30, None, None, ())
    >>> check_fits([NodeSpec("a", 3.0, None)], small)
    Traceback (most recent call last):
    twinloop.InputError: platform: 1 node requests 3 cores, but this machine has 2
    (use a platform that fits, such as 2x1, 4x0.5 or 1x2) [TL0603]
    """
    for spec in specs:
        if not (math.isfinite(spec.cores) and spec.cores > 0):
            raise InputError(
                f"node '{spec.name}' has {spec.cores:g} cores",
                kind="out-of-range",
                field="platform",
                remedy="must be positive and finite",
            )
    request = "1 node requests" if len(specs) == 1 else f"{len(specs)} nodes request"
    cores = math.fsum(spec.cores for spec in specs)
    if cores > machine.cores + CORE_TOLERANCE:
        *others, last = machine.suggest_platforms()
        raise InputError(
            f"{request} {cores:g} cores, but this machine has {machine.cores:g}",
            kind="missing-resources",
            field="platform",
            remedy=f"use a platform that fits, such as {', '.join(others)} or {last}",
        )
    memory = math.fsum(spec.memory or 0.0 for spec in specs)
    if memory > machine.memory:
        gibibytes = 2**30
        raise InputError(
            f"{request} {memory / gibibytes:.4g} GiB of memory, but this machine has "
            f"{machine.memory / gibibytes:.4g} GiB",
            kind="missing-resources",
            field="platform",
            remedy="reduce the memory of the nodes, or leave it out: then it is not limited",
        )


def find_unenforced_limits(specs: Sequence[NodeSpec], enforced: set[str]) -> tuple[str, ...]:
    """List the limits of these nodes that are not enforced by the available controllers.

    >>> find_unenforced_limits([NodeSpec("a", 1.0, None)], {"cpu", "cpuset", "memory", "cpuacct"})
    ()
    >>> find_unenforced_limits([NodeSpec("a", 1.0, 2.0**30)], {"cpu", "cpuset", "cpuacct"})
    ('memory is not limited: a task may use more than its node has',)
    """
    warnings = []
    if "cpuset" not in enforced:
        warnings.append("CPUs are assigned by affinity alone: a task may change its affinity")
    if "cpu" not in enforced:
        if any(abs(spec.cores - round(spec.cores)) > CORE_TOLERANCE for spec in specs):
            warnings.append("fractions of cores are not enforced: a node may use its whole CPUs")
        warnings.append(
            "cores of tasks are not enforced: the tasks of a node share it process by process"
        )
    if "memory" not in enforced and any(spec.memory is not None for spec in specs):
        warnings.append("memory is not limited: a task may use more than its node has")
    return tuple(warnings)
