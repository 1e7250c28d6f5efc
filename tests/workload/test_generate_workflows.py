"""Generators of workflows: the table of the benchmarks, and laws of scaled workflows."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import twinloop as tl
from tests.examples import every, examples
from twinloop.description import InputError
from twinloop.trace import Trace
from twinloop.trace.dependency_graph import compute_levels, list_dependencies
from twinloop.workload import Workload
from twinloop.workload.generators import Chain, ForkJoin, Recipe, make_generator
from twinloop.workload.generators.workflow_scaling import count_copies
from twinloop.workload.generators.workflow_shape import Shape, find_types

# J. McDonald, dissertation (University of Hawai'i, 2026), Table 5.1.
SIZES, FOOTPRINTS = (10, 25, 50), (0, 150, 1500)
WORK = {
    "chain": (0.83, 1.36, 1.85, 5.74, 48.94),
    "fork-join": (0.84, 1.39, 2.05, 7.61, 70.76),
}
INSTANCES = (
    *("1000genome-chameleon-8ch-250k-001", "blast-chameleon-medium-002"),
    *("epigenomics-chameleon-ilmn-4seq-50k-001", "rnaseq-dirt02-001"),
    *("soykb-chameleon-10fastq-20ch-001", "srasearch-chameleon-10a-003"),
    *("viralrecon-dirt02-001", "bwa-chameleon-large-003", "cycles-chameleon-2l-2c-12p-001"),
)


def measure_depth(tasks: pl.DataFrame) -> int:
    graph = list_dependencies(tasks)
    return 1 + int(compute_levels(graph.parents, graph.children, tasks.height).max())


def count_structure(trace: Trace) -> Counter[tuple[str, tuple[str, ...]]]:
    """Count the tasks by their type and the sorted types of their parents."""
    tasks = trace.tasks
    kinds = dict(zip(tasks["id"], find_types(tasks), strict=True))
    return Counter(
        (kinds[task], tuple(sorted(kinds[parent] for parent in parents if parent in kinds)))
        for task, parents in tasks.select("id", "parents").rows()
    )


def list_ancestors(tasks: pl.DataFrame) -> dict[str, set[str]]:
    """List all ancestors of each task by repetition, without the code under test."""
    parents = {task: set(names) for task, names in tasks.select("id", "parents").rows()}
    found: dict[str, set[str]] = {}

    def collect(task: str) -> set[str]:
        if task not in found:
            found[task] = set()  # a cycle would be found as a task below itself
            above = [collect(parent) | {parent} for parent in parents[task]]
            found[task] = set().union(*above)
        return found[task]

    for task in parents:
        collect(task)
    return found


def check_laws(made: Trace, instance: Trace) -> None:
    """Check what every scaled workflow has in common with its instance."""
    assert measure_depth(made.tasks) == measure_depth(instance.tasks)
    one, other = count_structure(made), count_structure(instance)
    assert {kind for kind, _ in one} == {kind for kind, _ in other}
    # No task has parents of types that no task of its type has in the instance.
    sets = [{(kind, frozenset(above)) for kind, above in each} for each in (one, other)]
    assert sets[0] == sets[1]
    above = list_ancestors(made.tasks)
    assert all(task not in ancestors for task, ancestors in above.items())
    uses = made.task_files
    writers: dict[str, str] = {}
    for task, file in uses.filter(pl.col("access") == "write").select("task", "file").rows():
        assert writers.setdefault(file, task) == task  # one writer
    for task, file in uses.filter(pl.col("access") == "read").select("task", "file").rows():
        assert file not in writers or writers[file] in above[task]
    assert uses.n_unique() == uses.height
    assert set(uses["file"]) == set(made.files["file"])
    assert made.files["file"].n_unique() == made.files.height
    assert made.tasks["id"].n_unique() == made.tasks.height


@pytest.mark.parametrize("name", WORK)
@pytest.mark.parametrize("tasks", SIZES)
@pytest.mark.parametrize("footprint", FOOTPRINTS)
def test_the_benchmarks_of_the_table(name: str, tasks: int, footprint: int) -> None:
    """All combinations have exactly the number of tasks, the work and the footprint."""
    for work in WORK[name]:
        parameters: dict[str, Any] = {"tasks": tasks, "work": work, "footprint": f"{footprint} MB"}
        made = make_generator(name, **parameters, resolution="exact").generate(1)
        assert made.tasks["run_time"].to_list() == [work] * tasks
        assert made.tasks["requested_cores"].to_list() == [1.0] * tasks
        assert made.files["size"].sum() == footprint * 1e6
        assert measure_depth(made.tasks) == (tasks if name == "chain" else 3)
        check_laws(made, made)


@given(name=st.sampled_from(list(WORK)), tasks=st.integers(3, 40), footprint=st.integers(0, 2**53))
def test_the_sizes_of_files_sum_to_the_footprint(name: str, tasks: int, footprint: int) -> None:
    sizes = make_generator(name, tasks=tasks, footprint=footprint).generate(1).files["size"]
    assert sum(int(size) for size in sizes) == footprint  # without rounding of the sum
    assert sizes.max() - sizes.min() <= 1
    assert sizes.len() == (tasks + 1 if name == "chain" else 2 * (tasks - 2) + 2)


def test_the_spread_of_the_work() -> None:
    made = Chain(tasks=4000, work=10, cv=0.5, resolution="exact").generate(3).tasks["run_time"]
    assert made.mean() == pytest.approx(10, rel=5 * 0.5 / 4000**0.5)
    assert made.std() / made.mean() == pytest.approx(0.5, rel=0.1)


@pytest.mark.parametrize(
    ("name", "parameters", "says"),
    [
        ("chain", {"footprint": "150 apples"}, "chain.footprint: '150 apples': 'apples' is not a"),
        ("chain", {"footprint": 0.5}, "must be a whole number of bytes"),
        ("chain", {"footprint": -1}, "chain.footprint"),
        ("chain", {"work": 0}, "chain.work"),
        ("fork-join", {"tasks": 2}, "fork-join.tasks: 2"),
        ("recipe", {"instance": 7}, "recipe.instance: 7: must be a path, or a Trace"),
        ("recipe", {"instance": "trace:00"}, "was a Trace in memory"),
    ],
)
def test_an_invalid_parameter_is_an_error(name: str, parameters: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError) as error:
        make_generator(name, **parameters)
    assert says in str(error.value)


def lanes(counts: list[int]) -> Trace:
    """A workflow of lanes: split, branches of two tasks, a merge each; one start and one end."""
    parents: dict[str, list[str]] = {"start_1": []}
    uses = [("start_1", "raw", "read"), ("start_1", "index", "write")]
    for lane, branches in enumerate(counts, start=1):
        parents[f"split_{lane}"] = ["start_1"]
        uses += [(f"split_{lane}", "index", "read"), (f"split_{lane}", f"lane{lane}.txt", "read")]
        for number in range(branches):
            branch = f"{lane}{number:02}"
            parents[f"filter_{branch}"] = [f"split_{lane}"]
            parents[f"map_{branch}"] = [f"filter_{branch}"]
            uses += [
                (f"split_{lane}", f"part{branch}", "write"),
                (f"filter_{branch}", f"part{branch}", "read"),
                (f"filter_{branch}", f"clean{branch}", "write"),
                (f"map_{branch}", f"clean{branch}", "read"),
                (f"map_{branch}", f"mapped{branch}", "write"),
                (f"merge_{lane}", f"mapped{branch}", "read"),
            ]
        parents[f"merge_{lane}"] = [f"map_{lane}{number:02}" for number in range(branches)]
        uses += [(f"merge_{lane}", f"merged{lane}", "write"), ("end_1", f"merged{lane}", "read")]
    parents["end_1"] = [f"merge_{lane + 1}" for lane in range(len(counts))]
    uses.append(("end_1", "result", "write"))
    files = list(dict.fromkeys(file for _, file, _ in uses))
    return Trace(
        tasks=pl.DataFrame(
            {
                "id": list(parents),
                "submit": [0.0] * len(parents),
                "run_time": [float(row + 1) for row in range(len(parents))],
                "parents": list(parents.values()),
            }
        ),
        files=pl.DataFrame({"file": files, "size": [float(len(file)) for file in files]}),
        task_files=pl.DataFrame(uses, schema=["task", "file", "access"], orient="row"),
    )


def test_branches_stay_apart() -> None:
    """Twice the tasks of two lanes of three branches: four lanes of three branches."""
    instance = lanes([3, 3])
    shape = Shape.of(instance.tasks)
    assert shape.depth == 6
    groups = sorted(sorted({shape.types[shape.members[n][0]] for n in g}) for g in shape.groups)
    assert groups == [["end"], ["filter", "map"], ["merge", "split"], ["start"]]
    made = Recipe(instance=instance, tasks=2 * 16 + 2).generate(1)
    check_laws(made, instance)
    assert count_structure(made) == {
        ("start", ()): 1,
        ("split", ("start",)): 4,
        ("filter", ("split",)): 12,
        ("map", ("filter",)): 12,
        ("merge", ("map",) * 3): 4,
        ("end", ("merge",) * 4): 1,
    }
    # Half of it has one lane; each lane has the branches below its own split.
    half = Recipe(instance=instance, tasks=10).generate(1)
    assert count_structure(half)["merge", ("map",) * 3] == 1
    above = list_ancestors(made.tasks)
    merges = [task for task in above if task.startswith("merge")]
    assert [sum(a.startswith("split") for a in above[merge]) for merge in merges] == [1] * 4
    # The part that a branch reads is its own; the index is one for all.
    read = made.task_files.filter(access="read")
    parts = read.filter(pl.col("task").str.starts_with("filter"))
    assert parts["file"].n_unique() == parts.height == 12
    assert read.filter(pl.col("file").str.starts_with("index"))["file"].n_unique() == 1


@given(
    counts=st.lists(st.integers(1, 6), min_size=1, max_size=5),
    tasks=st.integers(1, 120),
    seed=st.integers(0, 1000),
)
def test_laws_of_scaled_workflows(counts: list[int], tasks: int, seed: int) -> None:
    instance = lanes(counts)
    smallest = len(Shape.of(instance.tasks).members)
    recipe = Recipe(instance=instance, tasks=tasks)
    if tasks < smallest:
        with pytest.raises(InputError, match=f"the smallest workflow .* has {smallest} tasks"):
            recipe.generate(seed)
        return
    made = recipe.generate(seed)
    check_laws(made, instance)
    assert recipe.generate(seed) == made
    notes = [note for note in made.manifest.cleaned if "nearest" in note.what]
    assert bool(notes) == (made.tasks.height != tasks)
    sizes = [len(numbers) for numbers in Shape.of(instance.tasks).groups]
    assert abs(made.tasks.height - tasks) <= max(sizes) or max(counts) == len(counts) == 1


@given(
    edges=st.lists(st.tuples(st.integers(0, 14), st.integers(0, 14)), min_size=1, max_size=40),
    kinds=st.lists(st.sampled_from("ab"), min_size=15, max_size=15),
    tasks=st.integers(15, 45),
)
@examples(40)
def test_laws_of_workflows_without_any_order(
    edges: list[tuple[int, int]], kinds: list[str], tasks: int
) -> None:
    """Any graph: edges go from smaller to larger numbers, and each carries a file."""
    edges = sorted({(min(edge), max(edge)) for edge in edges if edge[0] != edge[1]})
    if not edges:
        return
    ids = [f"{kind}_{row}" for row, kind in enumerate(kinds)]
    parents = [[ids[a] for a, b in edges if b == row] for row in range(15)]
    uses = [
        use
        for a, b in edges
        for use in ((ids[a], f"f{a}", "write"), (ids[b], f"f{a}", "read"), (ids[b], "in", "read"))
    ]
    instance = Trace(
        tasks=pl.DataFrame({"id": ids, "submit": [0.0] * 15, "parents": parents}),
        task_files=pl.DataFrame(
            list(dict.fromkeys(uses)), schema=["task", "file", "access"], orient="row"
        ),
    )
    same = Recipe(instance=instance).generate(1)
    assert count_structure(same) == count_structure(instance)
    assert same.task_files.height == instance.task_files.height
    made = Recipe(instance=instance, tasks=tasks).generate(1)
    check_laws(made, instance)


def test_copied_values_of_the_same_size_are_those_of_the_instance() -> None:
    instance = lanes([2, 3, 1])
    made = Recipe(instance=instance, values="copied").generate(1)
    assert count_structure(made) == count_structure(instance)
    assert sorted(made.tasks["run_time"]) == sorted(instance.tasks["run_time"])
    assert made.files.sort("file").equals(instance.files.sort("file"))
    assert Counter(made.task_files.select("file", "access").rows()) == Counter(
        instance.task_files.select("file", "access").rows()
    )


def test_values_are_drawn_from_those_of_the_type() -> None:
    instance = lanes([20, 20])
    made = Recipe(instance=instance, tasks=2000).generate(1)
    for trace in (made, instance):
        assert trace.tasks["run_time"].null_count() == 0
    values = {}
    for trace, name in ((made, "made"), (instance, "instance")):
        kinds = find_types(trace.tasks)
        values[name] = trace.tasks.select("run_time", kind=pl.Series(kinds))
    for kind in ("split", "filter", "map", "merge"):
        drawn, known = (
            set(values[name].filter(kind=kind)["run_time"]) for name in ("made", "instance")
        )
        assert drawn <= known
        assert len(drawn) > 0.9 * len(known)
    assert values["made"].filter(kind="map")["run_time"].mean() == pytest.approx(
        values["instance"].filter(kind="map")["run_time"].mean(), rel=0.05
    )


def test_other_streams_do_not_change() -> None:
    """Sizes of files do not depend on the run times, and structure on neither."""
    instance = lanes([3, 3])
    shorter = instance.replace(tasks=instance.tasks.with_columns(pl.col("run_time") / 7))
    one, other = (Recipe(instance=each, tasks=60).generate(5) for each in (instance, shorter))
    assert one.files.equals(other.files)
    assert one.tasks["parents"].equals(other.tasks["parents"])


def test_the_number_of_copies_is_exact_where_the_groups_allow_it() -> None:
    shape = Shape.of(lanes([3, 3]).tasks)  # groups of two lanes and six branches, two classes each
    for tasks in range(6, 100):
        total = sum(count_copies(shape, tasks))
        assert total == (tasks if tasks % 2 == 0 else total)
        assert abs(total - tasks) <= 1


def test_a_chain_cannot_be_scaled() -> None:
    chain = Chain(tasks=4).generate(1)
    made = Recipe(instance=chain, tasks=9).generate(1)
    assert made.tasks.height == 4
    assert [str(note) for note in made.manifest.cleaned] == [
        "assumed 4: tasks of the workflow, the nearest to 9 that its shape allows"
    ]


def test_a_recipe_needs_a_workflow(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"recipe\.instance: is missing"):
        Recipe(tasks=5).generate(1)
    with pytest.raises(InputError, match="has no dependencies between tasks"):
        Recipe(instance=tl.generate("poisson", tasks=5)).generate(1)
    ring = Trace(tasks=pl.DataFrame({"id": ["a", "b"], "parents": [["b"], ["a"]]}))
    with pytest.raises(InputError, match="wait for each other"):
        Recipe(instance=ring).generate(1)
    with pytest.raises(InputError, match="does not exist"):
        Recipe(instance=tmp_path / "nowhere.json").generate(1)


def test_files_that_are_written_too_late_are_inputs() -> None:
    """A reader that does not wait for the writer, two writers, and files without a use."""
    instance = Trace(
        tasks=pl.DataFrame(
            {"id": ["a_1", "b_1", "b_2"], "submit": [0.0] * 3, "parents": [[], ["a_1"], ["a_1"]]}
        ),
        files=pl.DataFrame({"file": ["late", "twice", "unused"], "size": [1.0, 2.0, 3.0]}),
        task_files=pl.DataFrame(
            [("b_1", "late", "write"), ("b_2", "late", "read")]
            + [("b_1", "twice", "write"), ("b_2", "twice", "write"), ("c_1", "twice", "read")],
            schema=["task", "file", "access"],
            orient="row",
        ),
    )
    made = Recipe(instance=instance, tasks=7).generate(1)
    check_laws(made, instance)
    notes = " ".join(str(note) for note in made.manifest.cleaned)
    assert "further tasks of the instance that write a file (twice)" in notes
    assert "uses of files by tasks that the instance does not have (twice)" in notes
    assert "files of the instance that no task uses (unused)" in notes
    assert "writers of files that do not precede a reader: inputs (late" in notes


def test_a_recipe_can_be_generated_again_from_its_manifest(tmp_path: Path) -> None:
    flow = lanes([2, 2]).save(tmp_path / "flow.trace")
    made = Recipe(instance=str(flow), tasks=30).generate(4)
    kept = Trace.load(made.save(tmp_path / "made.trace"))
    assert kept == made
    said = kept.manifest.facts["generator"]
    assert make_generator(said["name"], **said["parameters"]).generate(kept.manifest.seed) == made
    # From the same workflow in memory, only the note on its origin differs.
    again = Recipe(instance=Trace.load(flow), tasks=30).generate(4)
    assert again.tasks.equals(made.tasks)
    assert again.manifest.facts["instance"] == made.manifest.facts["instance"]
    with pytest.raises(InputError, match="was a Trace in memory"):
        Recipe(**again.manifest.facts["generator"]["parameters"])


def test_a_scenario_names_the_instance_relative_to_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lanes([2, 2]).save(tmp_path / "data" / "flow.trace")
    parameters = {"instance": "data/flow.trace", "tasks": 30}
    text = {
        "platform": "1x4",
        "workload": {"generate": {"name": "recipe", "parameters": parameters}},
        "policy": "fcfs",
    }
    file = tmp_path / "scenarios" / "scenario.yaml"
    file.parent.mkdir()
    file.write_text(json.dumps(text).replace("data/flow", "../data/flow"))
    scenario = tl.load(Path("scenarios", "scenario.yaml"))
    expected = "scenarios/../data/flow.trace"
    assert scenario.workload.generate.parameters["instance"] == expected
    Path("more").mkdir()
    again = scenario.save(Path("more", "again.yaml"))
    assert "instance: ../data/flow.trace" in again.read_text()
    assert tl.simulate(tl.load(again)).tasks.equals(tl.simulate(scenario).tasks)
    run = tl.simulate(scenario)
    assert run.tasks.height == 30
    assert run.manifest.scenario is not None
    assert list(run.manifest.scenario["inputs"]) == [f"{expected}/manifest.json"]
    with pytest.raises(InputError, match="'instance' must be a path"):
        tl.Scenario.from_dict({**text, "workload": {"generate": {
            "name": "recipe", "parameters": {"instance": lanes([1])}}}})  # fmt: skip


def test_generated_workflows_are_workloads_with_files() -> None:
    made = ForkJoin(tasks=6, footprint=600).generate(1)
    workload = Workload.from_trace(made)
    assert workload.files["size"].sum() == 600
    assert workload.task_files.height == made.task_files.height


@pytest.mark.realdata
@pytest.mark.parametrize("name", INSTANCES[:: every(2)])
def test_laws_for_real_workflows(real_data: Path, name: str) -> None:
    instance = tl.read(real_data / "workflows" / f"{name}.json.gz")
    same = Recipe(instance=instance).generate(1)
    assert count_structure(same) == count_structure(instance)
    assert same.files.height == instance.files.height
    assert same.task_files.height == instance.task_files.height
    check_laws(same, instance)
    smallest = len(Shape.of(instance.tasks).members)
    for tasks in {smallest, instance.tasks.height * 3 // 2}:
        made = Recipe(instance=instance, tasks=tasks).generate(1)
        assert abs(made.tasks.height - tasks) <= 1
        check_laws(made, instance)
