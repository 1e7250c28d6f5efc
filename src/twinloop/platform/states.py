"""The states of a host other than running, and the transitions between them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from twinloop.description.description import Description
from twinloop.description.problems import ProblemCollector
from twinloop.description.quantities import (
    POWER,
    Label,
    Name,
    NotNegative,
    Positive,
    Seconds,
)
from twinloop.platform.power import AnyPowerModel

#: The states of every host.
RUNNING: Final = "running"
OFF: Final = "off"
SWITCHING_ON: Final = "switching-on"
SWITCHING_OFF: Final = "switching-off"

# `on` is the order to run; the others are the names of what happens to a machine.
_RESERVED: Final = ("on", RUNNING, "down", "maintenance", "removed")
_BUILT_IN: Final = (OFF, SWITCHING_ON, SWITCHING_OFF, *_RESERVED)
_MAX_STATES: Final = 60


def _read_power(value: Any) -> Any:
    """Convert a power such as 36.4 W to a constant power model."""
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        return {"model": "constant", "power": POWER.read(value)}
    return value


class _ConstantAlternative:
    """Annotation of a power model whose JSON Schema also accepts a constant power."""

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {"anyOf": [*POWER.schema(positive=False)["anyOf"], handler(schema)]}


#: A power model, or a constant power such as 36.4 W.
StatePower = Annotated[AnyPowerModel | None, BeforeValidator(_read_power), _ConstantAlternative()]


class HiddenTask(Description):
    """Work of the machine itself during a transition, such as the stop of its services.

    >>> HiddenTask(work=0.855, limit=0.19).seconds
    4.5
    """

    after: Seconds = Field(0.0, description="pause before the work (s)")
    work: NotNegative = Field(description="work, as seconds of the whole machine")
    limit: Positive = Field(
        1.0, le=1, description="highest share of the machine that the work uses"
    )

    @property
    def seconds(self) -> float:
        """The duration of the work without the pause (s)."""
        return self.work / self.limit


class Transition(Description):
    """The way from one state to another: its power and its duration or hidden work.

    >>> Transition(duration="200s", power="483.1 W").phases()
    [(200.0, 0.0)]
    >>> Transition(tasks=[{"work": 0.275, "limit": 0.11}, {"after": 2.5, "work": 0.855,
    ...     "limit": 0.19}]).phases()
    [(2.5, 0.11), (2.5, 0.0), (4.5, 0.19)]
    """

    name: Label = Field(
        "", description="name of the state of the machine meanwhile; by default entering-STATE or "
        "leaving-STATE",
    )  # fmt: skip
    power: StatePower = Field(
        None, description="power meanwhile; by default the power model of the host"
    )
    duration: Seconds | None = Field(None, description="duration (s)")
    tasks: tuple[HiddenTask, ...] = Field(
        (),
        description="work of the machine itself, one task after the other, in place of a duration; "
        "the end of the last one ends the transition",
    )

    @model_validator(mode="after")
    def _check_length(self) -> Transition:
        findings = ProblemCollector()
        check_length(findings, (), self.duration, self.tasks)
        findings.check()
        return self

    def phases(self) -> list[tuple[float, float]]:
        """Return its periods of constant use: seconds, share of the machine that is used."""
        return make_phases(self.duration, self.tasks)


class HostState(Description):
    """A state of a host other than running; which fields it has depends on its name.

    >>> HostState(power="36.4 W").power.power
    36.4
    """

    power: StatePower = Field(
        None,
        description="power in this state: of off by default 0, of a transition by default the "
        "power model of the host",
    )
    duration: Seconds | None = Field(
        None, description="of switching-on and switching-off: duration (s)"
    )
    tasks: Literal["kept"] | tuple[HiddenTask, ...] = Field(
        (),
        description="of switching-on and switching-off: work of the machine itself in place of a "
        "duration; of a state of your own: kept, if tasks stay on the machine, stop, and continue "
        "when it runs again (by default a machine with tasks cannot enter the state)",
    )
    enter: Transition | None = Field(
        None, description="of a state of your own: the way from running to it; by default at once"
    )
    leave: Transition | None = Field(
        None, description="of a state of your own: the way back to running; by default at once"
    )


def check_length(
    findings: ProblemCollector,
    address: tuple[str | int, ...],
    duration: float | None,
    tasks: tuple[HiddenTask, ...],
) -> None:
    """Add a problem unless a transition has either a duration or tasks."""
    if (duration is None) == (not tasks):
        findings.add(
            (*address, "duration"),
            "must be given for a transition without tasks"
            if duration is None
            else "must not be given for a transition with tasks",
            "give either a duration or a list of tasks",
            kind="inconsistent-values",
        )


def make_phases(duration: float | None, tasks: tuple[HiddenTask, ...]) -> list[tuple[float, float]]:
    """Return the periods of a transition: seconds, share of the machine that is used."""
    if not tasks:
        return [(duration or 0.0, 0.0)]
    parts = [part for each in tasks for part in ((each.after, 0.0), (each.seconds, each.limit))]
    return [part for part in parts if part[0] > 0] or [(0.0, 0.0)]


def read_states(states: Any) -> Any:
    """Return the states with the name `off` for the key False, which YAML 1.1 makes of off.

    >>> read_states({False: {"power": 5}})
    {'off': {'power': 5}}
    """
    if isinstance(states, Mapping) and any(key is False for key in states):
        return {OFF if key is False else key: value for key, value in states.items()}
    return states


def check_states(
    states: Mapping[str, HostState], findings: ProblemCollector, *, power: bool
) -> None:
    """Add the problems of the states of a host; `power`: whether the host has a power model."""
    if len(states) > _MAX_STATES:
        findings.add(("states",), f"has more than {_MAX_STATES} states", kind="too-large")
    names: list[tuple[str, tuple[str | int, ...]]] = []
    for name, state in states.items():
        address = ("states", name)
        if name in _RESERVED:
            findings.add(
                address,
                "is not a state that can be described",
                "the running state has the power of the host; choose another name",
                kind="out-of-range",
            )
        elif name in (SWITCHING_ON, SWITCHING_OFF):
            _check_switching(state, address, findings)
        else:
            _check_stable(name, state, address, findings, power=power)
        _check_spelling(name, address, findings)
        names.append((name, address))
        for way, each in list_transitions(state):
            names.append((transition_name(name, way, each), (*address, way)))
            _check_spelling(each.name, (*address, way, "name"), findings)
        if not power:
            _check_without_power(state, address, findings)
    findings.add_repeats(names, "state of this host")


def _check_spelling(name: str, address: tuple[str, ...], findings: ProblemCollector) -> None:
    """Add a problem if a name differs from a built-in state only by case or by `-` and `_`."""
    if name in _BUILT_IN:
        return
    for known in _BUILT_IN:
        if _simplify(name) == _simplify(known):
            findings.add(
                address,
                f"'{name}' differs from the built-in state '{known}' only in its spelling",
                "choose another name" if known in _RESERVED else f"did you mean '{known}'?",
                kind="unknown-name",
            )


def _simplify(name: str) -> str:
    return re.sub(r"[-_\s]", "", name).casefold()


def _check_without_power(
    state: HostState, address: tuple[str, ...], findings: ProblemCollector
) -> None:
    given = [(address, state.power)]
    given += [((*address, way), each.power) for way, each in list_transitions(state)]
    for where, model in given:
        if model is not None:
            findings.add(
                (*where, "power"),
                "is given, but the host has no power model",
                "give the power of the running host as `power`",
                kind="inconsistent-values",
            )


def _check_switching(
    state: HostState, address: tuple[str, ...], findings: ProblemCollector
) -> None:
    if state.tasks == "kept":
        findings.add(
            (*address, "tasks"),
            "must be a list of the work of the machine itself",
            "only a state of your own may keep tasks",
            kind="inconsistent-values",
        )
    else:
        check_length(findings, address, state.duration, state.tasks)
    for way, _ in list_transitions(state):
        findings.add((*address, way), "is only for a state of your own", kind="inconsistent-values")


def _check_stable(
    name: str,
    state: HostState,
    address: tuple[str, ...],
    findings: ProblemCollector,
    *,
    power: bool,
) -> None:
    if state.duration is not None:
        ways = f"{SWITCHING_OFF} and {SWITCHING_ON}" if name == OFF else "`enter` and `leave`"
        findings.add(
            (*address, "duration"),
            "is only for a transition",
            f"the ways to this state and back are {ways}",
            kind="inconsistent-values",
        )
    if state.tasks and (name == OFF or state.tasks != "kept"):
        findings.add(
            (*address, "tasks"),
            "must be `kept`, or left out" if name != OFF else "is not for this state",
            kind="inconsistent-values",
        )
    if name == OFF:
        for way, _ in list_transitions(state):
            findings.add(
                (*address, way),
                "is only for a state of your own",
                f"describe {SWITCHING_OFF} and {SWITCHING_ON}",
                kind="inconsistent-values",
            )
    elif power and state.power is None:
        findings.add(
            (*address, "power"),
            "must be given, since the host has a power model",
            "such as 60 W",
            kind="missing-field",
        )


def list_transitions(state: HostState) -> Iterator[tuple[Literal["enter", "leave"], Transition]]:
    """Iterate over the given transitions of a state: `enter` and `leave`."""
    if state.enter is not None:
        yield "enter", state.enter
    if state.leave is not None:
        yield "leave", state.leave


def transition_name(state: str, way: str, transition: Transition) -> str:
    """Return the name of a transition of a state.

    >>> transition_name("suspended", "enter", Transition(duration=1))
    'entering-suspended'
    """
    return transition.name or f"{way.removesuffix('e') if way == 'leave' else way}ing-{state}"


#: The states of a host by name.
HostStates = dict[Name, HostState]
