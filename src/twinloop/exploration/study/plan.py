"""The runs of a study: each configuration with each seed, known by what would be simulated."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from twinloop import __version__
from twinloop.description.errors import InputError
from twinloop.exploration.factors.design import MOST, Configuration, Design
from twinloop.exploration.factors.factors import apply_changes
from twinloop.exploration.ranking.objectives import Objective, explain_missing_kpi
from twinloop.exploration.study.input_hashes import Hashes, hash_input
from twinloop.policy.registry import CodeNotAllowed
from twinloop.scenario import Scenario
from twinloop.scenario.carbon import check_carbon
from twinloop.scenario.identity import Identities, values_to_hash
from twinloop.scenario.stored_workload import store_workload

#: Where a workload that was given in memory is kept in the folder of a study.
WORKLOAD: Final = "workload"


@dataclass(frozen=True)
class StudyRun:
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
class StudyPlan:
    """What a study is to run."""

    configurations: tuple[Configuration, ...]
    runs: tuple[StudyRun, ...]
    #: The scenario as it is, with each seed.
    baseline: tuple[StudyRun, ...]
    #: The design with the seeds that are run: one, where nothing is random.
    design: Design
    #: What the user should know of it.
    notes: tuple[str, ...] = ()
    #: The classes of policies that are named as `module:Class`: workers may not have the module.
    code: Mapping[str, type] = field(default_factory=dict)
    #: The hashes of all files that the runs read.
    inputs: Hashes = field(default_factory=dict)


def plan_runs(
    scenario: Scenario,
    design: Design,
    beside: Mapping[str, Any],
    *,
    by: str = "makespan_s",
    allow_code: bool = False,
) -> StudyPlan:
    """The runs of a design: all configurations with the first seed, then with the next one.

    Args:
        scenario: What is changed.
        design: How.
        beside: What else decides how a run comes out.
        by: The KPI that the runs are to be ranked by: it is an error if none of them can have it.
        allow_code: Whether a policy named as `module:Class` may be imported: its code is part of
            what identifies a run.

    >>> base = Scenario(platform="2x4", policy="easy", workload={"tasks": [{"id": "a",
    ...     "run_time": 5}]})
    >>> plan = plan_runs(base, Design(factors={"policy": ["random", "easy"]}, seeds=[1, 2]), {})
    >>> [(run.configuration, run.seed) for run in plan.runs]
    [(0, 1), (1, 1), (0, 2), (1, 2)]
    """
    configurations = tuple(design.configurations())
    if len(configurations) * max(1, len(design.seeds)) > MOST:
        count = f"{len(configurations) * len(design.seeds):,}"
        raise InputError(f"makes {count} runs, more than {MOST:,}", field="factors")
    known = Identities(allow_code=allow_code)
    kpi = Objective.of(by).kpi
    inputs: dict[str, str | None] = {}
    told = [_described(scenario, each, beside, known, kpi, inputs) for each in configurations]
    fixed = [one.fixed for one in told if one.refused is None]
    notes = _seed_notes(design, fixed)
    if fixed and all(fixed) and len(design.seeds) > 1:
        design = design.model_copy(update={"seeds": design.seeds[:1]})
    seeds = design.seeds or (None,)
    runs = [
        StudyRun(each.number, *_keyed(one, seed), refused=one.refused)
        for seed in seeds
        for each, one in zip(configurations, told, strict=True)
    ]
    if all(run.refused for run in runs):
        raise InputError(f"none of the runs can be made: {runs[0].refused}", field="factors")
    lacking = [one.lacks for one in told if one.refused is None]
    if lacking and all(lacking):
        raise InputError(f"no run can be ranked by {kpi}: {lacking[0]}", field="by")
    baseline = _baseline(scenario, design, beside, known, inputs)
    return StudyPlan(configurations, tuple(runs), baseline, design, notes, known.code, inputs)


def _seed_notes(design: Design, fixed: Sequence[bool]) -> tuple[str, ...]:
    """What is to be said of seeds that change nothing."""
    if len(design.seeds) < 2 or not any(fixed):
        return ()
    asked = f"{len(design.seeds)} seeds were asked for"
    if all(fixed):
        return (
            f"{asked}, and nothing in it is random (workload, failures, policy): each "
            "configuration was run once, and has no spread over seeds",
        )
    return (
        f"{asked}, and in {sum(fixed)} of {len(fixed)} configurations nothing is random: each of "
        "these was run once, and is the same with every seed",
    )


def _baseline(
    scenario: Scenario,
    design: Design,
    beside: Mapping[str, Any],
    known: Identities,
    inputs: dict[str, str | None],
) -> tuple[StudyRun, ...]:
    """The runs of the scenario as it is, with each seed."""
    as_it_is = Configuration(-1, "", {}, {})
    one = _described(scenario, as_it_is, beside, known, "makespan_s", inputs)
    return tuple(
        StudyRun(-1, *_keyed(one, seed), refused=one.refused) for seed in design.seeds or (None,)
    )


@dataclass(frozen=True)
class _Described:
    """A configuration as its runs have it in common, whatever their seed."""

    changes: dict[str, Any]
    #: All that decides how its runs come out, the seed among it.
    told: dict[str, Any]
    seed: int
    refused: str | None = None
    #: Whether nothing in it is random, so that all seeds give the same run.
    fixed: bool = False
    #: Why its runs cannot have the KPI that they are to be ranked by; None: they can.
    lacks: str | None = None


def _described(
    scenario: Scenario,
    configuration: Configuration,
    beside: Mapping[str, Any],
    known: Identities,
    kpi: str,
    inputs: dict[str, str | None],
) -> _Described:
    """What the runs of a configuration are; the hashes of their files go to `inputs`."""
    changes = configuration.changes
    try:
        one = apply_changes(scenario, changes)
        check_carbon(one)
        files = [(path.as_posix(), hash_input(path)) for path in one._files()]
        inputs.update(files)
        told = _decisive(one, beside, known, [sha256 for _, sha256 in files])
        fixed = not known.is_random(one)
        return _Described(changes, told, one.seed, fixed=fixed, lacks=explain_missing_kpi(one, kpi))
    except CodeNotAllowed:
        raise
    except InputError as error:
        said = " ".join(str(error).split())
        told = {"refused": said, "changes": configuration.labels}
        return _Described(changes, told, scenario.seed, said)


def _keyed(one: _Described, seed: int | None) -> tuple[int, dict[str, Any], str]:
    """The seed, the changes and the key of a run."""
    number = one.seed if seed is None else seed
    key = _digest({**one.told, "seed": None if one.fixed else number})
    return number, add_seed(one.changes, seed), key


def add_seed(changes: Mapping[str, Any], seed: int | None) -> dict[str, Any]:
    """Changes of a scenario, a seed among them; None: the one that it has.

    >>> add_seed({"policy": "easy"}, 2)
    {'policy': 'easy', 'seed': 2}
    """
    return dict(changes) if seed is None else {**changes, "seed": seed}


def _decisive(
    scenario: Scenario, beside: Mapping[str, Any], known: Identities, inputs: list[str | None]
) -> dict[str, Any]:
    told = values_to_hash(scenario.to_dict(complete=True))
    seed = told.pop("seed")
    told.pop("name", None)
    if scenario.workload.path is not None:
        told["workload"]["path"] = Path(scenario.workload.path).name  # what is in it decides
    objects = known.identify(scenario)
    own = {"objects": objects} if objects else {}
    return {
        "scenario": told,
        "inputs": inputs,
        "by": __version__,
        **own,
        **beside,
        "seed": seed,
    }


def _digest(told: Any) -> str:
    text = json.dumps(told, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def store_study_workload(scenario: Scenario, folder: Path) -> Scenario:
    """The scenario with a workload that was given in memory written into the folder."""
    return store_workload(scenario, folder, WORKLOAD)


def count_duplicates(runs: Sequence[StudyRun]) -> int:
    """How many runs are the same as an earlier one.

    >>> count_duplicates([StudyRun(number, 0, {}, key) for number, key in enumerate("aba")])
    1
    """
    return len(runs) - len({run.key for run in runs})
