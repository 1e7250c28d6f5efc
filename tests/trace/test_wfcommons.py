"""Workflow instances: the published table, both generations of the format, and broken graphs."""

import copy
import json
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from twinloop.description.errors import InputError
from twinloop.description.files import read_first_bytes
from twinloop.trace.formats.clock import parse_unix_us
from twinloop.trace.formats.wfcommons import FORMAT, read, reader
from twinloop.trace.trace import Trace

# J. McDonald, dissertation (University of Hawai'i, 2026), Table 9.2: tasks, work in minutes, files,
# footprint in bytes, depth. The footprint printed for 1000Genomes (24.72 GB) is not that of the
# published instance.
PUBLISHED = {
    "1000genome-chameleon-8ch-250k-001": (328, 6 * 60 + 2, 352, None, 3),
    "blast-chameleon-medium-002": (303, 8 * 60 + 45, 907, 471.79e3, 3),
    "bwa-chameleon-large-003": (1004, 3 * 60 + 44, 3012, 56.79e6, 3),
    "cycles-chameleon-2l-2c-12p-001": (874, 5 * 60 + 13, 6930, 6.18e9, 4),
    "epigenomics-chameleon-ilmn-4seq-50k-001": (1095, 5 * 60 + 40, 1370, 8.26e9, 9),
    "rnaseq-dirt02-001": (197, 43, 680, 290.80e6, 10),
    "soykb-chameleon-10fastq-20ch-001": (156, 6 * 60 + 47, 321, 2.83e9, 11),
    "srasearch-chameleon-10a-003": (22, 5 * 60 + 16, 48, 16.51e9, 3),
    "viralrecon-dirt02-001": (203, 42, 877, 270.79e6, 18),
}

NEW: dict[str, Any] = {
    "name": "tiny",
    "schemaVersion": "1.5",
    "workflow": {
        "specification": {
            "tasks": [
                {
                    "name": "split",
                    "id": "a",
                    "parents": [],
                    "children": ["b"],
                    "inputFiles": ["in"],
                    "outputFiles": ["mid"],
                },
                {
                    "name": "join",
                    "id": "b",
                    "parents": ["a"],
                    "children": [],
                    "inputFiles": ["mid"],
                    "outputFiles": ["out"],
                },
            ],
            "files": [{"id": "in", "sizeInBytes": 5}, {"id": "mid", "sizeInBytes": 7}],
        },
        "execution": {
            "makespanInSeconds": 40,
            "executedAt": "2024-01-01T00:00:00Z",
            "tasks": [
                {
                    "id": "a",
                    "runtimeInSeconds": 30.0,
                    "avgCPU": 150.0,
                    "coreCount": 2,
                    "memoryInBytes": 1000,
                    "machines": ["n1"],
                    "command": {"program": "sh"},
                    "executedAt": "2024-01-01T00:00:05Z",
                },
                {"id": "b", "runtimeInSeconds": 10.0},
            ],
            "machines": [
                {
                    "nodeName": "n1",
                    "memoryInBytes": 64,
                    "cpu": {"coreCount": 4, "speedInMHz": 2400},
                }
            ],
        },
    },
}
OLD: dict[str, Any] = {
    "name": "tiny",
    "schemaVersion": "1.3",
    "workflow": {
        "makespan": 40,
        "executedAt": "20240101T000000+0000",
        "tasks": [
            {
                "name": "a_ID1",
                "id": "ID1",
                "runtime": 30.0,
                "avgCPU": 150.0,
                "cores": 2,
                "memory": 1.0,
                "machine": "n1",
                "parents": [],
                "files": [
                    {"link": "input", "name": "in", "size": 5},
                    {"link": "output", "name": "mid", "size": 7},
                ],
            },
            {
                "name": "b_ID2",
                "id": "ID2",
                "runtime": 10.0,
                "parents": ["a_ID1"],
                "files": [{"link": "input", "name": "mid", "size": 7}],
            },
        ],
        "machines": [{"nodeName": "n1", "memory": 8, "cpu": {"count": 4, "speed": 2400}}],
    },
}


def document(path: Path, content: object) -> Path:
    file = path / "flow.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content, indent=1))
    return file


def count(trace: Trace, words: str) -> int:
    return sum(note.count for note in trace.manifest.cleaned if words in note.what)


def changed(base: dict[str, Any], *path: Any, value: Any) -> dict[str, Any]:
    result = copy.deepcopy(base)
    place: Any = result
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return result


@pytest.mark.realdata
@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_table(real_data: Path, name: str) -> None:
    file = real_data / "workflows" / f"{name}.json.gz"
    assert FORMAT.recognises(file, read_first_bytes(file))
    trace = read(file)
    tasks, minutes, files, footprint, depth = PUBLISHED[name]
    assert trace.tasks.height == tasks
    assert trace.files.height == files
    assert int(trace.tasks["run_time"].sum() // 60) == minutes
    if footprint is not None:
        # Printed to two decimals of its unit.
        assert float(trace.files["size"].sum()) == pytest.approx(footprint, rel=2e-3)
    assert trace.files["size"].null_count() == count(trace, "files of unknown size") == 0
    parents = dict(trace.tasks.select("id", "parents").rows())

    @cache
    def longest(task: str) -> int:
        return 1 + max((longest(parent) for parent in parents[task]), default=0)

    assert max(map(longest, parents)) == depth
    assert trace.tasks["submit"].unique().to_list() == [0.0]
    assert set(trace.task_files["task"]) <= set(trace.tasks["id"])
    assert set(trace.task_files["file"]) <= set(trace.files["file"])


@pytest.mark.realdata
def test_repeated_runs_in_the_oldest_version(real_data: Path) -> None:
    folder = real_data / "workflows" / "accuracy"
    spans = [
        read(folder / f"montage-m5xlarge-00{run}.json.gz").manifest.facts["makespan"]
        for run in range(1, 6)
    ]
    assert (min(spans), max(spans)) == (2868, 2984)
    genome = read(folder / "exogeni-1000genome-001.json")
    assert genome.tasks.height == 71
    assert genome.manifest.facts["makespan"] == 1869
    assert genome.nodes["cores"].to_list() == [4.0] * 5


def test_the_new_form(tmp_path: Path) -> None:
    trace = read(document(tmp_path, NEW))
    assert trace.tasks.select(
        "id", "name", "run_time", "requested_cores", "cpu_time", "memory_used", "parents"
    ).rows() == [
        ("a", "sh", 30.0, 2.0, 45.0, 1000.0, []),
        ("b", "join", 10.0, None, None, None, ["a"]),
    ]
    assert trace.placements.select("task", "machine", "cores", "start", "end").rows() == [
        ("a", "n1", 2.0, 5.0, 35.0)
    ]
    assert trace.nodes.select("node", "cores", "mhz", "memory").row(0) == ("n1", 4.0, 2400.0, 64.0)
    assert trace.files.select("file", "size").rows() == [("in", 5.0), ("mid", 7.0), ("out", None)]
    assert trace.task_files.rows() == [
        ("a", "in", "read"),
        ("a", "mid", "write"),
        ("b", "mid", "read"),
        ("b", "out", "write"),
    ]
    assert count(trace, "files of unknown size") == 1
    assert trace.manifest.epoch_ms == 1_704_067_200_000


def test_the_old_form(tmp_path: Path) -> None:
    trace = read(document(tmp_path, OLD))
    assert trace.tasks.select("id", "run_time", "cpu_time", "memory_used", "parents").rows() == [
        ("a_ID1", 30.0, 45.0, 1000.0, []),
        ("b_ID2", 10.0, None, None, ["a_ID1"]),
    ]
    assert trace.nodes["memory"].to_list() == [8000.0]
    assert trace.files.select("file", "size").rows() == [("in", 5.0), ("mid", 7.0)]
    assert trace.manifest.epoch_ms == 1_704_067_200_000
    by_id = changed(OLD, "workflow", "tasks", 1, "parents", value=["ID1"])
    assert read(document(tmp_path, by_id)).tasks["parents"][1].to_list() == ["a_ID1"]


def test_dependencies_named_by_one_side_only(tmp_path: Path) -> None:
    spec = ("workflow", "specification", "tasks")
    no_child = changed(NEW, *spec, 0, "children", value=[])
    no_parent = changed(NEW, *spec, 1, "parents", value=[])
    for content in (no_child, no_parent):
        trace = read(document(tmp_path, content))
        assert trace.tasks["parents"].to_list() == [[], ["a"]]
        assert count(trace, "only one of the two tasks") == 1
    stranger = changed(NEW, *spec, 1, "parents", value=["a", "z"])
    trace = read(document(tmp_path, stranger))
    assert trace.tasks["parents"].to_list() == [[], ["a", "z"]]
    assert count(trace, "parents that are not tasks") == 1


def test_a_cycle_is_named(tmp_path: Path) -> None:
    content = changed(NEW, "workflow", "specification", "tasks", 0, "parents", value=["b"])
    with pytest.raises(InputError, match=r"wait for each other: (a -> b -> a|b -> a -> b)"):
        read(document(tmp_path, content))


@pytest.mark.long
def test_the_dates_of_a_large_workflow_are_parsed_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 40_000
    parts = [f"p{number}" for number in range(count)]
    tasks = [{"name": name, "id": name, "children": ["join"]} for name in parts]
    ran = [{"id": name, "executedAt": f"20240101T0000{n % 60:02}Z"} for n, name in enumerate(parts)]
    content = changed(
        NEW, "workflow", "specification", "tasks", value=[*tasks, {"name": "join", "id": "join"}]
    )
    content = changed(content, "workflow", "execution", "tasks", value=ran)
    parsed: list[int] = []

    def counting(text: pl.Series) -> pl.Series:
        parsed.append(text.len())
        return parse_unix_us(text)

    monkeypatch.setattr(reader, "parse_unix_us", counting)
    trace = read(document(tmp_path, content))
    assert sorted(trace.tasks["parents"][-1]) == sorted(parts)
    assert trace.placements["start"].to_list() == [float(n % 60) for n in range(count)]
    # All dates of the tasks at once, and that of the workflow.
    assert parsed == [1, count + 1]


def test_invalid_dates_are_counted_and_named(tmp_path: Path) -> None:
    there = ("workflow", "execution", "tasks")
    number = next(
        n for n, t in enumerate(NEW["workflow"]["execution"]["tasks"]) if "executedAt" in t
    )
    content = changed(NEW, *there, number, "executedAt", value="20240132T000000Z")
    assert count(read(document(tmp_path, content)), "dates that cannot be read") == 1
    where = rf"tasks\[{number}\]\.executedAt: '20240132T000000Z' is not a date and time"
    with pytest.raises(InputError, match=where):
        read(document(tmp_path, content), strict=True)


def test_a_repeated_name_in_a_large_object_is_found(tmp_path: Path) -> None:
    names = [f'"n{number}": 0' for number in range(100_000)]
    path = tmp_path / "flow.json"
    path.write_text("{" + ", ".join([*names, names[-1]]) + "}")
    with pytest.raises(InputError, match="n99999: occurs twice"):
        read(path)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("workflow", "specification", "tasks", 1, "id"), "a", "two tasks are called 'a'"),
        (("workflow", "specification", "files", 1, "id"), "in", "'in' is listed twice"),
        (("workflow", "execution", "tasks", 1, "id"), "a", "'a' is listed twice"),
        (("workflow", "specification", "tasks", 1, "id"), 7, r"tasks\[1\]\.id: 7 is not text"),
        (("workflow", "specification", "tasks", 1, "parents"), "a", "parents: is not a list"),
        (("workflow", "specification", "tasks", 0), 3, r"tasks\[0\]: is not an object"),
        (("workflow", "specification", "tasks"), [], "has no task"),
        (("workflow",), None, "workflow: is not an object"),
        (("workflow", "specification", "tasks", 1, "name"), "\ud800", "not valid Unicode"),
    ],
)
def test_invalid_workflows_are_refused(tmp_path: Path, path: Any, value: Any, words: str) -> None:
    content = changed(NEW, *path, value=value)
    with pytest.raises(InputError, match=words) as error:
        read(document(tmp_path, content))
    assert "flow.json" in str(error.value)


@pytest.mark.parametrize("value", ["fast", -1, True, [], 1e300])
def test_invalid_numbers_are_unknown_and_counted(tmp_path: Path, value: Any) -> None:
    content = changed(NEW, "workflow", "execution", "tasks", 0, "runtimeInSeconds", value=value)
    file = document(tmp_path, content)
    trace = read(file)
    assert trace.tasks["run_time"].to_list() == [None, 10.0]
    assert count(trace, "values of runtimeInSeconds") == 1
    with pytest.raises(InputError, match=r"execution\.tasks\[0\]\.runtimeInSeconds"):
        read(file, strict=True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"workflow": {\n"tasks": [}', r"flow\.json:2: is not valid JSON"),
        ("", "is not valid JSON"),
        ('{"workflow": {"tasks": [], "tasks": []}}', "tasks: occurs twice"),
        ('{"workflow": {"makespan": NaN}}', "NaN is not a number"),
        ('{"workflow": ' + "[" * 100_000, "cannot be read as JSON"),
        ('{"workflow": ' + "9" * 5000 + "}", "cannot be read as JSON"),
        ("[1]", "is not an object"),
    ],
)
def test_invalid_json_is_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read(document(tmp_path, text))


def test_ignored_fields_are_listed_in_the_order_of_the_file(tmp_path):
    names = [f"field {index}" for index in range(20)]
    document = copy.deepcopy(NEW)
    document["workflow"]["specification"]["tasks"][0] |= dict.fromkeys(names, 1)
    (tmp_path / "tiny.json").write_text(json.dumps(document))
    notes = [note.what for note in read(tmp_path / "tiny.json").manifest.cleaned]
    expected = [f"values of {name} of a task" for name in names]
    assert [what for what in notes if what in expected] == expected
