"""Title of a run: workload, policy and platform in one line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

from twinloop.description.errors import InputError
from twinloop.platform import Platform
from twinloop.report.quantity_text import format_count, format_number
from twinloop.trace import Trace

_KINDS = {"log": "Log", "recorded": "Recorded run", "simulated": "Simulated run"}


def describe_run(trace: Trace) -> str:
    """Describe a run in one line by its workload, its policy and its platform.

    >>> from twinloop.trace import Manifest
    >>> scenario = {"workload": {"path": "logs/kth.swf"}, "platform": "100x1"}
    >>> run = Manifest(kind="simulated", scenario=scenario, facts={"run": {"policy": "easy"}})
    >>> describe_run(Trace(manifest=run))
    'Simulated run · kth.swf · easy on 100x1'
    """
    manifest = trace.manifest
    scenario = manifest.scenario or {}
    parts = [_KINDS.get(manifest.kind, "Generated run"), *_list_name(scenario.get("name"))]
    if manifest.source and manifest.source.files:
        parts.append(manifest.source.files[0].name)
    else:
        parts += _name_workload(scenario.get("workload"))
    run = manifest.facts.get("run")
    policy = list(_list_name(run.get("policy"))) if isinstance(run, Mapping) else []
    platform = [f"on {name}" for name in _name_platform(scenario.get("platform"))]
    return " · ".join([*parts, " ".join(policy + platform)]).removesuffix(" · ")


def _list_name(name: Any) -> Iterator[str]:
    """Generate the name if it is a text that is not empty."""
    if isinstance(name, str) and name:
        yield name


def _name_workload(workload: Any) -> Iterator[str]:
    """Generate the name of the file, the generator or the object of a workload; at most one."""
    if not isinstance(workload, Mapping):
        return
    generator = workload.get("generate")
    if path := workload.get("path"):
        yield PurePath(str(path)).name
    elif isinstance(generator, Mapping):
        yield from _list_name(generator.get("name"))
    else:
        yield from _list_name(workload.get("object"))


def _name_platform(value: Any) -> Iterator[str]:
    """Generate the name, the shorthand or the size of a platform; nothing if it is not valid."""
    try:
        platform = Platform.from_dict(value)
    except InputError:  # no platform, or a platform of another version
        return
    nodes = format_count(platform.total_nodes, "node")
    size = f"{nodes} with {format_number(platform.total_cores)} cores"
    yield platform.name or platform.shorthand or size
