"""The accounting of SLURM: what `sacct --parsable2` prints."""

from twinloop.trace.formats.sacct.reader import FORMAT, read

__all__ = ["FORMAT", "read"]
