"""Bundles: files to execute the runs of a confirmation on another machine, and their results."""

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
#: Maximum number of missing runs named in a note.
_MAX_NAMED: Final = 5


def bundle(
    ranking: Sequence[Candidate],
    folder: str | Path,
    *,
    baseline: Candidate | None = None,
    repetitions: int = 5,
    seed: int = 0,
) -> Path:
    """Write a bundle of files to execute the runs of a confirmation on another machine.

    It contains `plan.json`, a scenario for each configuration with copies of its input files,
    `run.sh`, which executes the runs in their order, and `README.md`, which lists the files to
    return. `confirm(..., traces=folder)` reads a returned bundle.

    Args:
        ranking: The recommended candidates, best first: `study.top(3)`.
        folder: The folder to write, which must be new or empty.
        baseline: The baseline; by default that of the ranking.
        repetitions: The number of repetitions.
        seed: The random seed of the order of the runs.

    >>> import tempfile
    >>> fifo = Scenario(platform="1x1", policy="fifo", workload={"tasks": [
    ...     {"id": "a", "command": ["true"], "run_time": 1}]})
    >>> easy = Candidate("easy", fifo.replace(policy="easy"), {"makespan_s": 1.0})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = bundle([easy], folder + "/bundle", baseline=Candidate("fifo", fifo, {}))
    ...     sorted(entry.name for entry in written.iterdir())
    ['README.md', 'plan.json', 'run.sh', 'runs', 'scenarios']
    """
    candidates, base, _ = choose_candidates(ranking, baseline)
    plan = ConfirmationPlan(candidates, base, repetitions, seed)
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(
            "exists already and is not an empty folder",
            kind="not-replaceable",
            file=folder,
            remedy="name a new or empty folder",
        )
    scenarios = [_check_portable(each) for each in plan.configurations]
    with write_folder_atomically(folder, lambda path: OwnedFiles()) as bundle_folder:
        (bundle_folder / RUNS).mkdir()
        inputs: dict[str, str] = {}
        for scenario, slug in zip(scenarios, plan.slugs, strict=True):
            portable_scenario = _copy_inputs(scenario, bundle_folder, inputs)
            with write_atomically(bundle_folder / SCENARIOS / f"{slug}.yaml") as stream:
                stream.write(portable_scenario.to_yaml().encode())
        plan.save(bundle_folder, inputs=inputs)
        for name, text in (
            ("run.sh", _make_script(plan)),
            ("README.md", _make_readme(plan, inputs)),
        ):
            with write_atomically(bundle_folder / name) as stream:
                stream.write(text.encode())
        (bundle_folder / "run.sh").chmod(0o755)
    return folder


def _check_portable(candidate: Candidate) -> Scenario:
    """Return the scenario of a candidate; raise an error if another machine cannot run it."""
    workload = candidate.scenario.workload
    paths = {"workload.folder": workload.folder}
    paths |= {f"workload.tasks[{i}].folder": task.folder for i, task in enumerate(workload.tasks)}
    paths |= {f"workload.prepare[{i}].creates": s.creates for i, s in enumerate(workload.prepare)}
    for field, path in paths.items():
        if path is not None:
            raise InputError(
                f"{candidate.name}: '{path}' is a path on this machine and cannot be part of a "
                "bundle",
                kind="not-portable",
                field=field,
                remedy="remove it: tasks then run in the folder of the bundle",
            )
    candidate.scenario.to_yaml()  # raises an error if the scenario contains an object in memory
    return candidate.scenario


def _copy_inputs(scenario: Scenario, bundle_folder: Path, inputs: dict[str, str]) -> Scenario:
    """Copy the input files of a scenario; return the scenario that reads the copies."""
    changes: dict[str, Any] = {}
    workload = scenario.workload
    if workload.path is not None:
        related_files = list_related_files(Path(workload.path), {})
        changes["workload.path"] = _copy_file(workload.path, bundle_folder, inputs, related_files)
        for name in list_path_options() & workload.options.keys():
            copy = _copy_file(str(workload.options[name]), bundle_folder, inputs)
            changes[f"workload.options.{name}"] = copy
    for index, workflow in enumerate(workload.workflows):
        if workflow.path is not None:
            related_files = list_related_files(Path(workflow.path), {})
            changes[f"workload.workflows[{index}].path"] = _copy_file(
                workflow.path, bundle_folder, inputs, related_files
            )
            for name in list_path_options() & workflow.options.keys():
                changes[f"workload.workflows[{index}].options.{name}"] = _copy_file(
                    str(workflow.options[name]), bundle_folder, inputs
                )
    for index, cluster in enumerate(scenario.effective_platform().clusters):
        if isinstance(cluster.carbon, str):
            changes[f"platform.clusters[{index}].carbon"] = _copy_file(
                cluster.carbon, bundle_folder, inputs
            )
    if scenario.failures is not None and scenario.failures.trace is not None:
        changes["failures.trace"] = _copy_file(scenario.failures.trace, bundle_folder, inputs)
    return scenario.replace(**changes) if changes else scenario


def _copy_file(
    path: str, bundle_folder: Path, inputs: dict[str, str], related_files: Sequence[Path] = ()
) -> str:
    """Copy a file or folder; return the path of the copy relative to a scenario of the bundle.

    Args:
        path: The file or folder.
        bundle_folder: The bundle.
        inputs: The hashes of all copies by their paths in the bundle; those of the copy are added.
        related_files: Further files in the same folder that are read with it.
    """
    source = Path(path)
    if not source.exists():
        raise InputError(
            "does not exist, so it cannot be copied", kind="file-not-found", file=source
        )
    files = list_input_files(source) if source.is_dir() else [source, *related_files]
    if not files:
        raise InputError("is empty", kind="empty-log", file=source)
    root = source if source.is_dir() else source.parent
    hashes = {file.relative_to(root).as_posix(): hash_file(file) for file in files}
    hash_prefix = hashlib.sha256(json.dumps(hashes, sort_keys=True).encode()).hexdigest()[:8]
    is_single_file = not source.is_dir() and not related_files
    target = bundle_folder / INPUTS / f"{hash_prefix}-{(source if is_single_file else root).name}"
    for name, digest in hashes.items():
        copy = target if is_single_file else target / name
        if not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / name, copy)
        inputs[copy.relative_to(bundle_folder).as_posix()] = digest
    target_path = target / source.name if related_files else target
    return f"../{target_path.relative_to(bundle_folder).as_posix()}"


def _make_script(plan: ConfirmationPlan) -> str:
    lines = [
        "#!/bin/sh",
        "# Executes the runs of plan.json in their order. Existing runs are not repeated, so the",
        "# script can be interrupted and restarted. TWINLOOP is the program, by default twinloop.",
        "set -u",
        'cd "$(dirname "$0")" || exit 2',
        "incomplete=0",
        "run() {",
        f'    if [ -e "{RUNS}/$2" ]; then',
        '        echo "$2: exists"',
        "        return",
        "    fi",
        '    echo "$2"',
        "    # shellcheck disable=SC2086",
        f'    ${{TWINLOOP:-twinloop}} execute "{SCENARIOS}/$1.yaml" -o "{RUNS}/$2{UNFINISHED}" '
        "--overwrite $3",
        "    status=$?",
        "    # Status 1: the run has ended, but a task did not complete; `confirm` evaluates this.",
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
        code = CODE_PATTERN.fullmatch(plan.configurations[run.configuration].scenario.policy.name)
        option = "--allow-code" if code else "''"
        lines.append(f"run {shlex.quote(slugs[run.configuration])} {run.name} {option}")
    return "\n".join([*lines, 'exit "$incomplete"', ""])


def _make_readme(plan: ConfirmationPlan, inputs: Mapping[str, str]) -> str:
    runs = plan.runs
    listed = "\n".join(
        f"| {slug}.yaml | {each.name}{' (the baseline)' if each is plan.baseline else ''} |"
        for each, slug in zip(plan.configurations, plan.slugs, strict=True)
    )
    code = sorted(
        {n for e in plan.configurations if CODE_PATTERN.fullmatch(n := e.scenario.policy.name)}
    )
    contents = (
        f"`{INPUTS}/` contains their input files. `{PLAN}` lists all runs and the hashes of these "
        "files."
        if inputs
        else f"`{PLAN}` lists all runs."
    )
    needs = (
        f"\nThe policies {', '.join(code)} are Python code that is not part of this bundle: their "
        "modules must be importable.\n"
        if code
        else ""
    )
    return f"""# Runs to confirm a recommendation

A simulator has recommended configurations. This bundle runs them and the baseline
{plan.repetitions} times each: {len(runs)} runs. Each repetition contains all configurations in a
random order, so that changes over time affect all of them equally.

| scenario | configuration |
|---|---|
{listed}

{contents}
{needs}
## With Twinloop

    ./run.sh

The script runs the commands of all tasks as your user on this machine, which is divided into the
nodes of the scenario. It needs `twinloop` and the programs of the tasks. If `twinloop` is not in
`PATH`, name it: `TWINLOOP=/path/to/twinloop ./run.sh`. Each run is stored in a folder, the first
one in `{RUNS}/{runs[0].name}`. The script can be interrupted, and resumes when it is started again.

## With your own scheduler

Execute the runs in the order of `{PLAN}`, one after the other, without other load on the machine.
For each run, submit the tasks of its scenario to your scheduler, configured as in the scenario, and
store the accounting log as one file in `{RUNS}/`, with the name of the run and any extension:

    {RUNS}/{runs[0].name}.swf
    {RUNS}/{runs[min(1, len(runs) - 1)].name}.swf
    ...

All formats that `twinloop inspect` reads are possible (a log of Slurm's `sacct`, SWF, GWF, a folder
of tables). A log must contain exactly the tasks of its run.

## Files to return

Return the folder `{RUNS}/` together with `{PLAN}`. Missing runs are reported, and the others are
evaluated. Then, on the machine with the study:

    twinloop confirm STUDY --traces BUNDLE
"""


@dataclass(frozen=True)
class _ReturnedBundle:
    """A folder with runs that were executed elsewhere, and the plan that they belong to."""

    plan: ConfirmationPlan
    folder: Path
    runs: tuple[PlannedRun, ...]

    @classmethod
    def of(cls, plan: ConfirmationPlan, folder: Path) -> _ReturnedBundle:
        """Read the plan in the folder or its parent; without one, the runs are those of `plan`."""
        if not folder.is_dir():
            raise InputError(
                "is not a folder",
                kind="wrong-file-type",
                file=folder,
                remedy="name the returned bundle",
            )
        loaded = load_plan(folder)
        if loaded is None:
            return cls(plan, folder, plan.runs)
        stored, file = loaded
        plan = replace(plan, repetitions=stored["repetitions"], seed=stored["seed"])
        plan.check_matches(stored, file)
        return cls(plan, folder, tuple(_read_planned_runs(stored, plan, file)))

    def find_run(self, run: PlannedRun) -> Path | None:
        """Find the folder or file of a run, with any extension; None if it is missing."""
        runs_folder = self.folder / RUNS
        searched = runs_folder if runs_folder.is_dir() else self.folder
        matches = sorted(
            entry
            for entry in searched.iterdir()
            if (entry.name == run.name or entry.name.startswith(f"{run.name}."))
            and entry.name != f"{run.name}{UNFINISHED}"
        )
        if len(matches) > 1:
            names = " and ".join(entry.name for entry in matches[:2])
            raise InputError(
                f"{names} have the name of the same run",
                kind="duplicate-name",
                file=searched,
                remedy="keep one of them",
            )
        return matches[0] if matches else None


def _read_planned_runs(
    stored: Mapping[str, Any], plan: ConfirmationPlan, file: Path
) -> list[PlannedRun]:
    names = [each.name for each in plan.configurations]
    try:
        return [
            PlannedRun(
                each["order"], names.index(each["configuration"]), each["repetition"], each["name"]
            )
            for each in stored["runs"]
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"cannot be read: {error}", kind="damaged-file", file=file, field="runs"
        ) from None


def match_returned_plan(plan: ConfirmationPlan, folder: Path) -> ConfirmationPlan:
    """Return the plan with the repetitions and the seed of the returned plan, if there is one.

    The returned plan is in `folder` or its parent.
    """
    return _ReturnedBundle.of(plan, folder).plan


def load_returned_runs(
    plan: ConfirmationPlan, folder: Path, *, allow_code: bool = False
) -> ExecutedRuns:
    """Read the returned runs; raise an error if there is none, or one of another scenario.

    `folder` is the bundle, or the folder of its runs. The number and the names of the runs are
    those of `plan.json` in this folder or its parent, else those of `plan`.
    """
    returned = _ReturnedBundle.of(plan, folder)
    runs: list[ExecutedRun] = []
    missing: list[str] = []
    for run in returned.runs:
        path = returned.find_run(run)
        if path is None:
            missing.append(run.name)
            continue
        candidate = plan.configurations[run.configuration]
        relative_path = path.relative_to(folder).as_posix()
        try:
            trace = read(path)
        except TwinloopError as error:
            runs.append(ExecutedRun(run, relative_path, None, None, {}, str(error)))
            continue
        if (why := explain_mismatch(trace, candidate.scenario, allow_code=allow_code)) is not None:
            raise InputError(
                why,
                kind="different-inputs",
                file=path,
                remedy=f"{run.name} must be a run of {candidate.name}",
            )
        runs.append(measure_run(run, trace, candidate, relative_path))
    if not runs:
        raise InputError(
            f"contains none of the {len(returned.runs)} runs",
            kind="incomplete-result",
            file=folder,
            remedy="name a returned bundle or the folder of its runs; the first run is "
            f"{returned.runs[0].name}",
        )
    notes = [f"{each.run.name} failed: {each.error}" for each in runs if each.error is not None]
    if missing:
        more = ", ..." if len(missing) > _MAX_NAMED else ""
        names = ", ".join(missing[:_MAX_NAMED]) + more
        notes.append(f"{len(missing)} of {len(returned.runs)} runs are missing: {names}")
    return ExecutedRuns(tuple(runs), tuple(notes), returned.plan.seed)
