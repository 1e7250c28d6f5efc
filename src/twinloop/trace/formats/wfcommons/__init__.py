"""Reader of WfCommons workflow instances, in all versions of the JSON format (1.0 to 1.6)."""

from twinloop.trace.formats.wfcommons.reader import FORMAT, read

__all__ = ["FORMAT", "read"]
