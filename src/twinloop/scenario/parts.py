"""The parts of a scenario that are its own: workload and policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    PlainSerializer,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue, SkipJsonSchema
from pydantic_core import CoreSchema

from twinloop.description import Description, DescriptionError, FilePath, address
from twinloop.description.description import WriteContext, get_read_folder, make_relative
from twinloop.description.errors import InputError
from twinloop.description.problems import ProblemCollector
from twinloop.description.quantities import Name, quote_value
from twinloop.policy import (
    POLICIES,
    AnyPolicy,
    BuiltInPolicy,
    Policy,
    list_policies,
    resolve_policy,
)
from twinloop.policy.registry import CODE_PATTERN, check_policy_name
from twinloop.scenario.commands import (
    Command,
    Environment,
    Preparation,
    TaskDescription,
    apply_commands,
    workload_from_tasks,
)
from twinloop.scenario.stored_workload import unpack_workload
from twinloop.trace import Trace, read
from twinloop.trace.formats import list_path_options
from twinloop.workload import Workload

#: What a policy may be called, as far as a file can know.
POLICY_SCHEMA: Final[dict[str, Any]] = {
    "anyOf": [{"enum": list(POLICIES)}, {"pattern": f"^{CODE_PATTERN.pattern}$"}]
}


#: What says how tasks are started, whatever they are.
_STARTING: Final = ("command", "environment", "folder", "prepare")


def _workload(value: Any) -> Any:
    return _held(value, Trace | Workload, "a Trace or a Workload")


def _policy(value: Any) -> Any:
    return _held(value, Policy, "a Policy")


def _held(value: Any, kind: type | UnionType, what: str) -> Any:
    """The object itself; a file or manifest has only a note of it."""
    if value is None or isinstance(value, kind):
        return value
    if isinstance(value, str):
        raise InputError(
            f"was an object in memory ({value}), which is not kept with its description",
            remedy="give the object again in its place",
        )
    raise InputError(f"must be {what}, not {quote_value(value)}")


class GeneratorDescription(Description):
    """A workload that is made, not read: the name of a generator and its parameters.

    >>> GeneratorDescription(name="bursts", parameters={"bursts": 2, "size": 3}).make().generate(1)
    <Trace of 6 tasks>
    """

    name: Name = Field(description="name of the generator")
    parameters: dict[str, Any] = Field({}, description="its parameters; the others are as usual")

    @model_validator(mode="after")
    def _known(self) -> GeneratorDescription:
        findings = ProblemCollector()
        try:
            self.make()
        except InputError as error:
            parameter = (error.field or "").removeprefix(f"{self.name}.").split(".")[0]
            place = ("parameters", parameter) if parameter in self.parameters else ("name",)
            findings.add(place, error.problem, error.remedy)
        except TypeError:  # a parameter that Python itself takes for another
            findings.add(("parameters",), f"'{self.name}' has no such parameters")
        findings.check()
        return self

    def make(self) -> Any:
        """The generator with these parameters."""
        from twinloop.workload.generators import make_generator

        return make_generator(self.name, **self.parameters)


def resolve_option_paths(options: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
    """Options of a reader that name files are relative to the file that they stand in."""
    folder = get_read_folder(info)
    return change_paths(options, lambda path: (folder / path).as_posix())


def _relative(options: dict[str, Any], info: SerializationInfo) -> dict[str, Any]:
    folder = info.context.folder if isinstance(info.context, WriteContext) else Path()
    return change_paths(options, lambda path: make_relative(path, folder))


def change_paths(options: Mapping[str, Any], change: Callable[[str], str]) -> dict[str, Any]:
    """Options of a reader, with those changed that are paths."""
    return {
        name: change(value) if name in list_path_options() and isinstance(value, str) else value
        for name, value in options.items()
    }


class WorkloadDescription(Description):
    """What is to run: the log or trace at a path, or a generator. A path alone is enough.

    In memory a Trace or Workload may stand for it; a file cannot hold these.

    >>> WorkloadDescription.from_dict("log.swf") == WorkloadDescription(path="log.swf")
    True
    >>> made = WorkloadDescription(generate={"name": "poisson", "parameters": {"tasks": 3}})
    >>> made.resolve(seed=1)
    <Trace of 3 tasks>
    >>> WorkloadDescription.from_dict(made.resolve(seed=1)).to_dict()
    {'object': 'Trace of 3 tasks'}
    """

    path: FilePath | None = Field(None, description="file or folder of a log or trace")
    format: Name | None = Field(None, description="its format; by default found by its content")
    options: Annotated[
        dict[str, Any], AfterValidator(resolve_option_paths), PlainSerializer(_relative)
    ] = Field({}, description="options of the reader of that format")
    missing: Literal["synthetic", "drop"] = Field(
        "synthetic",
        description="what a task without a sample does, in a log that has samples: half of one "
        "core for as long as it ran, or nothing at all: it is left out",
    )
    generate: GeneratorDescription | None = Field(
        None, description="the generator that makes it, in place of a path"
    )
    tasks: tuple[TaskDescription, ...] = Field(
        (), description="the tasks themselves, in place of a path"
    )
    command: Command | None = Field(
        None,
        description="program and arguments for tasks that have none of their own, with their "
        "columns in braces, such as {run_time}; only `execute` runs it",
    )
    environment: Environment = Field({}, description="variables that are set for such tasks")
    folder: FilePath | None = Field(
        None, description="folder that they run in; without, that of whoever executes them"
    )
    prepare: tuple[Preparation, ...] = Field(
        (), description="what `execute` runs once, before the first task"
    )
    object: Annotated[Any, BeforeValidator(_workload), SkipJsonSchema()] = Field(
        None, exclude=True, description="the Trace or Workload itself, in memory only"
    )

    @classmethod
    def _long_form(cls, data: Any) -> Any:
        if isinstance(data, Trace | Workload):
            return {"object": data}
        return {"path": data} if isinstance(data, str) else data

    @model_validator(mode="after")
    def _one_origin(self) -> WorkloadDescription:
        findings = ProblemCollector()
        origins = ("path", "generate", "tasks", "object")
        given = [name for name in origins if getattr(self, name) not in (None, ())]
        if not given:
            findings.add((), "has neither a path nor a generator")
        for name in given[1:]:
            findings.add((name,), f"cannot stand beside '{given[0]}'", "keep one of them")
        self._check_tasks(findings)
        if self.path is None:
            for field in (name for name in ("format", "options") if getattr(self, name)):
                findings.add((field,), "says how to read a path, and there is none")
        findings.check()
        return self

    def _check_tasks(self, findings: ProblemCollector) -> None:
        """Tasks written down have names of their own, and wait for tasks that are there."""
        names = {task.id for task in self.tasks}
        seen: set[str] = set()
        for place, task in enumerate(self.tasks):
            if task.id in seen:
                findings.add(("tasks", place, "id"), f"another task is called '{task.id}'")
            seen.add(task.id)
            for number, parent in enumerate(task.parents):
                if parent not in names:
                    remedy = address.suggest_name(parent, sorted(names))
                    where = ("tasks", place, "parents", number)
                    findings.add(where, f"'{parent}' is no task", remedy)

    @model_serializer(mode="wrap")
    def _short_form(self, handler: SerializerFunctionWrapHandler, info: SerializationInfo) -> Any:
        values = handler(self)
        if self.object is not None:
            said = {k: v for k, v in values.items() if v and k in _STARTING}
            if self.missing != "synthetic":
                said["missing"] = self.missing
            return {"object": self.held, **said}
        short = isinstance(info.context, WriteContext) and list(values) == ["path"]
        return values["path"] if short else values

    @property
    def held(self) -> str | None:
        """What the object in memory is, in words; None if there is none."""
        return None if self.object is None else repr(self.object).strip("<>")

    def resolve(self, seed: int = 0) -> Trace | Workload:
        """What it stands for: read, made with this seed, or the object itself."""
        return apply_commands(self._origin(seed), self.command, self.environment, self.folder)

    def _origin(self, seed: int) -> Trace | Workload:
        if self.tasks:
            return workload_from_tasks(self.tasks)
        if self.object is not None:
            held: Trace | Workload = self.object
            return held
        if self.generate is not None:
            made: Trace = self.generate.make().generate(seed)
            return made
        if self.path is None:
            raise InputError("has neither a path nor a generator", field="workload")
        for name in ("path", "format"):
            if name in self.options:
                raise InputError(f"'{name}' stands beside the options", field="workload.options")
        return unpack_workload(read(self.path, self.format, **self.options))


class PolicyDescription(Description):
    """Who decides: a policy by name, with options. The name alone is enough.

    `module:Class` names Python code. It is kept here; running it needs the user's leave. In
    memory a policy itself may stand for it; a file cannot hold one that is written in Python.

    >>> PolicyDescription.from_dict("easy").name
    'easy'
    >>> PolicyDescription(name="conservative", options={"compress": False}).resolve()
    Conservative(depth=0, compress=False)
    """

    name: Annotated[Name, WithJsonSchema({"type": "string", **POLICY_SCHEMA})] = Field(
        description="name of the policy, or module:Class"
    )
    options: dict[str, Any] = Field({}, description="its options; the others are as usual")
    object: Annotated[Any, BeforeValidator(_policy), SkipJsonSchema()] = Field(
        None, exclude=True, description="the Policy itself, in memory only"
    )

    @classmethod
    def _long_form(cls, data: Any) -> Any:
        if isinstance(data, BuiltInPolicy):
            return {"name": data.name, "options": data.to_dict()}
        if isinstance(data, Policy):
            return {"name": data.name, "object": data}
        return {"name": data} if isinstance(data, str) else data

    @field_validator("name", mode="after")
    @classmethod
    def _known(cls, name: str) -> str:
        check_policy_name(name)
        return name

    @model_validator(mode="after")
    def _options_fit(self) -> PolicyDescription:
        if self.object is not None or CODE_PATTERN.fullmatch(self.name):
            return self
        findings = ProblemCollector()
        try:
            self.resolve()
        except DescriptionError as error:
            for problem in error.problems:
                place = address.address_from_path(problem.field) if problem.field else ()
                findings.add(("options", *place), problem.problem, problem.remedy)
        except InputError as error:
            findings.add(("name",), error.problem, error.remedy)
        findings.check()
        return self

    @model_serializer(mode="wrap")
    def _short_form(self, handler: SerializerFunctionWrapHandler, info: SerializationInfo) -> Any:
        values = handler(self)
        if self.object is not None:
            return {"name": self.name, "object": self.held}
        short = isinstance(info.context, WriteContext) and list(values) == ["name"]
        return values["name"] if short else values

    @property
    def held(self) -> str | None:
        """What the object in memory is, in words; None if there is none."""
        return None if self.object is None else f"Policy {self.name}"

    def resolve(self, *, allow_code: bool = False) -> AnyPolicy:
        """The policy that it stands for; `module:Class` only where code is allowed."""
        if self.object is not None:
            held: Policy = self.object
            return held
        return resolve_policy(self.name, self.options, allow_code=allow_code)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        schema = handler.resolve_ref_schema(handler(core_schema))
        # An editor can then offer the options of the policy that is named.
        schema["allOf"] = [
            {
                "if": {"properties": {"name": {"const": name}}},
                "then": {"properties": {"options": handler(kind.__pydantic_core_schema__)}},
            }
            for name, kind in list_policies().items()
        ]
        return schema
