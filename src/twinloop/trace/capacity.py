"""The number of cores of the platform of a trace."""

from __future__ import annotations

from twinloop.trace.trace import Trace


def compute_capacity(trace: Trace) -> float | None:
    """Return the number of cores of the platform of a trace; None if unknown.

    >>> import polars as pl
    >>> compute_capacity(Trace(nodes=pl.DataFrame({"node": ["a", "b"], "cores": [4.0, 8.0]})))
    12.0
    """
    cores = trace.nodes["cores"]
    if len(cores) and cores.null_count() == 0:
        return float(cores.sum())
    size = trace.manifest.facts.get("swf", {}).get("max_procs")
    return float(size) if size and size > 0 else None
