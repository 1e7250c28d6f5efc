"""Reader of SLURM accounting: the output of `sacct --parsable2`."""

from twinloop.trace.formats.sacct.reader import FORMAT, read

__all__ = ["FORMAT", "read"]
