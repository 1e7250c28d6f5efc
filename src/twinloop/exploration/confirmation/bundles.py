"""A bundle: what to run on a platform that is not at hand, and what came back from there."""

from __future__ import annotations

import hashlib
import json
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from twinloop.description.errors import InputError, TwinloopError
from twinloop.description.files import (
    hash_file,
    list_input_files,
    write_atomically,
    write_folder_atomically,
)
from twinloop.description.plugins import CODE_PATTERN
from twinloop.description.replacement import OwnedFiles
from twinloop.exploration.confirmation.plan import (
    PLAN,
    RUNS,
    UNFINISHED,
    ConfirmationPlan,
    PlannedRun,
    choose_candidates,
    explain_mismatch,
    load_plan,
)
from twinloop.exploration.confirmation.runs import ExecutedRun, ExecutedRuns, measure_run
from twinloop.exploration.ranking.candidate import Candidate
from twinloop.scenario import Scenario
from twinloop.trace import read
from twinloop.trace.folder import MANIFEST
from twinloop.trace.formats import list_path_options, list_related_files

SCENARIOS: Final = "scenarios"
INPUTS: Final = "inputs"
#: How many missing runs are named.
_NAMED: Final = 5


def bundle(
    ranking: Sequence[Candidate],
    folder: str | Path,
    *,
    baseline: Candidate | None = None,
    repetitions: int = 5,
    seed: int = 0,
) -> Path:
    """Write what to run elsewhere into a folder that is not there yet.

    It holds `plan.json`, a scenario for each configuration with copies of all files that it reads,
    `run.sh`, which makes the runs in their order, and `README.md`, which says what must come back.
    `confirm(..., traces=folder)` reads that.

    Args:
        ranking: What is recommended, best first: `study.top(3)`.
        folder: Where to write it.
        baseline: What it is compared with; a ranking knows its own.
        repetitions: How often each is run.
        seed: Where the randomness of the order starts.

    >>> import tempfile
    >>> fifo = Scenario(platform="1x1", policy="fifo", workload={"tasks": [
    ...     {"id": "a", "command": ["true"], "run_time": 1}]})
    >>> easy = Candidate("easy", fifo.replace(policy="easy"), {"makespan_s": 1.0})
    >>> with tempfile.TemporaryDirectory() as there:
    ...     made = bundle([easy], there + "/bundle", baseline=Candidate("fifo", fifo, {}))
    ...     sorted(entry.name for entry in made.iterdir())
    ['README.md', 'plan.json', 'run.sh', 'runs', 'scenarios']
    """
    candidates, base, _ = choose_candidates(ranking, baseline)
    plan = ConfirmationPlan(candidates, base, repetitions, seed)
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(
            "is there already", file=folder, remedy="name a folder that is not there yet"
        )
    portable = [_check(each) for each in plan.all]
    with write_folder_atomically(folder, lambda path: OwnedFiles()) as new:
        (new / RUNS).mkdir()
        inputs: dict[str, str] = {}
        for scenario, slug in zip(portable, plan.slugs, strict=True):
            moved = _with_inputs(scenario, new, inputs)
            with write_atomically(new / SCENARIOS / f"{slug}.yaml") as stream:
                stream.write(moved.to_yaml().encode())
        plan.save(new, inputs=inputs)
        for name, text in (("run.sh", _script(plan)), ("README.md", _readme(plan))):
            with write_atomically(new / name) as stream:
                stream.write(text.encode())
        (new / "run.sh").chmod(0o755)
    return folder


def _check(one: Candidate) -> Scenario:
    """The scenario of a candidate, if it can be moved to another machine."""
    work = one.scenario.workload
    held = {"workload.folder": work.folder}
    held |= {f"workload.tasks[{i}].folder": task.folder for i, task in enumerate(work.tasks)}
    held |= {f"workload.prepare[{i}].creates": s.creates for i, s in enumerate(work.prepare)}
    for field, path in held.items():
        if path is not None:
            raise InputError(
                f"{one.name}: '{path}' is a place on this machine, and cannot be taken along",
                field=field,
                remedy="leave it out: tasks then run in the folder of the bundle",
            )
    one.scenario.to_yaml()  # an object in memory is no file, and says so
    return one.scenario


def _with_inputs(scenario: Scenario, new: Path, inputs: dict[str, str]) -> Scenario:
    """The scenario that reads copies of its files, which are made here."""
    changes: dict[str, Any] = {}
    work = scenario.workload
    if work.path is not None:
        neighbours = list_related_files(Path(work.path), {})
        changes["workload.path"] = _copied(work.path, new, inputs, neighbours)
        for name in list_path_options() & work.options.keys():
            copy = _copied(str(work.options[name]), new, inputs)
            changes[f"workload.options.{name}"] = copy
    for number, cluster in enumerate(scenario.effective_platform().clusters):
        if isinstance(cluster.carbon, str):
            changes[f"platform.clusters[{number}].carbon"] = _copied(cluster.carbon, new, inputs)
    if scenario.failures is not None and scenario.failures.trace is not None:
        changes["failures.trace"] = _copied(scenario.failures.trace, new, inputs)
    return scenario.replace(**changes) if changes else scenario


def _copied(given: str, new: Path, inputs: dict[str, str], neighbours: Sequence[Path] = ()) -> str:
    """The path of a copy as a scenario in the bundle has it; its hashes go to `inputs`.

    Args:
        given: The file or folder.
        new: The bundle.
        inputs: The hashes of all copies, by their paths in the bundle.
        neighbours: Files that are read with it, and found beside it by their names.
    """
    source = Path(given)
    if not source.exists():
        raise InputError("is not there, so it cannot be copied", file=source)
    files = list_input_files(source) if source.is_dir() else [source, *neighbours]
    if not files:
        raise InputError("is empty", file=source)
    above = source if source.is_dir() else source.parent
    hashes = {file.relative_to(above).as_posix(): hash_file(file) for file in files}
    mark = hashlib.sha256(json.dumps(hashes, sort_keys=True).encode()).hexdigest()[:8]
    alone = not source.is_dir() and not neighbours
    target = new / INPUTS / f"{mark}-{(source if alone else above).name}"
    for name, digest in hashes.items():
        copy = target if alone else target / name
        if not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(above / name, copy)
        inputs[copy.relative_to(new).as_posix()] = digest
    named = target / source.name if neighbours else target
    return f"../{named.relative_to(new).as_posix()}"


def _script(plan: ConfirmationPlan) -> str:
    lines = [
        "#!/bin/sh",
        "# Makes the runs of plan.json in their order. What is there is not made again, so it can",
        "# be interrupted, and started anew. TWINLOOP names the program, if it is not twinloop.",
        "set -u",
        'cd "$(dirname "$0")" || exit 2',
        "incomplete=0",
        "run() {",
        f'    if [ -e "{RUNS}/$2" ]; then',
        '        echo "$2: is there"',
        "        return",
        "    fi",
        '    echo "$2"',
        "    # shellcheck disable=SC2086",
        f'    ${{TWINLOOP:-twinloop}} execute "{SCENARIOS}/$1.yaml" -o "{RUNS}/$2{UNFINISHED}" '
        "--overwrite $3",
        "    status=$?",
        "    # 1: it is over, but a task did not complete, which is for the reader to judge.",
        f'    if [ "$status" -gt 1 ] || [ ! -f "{RUNS}/$2{UNFINISHED}/{MANIFEST}" ]; then',
        '        echo "$2: ended with $status" >&2',
        '        [ "$status" -lt 128 ] || exit "$status"',
        "        incomplete=1",
        "        return",
        "    fi",
        f'    mv "{RUNS}/$2{UNFINISHED}" "{RUNS}/$2"',
        "}",
    ]
    slugs = plan.slugs
    for run in plan.runs:
        code = CODE_PATTERN.fullmatch(plan.all[run.configuration].scenario.policy.name)
        option = "--allow-code" if code else "''"
        lines.append(f"run {shlex.quote(slugs[run.configuration])} {run.name} {option}")
    return "\n".join([*lines, 'exit "$incomplete"', ""])


def _readme(plan: ConfirmationPlan) -> str:
    runs = plan.runs
    listed = "\n".join(
        f"| {slug}.yaml | {each.name}{' (the baseline)' if each is plan.baseline else ''} |"
        for each, slug in zip(plan.all, plan.slugs, strict=True)
    )
    code = sorted({n for e in plan.all if CODE_PATTERN.fullmatch(n := e.scenario.policy.name)})
    needs = (
        f"\nThe policies {', '.join(code)} are Python code, which is not in this bundle: their "
        "modules must be importable.\n"
        if code
        else ""
    )
    return f"""# Runs to confirm a recommendation

A simulator has recommended configurations. This bundle runs them, and the one that they are
compared with, {plan.repetitions} times each: {len(runs)} runs. Each repetition has all of them in a
random order, so that nothing that changes with time favours one of them.

| scenario | configuration |
|---|---|
{listed}

`inputs/` holds the files that they read, with their hashes in `{PLAN}`, which lists all runs.
{needs}
## With Twinloop

    ./run.sh

It runs the commands of all tasks as you, on nodes laid onto the machine that it is started on, and
needs nothing but `twinloop` (another name: `TWINLOOP=/path/to/twinloop ./run.sh`). It can be
interrupted, and goes on when it is started again. Each run becomes a folder, the first of them
`{RUNS}/{runs[0].name}`.

## With your own scheduler

Submit the tasks of a scenario to your scheduler, configured as the scenario says, and bring its
accounting log of that run: one file for each run, called like the run, with whatever ending suits
it, in `{RUNS}/`:

    {RUNS}/{runs[0].name}.swf
    {RUNS}/{runs[min(1, len(runs) - 1)].name}.swf
    ...

Any format that `twinloop inspect` reads will do (a log of Slurm's `sacct`, SWF, GWF, a folder of
tables). Keep to the order in `{PLAN}`, one run after the other, and nothing else beside. A log must
have all tasks of its run and no others.

## What must come back

The folder `{RUNS}/`, beside `{PLAN}`. Runs that are missing are named, and the rest is judged.
Then, where the study is:

    twinloop confirm STUDY --traces BUNDLE
"""


@dataclass(frozen=True)
class _Return:
    plan: ConfirmationPlan
    folder: Path
    runs: tuple[PlannedRun, ...]

    @classmethod
    def of(cls, plan: ConfirmationPlan, folder: Path) -> _Return:
        if not folder.is_dir():
            raise InputError("is no folder", file=folder, remedy="name the bundle that came back")
        found = load_plan(folder)
        if found is None:
            return cls(plan, folder, plan.runs)
        kept, file = found
        plan = replace(plan, repetitions=kept["repetitions"], seed=kept["seed"])
        plan.refuse_other(kept, file)
        return cls(plan, folder, tuple(_planned(kept, plan, file)))

    def place(self, run: PlannedRun) -> Path | None:
        """Where a run is, whatever the ending of its name."""
        inner = self.folder / RUNS
        where = inner if inner.is_dir() else self.folder
        found = sorted(
            entry
            for entry in where.iterdir()
            if (entry.name == run.name or entry.name.startswith(f"{run.name}."))
            and entry.name != f"{run.name}{UNFINISHED}"
        )
        if len(found) > 1:
            names = " and ".join(entry.name for entry in found[:2])
            raise InputError(
                f"{names} are both called like one run", file=where, remedy="keep one of them"
            )
        return found[0] if found else None


def _planned(kept: Mapping[str, Any], plan: ConfirmationPlan, file: Path) -> list[PlannedRun]:
    names = [each.name for each in plan.all]
    try:
        return [
            PlannedRun(
                each["order"], names.index(each["configuration"]), each["repetition"], each["name"]
            )
            for each in kept["runs"]
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"its runs cannot be read: {error}", file=file, field="runs") from None


def match_returned_plan(plan: ConfirmationPlan, folder: Path) -> ConfirmationPlan:
    """The plan with the repetitions and the seed of the one that came back, if one did."""
    return _Return.of(plan, folder).plan


def load_returned_runs(
    plan: ConfirmationPlan, folder: Path, *, allow_code: bool = False
) -> ExecutedRuns:
    """The runs that came back; an error if one is that of another scenario, or none is there.

    `folder` is the bundle, or the folder of its runs. Where its plan is there, it says how many
    runs there are and how they are called.
    """
    given = _Return.of(plan, folder)
    made: list[ExecutedRun] = []
    missing: list[str] = []
    for run in given.runs:
        path = given.place(run)
        if path is None:
            missing.append(run.name)
            continue
        one = plan.all[run.configuration]
        where = path.relative_to(folder).as_posix()
        try:
            trace = read(path)
        except TwinloopError as error:
            made.append(ExecutedRun(run, where, None, None, {}, str(error)))
            continue
        if (why := explain_mismatch(trace, one.scenario, allow_code=allow_code)) is not None:
            raise InputError(why, file=path, remedy=f"{run.name} must be a run of {one.name}")
        made.append(measure_run(run, trace, one, where))
    if not made:
        raise InputError(
            f"none of the {len(given.runs)} runs is there",
            file=folder,
            remedy=f"the first is called {given.runs[0].name}",
        )
    notes = [f"{each.run.name} failed: {each.error}" for each in made if each.error is not None]
    if missing:
        more = ", ..." if len(missing) > _NAMED else ""
        named = ", ".join(missing[:_NAMED]) + more
        notes.append(f"{len(missing)} of {len(given.runs)} runs are missing: {named}")
    return ExecutedRuns(tuple(made), tuple(notes), given.plan.seed)
