"""The 200 real runs of FlowBench: what the reader gets from them, and their noise floor."""

import tarfile
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pytest

from tests.example_scripts import load_example
from tests.examples import every
from twinloop import Scenario, Trace, Workload, simulate
from twinloop.engine import CompiledScenario
from twinloop.fidelity import estimate_ideal_errors, group_repetitions
from twinloop.scenario import workflow_scenario_of_run
from twinloop.trace import read
from twinloop.trace.quality import check

pytestmark = pytest.mark.realdata

Key = tuple[str, str]


class Class(NamedTuple):
    """A set of repetitions: its size, its makespans (s) and its ideal errors (%)."""

    runs: int
    tasks: int
    makespans: tuple[int, int, int]
    ideal: float


#: Shared table of the runs: computed from the files without this project.
CLASSES: dict[Key, Class] = {
    ("1000-genome", "normal"): Class(40, 137, (2315, 2339, 2504), 0.55),
    ("1000-genome", "cpu_2"): Class(40, 137, (2543, 2789, 3326), 4.6),
    ("1000-genome", "cpu_3"): Class(25, 137, (3831, 4037, 4362), 2.6),
    ("1000-genome", "hdd_5"): Class(40, 137, (2441, 2951, 3667), 10.3),
    ("1000-genome", "hdd_10"): Class(40, 137, (2962, 4017, 6768), 25.1),
    ("montage", "cpu_3"): Class(15, 539, (997, 1030, 1056), 1.2),
}
#: Containers whose cores or disk bandwidth were withheld.
SLOW: dict[Key, set[int]] = {
    ("1000-genome", "normal"): {0},
    ("1000-genome", "cpu_2"): {5, 10},
    ("1000-genome", "cpu_3"): {5},
    ("1000-genome", "hdd_5"): {5},
    ("1000-genome", "hdd_10"): {10, 15},
    ("montage", "cpu_3"): {2},
}
DAGS = {"1000-genome": "dag_1000genome.json.gz", "montage": "dag_montage.json.gz"}


@pytest.fixture(scope="module")
def classes(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[Key, list[Trace]]:
    folder = tmp_path_factory.mktemp("flowbench")
    with tarfile.open(real_data / "flowbench" / "genome_montage_runs.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    runs = []
    for file in sorted(folder.rglob("*.csv")):
        dag = next(name for flow, name in DAGS.items() if file.name.startswith(flow))
        runs.append(read(file, dag=real_data / "flowbench" / dag, strict=True))
    groups = group_repetitions(runs)
    return {(dict(key)["workflow"], dict(key)["anomaly"]): each for key, each in groups.items()}


def test_the_classes_have_their_sizes_and_makespans(classes: dict[Key, list[Trace]]) -> None:
    assert set(classes) == set(CLASSES)
    for key, runs in classes.items():
        known = CLASSES[key]
        assert len(runs) == known.runs
        assert {run.tasks.height for run in runs} == {known.tasks}
        makespans = [run.manifest.facts["makespan"] for run in runs]
        mean = round(sum(makespans) / len(makespans))
        assert (min(makespans), mean, max(makespans)) == known.makespans
        assert {len(run.manifest.facts.get("anomalies", {})) for run in runs} == SLOW[key]


def test_ideal_errors_are_those_of_the_table(classes: dict[Key, list[Trace]]) -> None:
    errors = {key: estimate_ideal_errors(runs) for key, runs in classes.items()}
    for key, known in CLASSES.items():
        assert 100 * errors[key].makespan == pytest.approx(known.ideal, abs=0.07)
    genome, montage = errors["1000-genome", "normal"], errors["montage", "cpu_3"]
    assert 100 * (genome.average_tasks("compute") or 0) == pytest.approx(2.1, abs=0.06)
    assert 100 * (montage.average_tasks("compute") or 0) == pytest.approx(11.7, abs=0.06)


def test_every_task_is_ready_when_its_parents_are_done(classes: dict[Key, list[Trace]]) -> None:
    """The dependencies are those of the runs: a task is ready with the last script of a parent."""
    for runs in classes.values():
        for run in runs:
            done = run.placements.join(run.task_times, on="task").select(
                "task", done=pl.col("end") + pl.col("after")
            )
            edges = run.tasks.select("id", "ready", "parents").explode("parents").drop_nulls()
            last = (
                edges.join(done, left_on="parents", right_on="task")
                .group_by("id")
                .agg(pl.col("ready").first(), last=pl.col("done").max())
            )
            # All but one task, which creates the folder of the run.
            assert last.height == run.tasks.height - 1
            assert (last["ready"] == last["last"]).all()


def test_transfers_are_within_the_executions_of_their_tasks(
    classes: dict[Key, list[Trace]],
) -> None:
    for runs in classes.values():
        for run in runs:
            assert set(run.manifest.facts.get("clock_offsets", {})) <= {
                "condorpool",
                "insidecontainer",
            }
            within = run.transfers.join(
                run.placements.select("task", first="start", last="end"),
                left_on="subject",
                right_on="task",
            )
            assert (within["first"] <= within["start"]).all()
            assert (within["end"] <= within["last"]).all()
            assert (run.task_times["management_time"].drop_nulls() >= 0).all()


def test_the_quality_gate_is_open(classes: dict[Key, list[Trace]]) -> None:
    for runs in classes.values():
        audit = check(runs[0])
        assert not audit.errors
        assert not audit.warnings


def test_list_scheduling_is_that_of_an_independent_program(
    classes: dict[Key, list[Trace]],
) -> None:
    """Run times, dependencies and cores alone: the tasks of one instant are taken by their rows."""
    script = load_example("flowbench")
    for (workflow, _), runs in classes.items():
        run = runs[-1]
        twin = simulate(
            Scenario(
                platform="24x4" if workflow == "montage" else "20x4",
                workload=Workload.from_trace(run),
                policy="fcfs",
            )
        )
        jobs = [
            job._replace(before=0.0, start=0.0, after=0.0, takes_core=True)
            for job in script.list_jobs(run).values()
        ]
        assert twin.placements["end"].max() == script.schedule(jobs, script.count_cores(run))


def test_a_replay_of_normal_runs_is_within_the_noise(classes: dict[Key, list[Trace]]) -> None:
    """All runs are in verify/test_flowbench.py; here is a schedule of some normal ones."""
    script = load_example("flowbench")
    for run in classes["1000-genome", "normal"][:: every(8)]:
        makespan = run.manifest.facts["makespan"]
        replayed = script.replay(script.list_jobs(run), script.count_cores(run))
        assert replayed == pytest.approx(makespan, rel=0.0015)


def test_the_engine_replays_runs_within_the_noise(classes: dict[Key, list[Trace]]) -> None:
    """All runs and predictions are in verify/test_workflow_accuracy.py."""
    for key, runs in classes.items():
        for run in (runs[0], runs[-1]):
            scenario = workflow_scenario_of_run(run, cores=4)
            compiled = CompiledScenario(scenario)
            assert compiled.injected == ("run times", "start delays", "submission delays")
            makespan = compiled.run()["makespan_s"] + scenario.model.submission.after
            limit = CLASSES[key].ideal / 100 + 0.02
            assert makespan == pytest.approx(run.manifest.facts["makespan"], rel=limit)


def test_a_prediction_does_not_depend_on_the_times_of_its_run(
    classes: dict[Key, list[Trace]],
) -> None:
    run, *others = classes["1000-genome", "hdd_10"][:4]
    changed = run.replace(
        tasks=run.tasks.with_columns(pl.col("run_time", "cpu_time", "ready") * 2),
        placements=run.placements.with_columns(pl.col("start", "end") * 3),
        task_times=run.task_times.head(0),
        transfers=run.transfers.head(0),
    )
    one, two = (
        CompiledScenario(workflow_scenario_of_run(each, times=others, cores=4)).run_many(
            [{}], outputs=["task_start", "task_end"]
        )
        for each in (run, changed)
    )
    assert (one["task_start"] == two["task_start"]).all()
    assert (one["task_end"] == two["task_end"]).all()
