"""Messages between the client and the controller of a cloud, over the network of the platform."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from pydantic import BeforeValidator, Field, WithJsonSchema

from twinloop.description.description import Description
from twinloop.description.document import Address
from twinloop.description.problems import ProblemCollector, find_unknown_names
from twinloop.description.quantities import MEMORY, Name
from twinloop.platform.network import are_connected

if TYPE_CHECKING:
    from twinloop.platform.platform import Platform

_Size = Annotated[
    float, Field(ge=0), BeforeValidator(MEMORY.read), WithJsonSchema(MEMORY.schema(positive=False))
]
#: Names of nodes that a message suggests at most.
_SUGGESTED: Final = 100


class CloudMessages(Description):
    """The messages of a cloud: the nodes of its client and its controller, and their sizes.

    >>> CloudMessages(client="office", controller="front", size="2 kB").size
    2000.0
    """

    client: Name = Field(description="node of the client: a host, a store or a switch")
    controller: Name = Field(description="node of the controller: a host, a store or a switch")
    size: _Size = Field(1000.0, description="size of a request of the client (bytes)")
    reply: _Size | None = Field(
        1000.0,
        description="size of an answer of the controller (bytes); null: answers take no time",
    )


def check_messages(
    platform: Platform, messages: CloudMessages, address: Address, findings: ProblemCollector
) -> None:
    """Check that client and controller are nodes of the platform, and that links connect them."""
    switches = platform.network.switches if platform.network is not None else ()
    hosts = platform.select()
    places = [*switches, *(store.name for store in platform.stores)]
    is_known = True
    for field in ("client", "controller"):
        name = getattr(messages, field)
        if name in places or name in hosts:
            continue
        is_known = False
        remedy = find_unknown_names([name], [*places, *hosts[:_SUGGESTED]], "node")[0][1]
        findings.add((*address, field), f"unknown node '{name}'", remedy, kind="unknown-reference")
    if is_known and not are_connected(platform, messages.client, messages.controller):
        findings.add(
            address,
            f"no links lead from '{messages.client}' to '{messages.controller}'",
            "add a link",
            kind="inconsistent-values",
        )
