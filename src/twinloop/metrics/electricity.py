"""The carbon of a run from what its own scenario says of the electricity."""

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
    """The carbon of a run in g; None where it is not known, with the reason among the notes.

    >>> Emission(None, ()).is_known
    False
    """

    grams: float | None
    notes: tuple[str, ...]

    @property
    def is_known(self) -> bool:
        """Whether there is a number."""
        return self.grams is not None


def compute_emission(trace: Trace, start: float = -math.inf, end: float = math.inf) -> Emission:
    """The carbon between two moments by the intensities in the scenario of the trace's manifest.

    Nothing is said of a run whose scenario has no intensity at all.

    >>> power = pl.DataFrame({"t": [3600.0], "dt": [3600.0], "watts": [1000.0]})
    >>> from twinloop.trace import Manifest
    >>> kept = {"platform": {"clusters": [{"name": "C01", "carbon": 300.0}]}}
    >>> compute_emission(Trace(power=power, manifest=Manifest(scenario=kept)))
    Emission(grams=300.0, notes=())
    """
    try:
        sources = _sources(trace.manifest.scenario or {})
        if all(each is None for each in sources.values()):
            return Emission(None, ())
        if not trace.power.height:
            return Emission(None, ("no carbon: no power is known (no host has a power model)",))
        return _summed(trace, sources, start, end)
    except InputError as error:
        return Emission(None, (f"no carbon: {error}",))


def find_intensity(trace: Trace) -> float | pl.DataFrame | None:
    """The one carbon intensity that the scenario of a run names, in g/kWh; None: it names none.

    >>> find_intensity(Trace()) is None
    True
    """
    sources = _sources(trace.manifest.scenario or {})
    given = set(sources.values())
    if given <= {None}:
        return None
    if len(given) > 1:
        raise InputError(f"{_several(sources)}, so there is no intensity of all of them")
    return _intensity(trace, given.pop())


def _summed(
    trace: Trace, sources: Mapping[str, float | str | None], start: float, end: float
) -> Emission:
    if len(set(sources.values())) == 1:
        intensity = _intensity(trace, next(iter(sources.values())))
        grams = carbon(trace, intensity, start, end)
        return Emission(grams, note_extrapolated_intensity(trace, intensity, end))
    for name, given in sources.items():
        if given is None:
            raise InputError(f"cluster {name} has no carbon intensity, and others have one")
    power = trace.power.filter(pl.col("node").is_not_null())
    named = power.join(trace.nodes.select("node", "cluster"), on="node", how="left")
    if not power.height or not named["cluster"].is_in(list(sources)).all():
        raise InputError(
            f"{_several(sources)}, and the power is not known by node",
            remedy="simulate with --power-per-node (power_per_node=True)",
        )
    total, notes = 0.0, dict[str, None]()
    for name, given in sources.items():
        part = trace.replace(power=named.filter(cluster=name).drop("cluster"))
        intensity = _intensity(trace, given)
        total += carbon(part, intensity, start, end) or 0.0
        notes |= dict.fromkeys(note_extrapolated_intensity(part, intensity, end))
    return Emission(total, tuple(notes))


def _several(sources: Mapping[str, object]) -> str:
    return f"clusters {', '.join(sources)} have electricity of their own"


def _intensity(trace: Trace, given: float | str | None) -> float | pl.DataFrame:
    if given is None or isinstance(given, float):
        return given or 0.0
    if trace.manifest.epoch_ms is None:
        raise InputError(
            "the intensity changes over time, and no date of t = 0 is known",
            remedy="give the scenario a start such as `start: 2024-07-01`",
        )
    series = read_carbon(given)
    _check_reached(trace, series, trace.manifest.epoch_ms)
    return series


def _check_reached(trace: Trace, series: pl.DataFrame, epoch_ms: int) -> None:
    """Refuse a series of which no value holds during the run: its last one says nothing of it.

    The last value is taken to hold for as long as the one before it.
    """
    times, (intervals, _) = series["unix_ms"][-2:].to_list(), find_power_intervals(trace)
    if len(times) < 2 or intervals is None:
        return
    ends = times[-1] + (times[-1] - times[0])
    begins = epoch_ms + 1000 * float(intervals.start.min())
    if begins > ends:
        raise InputError(
            f"the series of intensities ends at {_date(ends)}, before the power begins at "
            f"{_date(begins)}",
            remedy="a series that covers the run, or another `start` of the scenario",
        )


def _date(unix_ms: float) -> str:
    # Not of `datetime`, whose years end with 9999.
    return str(np.datetime64(int(unix_ms), "ms").astype("datetime64[m]"))


def _sources(scenario: Mapping[str, Any]) -> dict[str, float | str | None]:
    """The intensity of each cluster that draws power: a constant, or the path of a series.

    It is read from the plain values: a manifest may hold what no scenario can be made of here.
    """
    platform = scenario.get("platform")
    if not isinstance(platform, Mapping):
        return {}
    whole: Any = {**platform}
    model = scenario.get("model")
    overrides = model.get("overrides") if isinstance(model, Mapping) else None
    for path, value in (overrides or {}).items():
        whole = address.set_value(whole, address.address_from_path(path), value)
    clusters = [each for each in whole.get("clusters") or () if isinstance(each, Mapping)]
    powered = [each for each in clusters if _is_powered(each)] or clusters
    found: dict[str, float | str | None] = {}
    for place, cluster in enumerate(powered):
        given = cluster.get("carbon")
        if given is not None:
            constant = read_constant(given)
            given = str(given) if constant is None else constant
        found[str(cluster.get("name") or place)] = given
    return found


def _is_powered(cluster: Mapping[str, Any]) -> bool:
    return any(
        isinstance(host, Mapping) and host.get("power") for host in cluster.get("hosts") or ()
    )
