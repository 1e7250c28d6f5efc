"""The schema of the state of a run, in memory and in its file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import polars as pl
import pydantic
from pydantic import Field

from twinloop.description.errors import InputError
from twinloop.description.quantities import MAX_TIME
from twinloop.description.saved_json import StoredJson

#: The largest amount of work, energy or data in a state; sums and products stay finite.
MAX_AMOUNT: Final = 1e60
#: The columns of tasks that are times (s).
TIME_COLUMNS: Final = ("submit", "ready", "first_start", "start", "end", "last_end")


def _check_moment(value: float) -> float:
    if not (abs(value) <= MAX_TIME or abs(value) == math.inf):
        raise ValueError(f"must be infinite, or a time of at most {MAX_TIME:g} s, not {value}")
    return value


#: A time that may be infinite: never, or unlimited.
_Moment = Annotated[float, pydantic.AfterValidator(_check_moment)]
_Time = Annotated[float, Field(ge=-MAX_TIME, le=MAX_TIME)]
_Amount = Annotated[float, Field(ge=0, le=MAX_AMOUNT)]
#: Energy may be a difference, with a rounding error.
_Energy = Annotated[float, Field(ge=-0.01, le=MAX_AMOUNT)]
#: An amount that may be infinite: unlimited.
_Limit = Annotated[float, Field(ge=0)]
#: Any number but NaN.
_Number = Annotated[float, Field(ge=-math.inf)]
_Count = Annotated[int, Field(ge=0, lt=2**32)]
_Place = Annotated[int, Field(ge=0, lt=2**53)]
_Index = Annotated[int, Field(ge=-1, lt=2**31)]


class _Part(StoredJson):
    """Base class of the objects in the file of a state."""

    @pydantic.model_validator(mode="before")
    @classmethod
    def _check_object(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            raise ValueError("must be an object with named fields")
        return value


class _Transfer(_Part):
    latency: _Amount
    registered: _Time
    start: _Moment
    left: _Amount
    store: str


class _Execution(_Part):
    task: str
    step: Literal["dispatch", "startup", "read", "compute", "write", "release"]
    draws: bool
    fragment: _Count
    rank: _Place
    halted: _Count
    until_stop: bool
    placed: _Time
    until: _Moment
    stop: _Moment
    work_begun: _Time
    begun: _Time
    length: _Amount
    rate: _Amount
    factor: _Amount
    stretch: _Amount
    speed: _Amount
    from_: _Amount = Field(alias="from")
    inside: _Amount
    overhead: _Amount
    demanded: _Amount
    waited: _Amount
    paused: _Moment
    left: _Limit
    done: _Amount
    used: _Amount
    energy: _Energy
    #: NaN: no work on this machine; infinite: without end.
    remaining: list[float]
    files: _Count = 0
    refused: bool = False
    transfer: _Transfer | None = None


class _AddedMachine(_Part):
    cores: _Amount
    memory: _Limit
    speed: _Amount
    amounts: list[_Amount]
    like: str | None


class _AddedInstance(_Part):
    host: str | None


def _find_kind(value: Any) -> str:
    """Return the tag of a machine that was added; `value` is an object to read or to write."""
    has_host = "host" in value if isinstance(value, dict) else hasattr(value, "host")
    return "instance" if has_host else "machine"


class _Machine(_Part):
    machine: str
    cores: _Amount
    state: str = "running"
    begun: _Time = 0.0
    #: Each outage is begun again, one by one.
    outages: Annotated[int, Field(ge=0, le=100_000)]
    restored_at: _Moment
    removed: bool = False
    energy: _Energy
    memory: _Limit = 0.0
    added: (
        Annotated[
            Annotated[_AddedInstance, pydantic.Tag("instance")]
            | Annotated[_AddedMachine, pydantic.Tag("machine")],
            pydantic.Discriminator(_find_kind),
        ]
        | None
    ) = None


class _NewTask(_Part):
    id: str
    submit: _Time
    cores: _Amount
    memory: _Amount
    #: NaN: none was requested.
    requested_time: float
    work: _Amount
    limit: _Amount
    nodes: _Index
    user: _Index
    group: _Index
    queue: _Index
    priority: _Number
    kind: Annotated[int, Field(ge=0, lt=2**16)]
    deadline: _Moment
    amounts: list[_Amount]
    command: str = ""
    parents: list[str] = Field(default_factory=list)
    rejected: bool = False


class _SourceState(_Part):
    state: Any
    submitted: list[str]
    answer: list[str]


class _PythonSource(_Part):
    ended: list[Annotated[tuple[str, _Time, str], Field(strict=False)]]
    time: _Moment
    tasks: list[str | _NewTask]
    asked: _Moment
    source: _SourceState


class _Source(_Part):
    added: _Count
    memory: list[_Number]
    python: _PythonSource | None


class _Decisions(_Part):
    call: bool
    wake: _Moment
    decide_at: _Moment
    events: _Place
    occupied: _Amount
    memory: list[_Number]
    policy: Any
    running: list[str]
    name: str = ""


class StateSchema(_Part):
    """The schema of a state and of its file; columns of tasks are checked by `cast_tasks`."""

    scenario: str
    time: _Time
    down: list[str]
    tasks: dict[str, list[Any]]
    executions: list[_Execution]
    machines: list[_Machine]
    shared: bool
    stores: dict[str, list[str]]
    added: list[_NewTask]
    source: _Source | None
    decisions: _Decisions | None

    def get_parts(self) -> dict[str, Any]:
        """Return the fields of a state, except its tasks, as plain values."""
        parts = self.model_dump(exclude_unset=True, by_alias=True, exclude={"tasks"})
        for name in ("down", "executions", "machines", "added"):
            parts[name] = tuple(parts[name])
        return parts


class StoredState(StateSchema):
    """The schema of the file of a state."""

    schema_version: int

    def get_parts(self) -> dict[str, Any]:
        """Return the fields of a state, except its tasks, as plain values."""
        parts = super().get_parts()
        del parts["schema_version"]
        return parts


def describe_problem(
    error: pydantic.ValidationError | OverflowError, given: Mapping[str, Any]
) -> InputError:
    """Return the error of the first value that does not fit the schema, with its field."""
    if isinstance(error, OverflowError):
        return InputError("a number in it is too large", kind="invalid-state", field="state")
    first = error.errors(include_input=False, include_url=False)[0]
    part, *inside = first["loc"]
    names = [f"state.{part}"]
    if part in ("executions", "machines", "added") and inside:
        row = given[str(part)][inside.pop(0)]
        key = {"executions": "task", "machines": "machine", "added": "id"}[str(part)]
        names.append(repr(row.get(key)) if isinstance(row, dict) else repr(row))
    # The tag of the kind of an added machine is no field.
    if inside[:1] == ["added"]:
        del inside[1:2]
    names += [str(each) for each in inside]
    problem = first["msg"].removeprefix("Value error, ")
    if first["type"] == "missing":
        problem = f"{names.pop()!r} is missing"
    return InputError(
        problem[:1].lower() + problem[1:], kind="invalid-state", field=": ".join(names)
    )


_FIRST_COLUMNS: Final = ("id", "phase", "submit", "start", "end", "done", "machines", "cores")
#: The types of the columns of tasks.
TASK_TYPES: Final[dict[str, Any]] = {
    **dict.fromkeys(("id", "phase"), pl.String),
    **dict.fromkeys(("submit", "ready", "first_start", "start", "end", "done"), pl.Float64),
    **dict.fromkeys(("last_end", "work", "cpu_time", "energy", "saved", "spent"), pl.Float64),
    "planned": pl.Float64,
    **dict.fromkeys(("attempts", "failures", "arrival"), pl.Int64),
    "machines": pl.List(pl.String),
    "cores": pl.List(pl.Float64),
}


#: The columns of tasks in the state of a simulation.
TASK_COLUMNS: Final = tuple(TASK_TYPES)


def cast_tasks(columns: Mapping[str, Any]) -> pl.DataFrame:
    """Make the table of tasks with the types of its columns; other columns are left out.

    The field of an error is the name of the column.
    """
    missing = [name for name in _FIRST_COLUMNS if name not in columns]
    if missing:
        raise InputError("the column is missing", kind="invalid-state", field=missing[0])
    table = {}
    for name, values in columns.items():
        kind = TASK_TYPES.get(name)
        if kind is None:
            continue
        try:
            is_series = isinstance(values, pl.Series)
            table[name] = values.cast(kind) if is_series else pl.Series(name, values, kind)
        except (pl.exceptions.PolarsError, TypeError, ValueError, OverflowError):
            raise InputError(
                f"must be a column of type {kind}", kind="wrong-type", field=name
            ) from None
        if len(values) != len(columns["id"]):
            raise InputError(
                f"has {len(values)} rows, and `id` has {len(columns['id'])}",
                kind="invalid-state",
                field=name,
            )
    return pl.DataFrame(table).with_columns(pl.col(set(TIME_COLUMNS) & set(table)).fill_nan(None))
