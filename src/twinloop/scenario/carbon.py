"""Checks of the carbon intensities of a scenario before it runs."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from twinloop.description.errors import InputError
from twinloop.scenario.scenario import Scenario
from twinloop.trace.formats.opendc import read_carbon


def check_carbon(scenario: Scenario) -> None:
    """Raise an error if a carbon intensity file of a scenario cannot be read.

    >>> hosts = [{"cores": 1}]
    >>> check_carbon(Scenario(platform={"clusters": [{"hosts": hosts, "carbon": "no.parquet"}]},
    ...                       policy="easy", workload="log.swf"))
    Traceback (most recent call last):
    twinloop.InputError: no.parquet: platform.clusters[0].carbon: ...
    """
    for index, cluster in enumerate(scenario.effective_platform().clusters):
        if isinstance(cluster.carbon, str):
            file = Path(cluster.carbon)
            field = f"platform.clusters[{index}].carbon"
            try:
                status = file.stat()
            except OSError as error:
                problem = f"cannot be read: {error.strerror}"
                remedy = "give a file, or a constant such as 300 g/kWh"
                raise InputError(
                    problem, kind="cannot-read", file=file, field=field, remedy=remedy
                ) from None
            _check_file(str(file), status.st_mtime_ns, status.st_size)


# The arguments include the change time and size, so that a changed file is read again.
@lru_cache(maxsize=64)
def _check_file(file: str, _mtime_ns: int, _size: int) -> None:
    read_carbon(file)


def has_carbon(scenario: Scenario) -> bool:
    """Whether any cluster has a carbon intensity.

    >>> has_carbon(Scenario(platform="1x1", policy="easy", workload="log.swf"))
    False
    """
    return any(each.carbon is not None for each in scenario.effective_platform().clusters)


def has_carbon_series(scenario: Scenario) -> bool:
    """Whether the carbon intensity of a cluster that draws power changes over time.

    >>> has_carbon_series(Scenario(platform="1x1", policy="easy", workload="log.swf"))
    False
    """
    return any(
        isinstance(each.carbon, str) and any(host.power is not None for host in each.hosts)
        for each in scenario.effective_platform().clusters
    )
