"""Reader of the runs of workflows that FlowBench publishes, and of their dependencies."""

from twinloop.trace.formats.flowbench.reader import FORMAT, read

__all__ = ["FORMAT", "read"]
