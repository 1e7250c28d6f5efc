"""Reader and writer of OpenDC's topology files.

As in OpenDC, a number without a unit is in MHz, MiB or W. The notes of the platform count these
assumptions, and list the fields that a platform cannot represent.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from twinloop.description.address import address_to_path
from twinloop.description.cleaning import Cleaning, CleaningKind
from twinloop.description.document import Address, ParsedDocument
from twinloop.description.errors import TwinloopWarning
from twinloop.description.files import is_file, write_atomically
from twinloop.description.text import load_document
from twinloop.platform.platform import Platform
from twinloop.platform.topology import OpenDCCluster, OpenDCHost, OpenDCPart, OpenDCTopology
from twinloop.platform.topology_export import export_topology

# The default power model of OpenDC (W).
_DEFAULT_POWER = {"model": "linear", "idle": 200.0, "max": 400.0}

# The fields of a host whose values may have a unit, by the unit of a number without one.
_QUANTITIES = {
    "MHz": [("cpu", "coreSpeed")],
    "MiB": [("memory", "memorySize")],
    "W": [
        (model, field)
        for model in ("cpuPowerModel", "powerModel")
        for field in ("power", "idlePower", "maxPower")
    ],
}


def is_topology(data: Any) -> bool:
    """Whether plain values are an OpenDC topology rather than a Twinloop platform."""
    clusters = data.get("clusters") if isinstance(data, dict) else None
    return any(
        isinstance(host, dict) and "cpu" in host
        for cluster in (clusters if isinstance(clusters, list) else [])
        if isinstance(cluster, dict) and isinstance(cluster.get("hosts"), list)
        for host in cluster["hosts"]
    )


def read_topology(path: str | Path) -> Platform:
    """Read the platform of a topology file; its `notes` list assumptions and ignored fields.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     notes = write_topology(Platform.parse("2x8@2.4GHz/64GiB"), folder + "/topology.json")
    ...     read_topology(folder + "/topology.json").total_cores
    16.0
    >>> print(*notes)
    ignored 1: no power model: OpenDC assumes 200 W to 400 W (clusters[0].hosts[0])
    """
    path = Path(path)
    values, notes = topology_to_platform_values(load_document(path), path.parent)
    return Platform.from_dict(values).with_notes(notes)


def write_topology(platform: Platform, path: str | Path) -> tuple[Cleaning, ...]:
    """Write a platform as a topology file; return notes on what the format cannot represent."""
    path = Path(path)
    values, notes = export_topology(platform, path.parent)
    with write_atomically(path) as stream:
        stream.write((json.dumps(values, indent=2) + "\n").encode())
    return notes


def platform_to_topology(platform: Platform) -> dict[str, Any]:
    """Convert a platform to the values of a topology file, every quantity with its unit.

    >>> platform = Platform.parse("2x8@2400MHz/64GiB")
    >>> platform_to_topology(platform)["clusters"][0]["hosts"][0]["cpu"]
    {'coreCount': 8, 'coreSpeed': '2400 MHz'}
    """
    return export_topology(platform, Path())[0]


def topology_to_platform_values(
    source: ParsedDocument, folder: Path
) -> tuple[dict[str, Any], list[Cleaning]]:
    """Convert a topology to the plain values of a platform, with notes on the conversion.

    Args:
        source: The parsed topology.
        folder: The folder that paths in the topology are relative to.
    """
    return _Conversion(source, OpenDCTopology._read(source, folder), folder).convert()


class _Conversion:
    """Conversion of one topology; `notes` has the places of each assumption, repair and loss."""

    def __init__(self, source: ParsedDocument, topology: OpenDCTopology, folder: Path) -> None:
        self.source = source
        self.topology = topology
        self.folder = folder
        self.notes: dict[tuple[CleaningKind, str], list[str]] = {}

    def convert(self) -> tuple[dict[str, Any], list[Cleaning]]:
        clusters: list[dict[str, Any]] = []
        for i, cluster in enumerate(self.topology.clusters):
            address: Address = ("clusters", i)
            if cluster.count > 1:
                self._note(
                    "assumed",
                    "clusters with a count are this number of clusters",
                    (*address, "count"),
                )
            for _ in range(cluster.count):
                name = self._make_unique(
                    cluster.name or f"C{len(clusters) + 1:02}", clusters, address
                )
                clusters.append({"name": name, **self._convert_cluster(cluster, address)})
        for address in _find_unknown_fields(self.topology, ()):
            what = f"field '{address[-1]}', which a platform cannot represent"
            self._note("ignored", what, address)
        self._note_bare_numbers()
        cleaned = [
            Cleaning(kind=kind, what=what, count=len(places), examples=tuple(places[:3]))
            for (kind, what), places in self.notes.items()
        ]
        return {"clusters": clusters}, cleaned

    def _convert_cluster(self, cluster: OpenDCCluster, address: Address) -> dict[str, Any]:
        hosts: list[dict[str, Any]] = []
        for j, host in enumerate(cluster.hosts):
            host_address: Address = (*address, "hosts", j)
            name = self._make_unique(host.name or f"H{j + 1:02}", hosts, host_address)
            hosts.append({"name": name, **self._convert_host(host, host_address)})
        trace = cluster.powerSource.carbonTracePath if cluster.powerSource else None
        carbon = None if trace is None else self._find_carbon(trace, (*address, "powerSource"))
        return {"hosts": hosts} if carbon is None else {"hosts": hosts, "carbon": carbon}

    def _find_carbon(self, path: str, address: Address) -> str | None:
        """Find the carbon trace of a topology: at its path, or beside the topology.

        Topologies often contain absolute paths of the machine that they were written on. A missing
        file is a warning, because the runs would have no carbon emissions.
        """
        field = (*address, "carbonTracePath")
        if self.source.file is None or is_file(self.folder / path):
            return (self.folder / path).as_posix()
        beside = self.folder / Path(path).name
        if is_file(beside):
            what = f"the carbon trace is {beside.name} beside the topology: {path} does not exist"
            self._note("repaired", what, field)
            return beside.as_posix()
        what = f"the carbon trace {path} does not exist, so carbon is unknown"
        self._note("ignored", what, field)
        problem = (
            f"{self.source.file}: the carbon trace {path} does not exist, so carbon is unknown"
        )
        warnings.warn(problem, TwinloopWarning, stacklevel=2)
        return None

    def _convert_host(self, host: OpenDCHost, address: Address) -> dict[str, Any]:
        resources = {} if host.gpu is None else {"gpu": host.gpu.count}
        return {
            "count": host.count,
            "cores": host.cpu.coreCount * host.cpu.count,
            "mhz": host.cpu.coreSpeed,
            "memory": host.memory.memorySize,
            "resources": resources,
            "power": self._convert_power(host, address),
        }

    def _convert_power(self, host: OpenDCHost, address: Address) -> dict[str, Any]:
        field = "cpuPowerModel" if host.cpuPowerModel else "powerModel"
        model = host.cpuPowerModel or host.powerModel
        if model is None:
            what = "hosts without a power model draw 200 W idle and 400 W at most, as in OpenDC"
            self._note("assumed", what, address)
            return _DEFAULT_POWER
        if host.cpuPowerModel and host.powerModel:
            self._note("ignored", "powerModel beside cpuPowerModel", (*address, "powerModel"))
        for name in sorted(model.unused_fields()):
            what = f"field '{name}', which the power model '{model.modelType}' does not use"
            self._note("ignored", what, (*address, field, name))
        return model.to_values()

    def _make_unique(self, name: str, others: list[dict[str, Any]], address: Address) -> str:
        used = {other["name"] for other in others}
        if name not in used:
            return name
        number = 2
        while f"{name}-{number}" in used:
            number += 1
        self._note("repaired", "duplicate names, made unique by a number", address)
        return f"{name}-{number}"

    def _note_bare_numbers(self) -> None:
        for i, cluster in enumerate(self.source.data["clusters"]):
            for j, host in enumerate(cluster["hosts"]):
                for unit, fields in _QUANTITIES.items():
                    for part, field in fields:
                        value = (host.get(part) or {}).get(field)
                        if value is not None and _has_no_unit(value):
                            address = ("clusters", i, "hosts", j, part, field)
                            what = f"numbers without a unit are in {unit}, as OpenDC reads them"
                            self._note("assumed", what, address)

    def _note(self, kind: CleaningKind, what: str, address: Address) -> None:
        line = self.source.line(address)
        file = Path(self.source.file).name if self.source.file else None
        where = address_to_path(address) if file is None or line is None else f"{file}:{line}"
        self.notes.setdefault((kind, what), []).append(where)


def _has_no_unit(value: Any) -> bool:
    return not isinstance(value, str) or not value.strip()[-1:].isalpha()


def _find_unknown_fields(part: OpenDCPart, address: Address) -> Iterator[Address]:
    for name in part.model_extra or {}:
        yield (*address, name)
    for name in type(part).model_fields:
        value = getattr(part, name)
        if isinstance(value, OpenDCPart):
            yield from _find_unknown_fields(value, (*address, name))
        elif isinstance(value, tuple):
            for index, item in enumerate(value):
                yield from _find_unknown_fields(item, (*address, name, index))
