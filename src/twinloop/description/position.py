"""Where a description was read from, for errors that are found only when it is used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

from twinloop.description import text as text_module
from twinloop.description.address import address_from_path, address_to_path
from twinloop.description.document import Address
from twinloop.description.errors import InputError
from twinloop.description.problems import DescriptionError

_Error = TypeVar("_Error", bound=InputError)


class Position(NamedTuple):
    """The position of a description: its file and its address there.

    It has no line: the file is read again if there is an error, so that a position costs nothing
    and can be sent to another process.

    >>> error = InputError("is too small", kind="out-of-range")
    >>> print(Position(None, ("stores", 0)).locate(error, "capacity"))
    stores[0].capacity: is too small [TL0206]
    """

    #: None for values in memory.
    file: str | None
    address: Address
    #: Whether it was written in short form, without fields.
    is_short: bool = False

    def locate(self, error: _Error, *path: str | int) -> _Error:
        """Add file, line and field of the value at this path of the description to an error."""
        if error.file is None:
            address = self.address if self.is_short else (*self.address, *path)
            error.file, error.line = self.file, self._find_line(address)
            error.field = address_to_path(address)
        return error

    def _find_line(self, address: Address) -> int | None:
        if self.file is None:
            return None
        try:
            return text_module.load_document(Path(self.file)).line(address)
        except InputError:  # the file is gone, or was only the name of a text
            return None


class ValueOrigin(NamedTuple):
    """Where a value was read from that is not in the file of its description, such as XML.

    >>> error = InputError("is too small", kind="out-of-range")
    >>> print(ValueOrigin("broker.xml", 3, "<cloud> BTU").locate(error))
    broker.xml:3: <cloud> BTU: is too small [TL0206]
    """

    file: str
    line: int
    #: The field in this file.
    field: str

    def locate(self, error: _Error) -> _Error:
        """Add file, line and field to an error that has no file yet."""
        if error.file is None:
            error.file, error.line, error.field = self
        return error


@contextmanager
def locate_errors(position: Position | None) -> Iterator[None]:
    """Add positions to the errors of creating an object from the fields `name` and `options`."""
    try:
        yield
    except DescriptionError as error:
        if position is None:
            raise
        for problem in error.problems:
            path = address_from_path(problem.field) if problem.field else ()
            position.locate(problem, "options", *path)
        raise DescriptionError(error.problems) from error.__cause__
    except InputError as error:
        if position is not None:
            position.locate(error, "options" if error.kind == "policy-options" else "name")
        raise
