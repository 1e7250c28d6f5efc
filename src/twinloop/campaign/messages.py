"""Messages between a process and its workers: length, kind (one letter) and content."""

from __future__ import annotations

import os
import struct

_HEAD = struct.Struct("!QB")


def send(file: int, kind: str, content: bytes) -> None:
    """Write a message.

    >>> here, there = os.pipe()
    >>> send(there, "i", b"abc")
    >>> receive(here), os.close(here), os.close(there)
    (('i', b'abc'), None, None)
    """
    head = _HEAD.pack(len(content), ord(kind))
    # One call for a small message: two calls would wake the reader twice.
    parts = (head + content,) if len(content) < 1 << 16 else (head, content)
    for part in parts:
        left = memoryview(part)
        while left:
            left = left[os.write(file, left) :]


def receive(file: int) -> tuple[str, bytes]:
    """Read a message; an EOFError if the other process has closed the pipe.

    >>> here, there = os.pipe()
    >>> os.close(there)
    >>> try:
    ...     receive(here)
    ... except EOFError:
    ...     os.close(here)
    """
    size, kind = _HEAD.unpack(_exactly(file, _HEAD.size))
    return chr(kind), _exactly(file, size)


def _exactly(file: int, size: int) -> bytes:
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
