"""Origins of the tasks of a scenario: generators, and several workflows with arrival times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import polars as pl
from pydantic import (
    AfterValidator,
    Field,
    PlainSerializer,
    SerializationInfo,
    ValidationInfo,
    field_serializer,
    field_validator,
    model_validator,
)

from twinloop.description import Description, FilePath
from twinloop.description.description import WriteContext, get_read_folder, make_relative
from twinloop.description.errors import InputError
from twinloop.description.problems import ProblemCollector
from twinloop.description.quantities import Count, Label, Name, Seconds
from twinloop.scenario.stored_workload import unpack_workload
from twinloop.trace import Trace, read
from twinloop.trace.edit.merging import merge
from twinloop.trace.edit.time_shift import shift_times
from twinloop.trace.formats import list_path_options


class GeneratorDescription(Description):
    """A generated workload: the name of a generator and its parameters.

    >>> GeneratorDescription(name="bursts", parameters={"bursts": 2, "size": 3}).make().generate(1)
    <Trace of 6 tasks>
    """

    name: Name = Field(description="name of the generator")
    parameters: dict[str, Any] = Field(
        {}, description="parameters of the generator; the others have their defaults"
    )

    @field_validator("parameters")
    @classmethod
    def _resolve_paths(cls, parameters: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        """Resolve parameters that are paths, relative to the file with the description."""
        folder = get_read_folder(info)
        return _change_path_parameters(
            info.data.get("name"), parameters, lambda path: (folder / path).as_posix()
        )

    @field_serializer("parameters")
    def _make_paths_relative(
        self, parameters: dict[str, Any], info: SerializationInfo
    ) -> dict[str, Any]:
        folder = info.context.folder if isinstance(info.context, WriteContext) else Path()
        return _change_path_parameters(
            self.name, parameters, lambda path: make_relative(path, folder)
        )

    @model_validator(mode="after")
    def _check_parameters(self) -> GeneratorDescription:
        findings = ProblemCollector()
        try:
            self.make()
        except InputError as error:
            parameter = (error.field or "").removeprefix(f"{self.name}.").split(".")[0]
            location = ("parameters", parameter) if parameter in self.parameters else ("name",)
            findings.add_error(location, error)
        except TypeError:  # a parameter with the name of a Python argument
            findings.add(
                ("parameters",), f"'{self.name}' has no such parameters", kind="unknown-field"
            )
        findings.check()
        return self

    def make(self) -> Any:
        """Create the generator with these parameters."""
        from twinloop.workload.generators import make_generator

        return make_generator(self.name, **self.parameters)

    def list_files(self) -> list[Path]:
        """List the files that the generator reads.

        >>> GeneratorDescription(name="recipe", parameters={"instance": "flow.json"}).list_files()
        [...Path('flow.json')]
        """
        names = _list_path_parameters(self.name)
        return [Path(self.parameters[name]) for name in names if self.parameters.get(name)]


def _list_path_parameters(generator: str | None) -> tuple[str, ...]:
    from twinloop.workload.generators import list_generators

    kind = list_generators().get(generator or "")
    return () if kind is None else kind.path_parameters


def _change_path_parameters(
    generator: str | None, parameters: Mapping[str, Any], change: Callable[[str], str]
) -> dict[str, Any]:
    """Apply a function to those parameters of a generator that are paths."""
    changed = dict(parameters)
    for name in _list_path_parameters(generator):
        value = parameters.get(name)
        if isinstance(value, str | Path):
            changed[name] = change(str(value))
        elif value is not None:
            raise ValueError(
                f"'{name}' must be a path; a workflow in memory is generated first: "
                "make_generator(...).generate(seed) is a workload"
            )
    return changed


def resolve_option_paths(options: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
    """Resolve paths in the options of a reader, relative to the file with the options."""
    folder = get_read_folder(info)
    return change_paths(options, lambda path: (folder / path).as_posix())


def _make_option_paths_relative(options: dict[str, Any], info: SerializationInfo) -> dict[str, Any]:
    folder = info.context.folder if isinstance(info.context, WriteContext) else Path()
    return change_paths(options, lambda path: make_relative(path, folder))


def change_paths(options: Mapping[str, Any], change: Callable[[str], str]) -> dict[str, Any]:
    """Apply a function to those options of a reader that are paths."""
    return {
        name: change(value) if name in list_path_options() and isinstance(value, str) else value
        for name, value in options.items()
    }


#: The options of the reader of a format; paths in them are relative to the file with the options.
ReaderOptions = Annotated[
    dict[str, Any],
    AfterValidator(resolve_option_paths),
    PlainSerializer(_make_option_paths_relative),
]


def check_reader_options(options: Mapping[str, Any], field: str) -> None:
    """Refuse fields of the workload among the options of its reader."""
    for name in ("path", "format"):
        if name in options:
            raise InputError(
                f"'{name}' is a field of the workload, not an option of the reader",
                kind="unknown-field",
                field=field,
            )


class WorkflowDescription(Description):
    """A workload that arrives at a time, once or several times.

    >>> WorkflowDescription(path="/logs/montage.json", at="1h", count=3, every="10min").every
    600.0
    """

    path: FilePath | None = Field(None, description="file or folder of a log, trace or workflow")
    format: Name | None = Field(None, description="format; by default detected from the content")
    options: ReaderOptions = Field({}, description="options of the reader of that format")
    generate: GeneratorDescription | None = Field(None, description="generator, in place of a path")
    name: Label = Field(
        "", description="name of the workflow, a prefix of its tasks and files; by default its file"
    )
    at: Seconds = Field(0.0, description="time of its first submission (s)")
    count: Count = Field(1, description="number of arrivals")
    every: Seconds = Field(0.0, description="time between two arrivals (s)")

    @classmethod
    def _long_form(cls, data: Any) -> Any:
        return {"path": data} if isinstance(data, str) else data

    @model_validator(mode="after")
    def _check_origin(self) -> WorkflowDescription:
        findings = ProblemCollector()
        if (self.path is None) == (self.generate is None):
            findings.add((), "needs either a path or a generator", kind="missing-field")
        if self.path is None:
            for field in (name for name in ("format", "options") if getattr(self, name)):
                findings.add((field,), "has no effect without a path", kind="no-effect")
        if self.every and self.count == 1:
            findings.add(("every",), "has no effect on one arrival", kind="no-effect")
        findings.check()
        return self

    @property
    def label(self) -> str:
        """Its name, or that of its file or generator."""
        if self.name:
            return self.name
        if self.generate is not None:
            return self.generate.name
        return Path(self.path or "").name.partition(".")[0]

    def read_arrival(self, seed: int, number: int) -> Trace:
        """Read or generate the tasks of one arrival; generated ones differ between arrivals."""
        if self.generate is not None:
            made: Trace = self.generate.make().generate(seed + number)
            return made
        check_reader_options(self.options, "workload.workflows.options")
        loaded = unpack_workload(read(self.path or "", self.format, **self.options))
        if not isinstance(loaded, Trace):
            raise InputError(
                "is a stored workload, which cannot be one of several workflows",
                kind="wrong-type",
                file=self.path,
                remedy="name a log or a trace",
            )
        return loaded


#: Kinds of names that mean the same in all workflows.
_SHARED: Final = ("users", "groups", "queues", "partitions", "programs")


def merge_workflows(workflows: Sequence[WorkflowDescription], seed: int) -> Trace:
    """Merge workflows into one log, each with the first submission at the time of its arrival.

    Tasks and files of different arrivals are different, also of the same file; users, groups,
    queues and programs of equal names are the same.
    """
    labels = Counter(each.label for each in workflows for _ in range(each.count))
    numbers: Counter[str] = Counter()
    traces: list[Trace] = []
    names: list[str] = []
    for each in workflows:
        loaded: Trace | None = None
        for arrival in range(each.count):
            if loaded is None or each.generate is not None:
                loaded = each.read_arrival(seed, len(traces))
            first = loaded.tasks["submit"].min()
            offset = each.at + arrival * each.every - (float(first) if first is not None else 0.0)  # type: ignore[arg-type]
            traces.append(shift_times(_set_cores(loaded), offset).with_manifest(epoch_ms=None))
            label = each.label
            numbers[label] += 1
            names.append(f"{label}-{numbers[label]}" if labels[label] > 1 else label)
    if len(traces) == 1:
        return traces[0]
    return merge(traces, names, same_site=False, shared=_SHARED)


def _set_cores(trace: Trace) -> Trace:
    """Set the cores of tasks to 1 in a log that has none, as for a log of its own.

    In the merged log, they would be unknown beside those of other logs.
    """
    cores = (trace.tasks["requested_cores"], trace.placements["cores"])
    if any(column.drop_nulls().len() for column in cores):
        return trace
    return trace.replace(tasks=trace.tasks.with_columns(requested_cores=pl.lit(1.0)))
