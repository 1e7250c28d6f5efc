"""Reading of JSON documents that Twinloop wrote, with a check of their schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeVar

import pydantic

from twinloop.description import files
from twinloop.description.errors import InputError

MAX_DOCUMENT_BYTES = 1 << 28


class StoredJson(pydantic.BaseModel):
    """Base class of document schemas: fields with strict types; other fields are ignored."""

    model_config = pydantic.ConfigDict(extra="ignore", strict=True, defer_build=True)


Shape = TypeVar("Shape", bound=StoredJson)


def read_stored_json(path: Path, shape: type[Shape], remedy: str | None = None) -> Shape:
    """Read a document from a file; if it does not fit the schema, the error names the field.

    >>> import tempfile
    >>> class Size(StoredJson):
    ...     cores: int
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "size.json")
    ...     _ = file.write_text('{"cores": "many"}')
    ...     read_stored_json(file, Size)
    Traceback (most recent call last):
    twinloop.InputError: ...size.json: cores: cannot be read: input should be a valid
    integer; it is damaged, or of another version [TL0113]
    """
    try:
        document = json.loads(files.read_text(path, limit=MAX_DOCUMENT_BYTES))
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"cannot be read: it is not valid JSON: {error}",
            kind="damaged-file",
            file=path,
            remedy=remedy,
        ) from None
    return check_shape(document, shape, path, remedy)


def check_shape(
    document: Any,
    shape: type[Shape],
    path: Path | None,
    remedy: str | None = None,
    *,
    line: int | None = None,
) -> Shape:
    """Validate a document read from a file, or from a line of it, against a schema."""
    try:
        return shape.model_validate(document)
    except (pydantic.ValidationError, OverflowError) as error:
        field, problem = _first_problem(error)
        raise InputError(
            f"cannot be read: {problem}; it is damaged, or of another version",
            kind="damaged-file",
            file=path,
            line=line,
            field=field,
            remedy=remedy,
        ) from None


def _first_problem(error: pydantic.ValidationError | OverflowError) -> tuple[str | None, str]:
    """Return the field and the message of the first validation error."""
    if isinstance(error, OverflowError):
        return None, "a number in it is too large"
    first = error.errors(include_input=False, include_url=False)[0]
    problem = first["msg"].removeprefix("Value error, ")
    field = ".".join(str(part) for part in first["loc"] if not isinstance(part, type))
    return field or None, problem[:1].lower() + problem[1:]
