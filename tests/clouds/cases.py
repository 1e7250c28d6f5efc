"""Small clouds in plain values, and the tables of their runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twinloop.engine import Simulation
from twinloop.scenario import Scenario

MB = 1e6
GB = 1e9
#: 100 MB at 100 MB/s take 1 s; the boot takes 1 s, then 4 core-seconds on at most 2 cores.
IMAGE: dict[str, Any] = {
    "name": "base",
    "size": "100 MB",
    "store": "images",
    "boot": {"delay": 1, "work": 4, "limit": 2},
}
PORTS = {"in": "100 MB/s", "out": "100 MB/s"}
#: Table 1 of DISSECT-CF: powers (W) and durations (s) of the states of a machine.
IDLE, MAX, OFF, ON, STOP = 368.8, 722.7, 36.4, 483.1, 409.2
SECONDS_ON, SECONDS_OFF = 200.0, 12.0
POWER = {"model": "linear", "idle": IDLE, "max": MAX}
STATES = {
    "off": {"power": OFF},
    "switching-on": {"duration": SECONDS_ON, "power": ON},
    "switching-off": {"duration": SECONDS_OFF, "power": STOP},
}


def make_host(names: str = "a b", cores: float = 4, **others: Any) -> dict[str, Any]:
    """Describe hosts with these names."""
    return {"names": names.split(), "cores": cores, "ports": PORTS, **others}


def make_task(
    number: int, submit: float = 0.0, run_time: float = 10.0, cores: float = 1, **others: Any
) -> dict[str, Any]:
    """Describe the task `t` with this number."""
    return {"id": f"t{number}", "submit": submit, "run_time": run_time, "cores": cores, **others}


def make_scenario(
    hosts: Sequence[dict[str, Any]],
    tasks: Sequence[dict[str, Any]],
    *,
    image: dict[str, Any] | None = None,
    latency: float = 0.0,
    policy: Any = "one-per-task",
    model: dict[str, Any] | None = None,
    **cloud: Any,
) -> Scenario:
    """Describe one cloud on all hosts, with one image in one store."""
    images = {"images": [image]} if image else {}
    platform: dict[str, Any] = {
        "clusters": [{"name": "rack", "hosts": list(hosts)}],
        "clouds": [{"name": "cloud", **images, **cloud}],
    }
    if image and image.get("size"):
        platform["stores"] = [{"name": "images", "capacity": "1 TB", "ports": PORTS}]
        platform["network"] = {"latency": latency}
    return Scenario(
        platform=platform, workload={"tasks": list(tasks)}, policy=policy, model=model or {}
    )


def start(*args: Any, **others: Any) -> Simulation:
    """Start a simulation of such a scenario."""
    return Simulation(make_scenario(*args, **others))


def finish(*args: Any, **others: Any) -> Simulation:
    """Run such a scenario to the end."""
    sim = start(*args, **others)
    sim.run()
    return sim


def list_times(sim: Simulation) -> list[Any]:
    """List start and end of each task."""
    return sim.tasks.select("start", "end").rows()


def list_rentals(sim: Simulation, *columns: str) -> list[Any]:
    """List these columns of the rented instances."""
    table = sim.trace().instances
    return [] if table is None else table.select(*columns).rows()


def is_clear(sim: Simulation) -> bool:
    """Whether no transfer holds anything."""
    return sim._run.live_transfers == 0 and not any(
        column.any() for column in sim._run.store_use().values()
    )
