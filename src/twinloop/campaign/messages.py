"""Messages between a process and its workers: length, kind (one letter) and content.

The kinds are `f` for a function, `i` for an item and `o` for an outcome.
"""

from __future__ import annotations

import os
import struct

_HEADER = struct.Struct("!QB")


def send(file: int, kind: str, content: bytes) -> None:
    """Write a message to a file descriptor.

    >>> reader, writer = os.pipe()
    >>> send(writer, "i", b"abc")
    >>> receive(reader), os.close(reader), os.close(writer)
    (('i', b'abc'), None, None)
    """
    header = _HEADER.pack(len(content), ord(kind))
    # One call for a small message: two calls would wake the reader twice.
    parts = (header + content,) if len(content) < 1 << 16 else (header, content)
    for part in parts:
        remaining = memoryview(part)
        while remaining:
            remaining = remaining[os.write(file, remaining) :]


def receive(file: int) -> tuple[str, bytes]:
    """Read a message from a file descriptor; an EOFError if the other end of the pipe is closed.

    >>> reader, writer = os.pipe()
    >>> os.close(writer)
    >>> try:
    ...     receive(reader)
    ... except EOFError:
    ...     os.close(reader)
    """
    size, kind = _HEADER.unpack(_read_exactly(file, _HEADER.size))
    return chr(kind), _read_exactly(file, size)


def _read_exactly(file: int, size: int) -> bytes:
    part = os.read(file, size)
    if len(part) == size:
        return part
    whole = bytearray(part)
    while part and len(whole) < size:
        part = os.read(file, min(size - len(whole), 1 << 20))
        whole += part
    if len(whole) < size:
        raise EOFError
    return bytes(whole)
