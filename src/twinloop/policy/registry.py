"""Registry of scheduling policies: built-in ones, plug-ins, and Python classes by name."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from twinloop.description import DescriptionError
from twinloop.description.class_registry import (
    ClassRegistry,
    construct,
    make_unknown_option_error,
)
from twinloop.description.errors import InputError
from twinloop.policy.built_in import BuiltInPolicy

if TYPE_CHECKING:
    from twinloop.policy.interface import AnyPolicy

#: The group of entry points in which an installed package registers its policies.
ENTRY_POINT_GROUP: Final = "twinloop.policies"

_BATCH: Final = "twinloop.policy.batch"
_ORDERED: Final = "twinloop.policy.ordered_batch"
_FILTER: Final = "twinloop.policy.filter_scheduler"
_WORKFLOW: Final = "twinloop.policy.workflow"
_BROKERS: Final = "twinloop.policy.brokers"

#: The module and the class of each built-in policy; a module is imported when it is used.
_BUILT_IN: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "fifo": (_FILTER, "Fifo"),
        "fcfs": (_BATCH, "Fcfs"),
        "easy": (_BATCH, "Easy"),
        "easy-time": (_BATCH, "EasyTime"),
        "conservative": (_BATCH, "Conservative"),
        "sjf": (_BATCH, "Sjf"),
        "ljf": (_BATCH, "Ljf"),
        "priority": (_ORDERED, "Priority"),
        "fair-share": (_ORDERED, "FairShare"),
        "first-fit": (_FILTER, "FirstFit"),
        "best-fit": (_FILTER, "BestFit"),
        "worst-fit": (_FILTER, "WorstFit"),
        "pack-ic": (_FILTER, "PackIc"),
        "spread-ic": (_FILTER, "SpreadIc"),
        "spread-vcpu": (_FILTER, "SpreadVcpu"),
        "baseline-ic1": (_FILTER, "BaselineIc1"),
        "filter": (_FILTER, "Filter"),
        "random": (_FILTER, "RandomFit"),
        "round-robin": (_FILTER, "RoundRobin"),
        "list-scheduling": (_WORKFLOW, "ListScheduling"),
        "heft": (_WORKFLOW, "Heft"),
        "cpop": (_WORKFLOW, "Cpop"),
        "min-min": (_WORKFLOW, "MinMin"),
        "max-min": (_WORKFLOW, "MaxMin"),
    }
)

#: The names of the built-in policies.
POLICIES: Final = tuple(_BUILT_IN)

#: The names of those that schedule workflows.
WORKFLOW_POLICIES: Final = tuple(
    name for name, (module, _) in _BUILT_IN.items() if module == _WORKFLOW
)

#: The module and the class of each built-in controller that places no tasks.
_CONTROLLERS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "power-saving": ("twinloop.policy.power_saving", "PowerSaving"),
        "on-demand": ("twinloop.policy.host_power", "OnDemand"),
        "always-on": ("twinloop.policy.host_power", "AlwaysOn"),
    }
)

#: The module and the class of each built-in policy that rents instances of a cloud.
_CLIENTS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "one-per-task": ("twinloop.policy.cloud_clients", "OnePerTask"),
        "one-instance": ("twinloop.policy.cloud_clients", "OneInstance"),
        "manual": ("twinloop.policy.cloud_clients", "Manual"),
        "asap": (_BROKERS, "Asap"),
        "afap": (_BROKERS, "Afap"),
        "list": (_BROKERS, "ListBroker"),
        "deadline": (_BROKERS, "DeadlineBroker"),
        "budget": (_BROKERS, "BudgetBroker"),
    }
)

#: The module and the class of each built-in controller that moves instances of a cloud.
_CONSOLIDATIONS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {"consolidate": ("twinloop.policy.consolidation", "Consolidate")}
)

#: The names of the built-in controllers that move instances of a cloud.
CONSOLIDATIONS: Final = tuple(_CONSOLIDATIONS)

#: The names of the built-in policies that need a platform with clouds.
CLIENTS: Final = tuple(_CLIENTS)

#: The names of the built-in controllers that act beside a policy.
CONTROLLERS: Final = tuple(_CONTROLLERS)

_KNOWN: Final = {**_BUILT_IN, **_CLIENTS, **_CONTROLLERS, **_CONSOLIDATIONS}

_REGISTRY: Final = ClassRegistry("policy", ENTRY_POINT_GROUP, (*POLICIES, *CLIENTS))
_CONTROLLER_REGISTRY: Final = ClassRegistry(
    "controller", ENTRY_POINT_GROUP, (*POLICIES, *CONTROLLERS)
)


def list_policies() -> Mapping[str, type[BuiltInPolicy]]:
    """Return the classes of the built-in policies by name.

    >>> list(list_policies()["fair-share"].model_fields)
    ['backfill', 'depth', 'compress', 'half_life', 'share_by']
    """
    return MappingProxyType({name: _load_class(name) for name in _BUILT_IN})


def list_controllers() -> Mapping[str, type[BuiltInPolicy]]:
    """Return the classes of the built-in controllers that place no tasks, by name.

    >>> list(list_controllers())
    ['power-saving', 'on-demand', 'always-on']
    """
    return MappingProxyType({name: _load_class(name) for name in _CONTROLLERS})


def list_clients() -> Mapping[str, type[BuiltInPolicy]]:
    """Return the classes of the built-in policies that rent instances of a cloud, by name.

    >>> list(list_clients())
    ['one-per-task', 'one-instance', 'manual', 'asap', 'afap', 'list', 'deadline', 'budget']
    """
    return MappingProxyType({name: _load_class(name) for name in _CLIENTS})


def _load_class(name: str) -> type[BuiltInPolicy]:
    module, kind = _KNOWN[name]
    loaded: type[BuiltInPolicy] = getattr(import_module(module), kind)
    return loaded


def make_policy(name: str, /, **options: Any) -> AnyPolicy:
    """Create a built-in policy or a policy of a plug-in, with options.

    >>> make_policy("conservative", compress=False)
    Conservative(depth=0, compress=False)
    >>> make_policy("esay")
    Traceback (most recent call last):
    twinloop.InputError: no policy is called 'esay' (did you mean 'easy'?) [TL0209]
    >>> make_policy("easy", dept=3)
    Traceback (most recent call last):
    twinloop.description.DescriptionError: dept: is not an option of 'easy'
        (did you mean 'depth'? options: depth) [TL0203]
    """
    return resolve_policy(name, options)


def resolve_policy(
    name: str, options: Mapping[str, Any] | None = None, *, allow_code: bool = False
) -> AnyPolicy:
    """Create the policy with this name and these options.

    Args:
        name: Name of a built-in policy, of a policy of an installed plug-in, or `module:Class`.
        options: Options of the policy; options that are not given have their defaults.
        allow_code: Whether `module:Class` may be imported and run.

    >>> resolve_policy("my.policies:Mine")
    Traceback (most recent call last):
    twinloop.description.class_registry.CodeNotAllowed: 'my.policies:Mine' is Python code, which
        needs permission to run
        (--allow-code on the command line, allow_code=True in Python) [TL0224]
    """
    if name in _KNOWN:
        return _construct_built_in(name, _load_class(name), options or {})
    return construct_policy(name, _REGISTRY.load(name, allow_code=allow_code), options)


def construct_policy(
    name: str, policy_class: Any, options: Mapping[str, Any] | None = None
) -> AnyPolicy:
    """Create a policy from a class and options; `name` is used in error messages.

    >>> from twinloop.policy import Easy
    >>> construct_policy("easy", Easy, {"depth": 3})
    Easy(depth=3)
    """
    if isinstance(policy_class, type) and issubclass(policy_class, BuiltInPolicy):
        return _construct_built_in(name, policy_class, options or {})
    # Not needed for built-in policies.
    from twinloop.policy.interface import Policy

    if isinstance(policy_class, type) and issubclass(policy_class, Policy):
        policy: Policy = construct(name, policy_class, options or {})
        return policy
    raise InputError(
        f"'{name}' is not a policy class",
        kind="wrong-interface",
        remedy="derive it from twinloop.policy.Policy",
    )


def check_policy_name(name: str, *, controller: bool = False) -> None:
    """Raise an error for an unknown name of a policy or controller. No code is imported."""
    if name in _CONTROLLERS and not controller:
        raise InputError(
            f"'{name}' places no tasks: it is no policy, but a controller beside one",
            kind="unknown-name",
            remedy="add it to `controllers` of the scenario",
        )
    (_CONTROLLER_REGISTRY if controller else _REGISTRY).check_name(name)


def _construct_built_in(
    name: str, kind: type[BuiltInPolicy], options: Mapping[str, Any]
) -> BuiltInPolicy:
    fields = list(kind.model_fields)
    problems: list[InputError] = [
        make_unknown_option_error(name, key, fields)
        for key in options
        if key not in kind.model_fields
    ]
    try:
        policy = kind.from_dict({key: options[key] for key in options if key in kind.model_fields})
    except DescriptionError as error:
        problems += error.problems
    if problems:
        raise DescriptionError(problems)
    return policy
