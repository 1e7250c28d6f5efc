"""The runs of a study: each configuration with each seed, known by what would be simulated."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from twinloop import __version__
from twinloop.explore.design import MOST, Configuration, Design
from twinloop.explore.factors import changed
from twinloop.scenario import Scenario
from twinloop.trace.errors import InputError
from twinloop.trace.files import sha256
from twinloop.trace.folder import owned, save
from twinloop.trace.trace import Trace

#: Where a workload that was given in memory is kept in the folder of a study.
WORKLOAD: Final = "workload"


@dataclass(frozen=True)
class Run:
    """One run: a configuration with a seed."""

    configuration: int
    seed: int
    #: What it changes in the scenario, the seed among it.
    changes: dict[str, Any]
    #: Of all that decides how it comes out; the same for runs that are the same.
    key: str
    #: Why there is no such scenario; None: there is.
    refused: str | None = None


@dataclass(frozen=True)
class Plan:
    """What a study is to run."""

    configurations: tuple[Configuration, ...]
    runs: tuple[Run, ...]
    #: The scenario as it is, with each seed.
    baseline: tuple[Run, ...]


def planned(scenario: Scenario, design: Design, beside: Mapping[str, Any]) -> Plan:
    """The runs of a design: all configurations with the first seed, then with the next one.

    Args:
        scenario: What is changed.
        design: How.
        beside: What else decides how a run comes out.

    >>> base = Scenario(platform="2x4", policy="easy", workload={"tasks": [{"id": "a",
    ...     "run_time": 5}]})
    >>> plan = planned(base, Design(factors={"policy": ["fifo", "easy"]}, seeds=[1, 2]), {})
    >>> [(run.configuration, run.seed) for run in plan.runs]
    [(0, 1), (1, 1), (0, 2), (1, 2)]
    """
    configurations = tuple(design.configurations())
    seeds = design.seeds or (None,)
    if len(configurations) * len(seeds) > MOST:
        count = f"{len(configurations) * len(seeds):,}"
        raise InputError(f"makes {count} runs, more than {MOST:,}", field="factors")
    told = [_described(scenario, each, beside) for each in configurations]
    runs = [
        Run(each.number, *_keyed(one, seed), refused=one.refused)
        for seed in seeds
        for each, one in zip(configurations, told, strict=True)
    ]
    if all(run.refused for run in runs):
        raise InputError(f"none of the runs can be made: {runs[0].refused}", field="factors")
    return Plan(configurations, tuple(runs), baseline_of(scenario, design, beside))


def baseline_of(scenario: Scenario, design: Design, beside: Mapping[str, Any]) -> tuple[Run, ...]:
    """The runs of the scenario as it is, with each seed."""
    one = _Described({}, _decisive(scenario, beside), scenario.seed)
    return tuple(Run(-1, *_keyed(one, seed)) for seed in design.seeds or (None,))


@dataclass(frozen=True)
class _Described:
    """A configuration as its runs have it in common, whatever their seed."""

    changes: dict[str, Any]
    #: All that decides how its runs come out, the seed among it.
    told: dict[str, Any]
    seed: int
    refused: str | None = None


def _described(
    scenario: Scenario, configuration: Configuration, beside: Mapping[str, Any]
) -> _Described:
    changes = configuration.changes
    try:
        one = changed(scenario, changes)
    except InputError as error:
        said = " ".join(str(error).split())
        return _Described(changes, {"refused": said, "changes": changes}, scenario.seed, said)
    return _Described(changes, _decisive(one, beside), one.seed)


def _keyed(one: _Described, seed: int | None) -> tuple[int, dict[str, Any], str]:
    """The seed, the changes and the key of a run."""
    number = one.seed if seed is None else seed
    key = _digest({**one.told, "seed": number})
    return number, seeded(one.changes, seed), key


def seeded(changes: Mapping[str, Any], seed: int | None) -> dict[str, Any]:
    """Changes of a scenario, a seed among them; None: the one that it has.

    >>> seeded({"policy": "easy"}, 2)
    {'policy': 'easy', 'seed': 2}
    """
    return dict(changes) if seed is None else {**changes, "seed": seed}


def _decisive(scenario: Scenario, beside: Mapping[str, Any]) -> dict[str, Any]:
    told = scenario.to_dict(complete=True)
    seed = told.pop("seed")
    told.pop("name", None)
    if scenario.workload.object is not None:
        told["workload"]["object"] = id(scenario.workload.object)
    elif scenario.workload.path is not None:
        told["workload"]["path"] = Path(scenario.workload.path).name  # what is in it decides
    inputs = [_hashed(str(path)) for path in scenario._files()]
    return {"scenario": told, "inputs": inputs, "by": __version__, **beside, "seed": seed}


def _hashed(path: str) -> str | None:
    try:
        now = Path(path).stat()
    except OSError:
        return None
    return _hash_of(path, now.st_mtime_ns, now.st_size)


@lru_cache(maxsize=64)
def _hash_of(path: str, _changed: int, _size: int) -> str:
    return sha256(Path(path))


def _digest(told: Any) -> str:
    text = json.dumps(told, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def kept(scenario: Scenario, folder: Path) -> Scenario:
    """The scenario with a workload that was given in memory written into the folder."""
    given = scenario.workload.object
    if given is None:
        return scenario
    if not isinstance(given, Trace):
        raise InputError(
            f"a study in a folder cannot keep an object in memory ({scenario.workload.held})",
            field="workload",
            remedy="give a Trace, or the path of one",
        )
    place = folder / WORKLOAD
    # The folder is that of this study: any trace in it may make room for another.
    save(given.tables, given.manifest, place, overwrite=True, owner=owned)
    described = scenario.workload.model_copy(update={"object": None, "path": str(place)})
    return scenario.replace(workload=described)


def anchored(scenario: Scenario) -> Scenario:
    """The scenario with the paths of its files whole: a study can then be used from anywhere."""
    changes: dict[str, Any] = {}
    if scenario.workload.path is not None:
        changes["workload.path"] = Path(scenario.workload.path).resolve().as_posix()
    if scenario.failures is not None and scenario.failures.trace is not None:
        changes["failures.trace"] = Path(scenario.failures.trace).resolve().as_posix()
    for number, cluster in enumerate(scenario.platform.clusters):
        if cluster.carbon is not None:
            path = Path(cluster.carbon).resolve().as_posix()
            changes[f"platform.clusters[{number}].carbon"] = path
    return scenario.replace(**changes) if changes else scenario


def duplicates(runs: Sequence[Run]) -> int:
    """How many runs are the same as an earlier one.

    >>> duplicates([Run(0, 0, {}, "a"), Run(1, 0, {}, "b"), Run(2, 0, {}, "a")])
    1
    """
    return len(runs) - len({run.key for run in runs})
