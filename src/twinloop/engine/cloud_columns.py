"""Conversion of clouds, and of the policies that rent from them, to native columns."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from twinloop._core import NativePolicy
from twinloop.description.errors import InputError
from twinloop.description.plugins import CODE_PATTERN
from twinloop.description.position import Position, locate_errors
from twinloop.description.problems import find_unknown_names
from twinloop.description.quantities import MAX_PRICE
from twinloop.engine.cloud_images import CloudImage, list_images
from twinloop.engine.network_columns import list_nodes
from twinloop.platform.billing import BYTES_PER_GB
from twinloop.platform.boots import make_factors, make_slow_times
from twinloop.platform.clouds import find_memory_store, list_cloud_hosts
from twinloop.platform.network import LOCAL
from twinloop.platform.states import OFF, SWITCHING_OFF, SWITCHING_ON, make_phases
from twinloop.platform.time_series import load_series
from twinloop.policy.brokers import BROKERS, BudgetBroker, BuiltInBroker
from twinloop.policy.built_in import BuiltInPolicy
from twinloop.policy.cloud_clients import CloudClient, Manual
from twinloop.policy.consolidation import Consolidate
from twinloop.policy.filter_scheduler import OvercommittingPreset
from twinloop.policy.host_power import AlwaysOn, OnDemand
from twinloop.policy.interface import Policy
from twinloop.policy.registry import (
    CLIENTS,
    CONSOLIDATIONS,
    CONTROLLERS,
    POLICIES,
    WORKFLOW_POLICIES,
    resolve_policy,
)
from twinloop.workload.generators.random_stream import RandomStream

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from twinloop.engine.platform_columns import MachineTable
    from twinloop.platform import Platform
    from twinloop.platform.clouds import Cloud, ControllerChoice, Image, InstanceType
    from twinloop.policy import AnyPolicy
    from twinloop.workload import Workload

#: Native value for "no limit" of a count, and for "none" of an index.
_NONE: Final = 2**32 - 1
_NO_TIMES: Final = np.empty(0)


def build_cloud_columns(
    machines: MachineTable,
    providers: Sequence[Sequence[AnyPolicy]],
    users: Sequence[str],
    *,
    first_file: int,
    seed: int,
    epoch_ms: int | None = None,
    boot_times: NDArray[np.float64] = _NO_TIMES,
) -> list[dict[str, Any]]:
    """Build the native columns of the clouds; the images are files from `first_file` on.

    Boots of instances with the number of a record take its time in `boot_times` (s), in place of
    the boots of their images.
    """
    platform = machines.platform
    images = list_images(platform)
    files = {(each.cloud, each.image.name): (first_file + i, each) for i, each in enumerate(images)}
    clusters = machines.nodes["cluster"]
    columns = []
    for number, cloud in enumerate(platform.clouds):
        own = clusters.is_in(cloud.clusters or [each.name for each in platform.clusters])
        random = RandomStream(seed, f"cloud {cloud.name}")
        hosts = _select_free_hosts(own.arg_true().to_numpy().astype(np.int64), cloud, random)
        controllers = providers[number]
        columns.append(
            {
                "hosts": hosts,
                "images": [
                    _build_image(each, files.get((number, each.name))) for each in cloud.images
                ],
                "types": [
                    {
                        "fits_task": each.fits == "task",
                        "cores": each.cores or 0.0,
                        "memory": each.memory or 0.0,
                        "price": _find_price(cloud, each),
                    }
                    for each in cloud.types
                ],
                "max_instances": cloud.limits.instances or _NONE,
                "max_cores": cloud.limits.cores or np.inf,
                "max_memory": cloud.limits.memory or np.inf,
                "decision_delay": cloud.decision_delay,
                "inter_boot_delay": cloud.inter_boot_delay,
                "live": cloud.migration.mode == "live",
                "dirty_rate": cloud.migration.dirty_rate,
                "rounds": cloud.migration.rounds,
                "threshold": cloud.migration.threshold,
                "migration_bandwidth": cloud.migration.bandwidth or np.inf,
                "memory_store": _find_memory_store(platform, cloud),
                "suspends_locally": cloud.suspend_to == LOCAL,
                **_build_messages(machines, cloud),
                "billing": _build_billing(cloud, epoch_ms),
                "seed": int(random.integers(0, 2**52, 1)[0]),
                "boot_times": boot_times,
                "typical_boot": find_typical_boot(boot_times),
                "hosts_begin_off": any(isinstance(each, OnDemand) for each in controllers),
                "controllers": [
                    _make_native(each, seed, platform, cloud)
                    for each in controllers
                    if not isinstance(each, AlwaysOn)
                ],
                "names": SimpleNamespace(
                    tasks=(),
                    machines=tuple(machines.nodes["node"].gather(hosts)),
                    users=users,
                    groups=(),
                    queues=(),
                    kinds=(),
                    resources=(),
                ),
            }
        )
    return columns


def find_typical_boot(boot_times: NDArray[np.float64]) -> float:
    """Find the median of the recorded boots, which further instances take; NaN without any.

    >>> find_typical_boot(np.array([30.0, np.nan, 36.0]))
    33.0
    """
    known = boot_times[~np.isnan(boot_times)]
    return float(np.median(known)) if known.size else np.nan


def _find_price(cloud: Cloud, kind: InstanceType) -> float:
    """Find the price of a unit of time of an instance of this type."""
    if kind.price is not None:
        return kind.price
    return cloud.billing.price if cloud.billing else 0.0


def _build_billing(cloud: Cloud, epoch_ms: int | None) -> dict[str, Any]:
    """Build the native prices of a cloud; `epoch_ms`: the date of t = 0, if it is known."""
    billing, spot = cloud.billing, cloud.spot
    if billing is None:
        return {}
    times, prices = _NO_TIMES, _NO_TIMES
    if spot is not None:
        times, prices = load_series(
            spot.prices, "price", epoch_ms=epoch_ms, bounds=(0.0, MAX_PRICE)
        )
    reserved, transfer = billing.reserved, billing.transfer
    return {
        "unit": billing.unit,
        "from_request": billing.counted_from == "request",
        "reserved": reserved.instances if reserved else 0,
        "reserved_price": reserved.price if reserved else 0.0,
        "upfront": reserved.upfront if reserved else 0.0,
        "has_transfers": transfer is not None,
        "transfer_in": transfer.incoming / BYTES_PER_GB if transfer else 0.0,
        "transfer_out": transfer.out / BYTES_PER_GB if transfer else 0.0,
        "spot_times": times,
        "spot_prices": prices,
        "bills_interrupted": spot is not None and spot.interrupted_unit == "billed",
    }


def _select_free_hosts(
    hosts: NDArray[np.int64], cloud: Cloud, random: RandomStream
) -> NDArray[np.int64]:
    """Select the hosts that are free in this run: all but in a shortage."""
    shortage = cloud.shortage
    if shortage is None or random.uniform(1)[0] >= shortage.share:
        return hosts
    return hosts[: int(random.integers(*shortage.hosts, 1)[0])]


def _find_memory_store(platform: Platform, cloud: Cloud) -> int:
    store = find_memory_store(platform, cloud)
    return _NONE if store is None else platform.stores.index(store)


def _build_image(image: Image, placed: tuple[int, CloudImage] | None) -> dict[str, Any]:
    return {
        "file": placed[0] if placed else _NONE,
        "bytes": image.size,
        "store": placed[1].store if placed else _NONE,
        "caching": image.caching,
        "delay": image.boot.delay,
        "work": image.boot.work,
        "limit": image.boot.limit,
        "per_booting": image.boot.per_booting,
        "factors": make_factors(image.boot),
        "slow_times": make_slow_times(image.boot),
        "slow_share": image.boot.slow.share if image.boot.slow else 0.0,
        "failed_share": image.boot.failed,
        "refused_share": image.boot.refused,
    }


def _build_messages(machines: MachineTable, cloud: Cloud) -> dict[str, Any]:
    messages = cloud.messages
    nodes = list_nodes(machines) if messages else []
    return {
        "client_node": nodes.index(messages.client) if messages else _NONE,
        "controller_node": nodes.index(messages.controller) if messages else _NONE,
        "request_bytes": messages.size if messages else 0.0,
        "reply_bytes": np.nan if not messages or messages.reply is None else messages.reply,
    }


def make_providers(
    platform: Platform, *, allow_code: bool = False
) -> tuple[tuple[AnyPolicy, ...], ...]:
    """Make the controllers of each cloud; those written in Python only if code is allowed."""
    return tuple(
        _make_controllers(platform, number, allow_code=allow_code)
        for number in range(len(platform.clouds))
    )


def _make_controllers(
    platform: Platform, number: int, *, allow_code: bool
) -> tuple[AnyPolicy, ...]:
    """Make the controllers of a cloud: of the placement, then of the power of hosts, then moves."""
    chosen = platform.clouds[number].controllers
    find = partial(_find_position, platform, number)
    make = partial(_make_controller, allow_code=allow_code)
    # Instances have no dependencies, files and declared run times.
    placing = tuple(name for name in POLICIES if name not in WORKFLOW_POLICIES)
    placement = make(chosen.placement, find("placement"), placing, "places instances")
    machines = make(chosen.machines, find("machines"), CONTROLLERS, "switches hosts")
    if chosen.consolidation is None:
        return placement, machines
    # Hosts that are drained now are switched off when they are empty.
    moves = make(chosen.consolidation, find("consolidation"), CONSOLIDATIONS, "moves instances")
    return placement, machines, moves


def _make_controller(
    choice: ControllerChoice,
    position: Position,
    names: Sequence[str],
    what: str,
    *,
    allow_code: bool,
) -> AnyPolicy:
    if CODE_PATTERN.fullmatch(choice.name):
        return _resolve_controller(choice, position, allow_code=allow_code)
    if choice.name not in names:
        remedy = find_unknown_names([choice.name], names, "controller")[0][1]
        error = InputError(
            f"no controller that {what} is called '{choice.name}'",
            kind="unknown-name",
            remedy=remedy,
        )
        raise position.locate(error, "name")
    policy = _resolve_controller(choice, position, allow_code=allow_code)
    preempts = isinstance(policy, BuiltInPolicy) and policy.native_settings()["preempt"] != "no"
    if preempts:
        error = InputError(
            "a cloud cannot preempt instances", kind="inconsistent-values", remedy="set it to no"
        )
        raise position.locate(error, "options")
    return policy


def _resolve_controller(
    choice: ControllerChoice, position: Position, *, allow_code: bool
) -> AnyPolicy:
    with locate_errors(position):
        return resolve_policy(choice.name, choice.options, allow_code=allow_code)


def _find_position(platform: Platform, number: int, role: str) -> Position:
    """Return the position of a controller, also of one that was not read from a file."""
    choice: ControllerChoice = getattr(platform.clouds[number].controllers, role)
    address = ("platform", "clouds", number, "controllers", role)
    return choice._position or Position(None, address)


def _make_native(policy: AnyPolicy, seed: int, platform: Platform, cloud: Cloud) -> Any:
    if not isinstance(policy, BuiltInPolicy):
        return policy
    settings = policy.native_settings(seed)
    if isinstance(policy, Consolidate):
        settings |= _find_switching_cost(platform, cloud)
    return NativePolicy(settings)


def _find_switching_cost(platform: Platform, cloud: Cloud) -> dict[str, float]:
    """Find what it costs to switch off a host of the first group of a cloud, and on again."""
    _, host = list_cloud_hosts(platform, cloud)[0]
    off = host.states.get(OFF)
    ways = [host.states[name] for name in (SWITCHING_ON, SWITCHING_OFF) if name in host.states]
    seconds = energy = 0.0
    for way in ways:
        power = way.power or host.power
        for length, share in make_phases(way.duration, () if way.tasks == "kept" else way.tasks):
            seconds += length
            energy += length * (float(power.watts(share)) if power else 0.0)
    ports = host.ports.send if host.ports else None
    return {
        "idle_watts": float(host.power.watts(0.0)) if host.power else 0.0,
        "off_watts": float(off.power.watts(0.0)) if off and off.power else 0.0,
        "switch_time": seconds,
        "switch_energy": energy,
        "bandwidth": min(cloud.migration.bandwidth or np.inf, ports or np.inf),
    }


def resolve_client(
    policy: AnyPolicy,
    platform: Platform,
    providers: Sequence[Sequence[AnyPolicy]],
    settings: dict[str, Any],
) -> dict[str, Any]:
    """Return the native settings of a client with the numbers of its cloud, type and image."""
    # A client in Python gives its orders with the names.
    if not isinstance(policy, BuiltInPolicy):
        return settings
    if isinstance(policy, Manual) and platform.clouds:
        return settings
    if not isinstance(policy, CloudClient | Manual):
        if platform.clouds and all(
            not each.clusters or len(each.clusters) == len(platform.clusters)
            for each in platform.clouds
        ):
            raise InputError(
                f"'{policy.name}' rents no instances, and all hosts belong to clouds",
                kind="inconsistent-values",
                field="policy",
                remedy=f"choose a policy that rents instances ({', '.join(CLIENTS)})",
            )
        return settings
    if not platform.clouds:
        raise InputError(
            f"'{policy.name}' rents instances, and the platform has no clouds",
            kind="inconsistent-values",
            field="policy",
            remedy="describe `clouds` in the platform, or choose another policy",
        )
    assert isinstance(policy, CloudClient)
    cloud = _find_named(policy.cloud, platform.clouds, "cloud")
    chosen = platform.clouds[cloud]
    placement = providers[cloud][0]
    ratio = placement.overcommit if isinstance(placement, OvercommittingPreset | Policy) else 1.0
    type_ = _find_named(policy.type, chosen.types, "type")
    image = _find_named(policy.image, chosen.images, "image")
    if policy.bid is not None and chosen.spot is None:
        raise InputError(
            f"cloud '{chosen.name}' has no spot prices",
            kind="inconsistent-values",
            field="policy.options.bid",
            remedy="describe `spot` in the cloud, or leave the bid out",
        )
    _check_boots_succeed(policy, chosen.images[image])
    if isinstance(policy, BuiltInBroker):
        if policy.boot is None:
            settings |= _predict_boots(chosen.images[image], chosen.types[type_])
        _check_published_margin(settings, chosen)
    if isinstance(policy, BudgetBroker):
        _check_budget(policy, chosen, platform)
    if policy.name == "one-instance" and chosen.types[type_].fits is not None:
        raise InputError(
            "one-instance needs a type of instances with a number of cores, and "
            f"'{chosen.types[type_].name}' fits the task",
            kind="inconsistent-values",
            field="policy.options.type",
            remedy="describe a type with `cores` in the cloud",
        )
    return settings | {
        "cloud": cloud,
        "type": type_,
        "image": image,
        "overcommit": ratio,
    }


def inject_boots(policy: AnyPolicy, workload: Workload, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the native settings of a broker with the injected boots of the workload."""
    boots = workload.boots
    if boots.is_empty():
        return settings
    if not isinstance(policy, BuiltInBroker):
        raise InputError(
            f"'{policy.name}' cannot use recorded boots",
            kind="inconsistent-values",
            field="policy",
            remedy=f"choose a broker ({', '.join(BROKERS)}), or inject no boots",
        )
    known = boots["provisioned"]
    dates = [] if known.is_null().all() else known.fill_null(np.nan).to_list()
    return settings | {
        "request_dates": dates,
        "lags": boots["lag"].fill_null(0.0).to_list(),
        "recorded_dates": dates,
    }


def _predict_boots(image: Image, kind: InstanceType) -> dict[str, float]:
    """Predict boots by the image, without its copy and without what is random."""
    cores = min(image.boot.limit, kind.cores or np.inf)
    base = image.boot.delay + image.boot.work / cores
    return {"boot_base": base, "boot_per_booting": image.boot.per_booting}


def _check_published_margin(settings: Mapping[str, Any], cloud: Cloud) -> None:
    """Check that a broker with the published rule finds a scan at which it stops an instance.

    SimSchlouder counts whole seconds and stops an instance only at a scan within the margin.
    """
    if not settings["published"] or cloud.billing is None:
        return
    least = max(settings["interval"], settings["later_interval"]) + 1.0
    if least <= settings["margin"] < cloud.billing.unit:
        return
    allowed = f"from {least:g} s to less than the unit of billing, {cloud.billing.unit:g} s"
    if cloud.billing.unit <= least:
        raise InputError(
            f"no margin is possible: it must be {allowed}, in which the published rule gives "
            "instances back",
            kind="inconsistent-values",
            field="policy.options.published",
            remedy="choose a longer unit of billing, or `published: false`",
        )
    raise InputError(
        f"must be {allowed}, not {settings['margin']:g} s: with other margins the published rule "
        "gives no instance back",
        kind="out-of-range",
        field="policy.options.margin",
        remedy="change the margin, or choose `published: false`",
    )


def _check_budget(policy: BudgetBroker, cloud: Cloud, platform: Platform) -> None:
    """Check that the bill of the instances can be kept within the budget."""
    if cloud.messages is not None and cloud.billing is not None:
        raise InputError(
            f"a budget cannot be kept where orders take time: cloud '{cloud.name}' has messages, "
            "and an instance could begin another unit before its end arrives",
            kind="inconsistent-values",
            field="policy.options.budget",
            remedy="choose another broker, or remove the messages",
        )
    reserved = [each.billing.reserved for each in platform.clouds if each.billing is not None]
    upfront = sum(each.instances * each.upfront for each in reserved if each is not None)
    if upfront > policy.budget:
        raise InputError(
            f"must be at least {upfront:g}, the price of the reservations, not {policy.budget:g}",
            kind="out-of-range",
            field="policy.options.budget",
            remedy="give a larger budget, or remove the reservations that are not needed",
        )


def describe_misfit(policy: AnyPolicy, platform: Platform) -> str | None:
    """Describe why a client rents no instance for a task that is too large; None: it is no client.

    >>> from twinloop.platform import Platform
    >>> from twinloop.policy.cloud_clients import OnePerTask
    >>> cloud = {"name": "east", "types": [{"name": "small", "cores": 1}]}
    >>> platform = Platform(clusters=[{"hosts": [{"cores": 4}]}], clouds=[cloud])
    >>> describe_misfit(OnePerTask(), platform)
    "they do not fit on an instance of type 'small' of cloud 'east'"
    """
    if not isinstance(policy, CloudClient):
        return None
    cloud = platform.clouds[_find_named(policy.cloud, platform.clouds, "cloud")]
    kind = cloud.types[_find_named(policy.type, cloud.types, "type")]
    if kind.fits is None:
        return f"they do not fit on an instance of type '{kind.name}' of cloud '{cloud.name}'"
    return (
        f"an instance of type '{kind.name}' for them is larger than the hosts or the limits of "
        f"cloud '{cloud.name}' allow"
    )


def _check_boots_succeed(policy: CloudClient, image: Image) -> None:
    """Refuse a client that would replace instances for ever, because no boot succeeds."""
    if image.boot.failed == 1 and not isinstance(policy, BuiltInBroker):
        raise InputError(
            f"all boots of image '{image.name}' fail, and '{policy.name}' replaces instances "
            "without a limit",
            kind="inconsistent-values",
            field="policy",
            remedy=f"choose a broker ({', '.join(BROKERS)}), or a share `failed` below 1",
        )


def _find_named(name: str | None, parts: Sequence[Any], what: str) -> int:
    names = [each.name for each in parts]
    if name is None:
        return 0
    if name in names:
        return names.index(name)
    raise InputError(
        f"unknown {what} '{name}'",
        kind="unknown-reference",
        field=f"policy.options.{what}",
        remedy=find_unknown_names([name], names, what)[0][1],
    )
