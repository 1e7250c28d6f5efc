"""The plan of a study: a run per configuration and seed, identified by a hash of its inputs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from twinloop import __version__
from twinloop.description.class_registry import CodeNotAllowed
from twinloop.description.errors import InputError
from twinloop.exploration.factors.design import MAX_RUNS, Configuration, Design
from twinloop.exploration.factors.factors import apply_changes
from twinloop.exploration.ranking.objectives import Objective, explain_missing_kpi
from twinloop.exploration.study.input_hashes import Hashes, hash_input
from twinloop.scenario import Scenario
from twinloop.scenario.carbon import check_carbon
from twinloop.scenario.identity import Identities, values_to_hash
from twinloop.scenario.stored_workload import store_workload

#: The folder, inside that of a study, of a workload that was given in memory.
WORKLOAD: Final = "workload"


@dataclass(frozen=True)
class StudyRun:
    """One run of a study: a configuration with a seed."""

    configuration: int
    seed: int
    #: The changes of the scenario, including the seed.
    changes: dict[str, Any]
    #: The hash of everything that determines the result; identical runs have the same key.
    key: str
    #: The error of an invalid scenario, which is not simulated; None: it is valid.
    refused: str | None = None


@dataclass(frozen=True)
class StudyPlan:
    """The configurations and runs of a study."""

    configurations: tuple[Configuration, ...]
    runs: tuple[StudyRun, ...]
    #: The runs of the unchanged scenario, one for each seed.
    baseline: tuple[StudyRun, ...]
    #: The design with the seeds that are simulated: only the first if nothing is random.
    design: Design
    #: Notes for the user.
    notes: tuple[str, ...] = ()
    #: The classes of policies named as `module:Class`; workers may not have the module.
    code: Mapping[str, type] = field(default_factory=dict)
    #: The hashes of all files that the runs read.
    inputs: Hashes = field(default_factory=dict)


def plan_runs(
    scenario: Scenario,
    design: Design,
    extra: Mapping[str, Any],
    *,
    by: str = "makespan_s",
    allow_code: bool = False,
) -> StudyPlan:
    """Plan the runs of a design: all configurations with the first seed, then with the next one.

    Args:
        scenario: The base scenario.
        design: The design.
        extra: Further inputs that determine the result of a run.
        by: The KPI to rank by; an error is raised if it can be computed for no run.
        allow_code: Whether a policy named as `module:Class` may be imported; its code is part of
            the identity of a run.

    >>> base = Scenario(platform="2x4", policy="easy", workload={"tasks": [{"id": "a",
    ...     "run_time": 5}]})
    >>> plan = plan_runs(base, Design(factors={"policy": ["random", "easy"]}, seeds=[1, 2]), {})
    >>> [(run.configuration, run.seed) for run in plan.runs]
    [(0, 1), (1, 1), (0, 2), (1, 2)]
    """
    configurations = tuple(design.configurations())
    if len(configurations) * max(1, len(design.seeds)) > MAX_RUNS:
        count = f"{len(configurations) * max(1, len(design.seeds)):,}"
        raise InputError(
            f"the design has {count} runs, more than {MAX_RUNS:,}", kind="too-many", field="factors"
        )
    identities = Identities(allow_code=allow_code)
    kpi = Objective.of(by).kpi
    inputs: dict[str, str | None] = {}
    identified_configurations = [
        _plan_configuration(scenario, each, extra, identities, kpi, inputs)
        for each in configurations
    ]
    fixed = [
        identified.fixed for identified in identified_configurations if identified.refused is None
    ]
    notes = _describe_unused_seeds(design, fixed)
    if fixed and all(fixed) and len(design.seeds) > 1:
        design = design.model_copy(update={"seeds": design.seeds[:1]})
    seeds = design.seeds or (None,)
    runs = [
        StudyRun(each.number, *_make_run_fields(identified, seed), refused=identified.refused)
        for seed in seeds
        for each, identified in zip(configurations, identified_configurations, strict=True)
    ]
    if all(run.refused for run in runs):
        raise InputError(
            f"no run can be simulated: {runs[0].refused}", kind="no-usable-runs", field="factors"
        )
    reasons = [
        identified.lacks for identified in identified_configurations if identified.refused is None
    ]
    if reasons and all(reasons):
        raise InputError(
            f"no run can be ranked by {kpi}: {reasons[0]}", kind="not-ranked", field="by"
        )
    baseline = _plan_baseline(scenario, design, extra, identities, inputs)
    return StudyPlan(configurations, tuple(runs), baseline, design, notes, identities.code, inputs)


def _describe_unused_seeds(design: Design, fixed: Sequence[bool]) -> tuple[str, ...]:
    """Describe in a note how many configurations do not depend on the seed; empty: none."""
    if len(design.seeds) < 2 or not any(fixed):
        return ()
    requested = f"{len(design.seeds)} seeds were requested"
    if all(fixed):
        return (
            f"{requested}, but nothing in the scenario is random (workload, failures, policy): "
            "each configuration was simulated once and has no spread over seeds",
        )
    return (
        f"{requested}, but in {sum(fixed)} of {len(fixed)} configurations nothing is random: each "
        "of these was simulated once, with the same result for every seed",
    )


def _plan_baseline(
    scenario: Scenario,
    design: Design,
    extra: Mapping[str, Any],
    identities: Identities,
    inputs: dict[str, str | None],
) -> tuple[StudyRun, ...]:
    """Plan the runs of the unchanged scenario, one for each seed."""
    unchanged = Configuration(-1, "", {}, {})
    planned = _plan_configuration(scenario, unchanged, extra, identities, "makespan_s", inputs)
    return tuple(
        StudyRun(-1, *_make_run_fields(planned, seed), refused=planned.refused)
        for seed in design.seeds or (None,)
    )


@dataclass(frozen=True)
class _PlannedConfiguration:
    """The properties that the runs of a configuration have in common."""

    changes: dict[str, Any]
    #: Everything that determines the results of its runs, including the seed.
    identity: dict[str, Any]
    seed: int
    #: The error of an invalid scenario; None: it is valid.
    refused: str | None = None
    #: Whether nothing in it is random, so that all seeds give the same result.
    fixed: bool = False
    #: The reason why its runs cannot have the KPI to rank by; None: they can.
    lacks: str | None = None


def _plan_configuration(
    scenario: Scenario,
    configuration: Configuration,
    extra: Mapping[str, Any],
    identities: Identities,
    kpi: str,
    inputs: dict[str, str | None],
) -> _PlannedConfiguration:
    """Identify the runs of a configuration; the hashes of their files are added to `inputs`."""
    changes = configuration.changes
    try:
        changed = apply_changes(scenario, changes)
        check_carbon(changed)
        files = [(path.as_posix(), hash_input(path)) for path in changed._files()]
        inputs.update(files)
        identity = collect_identity(changed, extra, identities, [sha256 for _, sha256 in files])
        return _PlannedConfiguration(
            changes,
            identity,
            changed.seed,
            fixed=not identities.is_random(changed),
            lacks=explain_missing_kpi(changed, kpi),
        )
    except CodeNotAllowed:
        raise
    except InputError as error:
        message = " ".join(str(error).split())
        identity = {"refused": message, "changes": configuration.labels}
        return _PlannedConfiguration(changes, identity, scenario.seed, message)


def _make_run_fields(
    planned: _PlannedConfiguration, seed: int | None
) -> tuple[int, dict[str, Any], str]:
    """Return the seed, the changes and the key of a run."""
    run_seed = planned.seed if seed is None else seed
    key = hash_identity({**planned.identity, "seed": None if planned.fixed else run_seed})
    return run_seed, add_seed(planned.changes, seed), key


def add_seed(changes: Mapping[str, Any], seed: int | None) -> dict[str, Any]:
    """Add a seed to changes of a scenario; None: the seed of the scenario stays.

    >>> add_seed({"policy": "easy"}, 2)
    {'policy': 'easy', 'seed': 2}
    """
    return dict(changes) if seed is None else {**changes, "seed": seed}


def collect_identity(
    scenario: Scenario, extra: Mapping[str, Any], identities: Identities, inputs: list[str | None]
) -> dict[str, Any]:
    """Collect everything that determines the results of a scenario, as values to hash."""
    values = values_to_hash(scenario.to_dict(complete=True))
    seed = values.pop("seed")
    values.pop("name", None)
    if scenario.workload.path is not None:
        # The file is identified by its name and the hash of its contents, not by its folder.
        values["workload"]["path"] = Path(scenario.workload.path).name
    for workflow in values["workload"].get("workflows", ()):
        if workflow["path"] is not None:
            workflow["path"] = Path(workflow["path"]).name
    objects = identities.identify(scenario)
    object_identity = {"objects": objects} if objects else {}
    return {
        "scenario": values,
        "inputs": inputs,
        "by": __version__,
        **object_identity,
        **extra,
        "seed": seed,
    }


def hash_identity(identity: Any) -> str:
    """Return the key of a run: a hash of everything that determines its result.

    >>> hash_identity({"seed": 1}) == hash_identity({"seed": 2})
    False
    """
    text = json.dumps(identity, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def store_study_workload(scenario: Scenario, folder: Path) -> Scenario:
    """Return the scenario with a workload in memory stored in the folder."""
    return store_workload(scenario, folder, WORKLOAD)


def count_duplicates(runs: Sequence[StudyRun]) -> int:
    """Count the runs that are identical to an earlier one.

    >>> count_duplicates([StudyRun(number, 0, {}, key) for number, key in enumerate("aba")])
    1
    """
    return len(runs) - len({run.key for run in runs})
