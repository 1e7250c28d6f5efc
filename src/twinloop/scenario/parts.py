"""The parts of a scenario that are its own: workload and policy."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from pydantic import (
    Field,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    WithJsonSchema,
    field_validator,
    model_serializer,
    model_validator,
)

from twinloop.platform import Description, FilePath
from twinloop.platform.address import nearest
from twinloop.platform.description import Writing
from twinloop.platform.problems import Findings
from twinloop.platform.quantities import Name
from twinloop.trace import Trace, read
from twinloop.trace.errors import InputError

#: The policies that are known by name.
POLICIES: Final = (
    "fifo", "fcfs", "easy", "easy-time", "conservative", "sjf", "ljf", "priority", "fair-share",
    "first-fit", "best-fit", "worst-fit", "pack-ic", "spread-ic", "spread-vcpu", "baseline-ic1",
    "filter", "random", "round-robin",
)  # fmt: skip

_CODE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)


#: What a policy may be called.
POLICY_SCHEMA: Final[dict[str, Any]] = {
    "anyOf": [{"enum": list(POLICIES)}, {"pattern": f"^{_CODE.pattern}$"}]
}


class GeneratorDescription(Description):
    """A workload that is made, not read: the name of a generator and its parameters.

    >>> GeneratorDescription(name="bursts", parameters={"bursts": 2, "size": 3}).make().generate(1)
    <Trace of 6 tasks>
    """

    name: Name = Field(description="name of the generator")
    parameters: dict[str, Any] = Field({}, description="its parameters; the others are as usual")

    @model_validator(mode="after")
    def _known(self) -> GeneratorDescription:
        findings = Findings()
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
        from twinloop.workload.generate import generator

        return generator(self.name, **self.parameters)


class WorkloadDescription(Description):
    """What is to run: the log or trace at a path, or a generator. A path alone is enough.

    >>> WorkloadDescription.from_dict("log.swf") == WorkloadDescription(path="log.swf")
    True
    >>> made = WorkloadDescription(generate={"name": "poisson", "parameters": {"tasks": 3}})
    >>> made.resolve(seed=1)
    <Trace of 3 tasks>
    """

    path: FilePath | None = Field(None, description="file or folder of a log or trace")
    format: Name | None = Field(None, description="its format; by default found by its content")
    options: dict[str, Any] = Field({}, description="options of the reader of that format")
    generate: GeneratorDescription | None = Field(
        None, description="the generator that makes it, in place of a path"
    )

    @classmethod
    def _long_form(cls, data: Any) -> Any:
        return {"path": data} if isinstance(data, str) else data

    @model_validator(mode="after")
    def _one_origin(self) -> WorkloadDescription:
        findings = Findings()
        if self.path is None and self.generate is None:
            findings.add((), "has neither a path nor a generator")
        if self.path is not None and self.generate is not None:
            findings.add(("generate",), "cannot stand beside a path", "keep one of them")
        if self.path is None:
            for field in (name for name in ("format", "options") if getattr(self, name)):
                findings.add((field,), "says how to read a path, and there is none")
        findings.check()
        return self

    @model_serializer(mode="wrap")
    def _short_form(self, handler: SerializerFunctionWrapHandler, info: SerializationInfo) -> Any:
        values = handler(self)
        short = isinstance(info.context, Writing) and list(values) == ["path"]
        return values["path"] if short else values

    def resolve(self, seed: int = 0) -> Trace:
        """The trace that it stands for: read, or made with this seed."""
        if self.generate is not None:
            made: Trace = self.generate.make().generate(seed)
            return made
        if self.path is None:
            raise InputError("has neither a path nor a generator", field="workload")
        for name in ("path", "format"):
            if name in self.options:
                raise InputError(f"'{name}' stands beside the options", field="workload.options")
        return read(self.path, self.format, **self.options)


class PolicyDescription(Description):
    """Who decides: a policy by name, with options. The name alone is enough.

    `module:Class` names Python code. It is kept here; running it needs the user's leave.

    >>> PolicyDescription.from_dict("easy").name
    'easy'
    """

    name: Annotated[Name, WithJsonSchema({"type": "string", **POLICY_SCHEMA})] = Field(
        description="name of the policy, or module:Class"
    )
    options: dict[str, Any] = Field({}, description="its options; the others are as usual")

    @classmethod
    def _long_form(cls, data: Any) -> Any:
        return {"name": data} if isinstance(data, str) else data

    @field_validator("name", mode="after")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in POLICIES and not _CODE.fullmatch(name):
            raise InputError(f"no policy is called '{name}'", remedy=nearest(name, POLICIES))
        return name

    @model_serializer(mode="wrap")
    def _short_form(self, handler: SerializerFunctionWrapHandler, info: SerializationInfo) -> Any:
        values = handler(self)
        short = isinstance(info.context, Writing) and list(values) == ["name"]
        return values["name"] if short else values
