from .opendc import platform_to_topology, read_topology, write_topology
from .parts import Cluster, Host, Maintenance, Queue, Reservation
from .platform import Platform
from .power import (
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
    "platform_to_topology",
    "read_topology",
    "write_topology",
]
