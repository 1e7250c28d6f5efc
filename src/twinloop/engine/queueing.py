"""Resources with queues, with the names and the semantics of SimPy: slots, stores, containers.

`twinloop.engine.Resource` is another thing: a capacity that all activities share at once.
"""

from typing import Any, NamedTuple

from twinloop._core import (
    BaseResource,
    Container,
    ContainerGet,
    ContainerPut,
    FilterStore,
    FilterStoreGet,
    Get,
    Preempted,
    PreemptiveResource,
    PriorityRequest,
    PriorityResource,
    PriorityStore,
    Put,
    Release,
    Request,
    SequenceView,
    Store,
    StoreGet,
    StorePut,
)
from twinloop._core import QueueingResource as Resource


class PriorityItem(NamedTuple):
    """Any object with a priority, for a `PriorityStore`; only the priorities are compared.

    >>> PriorityItem(1, "alarm") < PriorityItem(3, {"an": "invoice"})
    True
    """

    priority: Any
    item: Any

    def __lt__(self, other: "PriorityItem") -> bool:  # type: ignore[override]
        return bool(self.priority < other.priority)


__all__ = [
    "BaseResource",
    "Container",
    "ContainerGet",
    "ContainerPut",
    "FilterStore",
    "FilterStoreGet",
    "Get",
    "Preempted",
    "PreemptiveResource",
    "PriorityItem",
    "PriorityRequest",
    "PriorityResource",
    "PriorityStore",
    "Put",
    "Release",
    "Request",
    "Resource",
    "SequenceView",
    "Store",
    "StoreGet",
    "StorePut",
]

# Errors and representations show the public module and name, not those of the extension.
for _name in __all__:
    globals()[_name].__module__ = __name__
    globals()[_name].__name__ = globals()[_name].__qualname__ = _name
