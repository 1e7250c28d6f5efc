"""Summary of workflows: hand-computed graphs and files, published tables, missing facts."""

import tarfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import twinloop as tl
from tests.cli.test_commands import answer, run
from twinloop.calibration.losses import WORKFLOW_LOSSES, list_unsupported_losses
from twinloop.trace import Manifest, Summary, Trace
from twinloop.trace.dependency_graph import compute_levels, list_dependencies
from twinloop.trace.workflow_summary import FileSummary, GraphSummary, list_missing_facts

# J. McDonald, dissertation (University of Hawai'i, 2026), Table 9.2: tasks, depth, and the largest
# sum of two adjacent levels, which is printed as "Max Width".
PUBLISHED = {
    "1000genome-chameleon-8ch-250k-001": (328, 3, 216),
    "blast-chameleon-medium-002": (303, 3, 302),
    "bwa-chameleon-large-003": (1004, 3, 1002),
    "cycles-chameleon-2l-2c-12p-001": (874, 4, 652),
    "epigenomics-chameleon-ilmn-4seq-50k-001": (1095, 9, 542),
    "rnaseq-dirt02-001": (197, 10, 121),
    "soykb-chameleon-10fastq-20ch-001": (156, 11, 121),
    "srasearch-chameleon-10a-003": (22, 3, 21),
    "viralrecon-dirt02-001": (203, 18, 52),
}


def diamond() -> Trace:
    """Four tasks a, (b, c), d with files; b has a start, c only a run time, d nothing."""
    return Trace(
        tasks=pl.DataFrame(
            {
                "id": ["a", "b", "c", "d"],
                "submit": [0.0] * 4,
                "run_time": [3.0, None, 0.0, None],
                "parents": [[], ["a"], ["a", "x"], ["b", "c"]],
            }
        ),
        placements=pl.DataFrame(
            {"task": ["a", "b"], "machine": ["n1", None], "start": [0.0, 3.0], "end": [3.0, 8.0]}
        ),
        files=pl.DataFrame({"file": ["in", "mid", "spare"], "size": [100.0, 0.0, 7.0]}),
        task_files=pl.DataFrame(
            [("a", "in", "read"), ("b", "in", "read"), ("a", "mid", "write"), ("b", "mid", "read")]
            + [("b", "out", "write")],
            schema=["task", "file", "access"],
            orient="row",
        ),
    )


def test_a_graph_by_hand() -> None:
    graph = GraphSummary.from_trace(diamond())
    assert graph.model_dump() == {
        "levels": 3, "width": 2, "dependencies": 4, "sources": 1, "sinks": 1, "blocked": 0,
    }  # fmt: skip


def test_a_cycle_is_on_no_level() -> None:
    tasks = pl.DataFrame({"id": ["a", "b", "c", "d"], "parents": [["b"], ["a"], ["b"], []]})
    graph = GraphSummary.from_trace(Trace(tasks=tasks))
    assert (graph.levels, graph.width, graph.blocked) == (1, 1, 3)


def test_files_by_hand() -> None:
    files = FileSummary.from_trace(diamond())
    assert (files.files, files.bytes) == (4, 107.0)
    assert (files.input_files, files.input_bytes) == (1, 100.0)
    assert (files.intermediate_files, files.intermediate_bytes) == (1, 0.0)
    assert (files.output_files, files.output_bytes) == (1, 0.0)
    assert (files.unused_files, files.unused_bytes) == (1, 7.0)
    assert (files.read_bytes, files.written_bytes) == (200.0, 0.0)
    assert (files.unknown_sizes, files.empty_files) == (1, 1)


def test_missing_facts_by_hand() -> None:
    assert list_missing_facts(diamond()) == {
        "tasks without run time": 1,
        "tasks with a run time of 0 s": 1,
        "tasks without start time": 2,
        "tasks without machine": 3,
        "tasks without files": 2,
        "files of unknown size": 1,
        "files of size 0": 1,
        "tasks with times in whole seconds": 3,
    }
    exact = diamond().replace(
        tasks=diamond().tasks.with_columns(run_time=pl.Series([3.0, 5.25, 1.0, 2.0]))
    )
    assert "tasks with times in whole seconds" not in list_missing_facts(exact)
    # A workload has no starts and no machines; a bag of tasks is no workflow.
    made = tl.generate("chain")
    assert list_missing_facts(made) == {}
    summary = Summary.from_trace(tl.generate("poisson", tasks=5))
    assert (summary.graph, summary.files, summary.missing) == (None, None, {})


def test_bytes_of_recorded_transfers_by_kind() -> None:
    transfers = pl.DataFrame(
        {"kind": ["write", "read", "read", None], "bytes": [5.0, 2.0, 1.0, None]}
    )
    summary = Summary.from_trace(diamond().replace(transfers=transfers))
    assert summary.transferred_bytes == {"write": 5.0, "read": 3.0, "unknown": 0.0}
    assert Summary.from_trace(diamond()).transferred_bytes == {}


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=40), st.integers(0, 9))
def test_levels_are_the_longest_paths(pairs: list[tuple[int, int]], seed: int) -> None:
    """The level of a task is the length of the longest path to it, also for shuffled rows."""
    order = np.random.default_rng(seed).permutation(13).tolist()
    edges = {(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]}
    parents = {row: [a for a, b in edges if b == row] for row in range(13)}
    tasks = pl.DataFrame(
        {"id": [str(row) for row in order], "parents": [[*map(str, parents[r])] for r in order]},
        schema={"id": pl.String, "parents": pl.List(pl.String)},
    )

    def longest(row: int) -> int:
        return max((1 + longest(parent) for parent in parents[row]), default=0)

    graph = list_dependencies(tasks)
    assert len(graph.parents) == len(edges)
    levels = compute_levels(graph.parents, graph.children, 13)
    assert levels.tolist() == [longest(row) for row in order]


def test_losses_of_a_log_with_run_times_only() -> None:
    """L1 and L2 need the makespan, L3 to L6 also run times; other losses need start times."""
    tasks = pl.DataFrame(
        {"id": ["a", "b"], "submit": [0.0] * 2, "run_time": [2.0, 3.0], "parents": [[], ["a"]]}
    )
    without = Trace(tasks=tasks)
    reasons = list_unsupported_losses(without)
    assert {reasons[name] for name in WORKFLOW_LOSSES} == {"the run has no makespan"}
    assert "mean-task" not in reasons
    stated = without.with_manifest(facts={"makespan": 6.0})
    reasons = list_unsupported_losses(stated)
    assert not reasons.keys() & set(WORKFLOW_LOSSES)
    assert reasons["matched"] == "the run has no ends of tasks"
    assert reasons["waits"] == "the run has no waits of tasks"
    assert reasons["mrea"] == "the run has no machines of tasks"
    placed = stated.replace(placements=pl.DataFrame({"task": ["a", "b"], "machine": ["n", "n"]}))
    assert "mrea" not in list_unsupported_losses(placed)
    zero = stated.replace(tasks=tasks.with_columns(run_time=pl.Series([2.0, 0.0])))
    reasons = list_unsupported_losses(zero)
    assert [name for name in WORKFLOW_LOSSES if name in reasons] == ["L3", "L4", "L5", "L6"]
    assert reasons["L3"].startswith("task 'b' of the run took 0 s")
    timed = without.replace(
        placements=pl.DataFrame(
            {"task": ["a", "b"], "machine": ["n", "n"], "start": [0.0, 3.0], "end": [2.0, 6.0]}
        )
    )
    assert not list_unsupported_losses(timed).keys() & {*WORKFLOW_LOSSES, "matched", "waits"}


def test_the_command_describes_a_workflow(tmp_path: Path) -> None:
    diamond().with_manifest(facts={"makespan": 8.0}).save(tmp_path / "diamond")
    text = run("inspect", tmp_path / "diamond", "--format", "trace").stdout
    for line in (
        "3 tasks with dependencies",
        "depth 3 levels, largest level 2 tasks, 4 dependencies, 1 source, 1 sink",
        "107 B of data in 4 files: input 100 B in 1, intermediate 0 B in 1, output 0 B in 1,",
        "tasks read 200 B, write 0 B",
        "files of size 0: 1;",
        "supported losses of workflows: L1, L2",
    ):
        assert line in text
    document = answer("inspect", tmp_path / "diamond")
    assert document["summary"]["graph"]["levels"] == 3
    assert document["summary"]["files"]["input_bytes"] == 100.0
    assert document["summary"]["missing"]["files of size 0"] == 1
    assert "L1" not in document["unsupported_losses"]
    tl.generate("chain").save(tmp_path / "chain")
    assert answer("inspect", tmp_path / "chain")["unsupported_losses"] is None


@pytest.mark.realdata
@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_table(real_data: Path, name: str) -> None:
    trace = tl.read(real_data / "workflows" / f"{name}.json.gz")
    graph = GraphSummary.from_trace(trace)
    tasks, depth, adjacent = PUBLISHED[name]
    assert (trace.tasks.height, graph.levels) == (tasks, depth)
    edges = list_dependencies(trace.tasks)
    sizes = np.bincount(compute_levels(edges.parents, edges.children, tasks))
    assert (sizes[:-1] + sizes[1:]).max() == adjacent
    assert graph.width == sizes.max()
    if name.startswith("1000genome"):
        assert round(FileSummary.from_trace(trace).bytes / 1e9, 2) == 27.86


@pytest.mark.realdata
def test_facts_of_the_repeated_runs(real_data: Path) -> None:
    """Run times and machines, no start times; 99 files of size 0."""
    trace = tl.read(real_data / "workflows" / "accuracy" / "montage-m5xlarge-001.json.gz")
    summary = Summary.from_trace(trace)
    assert summary.missing["files of size 0"] == 99
    assert summary.missing["tasks without start time"] == trace.tasks.height == 1240
    reasons = list_unsupported_losses(trace)
    # 25 tasks took 0 s, so that their relative error is undefined.
    assert summary.missing["tasks with a run time of 0 s"] == 25
    assert [name for name in WORKFLOW_LOSSES if name not in reasons] == ["L1", "L2"]
    assert reasons["matched"] == "the run has no ends of tasks"


@pytest.mark.realdata
def test_a_run_of_flowbench_supports_all_losses_of_workflows(
    real_data: Path, tmp_path: Path
) -> None:
    """1000Genome: 137 jobs with times in whole seconds, staged bytes, and no files."""
    name = "normal/1000-genome-run0009.csv"
    with tarfile.open(real_data / "flowbench" / "genome_montage_runs.tar.gz") as archive:
        (tmp_path / "run.csv").write_bytes(archive.extractfile(f"./{name}").read())
    trace = tl.read(tmp_path / "run.csv", dag=real_data / "flowbench" / "dag_1000genome.json.gz")
    summary = Summary.from_trace(trace)
    assert summary.missing == {
        "tasks without files": 137, "tasks with times in whole seconds": 137,
    }  # fmt: skip
    assert set(summary.transferred_bytes) == {"read", "write"}
    assert not list_unsupported_losses(trace).keys() & set(WORKFLOW_LOSSES)


def test_a_stated_makespan_does_not_replace_a_recorded_one() -> None:
    from twinloop.calibration.run_columns import RunColumns

    trace = Trace(
        tasks=pl.DataFrame({"id": ["a"], "submit": [0.0], "run_time": [9.0]}),
        placements=pl.DataFrame({"task": ["a"], "start": [1.0], "end": [3.0]}),
        manifest=Manifest(facts={"makespan": 100.0}),
    )
    columns = RunColumns.of(trace, ["a"], [])
    assert (columns.makespan, columns.run_time.tolist()) == (3.0, [2.0])
    bare = trace.replace(placements=trace.placements.clear())
    columns = RunColumns.of(bare, ["a"], [])
    assert (columns.makespan, columns.run_time.tolist()) == (100.0, [9.0])
    assert np.isnan(columns.start).all()
