"""Conversion of a platform to an OpenDC topology."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twinloop.description.address import address_to_path
from twinloop.description.cleaning import Cleaning
from twinloop.description.description import make_relative
from twinloop.description.document import Address
from twinloop.description.errors import InputError
from twinloop.description.problems import DescriptionError
from twinloop.description.quantities import number_to_text
from twinloop.platform.parts import Cluster, Host
from twinloop.platform.platform import Platform
from twinloop.platform.power import Asymptotic, Constant, Mse, PowerModel, Table


def export_topology(
    platform: Platform, folder: Path
) -> tuple[dict[str, Any], tuple[Cleaning, ...]]:
    """Convert a platform to a topology; return it with notes on what it cannot represent."""
    export = _Export(folder)
    clusters = [
        export.export_cluster(cluster, ("clusters", i))
        for i, cluster in enumerate(platform.clusters)
    ]
    if export.problems:
        raise DescriptionError(export.problems)
    for field in ("queues", "reservations", "maintenance", "clouds"):
        for i, _ in enumerate(getattr(platform, field)):
            export.note_loss(f"{field}, which a topology does not have", (field, i))
    for i, _ in enumerate(platform.stores):
        export.note_loss("stores, which a topology does not have", ("stores", i))
    if platform.network is not None:
        export.note_loss("the network, which a topology does not have", ("network",))
    notes = tuple(
        Cleaning(kind="ignored", what=what, count=len(places), examples=tuple(places[:3]))
        for what, places in export.losses.items()
    )
    return {"clusters": clusters}, notes


class _Export:
    """Collects the problems and losses of one conversion."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.problems: list[InputError] = []
        self.losses: dict[str, list[str]] = {}

    def note_loss(self, what: str, address: Address) -> None:
        self.losses.setdefault(what, []).append(address_to_path(address))

    def export_cluster(self, cluster: Cluster, address: Address) -> dict[str, Any]:
        hosts = [self.export_host(h, (*address, "hosts", j)) for j, h in enumerate(cluster.hosts)]
        values: dict[str, Any] = {"name": cluster.name, "hosts": hosts}
        if isinstance(cluster.carbon, float):
            self.note_loss("a constant carbon intensity: OpenDC reads a file", (*address, "carbon"))
        elif cluster.carbon is not None:
            values["powerSource"] = {"carbonTracePath": make_relative(cluster.carbon, self.folder)}
        return values

    def export_host(self, host: Host, address: Address) -> dict[str, Any]:
        for field in ("mhz", "memory"):
            if getattr(host, field) is None:
                self.add_problem((*address, field), "is unknown, but required by OpenDC")
        if not host.cores.is_integer():
            self.add_problem((*address, "cores"), "must be a whole number in OpenDC")
        elif host.cores >= 2**31:
            self.add_problem((*address, "cores"), "must be below 2^31 in OpenDC")
        if host.names:
            self.note_loss("names of nodes: OpenDC generates names", (*address, "names"))
        for field in ("ports", "store"):
            if getattr(host, field) is not None:
                self.note_loss(f"{field}, which a topology does not have", (*address, field))
        if host.speed is not None:
            self.note_loss("speed: OpenDC has only the clock", (*address, "speed"))
        values: dict[str, Any] = {
            "name": host.name,
            "count": host.count,
            "cpu": {
                "coreCount": int(host.cores),
                "coreSpeed": f"{_format_number(host.mhz or 0)} MHz",
            },
            "memory": {"memorySize": _format_memory(host.memory or 0)},
        }
        for name in host.resources:
            self.note_loss(
                f"resource '{name}': OpenDC needs more than its amount", (*address, name)
            )
        if host.power is None:
            self.note_loss("no power model: OpenDC assumes 200 W to 400 W", address)
        else:
            values["cpuPowerModel"] = self.export_power(host.power, (*address, "power"))
        return values

    def export_power(self, power: PowerModel, address: Address) -> dict[str, Any]:
        match power:
            case Table():
                self.add_problem(address, "OpenDC has no power model from a table")
                return {}
            case Constant(power=watts):
                ends = {
                    key: f"{_format_number(watts)} W" for key in ("power", "idlePower", "maxPower")
                }
                return {"modelType": "constant", **ends}
        values = power.to_dict(complete=True)
        topology = {
            "modelType": values["model"],
            "idlePower": f"{_format_number(values['idle'])} W",
            "maxPower": f"{_format_number(values['max'])} W",
        }
        match power:
            case Mse(r=r):
                topology["calibrationFactor"] = r
            case Asymptotic(a=a, dvfs=dvfs):
                topology |= {"asymUtil": a, "dvfs": dvfs}
        return topology

    def add_problem(self, address: Address, problem: str) -> None:
        self.problems.append(
            InputError(problem, kind="not-representable", field=address_to_path(address))
        )


def _format_number(number: float) -> str:
    # OpenDC does not accept a plus sign in an exponent.
    return number_to_text(float(number)).replace("e+", "e")


def _format_memory(amount: float) -> str:
    mebibytes = amount / 2**20
    if mebibytes.is_integer():
        return f"{_format_number(mebibytes)} MiB"
    return f"{_format_number(amount)} B"
