"""Carbon emission of a run with the carbon intensities of its scenario."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from twinloop.description import address
from twinloop.description.errors import InputError
from twinloop.metrics.energy_and_carbon import (
    carbon,
    find_power_intervals,
    note_extrapolated_intensity,
)
from twinloop.platform.carbon import read_constant
from twinloop.trace.formats.opendc import read_carbon
from twinloop.trace.trace import Trace


class Emission(NamedTuple):
    """Carbon emission of a run in g; None if unknown, with the reason in the notes.

    >>> Emission(None, ()).is_known
    False
    """

    grams: float | None
    notes: tuple[str, ...]

    @property
    def is_known(self) -> bool:
        """Whether the emission is known."""
        return self.grams is not None


def compute_emission(trace: Trace, start: float = -math.inf, end: float = math.inf) -> Emission:
    """Compute the emission between two times with the intensities of the scenario of a trace.

    Without any intensity in the scenario, the emission is unknown and there is no note.

    >>> power = pl.DataFrame({"t": [3600.0], "dt": [3600.0], "watts": [1000.0]})
    >>> from twinloop.trace import Manifest
    >>> scenario = {"platform": {"clusters": [{"name": "C01", "carbon": 300.0}]}}
    >>> compute_emission(Trace(power=power, manifest=Manifest(scenario=scenario)))
    Emission(grams=300.0, notes=())
    """
    try:
        sources = _find_intensity_sources(trace.manifest.scenario or {})
        if all(each is None for each in sources.values()):
            return Emission(None, ())
        if not trace.power.height:
            return Emission(None, ("no carbon: no power is known (no host has a power model)",))
        return _sum_emission(trace, sources, start, end)
    except InputError as error:
        return Emission(None, (f"no carbon: {error}",))


def find_intensity(trace: Trace) -> float | pl.DataFrame | None:
    """Return the carbon intensity that all clusters of a run share (g/kWh); None if they have none.

    A frame if it changes over time. It is an error if the clusters have different intensities.

    >>> find_intensity(Trace()) is None
    True
    """
    sources = _find_intensity_sources(trace.manifest.scenario or {})
    distinct = set(sources.values())
    if distinct <= {None}:
        return None
    if len(distinct) > 1:
        raise InputError(
            f"{_describe_clusters(sources)}: there is no common intensity",
            kind="carbon-unavailable",
        )
    return _load_intensity(trace, distinct.pop())


def load_intensities(trace: Trace) -> dict[str, float | pl.DataFrame | None]:
    """Return the carbon intensity of each cluster with power (g/kWh); None if it has none.

    A frame if it changes over time.

    >>> from twinloop.trace import Manifest
    >>> scenario = {"platform": {"clusters": [{"name": "C01", "carbon": 300.0}, {"name": "C02"}]}}
    >>> load_intensities(Trace(manifest=Manifest(scenario=scenario)))
    {'C01': 300.0, 'C02': None}
    """
    sources = _find_intensity_sources(trace.manifest.scenario or {})
    return {
        name: None if source is None else _load_intensity(trace, source)
        for name, source in sources.items()
    }


def _sum_emission(
    trace: Trace, sources: Mapping[str, float | str | None], start: float, end: float
) -> Emission:
    if len(set(sources.values())) == 1:
        intensity = _load_intensity(trace, next(iter(sources.values())))
        grams = carbon(trace, intensity, start, end)
        return Emission(grams, note_extrapolated_intensity(trace, intensity, end))
    for name, source in sources.items():
        if source is None:
            raise InputError(
                f"cluster {name} has no carbon intensity, but other clusters have one",
                kind="carbon-unavailable",
            )
    power = trace.power.filter(pl.col("node").is_not_null())
    power_by_cluster = power.join(trace.nodes.select("node", "cluster"), on="node", how="left")
    if not power.height or not power_by_cluster["cluster"].is_in(list(sources)).all():
        raise InputError(
            f"{_describe_clusters(sources)}, and the trace has no power by node",
            kind="carbon-unavailable",
            remedy="simulate with --power-per-node (power_per_node=True)",
        )
    total, notes = 0.0, dict[str, None]()
    for name, source in sources.items():
        part = trace.replace(power=power_by_cluster.filter(cluster=name).drop("cluster"))
        intensity = _load_intensity(trace, source)
        total += carbon(part, intensity, start, end) or 0.0
        notes |= dict.fromkeys(note_extrapolated_intensity(part, intensity, end))
    return Emission(total, tuple(notes))


def _describe_clusters(sources: Mapping[str, object]) -> str:
    return f"clusters {', '.join(sources)} have different carbon intensities"


def _load_intensity(trace: Trace, source: float | str | None) -> float | pl.DataFrame:
    if source is None or isinstance(source, float):
        return source or 0.0
    if trace.manifest.epoch_ms is None:
        raise InputError(
            "the intensity changes over time, and the date of t = 0 is unknown",
            kind="unknown-date",
            remedy="give the scenario a start such as `start: 2024-07-01`",
        )
    series = read_carbon(source)
    _check_coverage(trace, series, trace.manifest.epoch_ms)
    return series


def _check_coverage(trace: Trace, series: pl.DataFrame, epoch_ms: int) -> None:
    """Raise an error if an intensity series ends before the first power of the run.

    The last value is assumed to hold for as long as the one before it.
    """
    times, (intervals, _) = series["unix_ms"][-2:].to_list(), find_power_intervals(trace)
    if len(times) < 2 or intervals is None:
        return
    series_end = times[-1] + (times[-1] - times[0])
    power_start = epoch_ms + 1000 * float(intervals.start.min())
    if power_start > series_end:
        raise InputError(
            f"the series of intensities ends at {_format_date(series_end)}, before the power "
            f"begins at {_format_date(power_start)}",
            kind="carbon-unavailable",
            remedy="use a series that covers the run, or change `start` of the scenario",
        )


def _format_date(unix_ms: float) -> str:
    # NumPy dates, because `datetime` ends with the year 9999.
    return str(np.datetime64(int(unix_ms), "ms").astype("datetime64[m]"))


def _find_intensity_sources(scenario: Mapping[str, Any]) -> dict[str, float | str | None]:
    """Return the intensity of each cluster with power: a constant, or the path of a series.

    Reads plain values, because the scenario of a manifest may not be loadable here.
    """
    platform = scenario.get("platform")
    if not isinstance(platform, Mapping):
        return {}
    overridden: Any = {**platform}
    model = scenario.get("model")
    overrides = model.get("overrides") if isinstance(model, Mapping) else None
    for path, value in (overrides or {}).items():
        overridden = address.set_value(overridden, address.address_from_path(path), value)
    clusters = [each for each in overridden.get("clusters") or () if isinstance(each, Mapping)]
    powered = [each for each in clusters if _is_powered(each)] or clusters
    sources: dict[str, float | str | None] = {}
    for index, cluster in enumerate(powered):
        intensity = cluster.get("carbon")
        if intensity is not None:
            constant = read_constant(intensity)
            intensity = str(intensity) if constant is None else constant
        sources[str(cluster.get("name") or index)] = intensity
    return sources


def _is_powered(cluster: Mapping[str, Any]) -> bool:
    return any(
        isinstance(host, Mapping) and host.get("power") for host in cluster.get("hosts") or ()
    )
