"""What a machine has too little of for the nodes of a run, and what nothing enforces there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from twinloop.description.errors import InputError
from twinloop.execution.local_machine import LocalMachine
from twinloop.execution.nodes.cpu_layout import CORE_TOLERANCE


class NodeSpec(NamedTuple):
    """A node to be laid onto the machine.

    >>> NodeSpec("a", cores=0.5, memory=2.0**30).cores
    0.5
    """

    name: str
    cores: float
    """Whole or not."""
    memory: float | None
    """Bytes; None: as much as there is."""


def check_fits(specs: Sequence[NodeSpec], machine: LocalMachine) -> None:
    """Make sure that the machine has what the nodes ask for.

    Raises:
        InputError: It has not.

    >>> small = LocalMachine((0, 1), 2.0, 2**30, None, None, ())
    >>> check_fits([NodeSpec("a", 3.0, None)], small)
    Traceback (most recent call last):
    twinloop.InputError: platform: 1 node asks for 3 cores, and this machine has 2
    (such as 2x1, 4x0.5 or 1x2 would fit)
    """
    for spec in specs:
        if not (math.isfinite(spec.cores) and spec.cores > 0):
            raise InputError(
                f"node '{spec.name}' has {spec.cores:g} cores",
                field="platform",
                remedy="a node that is to run something has more than none, and not endlessly many",
            )
    who = "1 node asks" if len(specs) == 1 else f"{len(specs)} nodes ask"
    cores = math.fsum(spec.cores for spec in specs)
    if cores > machine.cores + CORE_TOLERANCE:
        *most, last = machine.suggest_platforms()
        raise InputError(
            f"{who} for {cores:g} cores, and this machine has {machine.cores:g}",
            field="platform",
            remedy=f"such as {', '.join(most)} or {last} would fit",
        )
    memory = math.fsum(spec.memory or 0.0 for spec in specs)
    if memory > machine.memory:
        gibibytes = 2**30
        raise InputError(
            f"{who} for {memory / gibibytes:.4g} GiB of memory, and this machine has "
            f"{machine.memory / gibibytes:.4g} GiB",
            field="platform",
            remedy="give the nodes less, or do not say how much they have: then nothing is limited",
        )


def find_unenforced_limits(specs: Sequence[NodeSpec], enforced: set[str]) -> tuple[str, ...]:
    """What is weaker than these nodes ask for, when only some controllers are in force.

    >>> find_unenforced_limits([NodeSpec("a", 1.0, None)], {"cpu", "cpuset", "memory", "cpuacct"})
    ()
    >>> find_unenforced_limits([NodeSpec("a", 1.0, 2.0**30)], {"cpu", "cpuset", "cpuacct"})
    ('memory is not limited: a task may take more than its node has',)
    """
    found = []
    if "cpuset" not in enforced:
        found.append("CPUs are kept apart by affinity alone: a task may give itself others")
    if "cpu" not in enforced:
        if any(abs(spec.cores - round(spec.cores)) > CORE_TOLERANCE for spec in specs):
            found.append("fractions of cores are not enforced: a node may use its CPUs wholly")
        found.append(
            "cores of tasks are not enforced: those on one node share it process by process"
        )
    if "memory" not in enforced and any(spec.memory is not None for spec in specs):
        found.append("memory is not limited: a task may take more than its node has")
    return tuple(found)
