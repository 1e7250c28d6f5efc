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

_MARK: Final = b"PAR1"
#: Physical types of values with a length: BYTE_ARRAY and FIXED_LEN_BYTE_ARRAY.
_TEXTS: Final = (6, 7)
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
    >>> with tempfile.TemporaryDirectory() as there:
    ...     pl.DataFrame({"a": [[1, 2, 3]]}).write_parquet(Path(there, "a.parquet"))
    ...     read_column_chunks(Path(there, "a.parquet"))
    [ColumnChunk(column='a', rows=1, values=3, is_text=False)]
    """
    try:
        groups = _ThriftReader(_read_footer(path)).struct().get(_ROW_GROUPS, [])
        return [
            ColumnChunk(meta[_PATH][0].decode(), group[_ROWS], meta[_VALUES], meta[_TYPE] in _TEXTS)
            for group in groups
            for meta in (column[_META] for column in group[_COLUMNS])
        ]
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return []  # it is damaged, for which the reader raises an error


def _read_footer(path: Path) -> bytes:
    with path.open("rb") as stream:
        size = stream.seek(0, 2)
        stream.seek(max(0, size - 8))
        end = stream.read(8)
        length = int.from_bytes(end[:4], "little")
        if end[4:] != _MARK or length > size - 8:
            raise ValueError("no footer")
        stream.seek(size - 8 - length)
        return stream.read(length)


class _ThriftReader:
    """A reader of the compact protocol of Thrift; structures become dictionaries by field id."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0
        self._readers: dict[int, Callable[[], Any]] = {
            **dict.fromkeys((1, 2, 3), self._byte),  # true and false, as values of a list
            **dict.fromkeys((4, 5, 6), self._integer),
            **dict.fromkeys((9, 10), self._list),
            7: self._double,
            8: self._binary,
            12: self.struct,
        }

    def struct(self) -> dict[int, Any]:
        """Read a structure."""
        found: dict[int, Any] = {}
        number = 0
        while (head := self._byte()) != 0:
            number = number + (head >> 4) if head >> 4 else self._integer()
            kind = head & 15
            found[number] = kind == 1 if kind in (1, 2) else self._readers[kind]()
        return found

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _natural(self) -> int:
        found = shift = 0
        while (byte := self._byte()) & 128:
            found |= (byte & 127) << shift
            shift += 7
        return found | byte << shift

    def _integer(self) -> int:
        number = self._natural()
        return number >> 1 ^ -(number & 1)

    def _double(self) -> float:
        self._at += 8
        return float(struct.unpack("<d", self._data[self._at - 8 : self._at])[0])

    def _binary(self) -> bytes:
        length = self._natural()
        self._at += length
        return self._data[self._at - length : self._at]

    def _list(self) -> list[Any]:
        head = self._byte()
        length = head >> 4 if head >> 4 != 15 else self._natural()
        read = self._readers[head & 15]
        return [read() for _ in range(length)]
