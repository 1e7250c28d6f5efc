"""Conversion of a platform to native columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twinloop.engine.power_columns import build_power_columns
from twinloop.engine.state_columns import build_state_columns
from twinloop.platform import Platform
from twinloop.platform.cloud_checks import is_instance_name
from twinloop.platform.parts import Window

#: Native value for "no limit".
UNLIMITED = 2**32 - 1


@dataclass(frozen=True, slots=True)
class MachineTable:
    """The nodes of a platform, in the order of their native indices.

    Instances that were added during a run have rows as well; `instances` has their indices.
    """

    platform: Platform
    nodes: pl.DataFrame
    speed: NDArray[np.float64]
    group: NDArray[np.int64]
    instances: tuple[int, ...] = ()

    @classmethod
    def from_platform(
        cls, platform: Platform, speeds: Sequence[float], *, by_name: bool
    ) -> MachineTable:
        """Create the table; `speeds` by group of hosts; `by_name` sorts the nodes by name."""
        nodes = platform.nodes()
        hosts = [host for _, host in platform.hosts()]
        group = np.repeat(np.arange(len(hosts)), [host.count for host in hosts])
        order = np.arange(nodes.height)
        if by_name:
            order = nodes["node"].arg_sort().to_numpy().astype(np.int64)
        return cls(platform, nodes[order], np.array(speeds)[group[order]], group[order])

    @property
    def has_power_models(self) -> bool:
        """Whether any host has a power model."""
        return any(host.power is not None for _, host in self.platform.hosts())

    def build_columns(
        self, resources: tuple[str, ...], users: tuple[str, ...], queues: tuple[str, ...]
    ) -> dict[str, Any]:
        """Build the native columns of the machines."""
        hosts = [host for _, host in self.platform.hosts()]
        amounts = np.array(
            [[host.resources.get(name, 0.0) for name in resources] for host in hosts]
        )
        return {
            "cores": self.nodes["cores"].to_numpy(),
            "memory": self.nodes["memory"].fill_null(np.inf).to_numpy(),
            "speed": self.speed,
            "mhz": self.nodes["mhz"].fill_null(0.0).to_numpy(),
            "group": self.group,
            "powers": [build_power_columns(host.power) for host in hosts]
            if self.has_power_models
            else [],
            **build_state_columns(hosts, self.group),
            "resources": len(resources),
            "amounts": np.ascontiguousarray(amounts[self.group].reshape(-1), dtype=np.float64),
            "windows": self._build_windows(users, queues),
            "queues": [self._build_queue(name) for name in queues[: len(self.platform.queues)]],
        }

    def with_machine(
        self, name: str, cores: float, memory: float, like: int | None, speed: float
    ) -> MachineTable:
        """Return the table with one more machine; `like`: the row of a machine in its cluster."""
        row = 0 if like is None else like
        added = self.nodes[row : row + 1].with_columns(
            node=pl.lit(name),
            cores=pl.lit(float(cores)),
            memory=pl.lit(memory if memory < np.inf else None, dtype=pl.Float64),
        )
        if like is None:
            added = added.with_columns(
                pl.lit(None, dtype=added.schema[column]).alias(column)
                for column in added.columns
                if column not in ("node", "cluster", "cores", "memory")
            )
        return replace(
            self,
            nodes=pl.concat([self.nodes, added]),
            speed=np.append(self.speed, speed),
            group=np.append(self.group, self.group[row]),
        )

    def with_instance(self, name: str, cores: float, memory: float, host: int) -> MachineTable:
        """Return the table with one more instance."""
        table = self.with_machine(name, cores, memory, host, float(self.speed[host]))
        return replace(table, instances=(*self.instances, self.nodes.height))

    def find_use_of_name(self, name: str) -> str | None:
        """Return what has this name: a machine, a data store or a switch; None if nothing has."""
        network = self.platform.network
        if self.platform.clouds and is_instance_name(name):
            return "an instance of a cloud"
        if name in self.nodes["node"]:
            return "a machine"
        if any(store.name == name for store in self.platform.stores):
            return "a data store"
        return "a switch" if network is not None and name in network.switches else None

    @property
    def hosts(self) -> NDArray[np.bool_]:
        """Whether each machine is a node, not an instance."""
        mask = np.ones(self.nodes.height, dtype=np.bool_)
        mask[list(self.instances)] = False
        return mask

    @property
    def host_nodes(self) -> pl.DataFrame:
        """The nodes without the instances."""
        return self.nodes.filter(pl.Series(self.hosts)) if self.instances else self.nodes

    def mask(self, hosts: tuple[str, ...]) -> NDArray[np.uint8]:
        """Return the mask of the machines that these names select; all if there are none."""
        chosen = set(self.platform.select(hosts))
        return self.nodes["node"].is_in(chosen).cast(pl.UInt8).to_numpy()

    def _build_windows(
        self, users: tuple[str, ...], queues: tuple[str, ...]
    ) -> list[dict[str, Any]]:
        windows = [self._build_window(each, [], []) for each in self.platform.maintenance]
        for each in self.platform.reservations:
            owners = [users.index(name) for name in each.users if name in users]
            windows.append(
                self._build_window(each, owners, [queues.index(name) for name in each.queues])
            )
        return windows

    def _build_window(self, window: Window, users: list[int], queues: list[int]) -> dict[str, Any]:
        return {
            "start": window.start,
            "end": window.end,
            "machines": self.mask(window.hosts),
            "users": users,
            "queues": queues,
        }

    def _build_queue(self, name: str) -> dict[str, Any]:
        (queue,) = (each for each in self.platform.queues if each.name == name)
        return {
            "machines": self.mask(queue.hosts) if queue.hosts else np.zeros(0, dtype=np.uint8),
            "max_running": queue.max_running or UNLIMITED,
            "max_running_per_user": queue.max_running_per_user or UNLIMITED,
        }
