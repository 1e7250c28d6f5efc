"""The figures of a trace: waits, makespan, utilisation, energy, lateness, cost.

    from twinloop import metrics

    metrics.figures(trace)                   # all of them, as a table at the prompt
    metrics.figures(trace, warm_up=86400)    # without the first day
    metrics.per_user(trace)                  # a frame with a row per user
    metrics.queue_length(trace)              # a frame with a row per change
    metrics.difference(before, after)        # how two runs differ

All of them take any Trace, of a real run or a simulated one.
"""

from typing import TYPE_CHECKING

from twinloop._deferred import defer_imports

if TYPE_CHECKING:
    from twinloop.metrics.catalogue import FIGURES, Figure
    from twinloop.metrics.confidence import BatchMeans, ConfidenceInterval, batch_means, interval
    from twinloop.metrics.distribution import Distribution
    from twinloop.metrics.energy_and_carbon import carbon, energy
    from twinloop.metrics.lateness import Lateness, per_user
    from twinloop.metrics.run_cost import Cost, cost
    from twinloop.metrics.run_difference import Difference, difference
    from twinloop.metrics.series import (
        busy_cores,
        busy_nodes,
        completions,
        cores_in_use,
        queue_length,
        submissions,
        terminations,
        throughput,
    )
    from twinloop.metrics.tasks import per_task
    from twinloop.metrics.trace_figures import Figures, figures

__all__ = [
    "FIGURES",
    "BatchMeans",
    "ConfidenceInterval",
    "Cost",
    "Difference",
    "Distribution",
    "Figure",
    "Figures",
    "Lateness",
    "batch_means",
    "busy_cores",
    "busy_nodes",
    "carbon",
    "completions",
    "cores_in_use",
    "cost",
    "difference",
    "energy",
    "figures",
    "interval",
    "per_task",
    "per_user",
    "queue_length",
    "submissions",
    "terminations",
    "throughput",
]

defer_imports(__name__)
