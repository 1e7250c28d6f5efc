"""Reader of the trace file of Nextflow, and of its workflow diagram."""

from twinloop.trace.formats.nextflow.reader import FORMAT, read

__all__ = ["FORMAT", "read"]
