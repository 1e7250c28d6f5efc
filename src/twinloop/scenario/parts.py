"""The descriptions of workload and policy in a scenario."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    PrivateAttr,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    WithJsonSchema,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue, SkipJsonSchema
from pydantic_core import CoreSchema

from twinloop.description import Description, FilePath, address
from twinloop.description.description import WriteContext
from twinloop.description.errors import InputError
from twinloop.description.object_field import check_object
from twinloop.description.plugins import CODE_PATTERN
from twinloop.description.position import ValueOrigin, locate_errors
from twinloop.description.problems import ProblemCollector
from twinloop.description.quantities import Name
from twinloop.policy import (
    CLIENTS,
    CONTROLLERS,
    POLICIES,
    BuiltInPolicy,
    list_clients,
    list_controllers,
    list_policies,
    resolve_policy,
)
from twinloop.policy.registry import check_policy_name
from twinloop.scenario.commands import (
    Command,
    Environment,
    FileDescription,
    Preparation,
    TaskDescription,
    apply_commands,
    workload_from_tasks,
)
from twinloop.scenario.stored_workload import unpack_workload
from twinloop.scenario.workflows import (
    GeneratorDescription,
    ReaderOptions,
    WorkflowDescription,
    check_reader_options,
    merge_workflows,
)
from twinloop.trace import Trace, read
from twinloop.workload import Workload
from twinloop.workload.injection import INJECTION_KEYS, PRESETS, inject, resolve_injection
from twinloop.workload.prediction_errors import PredictionErrors

if TYPE_CHECKING:
    from twinloop.policy import AnyPolicy, Policy

#: JSON schema of the name of a policy: a built-in one, or `module:Class`.
POLICY_SCHEMA: Final[dict[str, Any]] = {
    "anyOf": [{"enum": [*POLICIES, *CLIENTS]}, {"pattern": f"^{CODE_PATTERN.pattern}$"}]
}


#: The same for a controller, which may also be one that places no tasks.
CONTROLLER_SCHEMA: Final[dict[str, Any]] = {
    "anyOf": [{"enum": [*CONTROLLERS, *POLICIES]}, {"pattern": f"^{CODE_PATTERN.pattern}$"}]
}


#: JSON schema of what is injected: the name of a set, or a list of keys.
_INJECT_SCHEMA: Final[dict[str, Any]] = {
    "anyOf": [
        {"enum": list(PRESETS)},
        {"type": "array", "items": {"enum": list(INJECTION_KEYS)}, "uniqueItems": True},
    ]
}


def _add_trace_field(schema: dict[str, Any]) -> None:
    """Add the other name of the field `path` to a JSON schema."""
    schema["properties"]["trace"] = schema["properties"]["path"]


#: The fields that describe how tasks are started.
_START_FIELDS: Final = ("command", "environment", "folder", "prepare")


def _check_workload(value: Any) -> Any:
    return check_object(value, Trace | Workload, "a Trace or a Workload")


# The interface of policies in Python is imported for an object that may be one, not for built-in
# ones.
def _check_policy(value: Any) -> Any:
    from twinloop.policy import Policy

    return check_object(value, Policy, "a Policy")


class WorkloadDescription(Description):
    """The workload of a scenario: a log or trace, a generator, or a list of tasks.

    A path alone is the short form. In memory it may be a Trace or a Workload; a file cannot
    contain these.

    >>> WorkloadDescription.from_dict("log.swf") == WorkloadDescription(path="log.swf")
    True
    >>> made = WorkloadDescription(generate={"name": "poisson", "parameters": {"tasks": 3}})
    >>> made.resolve(seed=1)
    <Trace of 3 tasks>
    >>> WorkloadDescription.from_dict(made.resolve(seed=1)).to_dict()
    {'object': 'Trace of 3 tasks'}
    """

    model_config = ConfigDict(json_schema_extra=_add_trace_field)

    path: FilePath | None = Field(
        None, description="file or folder of a log or trace; `trace` is another name of this field"
    )
    inject: Annotated[tuple[str, ...] | str, WithJsonSchema(_INJECT_SCHEMA)] | None = Field(
        None,
        description="what is taken from the recorded run: a list of keys, or the name of a set; "
        "the rest is predicted. By default the run is replayed with all that was recorded",
    )
    prediction_errors: PredictionErrors | None = Field(
        None,
        description="with `inject`: random errors of the predicted run times, by the seed of the "
        "scenario; by default tasks run as predicted",
    )
    format: Name | None = Field(None, description="format; by default detected from the content")
    options: ReaderOptions = Field({}, description="options of the reader of that format")
    missing: Literal["synthetic", "drop"] = Field(
        "synthetic",
        description="treatment of tasks without samples in a log with samples; synthetic: half a "
        "core for their run time; drop: they are left out",
    )
    generate: GeneratorDescription | None = Field(None, description="generator, in place of a path")
    workflows: tuple[WorkflowDescription, ...] = Field(
        (), description="several workloads with arrival times, in place of a path"
    )
    tasks: tuple[TaskDescription, ...] = Field((), description="list of tasks, in place of a path")
    files: tuple[FileDescription, ...] = Field((), description="files of the listed tasks")
    command: Command | None = Field(
        None,
        description="program and arguments for tasks without a command; columns of the task in "
        "braces, such as {run_time}, are replaced; used by `execute` only",
    )
    environment: Environment = Field({}, description="environment variables of these tasks")
    folder: FilePath | None = Field(
        None, description="working folder of these tasks; by default that of the executing process"
    )
    prepare: tuple[Preparation, ...] = Field(
        (), description="commands that `execute` runs once, before the first task"
    )
    object: Annotated[Any, BeforeValidator(_check_workload), SkipJsonSchema()] = Field(
        None, exclude=True, description="the Trace or Workload itself, in memory only"
    )

    @classmethod
    def _long_form(cls, data: Any) -> Any:
        if isinstance(data, Trace | Workload):
            return {"object": data}
        if isinstance(data, Mapping) and "trace" in data and "path" not in data:
            return {"path" if name == "trace" else name: value for name, value in data.items()}
        return {"path": data} if isinstance(data, str) else data

    @model_validator(mode="after")
    def _check_origin(self) -> WorkloadDescription:
        findings = ProblemCollector()
        origins = ("path", "generate", "workflows", "tasks", "object")
        given = [name for name in origins if getattr(self, name) not in (None, ())]
        if not given:
            findings.add((), "needs a path, a generator, workflows or tasks", kind="missing-field")
        for name in given[1:]:
            findings.add(
                (name,),
                f"cannot be combined with '{given[0]}'",
                "keep one of them",
                kind="conflicting-fields",
            )
        self._check_tasks(findings)
        self._check_files(findings)
        self._check_injection(findings)
        if self.path is None:
            for field in (name for name in ("format", "options") if getattr(self, name)):
                findings.add((field,), "has no effect without a path", kind="no-effect")
        findings.check()
        return self

    def _check_injection(self, findings: ProblemCollector) -> None:
        """Check the injected keys, and that there is a recorded run."""
        if self.inject is None:
            if self.prediction_errors is not None:
                findings.add(
                    ("prediction_errors",),
                    "has no effect without `inject`",
                    "add `inject: predictions`",
                    kind="no-effect",
                )
            return
        try:
            resolve_injection(self.inject)
        except InputError as error:
            findings.add_error(address.address_from_path(error.field or "inject"), error)
        if self.path is None and not isinstance(self.object, Trace):
            findings.add(
                ("inject",),
                "has no effect without a recorded run",
                "name it: trace: <path>",
                kind="no-effect",
            )

    def _check_tasks(self, findings: ProblemCollector) -> None:
        """Check that the ids of tasks are unique and that their parents exist."""
        names = {task.id for task in self.tasks}
        seen: set[str] = set()
        for index, task in enumerate(self.tasks):
            if task.id in seen:
                findings.add(
                    ("tasks", index, "id"), f"duplicate id '{task.id}'", kind="duplicate-name"
                )
            seen.add(task.id)
            for parent_index, parent in enumerate(task.parents):
                if parent not in names:
                    remedy = address.suggest_name(parent, sorted(names))
                    location = ("tasks", index, "parents", parent_index)
                    findings.add(
                        location, f"unknown task '{parent}'", remedy, kind="unknown-reference"
                    )

    def _check_files(self, findings: ProblemCollector) -> None:
        """Check that the names of files are unique and that the files of tasks exist."""
        findings.add_repeats(
            ((file.name, ("files", index, "name")) for index, file in enumerate(self.files)), "file"
        )
        if self.files and not self.tasks:
            findings.add(("files",), "has no effect without tasks", kind="no-effect")
        names = {file.name for file in self.files}
        for index, task in enumerate(self.tasks):
            for field, given in (("reads", task.reads), ("writes", task.writes)):
                for place, file in enumerate(given):
                    if file not in names:
                        location = ("tasks", index, field, place)
                        remedy = address.suggest_name(file, sorted(names))
                        problem = f"unknown file '{file}'"
                        findings.add(location, problem, remedy, kind="unknown-reference")

    @model_serializer(mode="wrap")
    def _short_form(self, handler: SerializerFunctionWrapHandler, info: SerializationInfo) -> Any:
        values = handler(self)
        if self.object is not None:
            others = {k: v for k, v in values.items() if v and k in _START_FIELDS}
            if self.missing != "synthetic":
                others["missing"] = self.missing
            return {"object": self.object_summary, **others}
        short = isinstance(info.context, WriteContext) and list(values) == ["path"]
        return values["path"] if short else values

    @property
    def object_summary(self) -> str | None:
        """A summary of the object in memory; None if there is none."""
        return None if self.object is None else repr(self.object).strip("<>")

    def resolve(self, seed: int = 0, origin: Trace | Workload | None = None) -> Trace | Workload:
        """Read or generate the workload; an object in memory is used as it is.

        Tasks without a command, environment or folder get those of this description.

        Args:
            seed: The seed of the scenario.
            origin: What `load_origin` has returned, if it has already been called.
        """
        if origin is None:
            origin = self.load_origin(seed)
        if self.inject is not None:
            origin = self._inject(origin, seed)
        return apply_commands(origin, self.command, self.environment, self.folder)

    def _inject(self, origin: Trace | Workload, seed: int) -> Workload:
        """Take what is injected from the recorded run, and predict the rest."""
        if isinstance(origin, Workload):
            raise InputError(
                "is a stored workload, not a recorded run: nothing can be injected from it",
                kind="wrong-type",
                file=self.path,
                remedy="remove `inject`, or name the trace of a run",
            )
        try:
            return inject(
                origin,
                self.inject or (),
                errors=self.prediction_errors,
                seed=seed,
                file=self.path,
            )
        except InputError as error:
            if self._position is not None:
                self._position.locate(error, error.field or "inject")
            raise

    def load_origin(self, seed: int) -> Trace | Workload:
        """Read or generate the tasks, before anything is injected or added."""
        if self.tasks:
            return workload_from_tasks(self.tasks, self.files)
        if self.object is not None:
            workload: Trace | Workload = self.object
            return workload
        if self.generate is not None:
            trace: Trace = self.generate.make().generate(seed)
            return trace
        if self.workflows:
            return merge_workflows(self.workflows, seed)
        if self.path is None:
            raise InputError(
                "needs a path, a generator, workflows or tasks",
                kind="missing-field",
                field="workload",
            )
        check_reader_options(self.options, "workload.options")
        return unpack_workload(read(self.path, self.format, **self.options))

    @property
    def is_generated(self) -> bool:
        """Whether the tasks depend on the seed of the scenario."""
        return bool(self.list_generators())

    def list_generators(self) -> list[GeneratorDescription]:
        """List the generators of its tasks."""
        made = (self.generate, *(each.generate for each in self.workflows))
        return [each for each in made if each is not None]

    def list_logs(self) -> list[tuple[str, Mapping[str, Any]]]:
        """List the logs that it reads: their paths, with the options of their readers."""
        described: tuple[WorkloadDescription | WorkflowDescription, ...] = (self, *self.workflows)
        return [(each.path, each.options) for each in described if each.path is not None]


class PolicyDescription(Description):
    """The scheduling policy of a scenario: its name and options. The name alone is the short form.

    `module:Class` names a Python class; it needs permission to run (`allow_code`). In memory it
    may be a policy object; a file cannot contain a policy written in Python.

    >>> PolicyDescription.from_dict("easy").name
    'easy'
    >>> PolicyDescription(name="conservative", options={"compress": False}).resolve()
    Conservative(depth=0, compress=False)
    """

    name: Annotated[Name, WithJsonSchema({"type": "string", **POLICY_SCHEMA})] = Field(
        description="name of the policy, or module:Class"
    )
    options: dict[str, Any] = Field(
        {}, description="options of the policy; the others have their defaults"
    )
    object: Annotated[Any, BeforeValidator(_check_policy), SkipJsonSchema()] = Field(
        None, exclude=True, description="the Policy itself, in memory only"
    )

    def locate(self, error: InputError, *path: str | int) -> InputError:
        """Add the position of the value at this path to an error: in the file of the value."""
        if len(path) == 2 and path[0] == "options" and path[1] in self._origins:
            return self._origins[str(path[1])].locate(error)
        return super().locate(error, *path)

    def with_origins(self, origins: Mapping[str, ValueOrigin]) -> Self:
        """Return a copy whose options with these names are from other files."""
        copy = self.model_copy()
        copy._origins = dict(origins)
        return copy

    @classmethod
    def _long_form(cls, data: Any) -> Any:
        if isinstance(data, BuiltInPolicy):
            return {"name": data.name, "options": data.to_dict()}
        if isinstance(data, str):
            return {"name": data}
        if data is None or isinstance(data, Mapping | Description):
            return data
        from twinloop.policy import Policy

        return {"name": data.name, "object": data} if isinstance(data, Policy) else data

    # Whether it may also be a controller that places no tasks.
    _is_controller: ClassVar[bool] = False
    #: Where options were read from that are not in the file of the scenario, by their names.
    _origins: Mapping[str, ValueOrigin] = PrivateAttr({})

    @field_validator("name", mode="after")
    @classmethod
    def _check_name(cls, name: str) -> str:
        check_policy_name(name, controller=cls._is_controller)
        return name

    @model_validator(mode="after")
    def _check_options(self) -> PolicyDescription:
        findings = ProblemCollector()
        if self.object is not None and self.options:
            problem = "have no effect on a policy in memory, which has its own"
            findings.add(("options",), problem, "leave them out", kind="no-effect")
        elif self.object is None and not CODE_PATTERN.fullmatch(self.name):
            findings.add_errors_of(self.resolve)
        findings.check()
        return self

    @model_serializer(mode="wrap")
    def _short_form(self, handler: SerializerFunctionWrapHandler, info: SerializationInfo) -> Any:
        values = handler(self)
        if self.object is not None:
            return {"name": self.name, "object": self.object_summary}
        short = isinstance(info.context, WriteContext) and list(values) == ["name"]
        return values["name"] if short else values

    @property
    def object_summary(self) -> str | None:
        """A summary of the object in memory; None if there is none."""
        return None if self.object is None else f"Policy {self.name}"

    def resolve(self, *, allow_code: bool = False) -> AnyPolicy:
        """Create the policy; `module:Class` only if code is allowed."""
        if self.object is not None:
            policy: Policy = self.object
            return policy
        with locate_errors(self._position):
            return resolve_policy(self.name, self.options, allow_code=allow_code)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        schema = handler.resolve_ref_schema(handler(core_schema))
        # With this, an editor can complete the options of the named policy.
        schema["allOf"] = [
            {
                "if": {"properties": {"name": {"const": name}}},
                "then": {"properties": {"options": handler(kind.__pydantic_core_schema__)}},
            }
            for name, kind in {
                **(list_controllers() if cls._is_controller else {}),
                **list_policies(),
                **list_clients(),
            }.items()
        ]
        return schema


class ControllerDescription(PolicyDescription):
    """A controller that acts after the policy of a scenario: its name and options.

    >>> ControllerDescription(name="power-saving", options={"keep": 2}).resolve()
    PowerSaving(idle_time=0.0, keep=2)
    """

    _is_controller: ClassVar[bool] = True

    name: Annotated[Name, WithJsonSchema({"type": "string", **CONTROLLER_SCHEMA})] = Field(
        description="name of the controller or policy, or module:Class"
    )
