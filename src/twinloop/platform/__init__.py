"""Descriptions of where things run: hosts, clusters, queues, power; and the base of them all."""

from typing import TYPE_CHECKING

from twinloop._deferred import defer_imports

if TYPE_CHECKING:
    from twinloop.description.description import Description, FilePath
    from twinloop.description.problems import DescriptionError
    from twinloop.platform.opendc import read_topology, to_opendc_topology, write_topology
    from twinloop.platform.parts import Cluster, Host, Maintenance, Queue, Reservation
    from twinloop.platform.platform import Platform
    from twinloop.platform.power import (
        AnyPowerModel,
        Asymptotic,
        Constant,
        Cubic,
        Linear,
        Mse,
        PowerModel,
        Sqrt,
        Square,
        Table,
    )

__all__ = [
    "AnyPowerModel",
    "Asymptotic",
    "Cluster",
    "Constant",
    "Cubic",
    "Description",
    "DescriptionError",
    "FilePath",
    "Host",
    "Linear",
    "Maintenance",
    "Mse",
    "Platform",
    "PowerModel",
    "Queue",
    "Reservation",
    "Sqrt",
    "Square",
    "Table",
    "read_topology",
    "to_opendc_topology",
    "write_topology",
]

defer_imports(__name__)
