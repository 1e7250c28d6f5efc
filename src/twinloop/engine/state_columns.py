"""Conversion of the states of hosts to native columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from twinloop.description.errors import InputError
from twinloop.engine.power_columns import build_power_columns
from twinloop.platform.parts import Host
from twinloop.platform.power import AnyPowerModel
from twinloop.platform.states import (
    OFF,
    RUNNING,
    SWITCHING_OFF,
    SWITCHING_ON,
    HostState,
    list_transitions,
    make_phases,
    transition_name,
)

# The native number of a state is a byte.
_MAX_NAMES: Final = 250

# The host that is switched off at once, without power.
_PLAIN: dict[str, Any] = {"states": [], "transitions": []}


def build_state_columns(hosts: Sequence[Host], group: NDArray[np.int64]) -> dict[str, Any]:
    """Build the native tables of states: one for hosts without states, and one per group."""
    if not any(host.states for host in hosts):
        return {"state_names": [], "state_tables": [], "state_table": np.zeros(0, np.int64)}
    names = list_state_names(hosts)
    if len(names) > _MAX_NAMES:
        raise InputError(
            f"the hosts have {len(names)} states with different names, at most {_MAX_NAMES} are "
            "allowed",
            kind="too-large",
            field="platform.clusters",
        )
    numbers = {name: number for number, name in enumerate(names)}
    tables = [_build_table(host.states, numbers) for host in hosts]
    return {"state_names": names, "state_tables": [_PLAIN, *tables], "state_table": group + 1}


def list_state_names(hosts: Sequence[Host]) -> list[str]:
    """List the names of all states and transitions, by their native numbers."""
    names = [RUNNING, OFF]
    for host in hosts:
        for name, state in host.states.items():
            given = [transition_name(name, way, each) for way, each in list_transitions(state)]
            names += [each for each in (name, *given) if each not in names]
    return names


def _build_table(states: dict[str, HostState], numbers: dict[str, int]) -> dict[str, Any]:
    stable, transitions = [], []
    for name, state in states.items():
        if name in (SWITCHING_ON, SWITCHING_OFF):
            ends = (OFF, RUNNING) if name == SWITCHING_ON else (RUNNING, OFF)
            tasks = () if state.tasks == "kept" else state.tasks
            transitions.append(
                _build_transition(numbers, name, ends, state.power, state.duration, tasks)
            )
            continue
        power = build_power_columns(state.power)
        keeps = state.tasks == "kept"
        stable.append({"id": numbers[name], "power": power, "keeps_tasks": keeps})
        transitions += [
            _build_transition(
                numbers,
                transition_name(name, way, each),
                (RUNNING, name) if way == "enter" else (name, RUNNING),
                each.power,
                each.duration,
                each.tasks,
            )
            for way, each in list_transitions(state)
        ]
    return {"states": stable, "transitions": transitions}


def _build_transition(
    numbers: dict[str, int],
    name: str,
    ends: tuple[str, str],
    power: AnyPowerModel | None,
    duration: float | None,
    tasks: Any,
) -> dict[str, Any]:
    return {
        "id": numbers[name],
        "from": numbers[ends[0]],
        "to": numbers[ends[1]],
        "power": None if power is None else build_power_columns(power),
        "phases": make_phases(duration, tasks),
    }
