"""Metrics of a trace: waits, makespan, utilisation, energy, lateness, cost.

    from twinloop import metrics

    metrics.figures(trace)                   # all figures, as a table
    metrics.figures(trace, warm_up=86400)    # without the first day
    metrics.per_user(trace)                  # a frame with a row per user
    metrics.queue_length(trace)              # a frame with a row per change
    metrics.difference(before, after)        # difference of two runs
    metrics.energy_of_instances(trace)       # energy, carbon and money of instances of clouds
    metrics.use_of_instances(trace)          # leased and used cores of instances and hosts
    metrics.energy_by_meter(trace)           # energy of the meters of clouds
    metrics.service_levels(trace)            # service levels of clouds
    metrics.client_metrics(trace)            # uptime, makespan and use of rented instances

All functions take any Trace, of a real or a simulated run.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
