"""Reading of JSON documents of other programs field by field, with the path in errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from twinloop.description.errors import FormatError, InputError
from twinloop.description.files import read_text
from twinloop.description.json_text import object_from_pairs
from twinloop.trace.formats.cleaning_counts import Tally
from twinloop.trace.formats.text_rows import MAX_NUMBER

# Limit of the text (bytes): a tree of Python objects is twenty times as large.
_MAX_BYTES: Final = 64 << 20


def parse_json_file(path: Path) -> Any:
    """Parse the JSON document in a file; a repeated name in one object is an error."""
    try:
        return json.loads(
            read_text(path, limit=_MAX_BYTES),
            object_pairs_hook=_make_object,
            parse_constant=_refuse_constant,
        )
    except json.JSONDecodeError as error:
        raise InputError(
            f"is not valid JSON: {error.msg}", kind="not-json", file=path, line=error.lineno
        ) from None
    except InputError as error:
        raise error.at(file=path) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"cannot be read as JSON: {error}", kind="not-json", file=path) from None


class FieldReader:
    """A reader of the fields of a document. A missing required field raises an error.

    An invalid number is unknown and counted; in strict mode, it raises an error.
    """

    def __init__(self, path: Path, tally: Tally, *, strict: bool) -> None:
        self.path = path
        self.tally = tally
        self.strict = strict

    def make_error(self, problem: str, where: str) -> FormatError:
        """Make the error for a field; `where` is its path in the document."""
        return FormatError(problem, kind="wrong-format", file=self.path, field=where)

    def read_object(self, value: Any, where: str) -> dict[str, Any]:
        """Return a value that must be an object."""
        if not isinstance(value, dict):
            raise self.make_error("is not an object", where)
        return value

    def read_objects(self, value: Any, where: str) -> list[tuple[str, dict[str, Any]]]:
        """Return a list of objects, each with its path; empty if absent."""
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.make_error("is not a list", where)
        paths = [f"{where}[{index}]" for index in range(len(value))]
        return [(path, self.read_object(row, path)) for path, row in zip(paths, value, strict=True)]

    def read_name(self, value: Any, where: str) -> str:
        """Return a text that must not be empty."""
        text = self.read_optional_name(value, where)
        if text is None:
            raise self.make_error("is missing", where)
        return text

    def read_optional_name(self, value: Any, where: str) -> str | None:
        """Return a text, or None if it is absent."""
        if value is None or value == "":
            return None
        if not isinstance(value, str):
            raise self.make_error(f"{_quote(value)} is not text", where)
        if any("\ud800" <= character <= "\udfff" for character in value):
            raise self.make_error(f"{_quote(value)} is not valid Unicode", where)
        return value

    def read_names(self, value: Any, where: str) -> list[str]:
        """Return a list of texts; empty if absent."""
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.make_error("is not a list", where)
        return [self.read_name(item, f"{where}[{index}]") for index, item in enumerate(value)]

    def read_number(self, value: Any, where: str) -> float | None:
        """Return a number that is not negative; None if it is absent or invalid."""
        if value is None:
            return None
        plain = isinstance(value, (int, float)) and not isinstance(value, bool)
        if plain and 0 <= value <= MAX_NUMBER:
            return float(value)
        if self.strict:
            raise self.make_error(f"{_quote(value)} is not a number of 0 or more", where)
        field = where.rpartition(".")[2]
        what = f"values of {field} that are not numbers of 0 or more, read as unknown"
        self.tally.note("skipped", what, examples=[where])
        return None


def _quote(value: Any) -> str:
    return ascii(value)[:80]


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return object_from_pairs(pairs, on_repeat=_refuse_repeat)


def _refuse_repeat(name: str) -> None:
    raise InputError(
        "occurs twice in one object", kind="duplicate-name", field=ascii(name)[1:-1][:80]
    )


def _refuse_constant(name: str) -> float:
    raise InputError(f"{name} is not a number in JSON", kind="not-json")
