"""The base class of all descriptions: read from YAML or JSON, validated, changed, written."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Self, cast, get_args

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
from twinloop.description import text as text_module
from twinloop.description.cleaning import Cleaning
from twinloop.description.document import Address, ParsedDocument
from twinloop.description.errors import InputError
from twinloop.description.files import write_atomically
from twinloop.description.position import Position
from twinloop.description.problems import DescriptionError, problems_from_validation_error

if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass as _ModelMetaclass
else:
    _ModelMetaclass = type(BaseModel)


class ReadContext:
    """Validation context of a description that is read: the folder of its file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        #: The class that each mapping of the data (by its `id`) was read as.
        self.classes: dict[int, type[Description]] = {}


class WriteContext(NamedTuple):
    """Serialisation context of a description in short form: the folder of the file to write."""

    folder: Path


def get_read_folder(info: ValidationInfo) -> Path:
    """Return the folder of the file that a description is read from; `.` for values in memory."""
    return info.context.folder if isinstance(info.context, ReadContext) else Path()


def _resolve_path(path: str, info: ValidationInfo) -> str:
    return (get_read_folder(info) / path).as_posix()


def _shorten_path(path: str, info: SerializationInfo) -> str:
    return make_relative(
        path, info.context.folder if isinstance(info.context, WriteContext) else Path()
    )


def make_relative(path: str, folder: Path) -> str:
    """Make a path relative to a folder; an absolute path is returned unchanged.

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
    """Whether a validator is the one of `FilePath`."""
    return validator.func is _resolve_path


#: The path of another file: relative to the describing file, or in memory to the working directory.
FilePath = Annotated[
    str, Field(min_length=1), AfterValidator(_resolve_path), PlainSerializer(_shorten_path)
]


@dataclass(frozen=True)
class TextAlternative:
    """Annotation of a field whose JSON Schema also accepts a text as short form."""

    meaning: str
    #: Further JSON Schema keywords of the text.
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        text = {"type": "string", "description": self.meaning, **self.extra}
        return {"anyOf": [text, handler(schema)]}


class _DescriptionMeta(_ModelMetaclass):
    """Metaclass that makes constructor calls raise the same errors as reading from a file."""

    def __call__(cls, *positional: Any, **values: Any) -> Any:
        if positional:
            name = cls.__name__
            raise InputError(
                f"{name} takes keyword arguments only",
                kind="wrong-argument",
                remedy=f"{name}.from_text(...) reads a text, {name}.load(...) a file",
            )
        return cast(type[Description], cls).from_dict(values)


class Description(BaseModel, metaclass=_DescriptionMeta):
    """Base class of descriptions: immutable, validated as a whole, without unknown fields.

    A description is made by its constructor, from plain values (`from_dict`), from YAML or JSON
    text (`from_text`) or from a file (`load`). A `DescriptionError` lists all problems at once,
    each with its path and, in a text, its line.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    _notes: tuple[Cleaning, ...] = PrivateAttr(())
    #: Where it was read from, if an error may be found only when it is used.
    _position: Position | None = PrivateAttr(None)

    @property
    def notes(self) -> tuple[Cleaning, ...]:
        """Assumptions and omissions made when this was read from a foreign format."""
        return self._notes

    def with_notes(self, notes: Iterable[Cleaning]) -> Self:
        """Return a copy with these notes."""
        copy = self.model_copy()
        copy._notes = tuple(notes)
        return copy

    @classmethod
    def from_dict(cls, values: Any) -> Self:
        """Make a description from plain values; short forms are accepted."""
        return cls._read(ParsedDocument(values), Path())

    @classmethod
    def from_text(cls, text: str, *, file: str | None = None) -> Self:
        """Make a description from YAML or JSON text; `file` is its name in error messages."""
        return cls._read(text_module.parse_document(text, file), Path())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a description from a YAML or JSON file; paths in it are relative to its folder."""
        path = Path(path)
        return cls._read(text_module.load_document(path), path.parent)

    @classmethod
    def _read(cls, source: ParsedDocument, folder: Path) -> Self:
        context = ReadContext(folder)
        try:
            description = cls.model_validate(source.data, context=context)
        except ValidationError as error:
            problems = problems_from_validation_error(error, source, context.classes)
        else:
            description.note_positions(source.data, source.file)
            return description
        raise DescriptionError(problems)

    def note_positions(self, data: Any, file: str | None, address: Address = ()) -> None:
        """Note where those parts were read from whose errors may be found only in a run.

        Args:
            data: The values that it was read from.
            file: The file; None for values in memory.
            address: The address of the data in this file.
        """

    def locate(self, error: InputError, *path: str | int) -> InputError:
        """Add file, line and field of the value at this path to an error, if they are known."""
        return error if self._position is None else self._position.locate(error, *path)

    @model_validator(mode="before")
    @classmethod
    def _expand(cls, data: Any, info: ValidationInfo) -> Any:
        if isinstance(info.context, ReadContext):
            info.context.classes[id(data)] = cls
        return cls._long_form(data)

    @classmethod
    def _long_form(cls, data: Any) -> Any:
        """Expand a short form; other data is returned unchanged."""
        return data

    @classmethod
    def noun(cls) -> str:
        """Return the name of this class in error messages."""
        return re.sub(r"(?<!^)(?=[A-Z])", " ", cls.__name__.removesuffix("Description")).lower()

    def to_dict(self, *, complete: bool = False) -> dict[str, Any]:
        """Return plain values that `from_dict` reads back.

        Fields with their default value are left out, unless `complete` is set.
        """
        if complete:
            return _use_integers(self.model_dump(mode="json"))  # type: ignore[no-any-return]
        return _dump_short(self, Path())  # type: ignore[no-any-return]

    def to_yaml(self) -> str:
        """Return YAML text that `from_text` reads back."""
        return text_module.dump_document(_dump_short(self, Path()))

    def save(self, path: str | Path) -> Path:
        """Write the description atomically, as JSON if the name ends in `.json`, else as YAML.

        Paths in it are written relative to the folder of the file.
        """
        path = Path(path)
        values = _dump_short(self, path.parent)
        if path.suffix == ".json":
            text = json.dumps(values, indent=2, ensure_ascii=False) + "\n"
        else:
            text = text_module.dump_document(values)
        with write_atomically(path) as stream:
            stream.write(text.encode())
        return path

    def replace(self, **changes: Any) -> Self:
        """Return a description with other values at these dotted paths, validated as a whole.

        A value may be set together with others inside it, also in its short form.

        >>> from twinloop.platform import Platform
        >>> platform = Platform.parse("2x8@2400MHz")
        >>> platform.replace(**{"clusters[0].hosts[0].cores": 16}).total_cores
        32.0
        """
        kind = type(self)
        values: dict[str, Any] = {name: getattr(self, name) for name in kind.model_fields}
        addresses = {path: address.address_from_path(path) for path in changes}
        # A whole value is set before what is inside it.
        for path in sorted(addresses, key=lambda path: len(addresses[path])):
            name, *rest = full_address = addresses[path]
            if name not in values:
                raise InputError(
                    f"is not a field of the {self.noun()}",
                    kind="unknown-field",
                    field=path,
                    remedy=address.suggest_name(str(name), list(values)),
                )
            if not rest:
                values[str(name)] = changes[path]
                continue
            try:
                data = _expand_along(kind, {**values, name: _dump(values[name])}, full_address)
                if not isinstance(data[name], dict | list) and name in changes:
                    # Only a validation can tell what it is, such as the path of a platform.
                    data[name] = _dump(getattr(self.replace(**{name: changes[name]}), name))
                values = address.set_value(data, full_address, _dump(changes[path]))
            except DescriptionError:
                raise
            except InputError as error:
                problem = f"{error.field} {error.problem}" if error.field else error.problem
                raise InputError(
                    problem, kind=error.kind, field=path, remedy=error.remedy
                ) from None
        return type(self).from_dict(values).with_notes(self._notes)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in type(self).model_fields)

    def __hash__(self) -> int:
        return hash(json.dumps(self.to_dict(), sort_keys=True))


def _expand_along(kind: Any, data: Any, path: Address) -> Any:
    """Expand the short forms of descriptions in data of a field that a path leads through.

    Fields with their default are added, so that a path leads into them.
    """
    if not path:
        return data
    step, *rest = path
    if isinstance(step, int):
        if isinstance(data, list) and step < len(data):
            return [*data[:step], _expand_along(kind, data[step], tuple(rest)), *data[step + 1 :]]
        return data
    described = next(_list_descriptions(kind), None)
    if described is None:
        return data
    if not isinstance(data, dict):
        try:
            data = _dump(described._long_form(data))
        except InputError:
            return data  # it is reported when it is validated
    if not isinstance(data, dict) or not rest or step not in described.model_fields:
        return data
    inner = described.model_fields[step]
    if step not in data and not inner.is_required():
        data = {**data, step: _dump(inner.get_default(call_default_factory=True))}
    if step in data:
        data = {**data, step: _expand_along(inner.annotation, data[step], tuple(rest))}
    return data


def _list_descriptions(kind: Any) -> Iterator[type[Description]]:
    """Generate the descriptions in a type, such as an optional one or a tuple of them."""
    if isinstance(kind, type) and issubclass(kind, Description):
        yield kind
    for part in get_args(kind):
        yield from _list_descriptions(part)


def _dump(value: Any) -> Any:
    """Convert descriptions inside a value to plain values."""
    if isinstance(value, Description):
        return value.to_dict(complete=True)
    if isinstance(value, tuple | list):
        return [_dump(item) for item in value]
    if isinstance(value, dict):
        return {name: _dump(item) for name, item in value.items()}
    return value


def _dump_short(description: Description, folder: Path) -> Any:
    return _use_integers(
        description.model_dump(mode="json", exclude_defaults=True, context=WriteContext(folder))
    )


def _use_integers(value: Any) -> Any:
    """Replace floats that are whole numbers by integers."""
    if isinstance(value, dict):
        return {name: _use_integers(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_use_integers(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 1 << 53:
        return int(value)
    return value
