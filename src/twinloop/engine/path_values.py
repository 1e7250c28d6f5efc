"""Numbers of the platform by path, as values of a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from twinloop.description.address import address_to_path
from twinloop.description.errors import InputError
from twinloop.description.number_fields import NumberField, list_numbers, require_number
from twinloop.engine.state_columns import list_state_names
from twinloop.platform import Platform
from twinloop.platform.states import list_transitions, transition_name
from twinloop.scenario import Scenario
from twinloop.scenario.model_values import platform_address
from twinloop.scenario.parameters import PARAMETERS, PLATFORM, ModelParameter, find_parameter


class NativeColumn(NamedTuple):
    """A column of a native row: a parameter, its indices, and the divisor of the value."""

    name: str
    first: int = 0
    second: int = 0
    divisor: float = 1.0


class PathValue(NamedTuple):
    """A number of the platform as a value of a run."""

    #: The path, with `platform.`.
    name: str
    number: NumberField
    #: The native columns that it sets; empty: the scenario is compiled again.
    columns: tuple[NativeColumn, ...] = ()
    parameter: ModelParameter | None = None

    @property
    def changes_schedule(self) -> bool:
        """Whether the times of a run depend on it."""
        return self.parameter is None or self.parameter.changes_schedule


_MHZ = "platform.clusters[<c>].hosts[<h>].mhz"
_SPEED = "platform.clusters[<c>].hosts[<h>].speed"
_STORE = "platform.stores[<i>]."
_HOST_STORE = "platform.clusters[<c>].hosts[<h>].store."
_ORDER = {name: order for order, name in enumerate(PARAMETERS)}


class PathValues:
    """The paths of a scenario: which ones act natively, and where.

    Args:
        scenario: The scenario.
        platform: Its platform with the overrides of the model.
        reference_mhz: The reference clock of the workload.
        has_clocks: Whether tasks request a clock, so that a clock decides where they fit.
    """

    def __init__(
        self,
        scenario: Scenario,
        platform: Platform,
        *,
        reference_mhz: float | None,
        has_clocks: bool,
    ) -> None:
        self._platform = platform
        self._described = [host for _, host in scenario.platform.hosts()]
        self._hosts = [host for _, host in platform.hosts()]
        self._groups = {
            (c, h): 0
            for c, cluster in enumerate(platform.clusters)
            for h in range(len(cluster.hosts))
        }
        self._groups = {place: group for group, place in enumerate(self._groups)}
        self._reference_mhz = reference_mhz
        self._has_clocks = has_clocks
        self._found: dict[str, PathValue] = {}

    def find(self, name: str) -> PathValue | None:
        """Find the value of a path; None if the name is not a path of the platform."""
        if name not in self._found:
            address = platform_address(name)
            if address is None:
                return None
            number = require_number(self._platform, address, prefix=PLATFORM)
            path = PLATFORM + address_to_path(address)
            found = find_parameter(path)
            if found is None or not found[0].is_path:
                value = PathValue(path, number)
            else:
                value = PathValue(path, number, self._bind(*found, number), found[0])
            self._found[name] = value
        return self._found[name]

    def list_native(self) -> list[str]:
        """List the paths that act natively and have a value."""
        names = [
            PLATFORM + address_to_path(each.address)
            for each in list_numbers(self._platform)
            if each.value is not None
        ]
        return [name for name in names if (found := self.find(name)) and found.columns]

    def is_path(self, name: str) -> bool:
        """Whether a name is the path of a number of the platform."""
        try:
            return self.find(name) is not None
        except InputError:
            return False

    @staticmethod
    def order(value: PathValue) -> tuple[int, str]:
        """The place of a value in a row: a speed comes after the clock that determines it."""
        parameter = value.parameter
        return (_ORDER[parameter.name] if parameter else len(_ORDER), value.name)

    def _bind(
        self, parameter: ModelParameter, given: dict[str, str | int], number: NumberField
    ) -> tuple[NativeColumn, ...]:
        """Return the native columns of a value of this parameter."""
        if "c" not in given:  # of the network
            column = NativeColumn(parameter.name, int(given.get("i", 0)))
            return (column, *self._bind_like(column))
        group = self._groups[int(given["c"]), int(given["h"])]
        described = self._described[group] if self._is_same_shape else self._hosts[group]
        if described.store is not None and described.store.like and ".store." in parameter.name:
            return ()  # its numbers are those of another store: an override is an error
        if "state" in given:
            # A number that is not set changes the kind of the state.
            return (
                (self._bind_state(parameter, group, str(given["state"])),)
                if number.value is not None
                else ()
            )
        column = NativeColumn(parameter.name, group, int(given.get("i", 0)))
        if parameter.name != _MHZ:
            return (column,)
        if self._has_clocks:
            return ()  # the clock decides which tasks are admitted
        speed = self._hosts[group].speed
        mhz = self._described[group].mhz if self._is_same_shape else None
        reference = self._reference_mhz or mhz
        if speed is not None or not reference:
            return (column,)
        return (column, NativeColumn(_SPEED, group, divisor=reference))

    def _bind_like(self, column: NativeColumn) -> Iterator[NativeColumn]:
        """List the columns of the stores of hosts that are like a store of the platform."""
        number = column.name.removeprefix(_STORE)
        if number == column.name or _HOST_STORE + number not in PARAMETERS:
            return
        name = self._platform.stores[column.first].name
        for group, host in enumerate(self._described):
            if host.store is not None and host.store.like == name:
                yield NativeColumn(_HOST_STORE + number, group)

    def _bind_state(self, parameter: ModelParameter, group: int, state: str) -> NativeColumn:
        described = self._hosts[group].states[state]
        names = [state]
        for way, transition in list_transitions(described):
            if f"<state>.{way}." in parameter.name:
                names = [transition_name(state, way, transition)]
        return NativeColumn(parameter.name, group, list_state_names(self._hosts).index(names[0]))

    @property
    def _is_same_shape(self) -> bool:
        return len(self._described) == len(self._hosts)
