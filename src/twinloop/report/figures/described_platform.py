"""The platform in the scenario of a run."""

from __future__ import annotations

from collections.abc import Mapping

from twinloop.description.errors import InputError
from twinloop.platform import Platform
from twinloop.trace import Trace


def read_platform(trace: Trace) -> Platform | None:
    """Read the platform of the scenario of a run, with the overrides of its model.

    None if the trace has no scenario, or one of another version that cannot be read.

    >>> from twinloop.trace import Manifest
    >>> hosts = [{"cores": 4, "power": {"model": "linear", "idle": 80, "max": 200}}]
    >>> scenario = {"platform": {"clusters": [{"hosts": hosts}]},
    ...     "model": {"overrides": {"clusters[0].hosts[0].power.idle": 90}}}
    >>> platform = read_platform(Trace(manifest=Manifest(scenario=scenario)))
    >>> platform.clusters[0].hosts[0].power.idle
    90.0
    >>> read_platform(Trace()) is None
    True
    """
    scenario = trace.manifest.scenario or {}
    model = scenario.get("model")
    overrides = model.get("overrides") if isinstance(model, Mapping) else None
    try:
        platform = Platform.from_dict(scenario.get("platform"))
        return platform.replace(**overrides) if overrides else platform
    except InputError:
        return None
