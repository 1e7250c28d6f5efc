"""Parser of the footer of a Parquet file, for the number of values in each column.

A row may contain a list of any length, so that the number of rows does not determine the size of a
table. The footer counts the values of each column (parquet.thrift of Apache Parquet, in the compact
protocol of Apache Thrift); Polars does not expose these counts.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

_MAGIC: Final = b"PAR1"
#: Physical types of values with a length: BYTE_ARRAY and FIXED_LEN_BYTE_ARRAY.
_TEXT_TYPES: Final = (6, 7)
#: Field numbers in FileMetaData, RowGroup, ColumnChunk and ColumnMetaData.
_ROW_GROUPS: Final = 4
_COLUMNS: Final = 1
_ROWS: Final = 3
_META: Final = 3
_TYPE: Final = 1
_PATH: Final = 3
_VALUES: Final = 5


class ColumnChunk(NamedTuple):
    """The values of one column, or of one field of it, in one row group."""

    #: Name of the column.
    column: str
    #: Rows of the group.
    rows: int
    #: Values of the column in the group: more than rows if rows contain lists.
    values: int
    #: Whether the values are byte arrays.
    is_text: bool


def read_column_chunks(path: Path) -> list[ColumnChunk]:
    """Read the entries of all columns in all row groups; empty if the footer cannot be read.

    >>> import tempfile
    >>> import polars as pl
    >>> with tempfile.TemporaryDirectory() as temporary:
    ...     pl.DataFrame({"a": [[1, 2, 3]]}).write_parquet(Path(temporary, "a.parquet"))
    ...     read_column_chunks(Path(temporary, "a.parquet"))
    [ColumnChunk(column='a', rows=1, values=3, is_text=False)]
    """
    try:
        groups = _ThriftReader(_read_footer(path)).read_struct().get(_ROW_GROUPS, [])
        return [
            ColumnChunk(
                meta[_PATH][0].decode(), group[_ROWS], meta[_VALUES], meta[_TYPE] in _TEXT_TYPES
            )
            for group in groups
            for meta in (column[_META] for column in group[_COLUMNS])
        ]
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return []  # the file is damaged; the reader of its pages raises the error


def _read_footer(path: Path) -> bytes:
    with path.open("rb") as stream:
        size = stream.seek(0, 2)
        stream.seek(max(0, size - 8))
        end = stream.read(8)
        length = int.from_bytes(end[:4], "little")
        if end[4:] != _MAGIC or length > size - 8:
            raise ValueError("no footer")
        stream.seek(size - 8 - length)
        return stream.read(length)


class _ThriftReader:
    """A reader of the compact protocol of Thrift; structures become dictionaries by field id."""

    def __init__(self, data: bytes) -> None:
        self._data, self._position = data, 0
        self._readers: dict[int, Callable[[], Any]] = {
            **dict.fromkeys((1, 2, 3), self._read_byte),  # true and false are bytes only in a list
            **dict.fromkeys((4, 5, 6), self._read_integer),
            **dict.fromkeys((9, 10), self._read_list),
            7: self._read_double,
            8: self._read_binary,
            12: self.read_struct,
        }

    def read_struct(self) -> dict[int, Any]:
        """Read a structure."""
        fields: dict[int, Any] = {}
        number = 0
        while (head := self._read_byte()) != 0:
            number = number + (head >> 4) if head >> 4 else self._read_integer()
            kind = head & 15
            fields[number] = kind == 1 if kind in (1, 2) else self._readers[kind]()
        return fields

    def _read_byte(self) -> int:
        self._position += 1
        return self._data[self._position - 1]

    def _read_varint(self) -> int:
        number = shift = 0
        while (byte := self._read_byte()) & 128:
            number |= (byte & 127) << shift
            shift += 7
        return number | byte << shift

    def _read_integer(self) -> int:
        number = self._read_varint()
        return number >> 1 ^ -(number & 1)

    def _read_double(self) -> float:
        self._position += 8
        return float(struct.unpack("<d", self._data[self._position - 8 : self._position])[0])

    def _read_binary(self) -> bytes:
        length = self._read_varint()
        self._position += length
        return self._data[self._position - length : self._position]

    def _read_list(self) -> list[Any]:
        head = self._read_byte()
        length = head >> 4 if head >> 4 != 15 else self._read_varint()
        read = self._readers[head & 15]
        return [read() for _ in range(length)]
