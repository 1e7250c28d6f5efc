"""The base of all descriptions: read from YAML or JSON, checked, changed, written."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Any, Self, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    PlainSerializer,
    PrivateAttr,
    SerializationInfo,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from twinloop.description import address
from twinloop.description import text as text_of
from twinloop.description.cleaning import Cleaning
from twinloop.description.document import ParsedDocument
from twinloop.description.errors import InputError
from twinloop.description.files import write_atomically
from twinloop.description.problems import DescriptionError, problems_from_validation_error
from twinloop.description.yaml_text import dump_yaml

if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass as _ModelMetaclass
else:
    _ModelMetaclass = type(BaseModel)


@dataclass
class ReadContext:
    """What a description is told while it is read: the folder of its file."""

    folder: Path = Path()
    #: Which description each mapping, known by its identity, was read as.
    classes: dict[int, type[Description]] = field(default_factory=dict)


@dataclass(frozen=True)
class WriteContext:
    """What a description is told while it is written: the folder to be, short forms wanted."""

    folder: Path = Path()


def get_read_folder(info: ValidationInfo) -> Path:
    """The folder of the file that a description is read from; that of values in memory is `.`."""
    return info.context.folder if isinstance(info.context, ReadContext) else Path()


def _located(path: str, info: ValidationInfo) -> str:
    return (get_read_folder(info) / path).as_posix()


def _relative(path: str, info: SerializationInfo) -> str:
    return make_relative(
        path, info.context.folder if isinstance(info.context, WriteContext) else Path()
    )


def make_relative(path: str, folder: Path) -> str:
    """A path as a file in this folder has to write it; one that is absolute stays so.

    >>> make_relative("logs/kth.swf", Path("studies"))
    '../logs/kth.swf'
    """
    if PurePath(path).is_absolute() or folder == Path():
        return path
    try:
        return Path(os.path.relpath(path, folder)).as_posix()
    except ValueError:  # on another drive
        return Path(path).resolve().as_posix()


def is_file_path_validator(validator: AfterValidator) -> bool:
    """Whether this is what makes a `FilePath` relative to its file."""
    return validator.func is _located


#: The path of another file: in a file it is relative to that file, in memory to the work folder.
FilePath = Annotated[str, Field(min_length=1), AfterValidator(_located), PlainSerializer(_relative)]


@dataclass(frozen=True)
class TextAlternative:
    """Says in the JSON Schema of a field that a text may stand for the whole description."""

    meaning: str
    #: What the schema says of the text beside.
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        text = {"type": "string", "description": self.meaning, **self.extra}
        return {"anyOf": [text, handler(schema)]}


class _Speaking(_ModelMetaclass):
    """Descriptions made by a call report their problems as those read from a file do."""

    def __call__(cls, *texts: Any, **values: Any) -> Any:
        if texts:
            name = cls.__name__
            raise InputError(
                f"{name} takes its parts by name",
                remedy=f"{name}.from_text(...) reads a text, {name}.load(...) a file",
            )
        return cast(type[Description], cls).from_dict(values)


class Description(BaseModel, metaclass=_Speaking):
    """A value that describes something: read-only, whole, and with no field it does not know.

    Descriptions are made by a call, from plain values (`from_dict`), from YAML or JSON text
    (`from_text`) or from a file (`load_document`). Whatever is wrong is told at once in a
    `DescriptionError`, each problem with its path and, in a text, its line.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    _notes: tuple[Cleaning, ...] = PrivateAttr(())

    @property
    def notes(self) -> tuple[Cleaning, ...]:
        """What was assumed or left out when this was read from a foreign format."""
        return self._notes

    def with_notes(self, notes: Iterable[Cleaning]) -> Self:
        """The same description with these notes kept beside it."""
        copy = self.model_copy()
        copy._notes = tuple(notes)
        return copy

    @classmethod
    def from_dict(cls, values: Any) -> Self:
        """Make one from plain values, short forms included."""
        return cls._read(ParsedDocument(values), Path())

    @classmethod
    def from_text(cls, text: str, *, file: str | None = None) -> Self:
        """Make one from YAML or JSON text; `file` is what errors call it."""
        return cls._read(text_of.parse_document(text, file), Path())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read one from a YAML or JSON file; paths in it are relative to its folder."""
        path = Path(path)
        return cls._read(text_of.load_document(path), path.parent)

    @classmethod
    def _read(cls, source: ParsedDocument, folder: Path) -> Self:
        reading = ReadContext(folder)
        try:
            return cls.model_validate(source.data, context=reading)
        except ValidationError as error:
            problems = problems_from_validation_error(error, source, reading.classes)
        raise DescriptionError(problems)

    @model_validator(mode="before")
    @classmethod
    def _begin(cls, data: Any, info: ValidationInfo) -> Any:
        if isinstance(info.context, ReadContext):
            info.context.classes[id(data)] = cls
        return cls._long_form(data)

    @classmethod
    def _long_form(cls, data: Any) -> Any:
        """What a short form stands for; other data as it is."""
        return data

    @classmethod
    def noun(cls) -> str:
        """What errors call it."""
        return re.sub(r"(?<!^)(?=[A-Z])", " ", cls.__name__.removesuffix("Description")).lower()

    def to_dict(self, *, complete: bool = False) -> dict[str, Any]:
        """Plain values that `from_dict` reads back: what differs from the defaults, or all."""
        if complete:
            return _tidy(self.model_dump(mode="json"))  # type: ignore[no-any-return]
        return _short(self, Path())  # type: ignore[no-any-return]

    def to_yaml(self) -> str:
        """YAML text that `from_text` reads back."""
        return dump_yaml(_short(self, Path()))

    def save(self, path: str | Path) -> Path:
        """Write it as YAML, or as JSON where the name ends in `.json`; whole or not at all.

        Paths in it are written relative to the folder of the file.
        """
        path = Path(path)
        values = _short(self, path.parent)
        if path.suffix == ".json":
            text = json.dumps(values, indent=2, ensure_ascii=False) + "\n"
        else:
            text = dump_yaml(values)
        with write_atomically(path) as stream:
            stream.write(text.encode())
        return path

    def replace(self, **changes: Any) -> Self:
        """A description with other values at these dotted paths, checked as a whole.

        >>> from twinloop.platform import Platform
        >>> platform = Platform.parse("2x8@2400MHz")
        >>> platform.replace(**{"clusters[0].hosts[0].cores": 16}).total_cores
        32.0
        """
        values: dict[str, Any] = {name: getattr(self, name) for name in type(self).model_fields}
        for path, value in changes.items():
            name, *rest = where = address.address_from_path(path)
            if name not in values:
                known = list(values)
                raise InputError(
                    f"is no field of the {self.noun()}",
                    field=path,
                    remedy=address.suggest_name(str(name), known),
                )
            if not rest:
                values[str(name)] = value
            else:
                whole = _dumped(values[str(name)])
                try:
                    values = address.set_value({**values, str(name): whole}, where, _dumped(value))
                except InputError as error:
                    said = f"{error.field} {error.problem}"
                    raise InputError(said, field=path, remedy=error.remedy) from None
        return type(self).from_dict(values).with_notes(self._notes)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in type(self).model_fields)

    def __hash__(self) -> int:
        return hash(json.dumps(self.to_dict(), sort_keys=True))


def _dumped(value: Any) -> Any:
    if isinstance(value, Description):
        return value.to_dict(complete=True)
    if isinstance(value, tuple | list):
        return [_dumped(item) for item in value]
    if isinstance(value, dict):
        return {name: _dumped(item) for name, item in value.items()}
    return value


def _short(description: Description, folder: Path) -> Any:
    return _tidy(
        description.model_dump(mode="json", exclude_defaults=True, context=WriteContext(folder))
    )


def _tidy(value: Any) -> Any:
    """Plain values with whole numbers written as such."""
    if isinstance(value, dict):
        return {name: _tidy(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_tidy(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 1 << 53:
        return int(value)
    return value
