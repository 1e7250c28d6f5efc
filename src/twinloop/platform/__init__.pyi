from .billing import Billing, ReservedInstances, SpotMarket, TransferPrices
from .boots import Boot, Shortage, SlowBoots
from .clouds import (
    Cloud,
    CloudControllers,
    ControllerChoice,
    Image,
    InstanceLimits,
    InstanceType,
    Migration,
)
from .meter_expression import MeterExpression
from .meters import CloudMeter, order_meters
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
from .schiaas import read_schiaas

__all__ = [
    "AnyPowerModel",
    "Asymptotic",
    "Billing",
    "Boot",
    "Cloud",
    "CloudControllers",
    "CloudMeter",
    "Cluster",
    "Constant",
    "ControllerChoice",
    "Cubic",
    "Host",
    "Image",
    "InstanceLimits",
    "InstanceType",
    "Linear",
    "LocalStore",
    "Maintenance",
    "MeterExpression",
    "Migration",
    "Mse",
    "NetworkDescription",
    "NetworkLink",
    "NetworkRoute",
    "Platform",
    "Ports",
    "PowerModel",
    "Queue",
    "Reservation",
    "ReservedInstances",
    "SharedStore",
    "Shortage",
    "SlowBoots",
    "SpotMarket",
    "Sqrt",
    "Square",
    "Table",
    "TransferPrices",
    "order_meters",
    "platform_to_topology",
    "read_schiaas",
    "read_topology",
    "write_topology",
]
