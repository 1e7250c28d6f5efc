"""Notes on hosts that controllers switch at once and without power, because nothing is described.

Hosts without states are off at 0 W and switch in no time, which makes every saving look better than
it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import polars as pl

from twinloop.description.cleaning import Cleaning
from twinloop.platform.clouds import list_cloud_hosts
from twinloop.platform.states import OFF, SWITCHING_OFF, SWITCHING_ON
from twinloop.policy.host_power import OnDemand
from twinloop.policy.power_saving import PowerSaving
from twinloop.workload.cleaning_notes import note

if TYPE_CHECKING:
    from twinloop.platform.parts import Host
    from twinloop.platform.platform import Platform
    from twinloop.policy import AnyPolicy

_DESCRIBED: Final = {OFF, SWITCHING_ON, SWITCHING_OFF}


def note_free_switching(
    platform: Platform,
    controllers: Sequence[AnyPolicy],
    providers: Sequence[Sequence[AnyPolicy]],
) -> Iterator[Cleaning]:
    """Note the hosts without states that the controllers of a scenario or a cloud switch.

    Args:
        platform: The platform.
        controllers: The controllers of the scenario, which switch all hosts.
        providers: The controllers of each cloud, which switch its hosts.
    """
    switched: dict[str, list[Host]] = {}
    for each in _list_switching(controllers):
        switched.setdefault(each, []).extend(host for _, host in platform.hosts())
    for cloud, own in zip(platform.clouds, providers, strict=False):
        for each in _list_switching(own):
            hosts = [host for _, host in list_cloud_hosts(platform, cloud)]
            switched.setdefault(each, []).extend(hosts)
    places = {
        id(host): f"platform.clusters[{i}].hosts[{j}]"
        for i, cluster in enumerate(platform.clusters)
        for j, host in enumerate(cluster.hosts)
    }
    for name, hosts in switched.items():
        plain = {id(host): host for host in hosts if not _DESCRIBED & host.states.keys()}
        what = (
            f"hosts without states, which '{name}' switches on and off at once, and which need no "
            "power while they are off: describe off, switching-on and switching-off under `states`"
        )
        yield note(
            "assumed",
            what,
            pl.Series([places[each] for each in plain], dtype=pl.String),
            count=sum(host.count for host in plain.values()),
        )


def _list_switching(controllers: Sequence[AnyPolicy]) -> list[str]:
    return [each.name for each in controllers if isinstance(each, OnDemand | PowerSaving)]
