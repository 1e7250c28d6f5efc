"""The parts of the clouds of SCHIaaS while they are converted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from twinloop.platform.simgrid_platform import SimGridHost, XmlElement


@dataclass(eq=False)
class HostGroup:
    """The hosts of one cloud in one SimGrid cluster, or a single host: a cluster here."""

    name: str
    hosts: list[SimGridHost]


@dataclass(eq=False)
class CloudStore:
    """The storages of one cloud on one host: a store of the platform."""

    name: str
    host: str
    ids: list[str]
    elements: list[XmlElement]


@dataclass(eq=False)
class CloudParts:
    """A cloud with what its file says, and its groups of hosts and stores."""

    element: XmlElement
    name: str
    compute: XmlElement
    config: XmlElement
    standard_power: float | None
    groups: list[HostGroup] = field(default_factory=list)
    stores: list[CloudStore] = field(default_factory=list)
    #: The node of the host of the controller in the network; None: it has no route to the hosts.
    controller: str | None = None


def make_unique(names: Sequence[str], taken: set[str]) -> str:
    """Return the first name that is not taken, or the last one with a number; it is then taken."""
    name = next((each for each in names if each not in taken), "")
    number = 2
    while not name or name in taken:
        name = f"{names[-1]}-{number}"
        number += 1
    taken.add(name)
    return name
