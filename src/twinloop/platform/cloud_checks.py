"""Checks of the clouds of a platform: their references, and that images and types fit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from twinloop.description.document import Address
from twinloop.description.problems import ProblemCollector, find_unknown_names
from twinloop.description.quantities import memory_to_text, number_to_text
from twinloop.platform.cloud_messages import check_messages
from twinloop.platform.clouds import Cloud, InstanceType, find_image_store, list_cloud_hosts
from twinloop.platform.meters import find_double_counts
from twinloop.platform.network import LOCAL

if TYPE_CHECKING:
    from twinloop.platform.parts import Cluster, Host
    from twinloop.platform.platform import Platform


def check_clouds(platform: Platform, findings: ProblemCollector) -> None:
    """Check the clouds of a platform: names, references, and the sizes of images and types."""
    findings.add_repeats(
        ((cloud.name, ("clouds", i, "name")) for i, cloud in enumerate(platform.clouds)), "cloud"
    )
    if platform.clouds:
        _check_names(platform, findings)
    _check_clusters(platform, findings)
    for i, cloud in enumerate(platform.clouds):
        if cloud.suspend_to != LOCAL:
            _check_store(platform, cloud.suspend_to, ("clouds", i, "suspend_to"), findings)
        for j, image in enumerate(cloud.images):
            address = ("clouds", i, "images", j, "store")
            _check_store(platform, image.store, address, findings)
            if image.size > 0 and image.store is None and not platform.stores:
                findings.add(
                    address,
                    f"image '{image.name}' needs a store, but the platform has none",
                    "describe one in `stores` of the platform",
                    kind="missing-field",
                )
    findings.check()
    _check_capacities(platform, findings)
    for i, cloud in enumerate(platform.clouds):
        hosts = list_cloud_hosts(platform, cloud)
        _check_caches(cloud, hosts, ("clouds", i), findings)
        if cloud.suspend_to == LOCAL:
            for group in (host.name for _, host in hosts if host.store is None):
                findings.add(
                    ("clouds", i, "suspend_to"),
                    f"local needs a store on every host, but '{group}' has none",
                    "describe the `store` of these hosts, or name a store of the platform",
                    kind="missing-field",
                )
        for j, kind in enumerate(cloud.types):
            _check_type(kind, hosts, ("clouds", i, "types", j), findings)
            _check_limits(kind, cloud, ("clouds", i, "types", j), findings)
        _check_meters(cloud, hosts, ("clouds", i, "meters"), findings)
        if cloud.messages is not None:
            check_messages(platform, cloud.messages, ("clouds", i, "messages"), findings)


def is_instance_name(name: str) -> bool:
    """Return whether an instance of a cloud can have this name.

    >>> is_instance_name("instance-12"), is_instance_name("instance-012")
    (True, False)
    """
    return re.fullmatch("instance-[1-9][0-9]*", name) is not None


def _check_names(platform: Platform, findings: ProblemCollector) -> None:
    """Check that no node, store or switch has the name of an instance."""
    named: list[tuple[str, Address]] = [
        (store.name, ("stores", i, "name")) for i, store in enumerate(platform.stores)
    ]
    if platform.network is not None:
        switches = enumerate(platform.network.switches)
        named += [(name, ("network", "switches", i)) for i, name in switches]
    # Generated names have those of their cluster and group.
    named += [
        (name, ("clusters", i, "hosts", j, "names", k))
        for i, cluster in enumerate(platform.clusters)
        for j, host in enumerate(cluster.hosts)
        for k, name in enumerate(host.names)
    ]
    for name, address in named:
        if is_instance_name(name):
            findings.add(
                address,
                f"'{name}' is the name of an instance of a cloud",
                "choose a name that is not `instance-` and a number",
                kind="duplicate-name",
            )


def _check_clusters(platform: Platform, findings: ProblemCollector) -> None:
    """Check that the clusters of the clouds exist, and belong to one cloud each."""
    known = [cluster.name for cluster in platform.clusters]
    owners: dict[str, str] = {}
    for i, cloud in enumerate(platform.clouds):
        address: Address = ("clouds", i, "clusters")
        unknown = dict(find_unknown_names(cloud.clusters or (), known, "cluster"))
        for j, name in enumerate(cloud.clusters or known):
            place = (*address, j) if cloud.clusters else address
            if j in unknown:
                findings.add(
                    place, f"unknown cluster '{name}'", unknown[j], kind="unknown-reference"
                )
            elif name in owners:
                findings.add(
                    place,
                    f"cluster '{name}' belongs to cloud '{owners[name]}' already",
                    "list the clusters of each cloud; a cluster belongs to at most one",
                    kind="duplicate-name",
                )
            else:
                owners[name] = cloud.name


def _check_store(
    platform: Platform, name: str | None, address: Address, findings: ProblemCollector
) -> None:
    known = [store.name for store in platform.stores]
    for _, remedy in find_unknown_names([] if name is None else [name], known, "store"):
        findings.add(address, f"unknown store '{name}'", remedy, kind="unknown-reference")


def _check_capacities(platform: Platform, findings: ProblemCollector) -> None:
    """Check that the images of all clouds fit into their stores."""
    used: dict[str, float] = {}
    for i, cloud in enumerate(platform.clouds):
        for j, image in enumerate(cloud.images):
            store = find_image_store(platform, image)
            if store is None:
                continue
            before = used.get(store.name, 0.0)
            used[store.name] = before + image.size
            if store.capacity is not None and before <= store.capacity < before + image.size:
                findings.add(
                    ("clouds", i, "images", j, "size"),
                    f"with image '{image.name}', the images of store '{store.name}' have "
                    f"{_format(before + image.size)}, more than its capacity, "
                    f"{_format(store.capacity)}",
                    "enlarge the store, or move an image to another one",
                    kind="out-of-range",
                )


def _check_caches(
    cloud: Cloud,
    hosts: Sequence[tuple[Cluster, Host]],
    address: Address,
    findings: ProblemCollector,
) -> None:
    """Check that the hosts have stores for images that they keep, which are large enough."""
    staged = 0.0
    for j, image in enumerate(cloud.images):
        if image.caching == "none":
            continue
        needed = image.size
        if image.caching == "pre-staged":
            needed = staged = staged + image.size
        for cluster, host in hosts:
            group = f"{cluster.name}-{host.name}"
            if host.store is None:
                findings.add(
                    (*address, "images", j, "caching"),
                    f"{image.caching} needs a store on every host, but '{group}' has none",
                    "describe the `store` of these hosts, or write `caching: none`",
                    kind="missing-field",
                )
                break
            capacity = host.store.capacity
            if capacity is not None and needed > capacity:
                images = (
                    f"the pre-staged images up to '{image.name}' have"
                    if image.caching == "pre-staged"
                    else f"image '{image.name}' has"
                )
                findings.add(
                    (*address, "images", j, "size"),
                    f"{images} {_format(needed)}, more than the store of a host of '{group}', "
                    f"{_format(capacity)}",
                    "enlarge the store of these hosts, or write `caching: none`",
                    kind="out-of-range",
                )
                break


def _check_type(
    kind: InstanceType,
    hosts: Sequence[tuple[Cluster, Host]],
    address: Address,
    findings: ProblemCollector,
) -> None:
    """Check that at least one host is large enough for a type."""
    cores, memory = kind.cores or 0.0, kind.memory or 0.0
    if any(
        cores <= host.cores and (host.memory is None or memory <= host.memory) for _, host in hosts
    ):
        return
    largest = max(host.cores for _, host in hosts)
    if cores > largest:
        field, size = "cores", f"{number_to_text(cores)} cores"
        limit = f"no host of the cloud has more than {number_to_text(largest)}"
    else:
        field, size = "memory", f"{number_to_text(cores)} cores with {_format(memory)} of memory"
        limit = "no host of the cloud has both"
    findings.add(
        (*address, field),
        f"type '{kind.name}' needs {size}, but {limit}",
        "reduce the type, or add larger hosts",
        kind="out-of-range",
    )


def _check_limits(
    kind: InstanceType, cloud: Cloud, address: Address, findings: ProblemCollector
) -> None:
    """Check that one instance of a type is within the limits of its cloud."""
    for field, needed, limit, format_size in (
        ("cores", kind.cores, cloud.limits.cores, number_to_text),
        ("memory", kind.memory, cloud.limits.memory, _format),
    ):
        if needed is not None and limit is not None and needed > limit:
            unit = " cores" if field == "cores" else " of memory"
            findings.add(
                (*address, field),
                f"type '{kind.name}' needs {format_size(needed)}{unit}, but the limits of the "
                f"cloud allow {format_size(limit)} for all instances together",
                "reduce the type, or raise the limits",
                kind="out-of-range",
            )


def _check_meters(
    cloud: Cloud,
    hosts: Sequence[tuple[Cluster, Host]],
    address: Address,
    findings: ProblemCollector,
) -> None:
    """Check that the hosts and clusters of meters exist, and that no sum counts a power twice."""
    if not any(meter.kind == "direct" or meter.sum for meter in cloud.meters):
        return
    by_cluster: dict[str, list[str]] = {}
    for cluster, host in hosts:
        by_cluster.setdefault(cluster.name, []).extend(host.node_names(cluster.name))
    names = [name for each in by_cluster.values() for name in each]
    is_known = True
    for j, meter in enumerate(cloud.meters):
        places: list[tuple[Address, str, str, list[str]]] = [
            (("hosts", k), "host", name, names) for k, name in enumerate(meter.hosts)
        ]
        if meter.cluster is not None:
            places.append((("cluster",), "cluster", meter.cluster, list(by_cluster)))
        for place, what, name, known in places:
            for _, remedy in find_unknown_names([name], known, what):
                is_known = False
                findings.add(
                    (*address, j, *place),
                    f"cloud '{cloud.name}' has no {what} '{name}'",
                    remedy,
                    kind="unknown-reference",
                )
    if is_known:
        for j, problem, remedy in find_double_counts(cloud.meters, by_cluster):
            findings.add((*address, j, "sum"), problem, remedy, kind="inconsistent-values")


def _format(amount: float) -> str:
    """Format an amount of data in decimal units where these are shorter."""
    for power, prefix in reversed(list(enumerate("kMGTP", start=1))):
        if amount >= 1000**power and (amount / 1000**power * 1000).is_integer():
            return f"{number_to_text(amount / 1000**power)} {prefix}B"
    return memory_to_text(amount)
