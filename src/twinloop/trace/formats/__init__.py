"""Readers and writers: what users have, in and out of a Trace."""

from twinloop.trace.formats.registry import (
    Format,
    format_named,
    formats,
    read,
    recognise,
    register,
    write,
)

__all__ = ["Format", "format_named", "formats", "read", "recognise", "register", "write"]
