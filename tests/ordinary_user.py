"""A part of a test that runs without the rights of root, which no permission keeps out."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

#: The account without rights that nearly every Linux has.
OTHER = 65534


@contextmanager
def ordinary_user() -> Iterator[None]:
    """Let permissions apply; where the tests do not run as root, they do already."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(OTHER)
    try:
        yield
    finally:
        os.seteuid(0)
