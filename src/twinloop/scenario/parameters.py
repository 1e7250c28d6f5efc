"""The model parameters: every number in which runs of a scenario may differ, declared once.

The fields of `Model` and their bounds, the values of a run, the native engine, the ranges of
calibration and the page `docs/model-parameters.md` are made from this table. A new parameter is a
row here and a line in `core/world/parameters.cpp`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

from pydantic import Field

from twinloop.description.address import address_from_path, address_to_path
from twinloop.description.document import Address
from twinloop.description.number_fields import NumberType, read_number_type
from twinloop.description.quantities import Inflation, NotNegative, Positive, Seconds

_PLACEHOLDER = re.compile(r"<(?P<name>[a-z]+)>")
#: The texts that a placeholder stands for; others stand for a position.
_TEXTS: Final = {"kind": ".+", "state": r"[^.\[\]]+"}
PLATFORM: Final = "platform."
_POWER: Final = "power."
_HOST: Final = "platform.clusters[<c>].hosts[<h>]."
_SHARE: Final = "sum of the rates of the transfers there ≤ bandwidth"
_LATENCY: Final = "start of the flow = start + latency + latencies of the links"
_CACHED: Final = "sizes of the files that are read from memory ≤ size"
_STREAMS: Final = "transfers in progress ≤ streams, the others wait"


class SearchRange(NamedTuple):
    """The default range of a calibration; relative: in multiples of the value of the scenario."""

    low: float
    high: float
    is_relative: bool = False
    is_exponential: bool = False

    def around(self, own: float) -> tuple[float, float]:
        """Return the ends of the range for a value of the scenario.

        >>> SearchRange(0.5, 2.0, is_relative=True).around(100.0)
        (50.0, 200.0)
        """
        factor = own if self.is_relative else 1.0
        return self.low * factor, self.high * factor


_FACTOR: Final = SearchRange(0.5, 2.0)
_OWN_FACTOR: Final = SearchRange(0.5, 2.0, is_relative=True)


@dataclass(frozen=True)
class ModelParameter:
    """A model parameter, or a family of them with placeholders such as `<kind>` in the name.

    >>> PARAMETERS["startup_overhead"].number_type.unit, PARAMETERS["startup_overhead"].default
    ('s', 0.0)
    """

    name: str
    description: str
    #: Where it acts, as a formula.
    acts: str
    search: SearchRange
    #: The type of its field, with unit and bounds; None: the type of the field of the platform.
    type: Any = None
    #: The value without effect; None: the value of the description.
    default: float | None = None
    #: The path in the model, if it is not the name; the fields of a power model, for `power.`.
    field: str = ""
    #: Whether the times of a run depend on it.
    changes_schedule: bool = True

    @property
    def number_type(self) -> NumberType:
        """The unit and the bounds of the type."""
        found = read_number_type(self.type)
        if found is None:
            raise TypeError(f"{self.name} has the bounds of its field in the platform")
        return found

    @property
    def is_common(self) -> bool:
        """Whether every scenario has it: a field of the model."""
        return re.fullmatch(r"\w+", self.name) is not None

    @property
    def is_path(self) -> bool:
        """Whether it is a number of the platform description, by its path."""
        return self.name.startswith(PLATFORM)

    @property
    def is_shared_power(self) -> bool:
        """Whether it is a value of the power model that all hosts share."""
        return self.name.startswith(_POWER)

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """The fields of power models that it stands for; a power model has one of them."""
        return tuple(self.field.split("|"))

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        parts = _PLACEHOLDER.split(self.name)
        texts = [re.escape(text) for text in parts[::2]]
        groups = [rf"(?P<{name}>{_TEXTS.get(name, '[0-9]+')})" for name in parts[1::2]]
        return re.compile("".join(a + b for a, b in zip(texts, [*groups, ""], strict=True)))

    def match(self, name: str) -> dict[str, str | int] | None:
        """Match the name of a value; return what the placeholders stand for.

        >>> PARAMETERS["contention.kinds.<kind>.pressure"].match("contention.kinds.cache.pressure")
        {'kind': 'cache'}
        """
        found = self._pattern.fullmatch(name)
        if found is None:
            return None
        return {k: v if k in _TEXTS else int(v) for k, v in found.groupdict().items()}

    def fill(self, given: Mapping[str, str | int]) -> str:
        """Return the name of a value of this family.

        >>> PARAMETERS["service_factors.<kind>"].fill({"kind": "cache"})
        'service_factors.cache'
        """
        return _PLACEHOLDER.sub(lambda found: str(given[found["name"]]), self.name)

    def model_path(self, given: Mapping[str, str | int]) -> str:
        """Return the path of a value in the model.

        >>> PARAMETERS["contention.table[<i>]"].model_path({"i": 1})
        'contention.table[1][1]'
        """
        address: list[str | int] = []
        for step in self.steps:
            found = _PLACEHOLDER.fullmatch(step) if isinstance(step, str) else None
            address.append(given[found["name"]] if found else step)
        return address_to_path(address)

    @cached_property
    def steps(self) -> Address:
        """The address in the model, with placeholders as steps."""
        quoted = _PLACEHOLDER.sub(r'["<\1>"]', self.field or self.name)
        return address_from_path(quoted.replace(".[", "[").replace("[[", "[").replace("]]", "]"))


_ROWS: Final = (
    ModelParameter(
        "speed_factor",
        "factor on the speed of every host",
        "speed of a core = speed · speed_factor",
        _FACTOR,
        Positive,
        1.0,
    ),
    ModelParameter(
        "service_factor",
        "factor on the work of every task",
        "work = recorded work · service_factor · service_factors.KIND",
        _FACTOR,
        Positive,
        1.0,
    ),
    ModelParameter(
        "startup_overhead",
        "time from the start of a task to the start of its work (s)",
        "start of the work = start + startup_overhead",
        SearchRange(0.0, 5.0),
        Seconds,
        0.0,
    ),
    ModelParameter(
        "effective_capacity",
        "factor on the cores of every host that the policy may allocate",
        "allocatable cores = cores · effective_capacity",
        _FACTOR,
        Positive,
        1.0,
    ),
    ModelParameter(
        "dispatch_latency",
        "time from a decision to the start of the task (s)",
        "start = decision + dispatch_latency",
        SearchRange(0.0, 5.0),
        Seconds,
        0.0,
    ),
    ModelParameter(
        "release_latency",
        "time from the end of a task until its cores are free and its dependent tasks "
        "are ready for the scheduler (s)",
        "release = end + release_latency",
        SearchRange(0.0, 5.0),
        Seconds,
        0.0,
    ),
    ModelParameter(
        "decision_interval",
        "period of the decisions of the policy; 0: it decides at every event (s)",
        "decisions at multiples of decision_interval",
        SearchRange(0.0, 60.0),
        Seconds,
        0.0,
    ),
    *(
        ModelParameter(f"submission.{name}", text, acts, SearchRange(0.0, 20.0), Seconds, 0.0)
        for name, text, acts in (
            (
                "cycle",
                "time of a negotiation, which begins when a job waits and ends with a decision (s)",
                "decision = begin of the negotiation + cycle",
            ),
            (
                "before",
                "time from the submission of a job until the scheduler sees it; jobs do not delay "
                "one another (s)",
                "waits for the scheduler = submission + before",
            ),
            (
                "after",
                "time from the end of a task until its children are ready (s)",
                "children are ready = release + after",
            ),
            (
                "interval",
                "time that the workflow manager takes to submit one job, one after the other (s)",
                "submission = max(ready, previous submission) + interval",
            ),
        )
    ),
    ModelParameter(
        "service_factors.<kind>",
        "additional factors on the work of tasks, by kind",
        "work = recorded work · service_factor · service_factors.KIND",
        _FACTOR,
        Positive,
        1.0,
    ),
    ModelParameter(
        "contention.linear.slope",
        "inflation per unit of load above 1",
        "work · (1 + slope · max(0, load - 1))",
        SearchRange(0.0, 1.0),
        NotNegative,
        0.0,
    ),
    ModelParameter(
        "contention.table[<i>]",
        "inflation at the load of the pair",
        "work · inflation(load), linear between the pairs",
        SearchRange(1.0, 2.0),
        Inflation,
        1.0,
        field="contention.table[<i>][1]",
    ),
    ModelParameter(
        "contention.kinds.<kind>.pressure",
        "pressure on each neighbour",
        "work · (1 + sensitivity · sum of the pressures of the neighbours)",
        SearchRange(0.0, 1.0),
        NotNegative,
        0.0,
    ),
    ModelParameter(
        "contention.kinds.<kind>.sensitivity",
        "sensitivity to the pressure of neighbours",
        "work · (1 + sensitivity · sum of the pressures of the neighbours)",
        SearchRange(0.0, 1.0),
        NotNegative,
        0.0,
    ),
    ModelParameter(
        "power.idle",
        "power at utilisation 0 of every host, or at any with a constant model (W)",
        "idle + (max - idle) · shape(u)",
        _OWN_FACTOR,
        field="idle|power",
        changes_schedule=False,
    ),
    ModelParameter(
        "power.max",
        "power at utilisation 1 of every host (W)",
        "idle + (max - idle) · shape(u)",
        _OWN_FACTOR,
        field="max",
        changes_schedule=False,
    ),
    ModelParameter(
        "power.parameter",
        "parameter of the shape of the power model of every host: r or a",
        "2u - u^r; (1 + u - exp(-u/a)) / 2",
        SearchRange(0.1, 10.0),
        field="r|a",
        changes_schedule=False,
    ),
    ModelParameter(
        _HOST + "mhz",
        "clock of a core of this group of hosts (MHz)",
        "speed = mhz / reference clock, unless the host has a speed",
        _OWN_FACTOR,
    ),
    ModelParameter(
        _HOST + "speed",
        "speed of a core of this group of hosts, in reference cores",
        "speed of a core = speed · speed_factor",
        _OWN_FACTOR,
    ),
    *(
        ModelParameter(_HOST + f"power.{field}", text, acts, search, changes_schedule=False)
        for field, text, acts, search in (
            ("power", "power of a host of this group (W)", "power", _OWN_FACTOR),
            (
                "idle",
                "power at utilisation 0 of a host of this group (W)",
                "idle + (max - idle) · shape(u)",
                _OWN_FACTOR,
            ),
            (
                "max",
                "power at utilisation 1 of a host of this group (W)",
                "idle + (max - idle) · shape(u)",
                _OWN_FACTOR,
            ),
            ("r", "exponent of `mse` of this group", "2u - u^r", _OWN_FACTOR),
            (
                "a",
                "parameter of `asymptotic` of this group",
                "(1 + u - exp(-u/a)) / 2",
                _OWN_FACTOR,
            ),
            (
                "points[<i>][1]",
                "power at a utilisation of the table of this group (W)",
                "linear between the points",
                _OWN_FACTOR,
            ),
        )
    ),
    *(
        ModelParameter(_HOST + f"states.<state>.{field}", text, acts, _OWN_FACTOR)
        for way, meaning in (
            ("", "the state"),
            ("enter.", "the way to the state"),
            ("leave.", "the way back"),
        )
        for field, text, acts in (
            (
                f"{way}duration",
                f"duration of {meaning}, for this group (s)",
                "end of the transition = begin + duration",
            ),
            (
                f"{way}power.power",
                f"constant power of {meaning}, for this group (W)",
                "power of a host in the state or transition",
            ),
        )
    ),
    *(
        ModelParameter(name, text, acts, _OWN_FACTOR)
        for name, text, acts in (
            (_HOST + "ports.in", "bandwidth of incoming transfers of a host of this group", _SHARE),
            (_HOST + "ports.out", "bandwidth of outgoing transfers of such a host", _SHARE),
            (_HOST + "store.read", "bandwidth of all reads of the store of such a host", _SHARE),
            (_HOST + "store.write", "bandwidth of all writes of the store of such a host", _SHARE),
            (_HOST + "store.streams", "transfers of the store of such a host at once", _STREAMS),
            (
                _HOST + "store.page_cache.read",
                "bandwidth of all reads from the page cache of the store of such a host",
                _SHARE,
            ),
            (
                _HOST + "store.page_cache.size",
                "size of the page cache of the store of such a host",
                _CACHED,
            ),
            ("platform.network.latency", "latency of every route (s)", _LATENCY),
            ("platform.network.links[<i>].bandwidth", "bandwidth of the link", _SHARE),
            ("platform.network.links[<i>].latency", "latency of the link (s)", _LATENCY),
            (
                "platform.network.routes[<i>].latency",
                "latency of the declared route (s)",
                "start of the flow = start + latency of the route",
            ),
            ("platform.stores[<i>].read", "bandwidth of all reads of the store", _SHARE),
            ("platform.stores[<i>].write", "bandwidth of all writes of the store", _SHARE),
            ("platform.stores[<i>].streams", "transfers of the store at once", _STREAMS),
            (
                "platform.stores[<i>].page_cache.read",
                "bandwidth of all reads from the page cache of the store",
                _SHARE,
            ),
            ("platform.stores[<i>].page_cache.size", "size of its page cache", _CACHED),
            ("platform.stores[<i>].ports.in", "bandwidth of incoming transfers", _SHARE),
            ("platform.stores[<i>].ports.out", "bandwidth of outgoing transfers", _SHARE),
        )
    ),
)

#: The parameters by name, in the order of a row of values.
PARAMETERS: Final[Mapping[str, ModelParameter]] = {row.name: row for row in _ROWS}

#: The names of the numeric parameters that every scenario has, in the order of `Model.values`.
MODEL_VALUES: Final = tuple(row.name for row in _ROWS if row.is_common)

#: The default search range of numbers of the platform that have no row.
PATH_SEARCH: Final = _OWN_FACTOR


def find_parameter(name: str) -> tuple[ModelParameter, dict[str, str | int]] | None:
    """Find the parameter of a value by name, and what its placeholders stand for.

    >>> find_parameter("contention.table[2]")[1], find_parameter("contention.slope")
    ({'i': 2}, None)
    """
    for row in _ROWS:
        if (found := row.match(name)) is not None:
            return row, found
    return None


def declare(name: str, *, is_required: bool = False) -> Any:
    """Declare the field of a model for a parameter: type, default and description of its row."""
    row = PARAMETERS[name]
    field: Any = Field(... if is_required else row.default, description=row.description)
    for each in getattr(row.type, "__metadata__", ()):
        # Constraints such as `Field(gt=0)` are metadata of their own.
        field.metadata.extend(getattr(each, "metadata", None) or [each])
    return field
