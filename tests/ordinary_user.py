"""Execution of a part of a test without the rights of root, to which permissions do not apply."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

#: User ID of the unprivileged account that most Linux systems have.
OTHER = 65534


@contextmanager
def ordinary_user() -> Iterator[None]:
    """Drop the rights of root while the block runs; without them, do nothing."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(OTHER)
    try:
        yield
    finally:
        os.seteuid(0)
