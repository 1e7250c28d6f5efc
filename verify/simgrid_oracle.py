"""SimGrid as an independent oracle of weighted max-min fair sharing.

An `OracleCase` describes capacities, activities and changes over time. `SimGrid.play` runs cases
in SimGrid (`simgrid_runner.cpp`, compiled here when needed: SimGrid's Python binding has neither
the bound nor the priority of an execution) and returns their finish times.

SimGrid is set to plain weighted max-min, no TCP corrections, by `MAX_MIN` below.
`docs/simgrid-oracle.md` lists the differences between the definitions of SimGrid and Twinloop.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

RUNNER_SOURCE = Path(__file__).with_name("simgrid_runner.cpp")
RUNNER = Path(__file__).parents[1] / "build" / "verify" / "simgrid_runner"

MAX_MIN = (
    "cpu/model:Cas01",  # time = work / speed
    "cpu/solver:maxmin",
    "cpu/optim:Full",  # compute all shares again at every event
    "network/model:CM02",  # max-min over links; the default, LV08, corrects it for TCP
    "network/solver:maxmin",
    "network/optim:Full",  # the default, Lazy, misses links where two latencies end at once
    "network/bandwidth-factor:1",  # the default 0.97 is the share left by protocol headers
    "network/latency-factor:1",  # the default 13.01 stands for TCP's slow start
    "network/weight-S:0",  # otherwise the bandwidths of a route add to the weight of a flow
    "network/crosstraffic:0",  # otherwise each flow also uses 5 % of the reverse path
    "network/TCP-gamma:1e30",  # TCP window / (2 latency) bounds a flow; 0 would drop its rate limit
    "maxmin/precision:1e-10",  # smaller fractions of a capacity are not distributed
    "surf/precision:1e-12",  # ends within this time (s) are simultaneous
)


@dataclass(frozen=True)
class OracleActivity:
    start: float
    work: float
    resources: tuple[int, ...]
    limit: float | None = None
    weight: float = 1.0
    latency: float = 0.0


@dataclass(frozen=True)
class OracleChange:
    """A change of `subject` at `time`.

    The verbs are "capacity" (of a resource), "weight", "suspend" and "resume" (of an activity).
    """

    verb: str
    time: float
    subject: int
    value: float | None = None


@dataclass(frozen=True)
class OracleCase:
    """Activities on hosts (`flow=False`, one resource each) or over links (`flow=True`)."""

    name: str
    flow: bool
    capacities: tuple[float, ...]
    activities: tuple[OracleActivity, ...]
    changes: tuple[OracleChange, ...] = ()

    def text(self) -> str:
        """Return the input of `simgrid_runner`."""
        lines = ["case flow" if self.flow else "case sharing"]
        lines += [f"resource {capacity!r}" for capacity in self.capacities]
        for a in self.activities:
            limit = -1 if a.limit is None else a.limit
            route = " ".join(map(str, (len(a.resources), *a.resources)))
            lines.append(
                f"activity {a.start!r} {a.work!r} {limit!r} {a.weight!r} {a.latency!r} {route}"
            )
        for c in self.changes:
            value = "" if c.value is None else repr(c.value)
            lines.append(f"{c.verb} {c.time!r} {c.subject} {value}")
        return "\n".join([*lines, "end\n"])


class SimGridMissing(RuntimeError):
    """Raised if SimGrid or a compiler is not installed."""


class SimGrid:
    """The runner, compiled if its source is newer; raises `SimGridMissing` if that fails."""

    def __init__(self) -> None:
        compiler = shlex.split(os.environ.get("CXX", "c++"))
        if shutil.which(compiler[0]) is None:
            raise SimGridMissing("no C++ compiler: apt install g++ libsimgrid-dev")
        probe = subprocess.run(
            [*compiler, "-std=c++17", "-E", "-x", "c++", "-o", os.devnull, "-"],
            input="#include <simgrid/s4u.hpp>\n",
            capture_output=True,
            text=True,
        )
        if probe.returncode != 0:
            raise SimGridMissing("no SimGrid headers: apt install libsimgrid-dev")
        if not RUNNER.exists() or RUNNER.stat().st_mtime < RUNNER_SOURCE.stat().st_mtime:
            RUNNER.parent.mkdir(parents=True, exist_ok=True)
            source, target = str(RUNNER_SOURCE), str(RUNNER)
            subprocess.run(
                [*compiler, "-std=c++17", "-O1", source, "-lsimgrid", "-o", target], check=True
            )

    def play(
        self, cases: list[OracleCase], options: tuple[str, ...] = MAX_MIN
    ) -> list[list[float]]:
        """The finish times of the activities of each case."""
        run = subprocess.run(
            [str(RUNNER), "--log=root.threshold:error", *(f"--cfg={o}" for o in options)],
            input="".join(case.text() for case in cases),
            capture_output=True,
            text=True,
        )
        lines = run.stdout.splitlines()
        if run.returncode != 0 or len(lines) != len(cases):
            culprit = cases[len(lines)].text() if len(lines) < len(cases) else ""
            raise RuntimeError(f"SimGrid failed on\n{culprit}{run.stderr}")
        return [[float(word) for word in line.split()] for line in lines]
