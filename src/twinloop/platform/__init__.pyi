from .network import (
    LocalStore,
    NetworkDescription,
    NetworkLink,
    NetworkRoute,
    Ports,
    SharedStore,
)
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
    "LocalStore",
    "Maintenance",
    "Mse",
    "NetworkDescription",
    "NetworkLink",
    "NetworkRoute",
    "Platform",
    "Ports",
    "PowerModel",
    "Queue",
    "Reservation",
    "SharedStore",
    "Sqrt",
    "Square",
    "Table",
    "platform_to_topology",
    "read_topology",
    "write_topology",
]
