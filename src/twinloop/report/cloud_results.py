"""Meters and service levels of the clouds of a run, for the terminal, JSON and pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from twinloop.description.errors import InputError
from twinloop.metrics import energy_by_meter, service_levels
from twinloop.report.kpi_text import format_kpi
from twinloop.report.quantity_text import format_number

if TYPE_CHECKING:
    from twinloop.trace import Trace


class CloudResults(NamedTuple):
    """The rows of `energy_by_meter` and of `service_levels`, and why one of them is missing."""

    meters: list[dict[str, Any]]
    service_levels: list[dict[str, Any]]
    notes: list[str]


def find_cloud_results(trace: Trace, *, allow_code: bool = False) -> CloudResults:
    """Compute the meters and service levels that the clouds of a run describe.

    Without a description of meters or of service levels, nothing is computed for them.

    >>> import twinloop as tl
    >>> run = tl.simulate(tl.Scenario.from_dict({
    ...     "platform": {"clusters": [{"hosts": [{"cores": 1}]}], "clouds": [{"name": "east",
    ...         "sla": [{"metric": "wait", "limit": 30}]}]},
    ...     "workload": {"tasks": [{"id": name, "run_time": 60} for name in "ab"]},
    ...     "policy": "one-per-task"}))
    >>> list(list_service_levels(find_cloud_results(run)))
    [('wait > 30 s for at most 0 %', '1 of 2 (50 %)', 'violated')]
    """
    results = CloudResults([], [], [])
    clouds = _list_clouds(trace)
    if any(cloud.get("meters") for cloud in clouds):
        try:
            results.meters.extend(energy_by_meter(trace, allow_code=allow_code).to_dicts())
        except InputError as error:
            results.notes.append(f"the energy by meter is not known: {error}")
    if any(cloud.get("sla") for cloud in clouds):
        results.service_levels.extend(service_levels(trace).to_dicts())
    return results


def _list_clouds(trace: Trace) -> list[Mapping[str, Any]]:
    platform = (trace.manifest.scenario or {}).get("platform")
    return list(platform.get("clouds") or ()) if isinstance(platform, Mapping) else []


def list_meters(results: CloudResults) -> Iterator[tuple[str, str, str]]:
    """Yield name, energy and mean power of each meter; with the cloud, if there are several."""
    several = len({each["cloud"] for each in results.meters}) > 1
    for each in results.meters:
        name = f"{each['cloud']}.{each['meter']}" if several else each["meter"]
        yield (
            name,
            format_kpi("energy_j", each["energy_j"]),
            "-" if each["mean_w"] is None else f"{format_number(each['mean_w'])} W",
        )


def list_service_levels(results: CloudResults) -> Iterator[tuple[str, str, str]]:
    """Yield rule, exceeding share and verdict of each service level."""
    several = len({each["cloud"] for each in results.service_levels}) > 1
    for each in results.service_levels:
        rule = f"{each['cloud']}: {each['rule']}" if several else each["rule"]
        if each["violated"] is None:
            yield rule, "none", "not assessable"
            continue
        share = (
            f"{each['exceeded']:,} of {each['count']:,} ({format_number(100 * each['share'])} %)"
        )
        yield rule, share, "violated" if each["violated"] else "kept"
