"""The level of detail of a simulation, and the overheads of a workflow manager."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import Field

from twinloop.description import Description
from twinloop.description.address import address_from_path
from twinloop.description.errors import InputError
from twinloop.description.number_fields import find_number
from twinloop.description.problems import ProblemCollector
from twinloop.platform import Platform
from twinloop.platform.network import list_end_nodes
from twinloop.scenario.parameters import PLATFORM, declare

if TYPE_CHECKING:
    from twinloop.scenario.scenario import Scenario

#: The prefix of the parameters of a workflow manager.
SUBMISSION: Final = "submission."


class Submission(Description):
    """What a workflow manager adds to the times of tasks: it submits them to a scheduler as jobs.

    A task that is ready is handed over `interval` after the one before it, and waits for the
    scheduler `before` later. The scheduler decides at the end of a negotiation `cycle`, which
    begins when a job waits. The children of a task are ready `after` its end. None of these holds
    cores; `startup_overhead` and the latencies of the model do.

    >>> Submission(cycle="12s", before="5300ms").before
    5.3
    """

    cycle: float = declare("submission.cycle")
    before: float = declare("submission.before")
    after: float = declare("submission.after")
    interval: float = declare("submission.interval")


class Detail(Description):
    """The level of detail of the simulation: what of the description it takes into account.

    >>> Detail(network="one-link", storage="submit").submission
    'described'
    """

    network: Literal["described", "one-link", "star", "link+star"] = Field(
        "described",
        description="one-link: ports and links of hosts are unlimited, so that the other ports and "
        "links are shared by all; star: these are unlimited, and each host has ports and links of "
        "its own; link+star, described: both",
    )
    storage: Literal["described", "submit", "all"] = Field(
        "described",
        description="submit: all files are in the first store, and tasks read and write there; "
        "all: they are copied to the store of the host first, and from it at the end; described: "
        "each file is read and written in its own store",
    )
    submission: Literal["described", "direct", "negotiator"] = Field(
        "described",
        description="direct: tasks that are ready wait for the scheduler at once, without the "
        "overheads of `submission`; negotiator: with them; described: with them if any is given",
    )
    buffers: Literal["streamed", "whole"] = Field(
        "streamed",
        description="streamed: a file is read, sent and written at one rate; whole: it is read "
        "completely, then sent, then written",
    )
    cache: Literal["none", "host"] = Field(
        "none",
        description="with storage `all`: whether copies of files that were read stay in the store "
        "of the host for later tasks there; the least recently used ones make room",
    )

    def ignores(self, *, is_host_part: bool) -> bool:
        """Whether a port or a link is unlimited at this level of detail.

        Args:
            is_host_part: Whether it is a port of a host, or a link that ends at one.

        >>> Detail(network="star").ignores(is_host_part=False)
        True
        """
        return self.network == ("one-link" if is_host_part else "star")

    @property
    def moves_otherwise(self) -> bool:
        """Whether files take other steps than between their store and the task."""
        return self.storage == "all" or self.buffers == "whole"

    def is_managed(self, submission: Submission) -> bool:
        """Whether a workflow manager submits the tasks.

        >>> Detail().is_managed(Submission(before=5)), Detail().is_managed(Submission())
        (True, False)
        """
        if self.submission == "described":
            return submission != Submission()
        return self.submission == "negotiator"


def check_detail(detail: Detail, platform: Platform, findings: ProblemCollector) -> None:
    """Check that the platform has the stores that the level of detail needs."""
    address = ("model", "detail", "storage")
    if detail.storage in ("submit", "all") and not platform.stores:
        findings.add(
            address,
            f"'{detail.storage}' needs a data store for the files",
            "describe the store of the submit node in `stores` of the platform",
            kind="inconsistent-values",
        )
    if detail.storage == "all":
        bare = [
            f"clusters[{c}].hosts[{h}]"
            for c, cluster in enumerate(platform.clusters)
            for h, host in enumerate(cluster.hosts)
            if host.store is None
        ]
        if bare:
            findings.add(
                address,
                f"'all' needs a store at every host, and {bare[0]} has none",
                "describe its `store`, {} for one without limits",
                kind="inconsistent-values",
            )
    if detail.cache == "host" and detail.storage != "all":
        findings.add(
            ("model", "detail", "cache"),
            "has no effect without copies of files on hosts",
            "set `storage` to all",
            kind="no-effect",
        )


def find_inactive_parameters(scenario: Scenario, names: Iterable[str]) -> dict[str, str]:
    """Find the parameters that change nothing at the level of detail of a scenario, with reasons.

    >>> from twinloop.scenario import Scenario
    >>> scenario = Scenario(
    ...     platform={"clusters": [{"hosts": [{"cores": 4, "ports": "1 Gb/s"}]}]},
    ...     workload="log.swf", policy="fcfs", model={"detail": {"network": "one-link"}})
    >>> find_inactive_parameters(
    ...     scenario, ["platform.clusters[0].hosts[0].ports.in", "speed_factor"])
    {'platform.clusters[0].hosts[0].ports.in': 'detail.network is one-link'}
    """
    found = {}
    for name in names:
        reason = _describe_inactive(scenario, name)
        if reason is not None:
            found[name] = reason
    return found


def _describe_inactive(scenario: Scenario, name: str) -> str | None:
    model = scenario.model
    detail = model.detail
    if name.startswith(SUBMISSION):
        if detail.is_managed(model.submission):
            return None
        return (
            "detail.submission is direct"
            if detail.submission == "direct"
            else "no submission is described"
        )
    if not name.startswith(PLATFORM):
        return None
    platform = scenario.effective_platform()
    try:
        address = address_from_path(name.removeprefix(PLATFORM))
        if find_number(platform, address) is None:
            return "the platform does not have it"
    except InputError:
        return "the platform does not have it"
    of_host = _find_network_part(platform, address)
    if of_host is not None and detail.ignores(is_host_part=of_host):
        return f"detail.network is {detail.network}"
    if detail.storage == "submit" and address[0] == "clusters" and "store" in address:
        return "detail.storage is submit"
    return None


def _find_network_part(platform: Platform, address: tuple[Any, ...]) -> bool | None:
    """Whether an address is in a port or a link of hosts; None if it is in no port and no link."""
    if "ports" in address:
        return bool(address[0] == "clusters")
    if address[:2] == ("network", "links") and len(address) > 2 and platform.network is not None:
        hosts = set(platform.select())
        ends = platform.network.links[address[2]].between
        return any(node in hosts for end in ends for node in list_end_nodes(platform, end))
    return None
