"""The base class of generators: parameters, rounding and random streams."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, NamedTuple

import numpy as np
import polars as pl
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from twinloop.description import Cleaning, InputError
from twinloop.description.address import suggest_name
from twinloop.description.problems import classify_validation_error
from twinloop.trace import Manifest, Trace
from twinloop.workload.generators.elementary import Floats
from twinloop.workload.generators.random_stream import RandomStream

#: Limit of the number of tasks, which must fit in memory.
MAX_TASKS: Final = 100_000_000

_TICKS: Final = {"s": 1.0, "ms": 1000.0}


def parameter(default: Any, meaning: str, *, unit: str = "", **bounds: Any) -> Any:
    """Declare a parameter of a generator: default, meaning, unit and bounds."""
    return Field(default, description=meaning, json_schema_extra={"unit": unit}, **bounds)


@dataclass(frozen=True, slots=True)
class GeneratorParameter:
    """One parameter of a generator, for `--help` and the documentation."""

    name: str
    default: Any
    unit: str
    meaning: str


class GeneratedTables(NamedTuple):
    """The content of a generated trace.

    >>> GeneratedTables(tasks={"submit": [0.0]}).files is None
    True
    """

    #: The columns of the tasks, in the order of submission; without `id`, the ids are 1, 2, 3...
    tasks: Mapping[str, Any]
    files: pl.DataFrame | None = None
    task_files: pl.DataFrame | None = None
    #: Notes on deviations from the parameters.
    cleaned: tuple[Cleaning, ...] = ()
    #: Facts of the manifest, besides the name and the parameters of the generator.
    facts: Mapping[str, Any] = {}


class Generator(BaseModel, ABC):
    """Base class of the generators: a description with parameters that creates a Trace.

    The same parameters and seed give the same tables, to the bit, on every machine and with every
    version of NumPy: see `RandomStream`.

    >>> from twinloop.workload.generators import make_generator
    >>> make_generator("poisson", tasks=3).generate(seed=1)
    <Trace of 3 tasks>
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    #: The name in `list_generators()` and on the command line.
    name: ClassVar[str]
    #: A description in one line.
    title: ClassVar[str]
    #: Parameters that are paths of files; in a scenario they are relative to its file.
    path_parameters: ClassVar[tuple[str, ...]] = ()

    resolution: Literal["s", "ms", "exact"] = parameter(
        "s",
        "resolution of times: whole seconds (s), whole milliseconds (ms) or not rounded (exact)",
    )

    def __init__(self, **parameters: Any) -> None:
        try:
            super().__init__(**parameters)
        except ValidationError as error:
            raise self._convert_error(error) from None

    @classmethod
    def parameters(cls) -> tuple[GeneratorParameter, ...]:
        """Return the parameters: first those of the class, then the inherited ones.

        >>> from twinloop.workload.generators import list_generators
        >>> print(list_generators()["bursts"].parameters()[0])
        GeneratorParameter(name='bursts', default=10, unit='', meaning='number of bursts')
        """
        parameters: dict[str, GeneratorParameter] = {}
        for kind in cls.__mro__:
            for name in getattr(kind, "__annotations__", {}):
                field = cls.model_fields.get(name)
                # An inherited parameter with another default belongs to the class.
                if name not in parameters and field and isinstance(field.json_schema_extra, dict):
                    unit = str(field.json_schema_extra["unit"])
                    parameters[name] = GeneratorParameter(
                        name, field.default, unit, field.description or ""
                    )
        return tuple(parameters.values())

    def generate(self, seed: int) -> Trace:
        """Generate the workload of a seed.

        >>> from twinloop.workload.generators import make_generator
        >>> trace = make_generator("bursts", bursts=1, size=2).generate(seed=5)
        >>> trace.manifest.seed, trace.manifest.facts["generator"]["name"]
        (5, 'bursts')
        """
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            raise InputError(
                f"{seed!r} is not a seed",
                kind="out-of-range",
                field="seed",
                remedy="give a whole number, 0 or more",
            )
        content = self._content(seed)
        tasks = pl.DataFrame(content.tasks)
        if "id" not in tasks.columns:
            tasks = tasks.with_columns(pl.int_range(1, pl.len() + 1).cast(pl.String).alias("id"))
        submit = self._round(tasks["submit"].to_numpy())
        tasks = tasks.with_columns(pl.Series("submit", submit))
        generator = {"name": self.name, "parameters": self.model_dump(mode="json")}
        manifest = Manifest(
            kind="generated",
            seed=seed,
            cleaned=content.cleaned,
            facts={"generator": generator, **content.facts},
        )
        if "parents" not in tasks.columns:
            no_parents = pl.Series("parents", [[]], dtype=pl.List(pl.String))
            tasks = tasks.with_columns(no_parents.new_from_index(0, tasks.height))
        files = {"files": content.files, "task_files": content.task_files}
        data = {name: frame for name, frame in files.items() if frame is not None}
        return Trace(tasks=tasks, **data, manifest=manifest)

    @abstractmethod
    def _tasks(self, seed: int) -> Mapping[str, Any]:
        """Draw the columns of the tasks, in the order of submission.

        If there is no column `id`, the ids are 1, 2, 3...
        """

    def _content(self, seed: int) -> GeneratedTables:
        """Draw all tables."""
        return GeneratedTables(self._tasks(seed))

    def _stream(self, seed: int, stream: str) -> RandomStream:
        return RandomStream(seed, f"{self.name}/{stream}")

    def _round(self, times: Floats) -> Floats:
        """Round times to the resolution."""
        ticks = _TICKS.get(self.resolution)
        return times if ticks is None else np.rint(times * ticks) / ticks

    def _round_down(self, times: Floats) -> Floats:
        """Round times down to the resolution."""
        ticks = _TICKS.get(self.resolution)
        return times if ticks is None else np.floor(times * ticks) / ticks

    def _round_up(self, times: Floats) -> Floats:
        """Round times up to the resolution."""
        return -self._round_down(-times)

    def _round_lengths(self, times: Floats) -> Floats:
        """Round lengths to the resolution, with a minimum of one tick."""
        ticks = _TICKS.get(self.resolution)
        return times if ticks is None else np.maximum(self._round(times), 1.0 / ticks)

    @classmethod
    def _convert_error(cls, error: ValidationError) -> InputError:
        first = error.errors(include_url=False)[0]
        path = [str(part) for part in first["loc"]]
        field = ".".join([cls.name, *path])
        if first["type"] == "extra_forbidden":
            remedy = suggest_name(path[0], [known.name for known in cls.parameters()])
            return InputError(
                f"is not a parameter of '{cls.name}'",
                kind="unknown-field",
                field=field,
                remedy=remedy,
            )
        problem = first["msg"].removeprefix("Value error, ")
        if path and not isinstance(first["input"], dict):
            problem = f"{first['input']!r}: {problem[:1].lower()}{problem[1:]}"
        kind = classify_validation_error(first["type"])
        return InputError(problem, kind=kind, field=field)
