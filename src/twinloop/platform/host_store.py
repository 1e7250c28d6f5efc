"""The data store of a host: with numbers of its own, or with those of another store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field, model_validator

from twinloop.description.address import suggest_name
from twinloop.description.problems import ProblemCollector
from twinloop.description.quantities import Name
from twinloop.platform.network import LocalStore

if TYPE_CHECKING:
    from twinloop.platform.platform import Platform


class HostStore(LocalStore):
    """The data store of each host of a group.

    >>> HostStore(like="submit").like
    'submit'
    """

    like: Name | None = Field(
        None,
        description="a store of the platform whose numbers it has: one parameter stands for both",
    )

    @model_validator(mode="after")
    def _check_like(self) -> HostStore:
        findings = ProblemCollector()
        if self.like is not None:
            for name in LocalStore.model_fields:
                if getattr(self, name) is not None:
                    findings.add(
                        (name,),
                        f"cannot be combined with 'like: {self.like}', which has all numbers",
                        "keep one of them",
                        kind="conflicting-fields",
                    )
        findings.check()
        return self


def check_host_stores(platform: Platform, findings: ProblemCollector) -> None:
    """Check that the platform has the stores that those of hosts are like."""
    known = [store.name for store in platform.stores]
    for c, cluster in enumerate(platform.clusters):
        for h, host in enumerate(cluster.hosts):
            if host.store is None or host.store.like is None or host.store.like in known:
                continue
            findings.add(
                ("clusters", c, "hosts", h, "store", "like"),
                f"unknown store '{host.store.like}'",
                suggest_name(host.store.like, known),
                kind="unknown-reference",
            )


def resolve_host_stores(platform: Platform) -> Platform:
    """Give the stores of hosts the numbers of the stores that they are like.

    >>> from twinloop.platform import Platform
    >>> platform = Platform(
    ...     clusters=[{"hosts": [{"cores": 1, "store": {"like": "disk"}}]}],
    ...     stores=[{"name": "disk", "read": "50 MB/s"}],
    ... )
    >>> resolve_host_stores(platform).clusters[0].hosts[0].store.read
    50000000.0
    """
    stores = {store.name: store for store in platform.stores}
    changes: dict[str, Any] = {}
    for c, cluster in enumerate(platform.clusters):
        for h, host in enumerate(cluster.hosts):
            if host.store is not None and host.store.like is not None:
                numbers = stores[host.store.like].to_dict()
                kept = {k: v for k, v in numbers.items() if k in LocalStore.model_fields}
                changes[f"clusters[{c}].hosts[{h}].store"] = kept
    return platform.replace(**changes) if changes else platform
