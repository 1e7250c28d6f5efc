"""Summary of the topology in the folder of an OpenDC workload: fastest core, largest host."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from twinloop.description.errors import InputError
from twinloop.description.files import read_text
from twinloop.trace.formats.cleaning_counts import Tally
from twinloop.trace.formats.opendc.quantities import FREQUENCY

TOPOLOGY_FILE = "topology.json"
_MAX_BYTES = 16 << 20


class TopologySummary(NamedTuple):
    """The clock of the fastest core in MHz, and the cores of the largest host; None: unknown."""

    mhz: float | None
    cores: float | None
    #: The parsed file.
    document: Any


def read_topology_summary(folder: Path, tally: Tally) -> TopologySummary | None:
    """Read `topology.json` in a folder; None if it does not exist or cannot be read."""
    file = folder / TOPOLOGY_FILE
    if not file.is_file():
        return None
    try:
        document = json.loads(read_text(file, limit=_MAX_BYTES))
        cpus = list(_iterate_cpus(document))
        problem = "" if cpus else "has no host with a cpu"
    except InputError as error:
        problem = error.problem
    except (ValueError, RecursionError) as error:
        problem = f"is not valid JSON: {error}"
    if problem:
        tally.note(
            "ignored", f"the topology beside the tables: {problem}", examples=[TOPOLOGY_FILE]
        )
        return None
    clocks = [clock for clock, _ in cpus if clock is not None]
    what = "clocks in the topology beside the tables that cannot be read"
    tally.note("ignored", what, count=len(cpus) - len(clocks), examples=[TOPOLOGY_FILE])
    cores = [count for _, count in cpus if count is not None]
    return TopologySummary(max(clocks, default=None), max(cores, default=None), document)


def _iterate_cpus(document: Any) -> Iterator[tuple[float | None, float | None]]:
    """Yield clock and cores of every host."""
    for cluster in _get_list(document, "clusters"):
        for host in _get_list(cluster, "hosts"):
            cpu = host.get("cpu") if isinstance(host, dict) else None
            if isinstance(cpu, dict):
                cores = _positive_or_none(cpu.get("coreCount"))
                sockets = _positive_or_none(cpu.get("count", 1))
                total = cores * sockets if cores is not None and sockets is not None else None
                yield _parse_mhz(cpu.get("coreSpeed")), total


def _get_list(document: Any, key: str) -> list[Any]:
    items = document.get(key) if isinstance(document, dict) else None
    return items if isinstance(items, list) else []


def _positive_or_none(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or abs(value) > 1e18:
        return None
    return float(value) if math.isfinite(value) and value > 0 else None


def _parse_mhz(value: Any) -> float | None:
    try:
        return _positive_or_none(FREQUENCY.read(value))
    except InputError:
        return None
