"""The Platform: clusters, queues, reservations, maintenance, stores, network and clouds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import polars as pl
from pydantic import Field, GetJsonSchemaHandler, field_validator, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from twinloop.description.description import Description
from twinloop.description.document import Address, ParsedDocument
from twinloop.description.errors import InputError
from twinloop.description.position import Position
from twinloop.description.problems import ProblemCollector, find_unknown_names
from twinloop.description.quantities import Label, memory_to_text, number_to_text
from twinloop.description.safe_text import escape_name
from twinloop.platform import shorthand
from twinloop.platform.cloud_checks import check_clouds
from twinloop.platform.clouds import Cloud, note_cloud_positions
from twinloop.platform.host_store import check_host_stores
from twinloop.platform.network import NetworkDescription, SharedStore, check_network
from twinloop.platform.parts import (
    Cluster,
    Host,
    Maintenance,
    Queue,
    Reservation,
    name_by_position,
)
from twinloop.trace import Trace
from twinloop.trace.tables import conform_table


class Platform(Description):
    """A platform: clusters of hosts, their queues, reservations and maintenance periods.

    In YAML it is a mapping with these fields, or the shorthand `NODESxCORES@CLOCK/MEMORY` with
    optional clock and memory: `100x1`, `2x8@2400MHz`, `4x64@2.5GHz/256GiB`.

    >>> platform = Platform.parse("2x8@2400MHz")
    >>> platform.total_cores
    16.0
    >>> platform.nodes()["node"].to_list()
    ['C01-H01-001', 'C01-H01-002']
    """

    name: Label = Field("", description="name of the platform, for reports")
    clusters: tuple[Cluster, ...] = Field(min_length=1, description="clusters")
    queues: tuple[Queue, ...] = Field(
        (), description="queues or partitions; by default none: every task may run on every host"
    )
    reservations: tuple[Reservation, ...] = Field(
        (), description="periods in which hosts are reserved for some tasks"
    )
    maintenance: tuple[Maintenance, ...] = Field(
        (), description="periods in which hosts are unavailable"
    )

    stores: tuple[SharedStore, ...] = Field(
        (), description="data stores; by default files of tasks are in the first one"
    )
    network: NetworkDescription | None = Field(
        None, description="network; by default a star without latency"
    )
    clouds: tuple[Cloud, ...] = Field(
        (), description="clouds: clusters whose hosts run instances; by default none"
    )

    # --- constructors ----------------------------------------------------------------------------

    @classmethod
    def parse(cls, text: str) -> Self:
        """Create a platform from its shorthand.

        >>> Platform.parse("4x64@2.5GHz/256GiB").clusters[0].hosts[0].memory
        274877906944.0
        """
        return cls.from_dict(shorthand.expand_shorthand(text))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a platform from a file: YAML, JSON, an OpenDC topology, or XML of SCHIaaS."""
        # Imported here: the module imports this one.
        from twinloop.platform import schiaas

        if schiaas.is_xml(path):
            platform = schiaas.read_schiaas(path)
            return cls.from_dict(platform.to_dict()).with_notes(platform.notes)
        return super().load(path)

    @classmethod
    def _read(cls, source: ParsedDocument, folder: Path) -> Self:
        # Imported here: the module imports this one.
        from twinloop.platform import opendc

        if opendc.is_topology(source.data):
            values, notes = opendc.topology_to_platform_values(source, folder)
            return cls.from_dict(values).with_notes(notes)
        return super()._read(source, folder)

    def note_positions(self, data: Any, file: str | None, address: Address = ()) -> None:
        """Note the positions of parts whose errors are found only in a run: stores and clouds."""
        # In memory, the platform may be a part of any scenario.
        if file is None or not isinstance(data, Mapping):
            return
        for i, shared in enumerate(self.stores):
            shared._position = Position(file, (*address, "stores", i))
        for c, cluster in enumerate(self.clusters):
            for h, host in enumerate(cluster.hosts):
                if host.store is not None:
                    step = ("clusters", c, "hosts", h, "store")
                    host.store._position = Position(file, (*address, *step))
        note_cloud_positions(self.clouds, data.get("clouds"), file, (*address, "clouds"))

    @classmethod
    def from_nodes(cls, nodes: pl.DataFrame) -> Self:
        """Create a platform from a node table with the columns of a Trace's `nodes` table.

        Identical nodes of a cluster (same cores, clock, memory, other resources) become one group
        of hosts and keep their names.

        >>> import polars as pl
        >>> nodes = pl.DataFrame({"node": ["a", "b", "c"], "cores": [8.0, 8.0, 4.0]})
        >>> [(host.cores, host.count) for host in Platform.from_nodes(nodes).clusters[0].hosts]
        [(8.0, 2), (4.0, 1)]
        """
        from twinloop.platform import node_groups

        return cls.from_dict(node_groups.nodes_to_platform_values(nodes))

    @classmethod
    def from_trace(cls, trace: Trace) -> Self:
        """Create the platform of a trace, from its node table or from the header of its log.

        The header of a log in the Standard Workload Format has the number of nodes (MaxNodes) and
        of processors (MaxProcs). All nodes get the same number of processors; if this is not a
        whole number, there is one node per processor.
        """
        if trace.nodes.height:
            return cls.from_nodes(trace.nodes)
        facts = trace.manifest.facts.get("swf") or {}
        procs, nodes = facts.get("max_procs"), facts.get("max_nodes")
        total = procs or nodes
        if not total:
            raise InputError(
                "the trace has neither nodes nor MaxProcs or MaxNodes: its platform is unknown",
                kind="missing-platform",
                remedy="give a platform, such as 100x1",
            )
        count = nodes if nodes and total % nodes == 0 else total
        return cls.parse(f"{count}x{total // count}")

    @classmethod
    def _long_form(cls, data: Any) -> Any:
        return shorthand.expand_shorthand(data) if isinstance(data, str) else data

    # --- properties ------------------------------------------------------------------------------

    def hosts(self) -> Iterator[tuple[Cluster, Host]]:
        """Iterate over all groups of hosts, each with its cluster."""
        return ((cluster, host) for cluster in self.clusters for host in cluster.hosts)

    @property
    def clock(self) -> float | None:
        """The common clock of all hosts with a known clock (MHz); None if there is none.

        It is the default reference clock of a log. The highest clock is not used, because a
        faster host would then lengthen tasks that never run on it.

        >>> Platform.parse("2x8@2400MHz").clock, Platform.parse("2x8").clock
        (2400.0, None)
        """
        clocks = {host.mhz for _, host in self.hosts() if host.mhz}
        return clocks.pop() if len(clocks) == 1 else None

    @property
    def total_nodes(self) -> int:
        """The number of nodes."""
        return sum(host.count for _, host in self.hosts())

    @property
    def total_cores(self) -> float:
        """The number of cores."""
        return sum(host.cores * host.count for _, host in self.hosts())

    @property
    def total_memory(self) -> float | None:
        """The total memory (bytes); None if the memory of a host is unknown.

        >>> Platform.parse("2x8/64GiB").total_memory == 2 * 64 * 2**30
        True
        """
        amounts = [(host.memory, host.count) for _, host in self.hosts()]
        if any(memory is None for memory, _ in amounts):
            return None
        return sum((memory or 0.0) * count for memory, count in amounts)

    def nodes(self) -> pl.DataFrame:
        """Return the node table: a row per node, with the columns of a Trace's `nodes` table."""
        parts = [
            pl.DataFrame({"node": host.node_names(cluster.name)}).with_columns(
                cluster=pl.lit(cluster.name),
                cores=pl.lit(host.cores),
                mhz=pl.lit(host.mhz, dtype=pl.Float64),
                memory=pl.lit(host.memory, dtype=pl.Float64),
                group=pl.lit(group, dtype=pl.UInt32),
            )
            for group, (cluster, host) in enumerate(self.hosts())
        ]
        frame = pl.concat(parts)
        resources = pl.Series(
            [[{"name": n, "amount": a} for n, a in h.resources.items()] for _, h in self.hosts()],
            dtype=pl.List(pl.Struct({"name": pl.String, "amount": pl.Float64})),
        )
        frame = frame.with_columns(resources=resources.gather(frame["group"]))
        return conform_table("nodes", frame.drop("group"))

    def select(self, hosts: Iterable[str] = ()) -> tuple[str, ...]:
        """Return the nodes with these names of clusters, groups of hosts or nodes; by default all.

        >>> Platform.parse("3x1").select(["C01-H01-002"])
        ('C01-H01-002',)
        """
        wanted = set(hosts)
        chosen: list[str] = []
        for cluster, host in self.hosts():
            whole = not wanted or {cluster.name, f"{cluster.name}-{host.name}"} & wanted
            names = host.node_names(cluster.name)
            chosen += names if whole else [name for name in names if name in wanted]
        return tuple(chosen)

    def __repr__(self) -> str:
        nodes = "1 node" if self.total_nodes == 1 else f"{self.total_nodes:,} nodes"
        title = self.shorthand or self.name or "of several kinds of hosts"
        return escape_name(f"<Platform {title}: {nodes}, {self.total_cores:,g} cores>")

    @property
    def shorthand(self) -> str | None:
        """The shorthand of the platform, or None if it has properties without a shorthand.

        >>> Platform.parse(" 2 x 8 @ 2.4GHz ").shorthand
        '2x8@2400MHz'
        """
        host = self.clusters[0].hosts[0]
        clock = f"@{number_to_text(host.mhz)}MHz" if host.mhz else ""
        memory = f"/{memory_to_text(host.memory)}" if host.memory else ""
        text = f"{host.count}x{number_to_text(host.cores)}{clock}{memory}"
        try:
            return text if type(self).parse(text) == self else None
        except InputError:
            return None

    # --- checks ----------------------------------------------------------------------------------

    @field_validator("clusters", mode="after")
    @classmethod
    def _set_names(cls, clusters: tuple[Cluster, ...]) -> tuple[Cluster, ...]:
        return name_by_position(clusters, "C")

    @model_validator(mode="after")
    def _check_consistency(self) -> Platform:
        findings = ProblemCollector()
        self._check_names(findings)
        findings.check()
        self._check_references(findings)
        findings.check()
        check_host_stores(self, findings)
        findings.check()
        if self.stores or self.network is not None:
            check_network(self, findings)
            findings.check()
        if self.clouds:
            check_clouds(self, findings)
            findings.check()
        return self

    def _check_names(self, findings: ProblemCollector) -> None:
        findings.add_repeats(
            ((c.name, ("clusters", i, "name")) for i, c in enumerate(self.clusters)), "cluster"
        )
        findings.add_repeats(
            ((q.name, ("queues", i, "name")) for i, q in enumerate(self.queues)), "queue"
        )
        findings.add_repeats(
            ((r.name, ("reservations", i, "name")) for i, r in enumerate(self.reservations)),
            "reservation",
        )
        for i, cluster in enumerate(self.clusters):
            findings.add_repeats(
                (
                    (h.name, ("clusters", i, "hosts", j, "name"))
                    for j, h in enumerate(cluster.hosts)
                ),
                "group of hosts in this cluster",
            )
        seen: set[str] = set()
        for i, cluster in enumerate(self.clusters):
            for j, host in enumerate(cluster.hosts):
                names = host.node_names(cluster.name)
                before = len(seen)
                seen.update(names)
                if len(seen) < before + len(names):
                    address = ("clusters", i, "hosts", j, "names" if host.names else "name")
                    findings.add(
                        address,
                        "gives a node a name that another node already has",
                        kind="duplicate-name",
                    )

    def _check_references(self, findings: ProblemCollector) -> None:
        # Names of nodes are generated only if needed, because there may be many nodes.
        groups = [c.name for c in self.clusters] + [f"{c.name}-{h.name}" for c, h in self.hosts()]
        group_names = set(groups)
        nodes: frozenset[str] | None = None
        for field in ("queues", "reservations", "maintenance"):
            for i, part in enumerate(getattr(self, field)):
                for j, name in enumerate(part.hosts):
                    if name in group_names:
                        continue
                    nodes = frozenset(self.select()) if nodes is None else nodes
                    if name not in nodes:
                        remedy = find_unknown_names([name], groups, "host")[0][1]
                        findings.add(
                            (field, i, "hosts", j),
                            f"unknown cluster, group of hosts or node '{name}'",
                            remedy,
                            kind="unknown-reference",
                        )
        queues = [queue.name for queue in self.queues]
        for i, reservation in enumerate(self.reservations):
            for j, remedy in find_unknown_names(reservation.queues, queues, "queue"):
                name = reservation.queues[j]
                address = ("reservations", i, "queues", j)
                findings.add(address, f"unknown queue '{name}'", remedy, kind="unknown-reference")

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        whole = handler(core_schema)
        short = {
            "type": "string",
            "pattern": shorthand.PATTERN,
            "description": "shorthand NODESxCORES@CLOCK/MEMORY, such as 2x8@2400MHz",
        }
        return {"anyOf": [short, whole]}
