"""Executions on the hosts of rented instances."""

from __future__ import annotations

from twinloop.trace.trace import Trace


def place_on_hosts(trace: Trace) -> Trace:
    """Return the trace with the executions on rented instances as executions on their hosts.

    >>> trace = Trace(
    ...     placements=pl.DataFrame({"task": ["a", "b"], "machine": ["instance-1", "n2"]}),
    ...     instances=pl.DataFrame({"instance": ["instance-1"], "host": "n1", "requested": 0.0}),
    ... )
    >>> place_on_hosts(trace).placements["machine"].to_list()
    ['n1', 'n2']
    """
    rented = trace.instances.drop_nulls(["requested", "host"])
    if rented.is_empty():
        return trace
    # Of an instance that moved, the first host.
    hosts = trace.placements["machine"].replace(rented["instance"], rented["host"])
    return trace.replace(placements=trace.placements.with_columns(hosts))
