"""Executions of Schlouder, in files whose values are known."""

import tarfile
from pathlib import Path

import pytest

from tests.trace.broken import FORMATS
from twinloop.description import InputError
from twinloop.trace import Trace, read, recognise
from twinloop.trace.formats.schlouder import parse_execution_name
from twinloop.trace.quality import check

FULL = """\
[boots]
48 10 1
64.5 12
71
[tasks]
a 10 60 ~ 52 50.5 1000 2000 1.25
b 15 60 ~ 58 -> a
c 20 1
d 20 61 ~ 59 57 -> a b
"""


def write(folder: Path, text: str, name: str = "run.tasks") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def notes(trace: Trace) -> dict[str, tuple[int, tuple[str, ...]]]:
    return {note.what: (note.count, note.examples) for note in trace.manifest.cleaned}


def violated(trace: Trace) -> dict[str, list[str]]:
    """The positions of the violations of each rule of severity error."""
    return {
        finding.rule: [str(example.place) for example in finding.examples]
        for finding in check(trace).errors
    }


def test_every_field_is_in_its_column(tmp_path: Path) -> None:
    trace = read(write(tmp_path, FULL))
    assert trace.boots.rows() == [
        (None, 10.0, 48.0, 1.0, 2),
        (None, 12.0, 64.5, None, 3),
        (None, None, 71.0, None, 4),
    ]
    columns = ("id", "submit", "requested_cores", "requested_time", "run_time", "parents", "line")
    assert trace.tasks.select(columns).rows() == [
        ("a", 10.0, 1.0, 60.0, 52.0, None, 6),
        ("b", 15.0, 1.0, 60.0, 58.0, ["a"], 7),
        ("c", 20.0, 1.0, 1.0, None, None, 8),
        ("d", 20.0, 1.0, 61.0, 59.0, ["a", "b"], 9),
    ]
    measured = trace.task_times.select("task", "wall_time", "run_time", "management_time")
    assert measured.rows() == [
        ("a", 52.0, 50.5, 1.25),
        ("b", 58.0, None, None),
        ("d", 59.0, 57.0, None),
    ]
    assert trace.files.select("file", "size").rows() == [("input/a", 1000.0), ("output/a", 2000.0)]
    assert trace.task_files.rows() == [("a", "input/a", "read"), ("a", "output/a", "write")]
    assert trace.tasks["status"].null_count() == trace.tasks.height
    assert not trace.manifest.cleaned


def test_a_file_without_sections_has_only_tasks(tmp_path: Path) -> None:
    file = write(tmp_path, "a 0 60 ~ 52\nb 0 60 ~ 58\n", "anything.txt")
    assert recognise(file).name == "schlouder"
    trace = read(file)
    assert trace.tasks["run_time"].to_list() == [52.0, 58.0]
    assert trace.boots.height == 0


def test_tasks_without_measured_times_are_read_by_the_name_of_the_format(tmp_path: Path) -> None:
    trace = read(write(tmp_path, "a 0 60\nb 0 60 -> a\n"), format="schlouder")
    assert trace.tasks["requested_time"].to_list() == [60.0, 60.0]
    assert trace.task_times.height == 0


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("48 10 1 7", "lines of [boots] with too many fields"),
        ("soon 10 1", "lines whose boot_time is not a time in range"),
        ("[hosts]", "lines of other sections than [boots] and [tasks]"),
        ("[tasks]\nx 1", "lines of [tasks] that are not tasks"),
        ("[tasks]\nx 1 60 52", "lines of [tasks] that are not tasks"),
        ("[tasks]\nx 1 60 ~ 1 2 3 4 5 6", "lines of [tasks] that are not tasks"),
        ("[tasks]\nx 1 sixty ~ 1", "lines whose prediction is not a time in range"),
        ("[tasks]\nx 1 60 ~ 1 2 big", "lines whose input is not a number in range"),
    ],
)
def test_a_line_that_cannot_be_read_is_counted_with_its_number(
    tmp_path: Path, line: str, what: str
) -> None:
    file = write(tmp_path, f"[boots]\n{line}\n[tasks]\na 0 60 ~ 52\n")
    number = 2 + line.count("\n")
    trace = read(file)
    assert trace.tasks["id"].to_list() == ["a"]
    assert notes(trace) == {what: (1, (f"run.tasks:{number}",))}
    with pytest.raises(InputError, match=rf"run\.tasks:{number}"):
        read(file, strict=True)


def test_every_line_of_an_unknown_section_is_counted(tmp_path: Path) -> None:
    trace = read(write(tmp_path, "[tasks]\na 0 60\n[hosts]\nn1 4\nn2 4\n"))
    assert notes(trace) == {
        "lines of other sections than [boots] and [tasks]": (
            3,
            ("run.tasks:3", "run.tasks:4", "run.tasks:5"),
        )
    }


def test_a_file_without_tasks_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no task that can be read"):
        read(write(tmp_path, "[boots]\n48 10 1\n[tasks]\n"))


@pytest.mark.parametrize(
    ("old", "new", "rule", "line"),
    [
        ("-> a b", "-> a z", "known-parents", 9),
        ("a 10", "b 10", "unique-names", 7),
        ("48 10", "-48 10", "not-negative", 2),
        ("64.5 12", "64.5 12 -1", "not-negative", 3),
        ("~ 52", "~ -52", "not-negative", 6),
    ],
)
def test_the_quality_gate_names_the_line(
    tmp_path: Path, old: str, new: str, rule: str, line: int
) -> None:
    assert old in FULL
    assert not violated(read(write(tmp_path, FULL)))
    assert f"run.tasks:{line}" in violated(read(write(tmp_path, FULL.replace(old, new))))[rule]


def test_labels_come_from_the_name_of_the_file(tmp_path: Path) -> None:
    name = "v3.standard.2x2.asap.regular.openstack-icps.v3.2.tasks"
    assert read(write(tmp_path, FULL, name)).manifest.facts["labels"] == {
        "broker": "v3",
        "campaign": "standard",
        "use_case": "2x2",
        "strategy": "asap",
        "storage": "regular",
        "cloud": "openstack-icps",
        "cloud_version": "v3",
        "repetition": "2",
        "application": "montage",
        "platform": "icps",
    }
    assert read(write(tmp_path, FULL)).manifest.facts == {}


@pytest.mark.parametrize(
    ("name", "application", "platform"),
    [
        ("v4.montecarlo-brs-10.brs.afap.regular1gb.openstack-icps.v5.100", "omssa", "icps"),
        ("v1.standard.hrt.afap.regular.de-hlrs.v2.3.tasks", "omssa", "bonfire"),
        ("v1.standard.1x1.asap.regular.fr-inria.v2.1.tasks.gz", "montage", "bonfire"),
        ("v1.standard.4x4.asap.regular.my-cloud.v2.1.tasks", "montage", "my-cloud"),
    ],
)
def test_application_and_platform_of_an_execution(
    name: str, application: str, platform: str
) -> None:
    labels = parse_execution_name(name)
    assert (labels["application"], labels["platform"]) == (application, platform)


def test_the_trace_folder_keeps_everything(tmp_path: Path) -> None:
    trace = read(write(tmp_path, FULL))
    assert Trace.load(trace.save(tmp_path / "saved")) == trace


def test_the_format_cannot_be_written() -> None:
    assert FORMATS["schlouder"].write is None


@pytest.mark.realdata
def test_real_executions_have_their_published_sizes(real_data: Path, tmp_path: Path) -> None:
    with tarfile.open(real_data / "schlouder" / "executions.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    files = sorted(tmp_path.rglob("*.tasks"))
    traces = [read(file, strict=True) for file in files]
    assert len(traces) == 289
    assert sum(trace.boots.height for trace in traces) == 2_881
    assert sum(trace.tasks.height for trace in traces) == 58_637
    assert sum(int(trace.tasks["parents"].list.len().sum()) for trace in traces) == 36_542
    labels = [trace.manifest.facts["labels"] for trace in traces]
    counts: dict[tuple[str, str], int] = {}
    for each in labels:
        cell = (each["cloud"], each["application"])
        counts[cell] = counts.get(cell, 0) + 1
    assert counts == {
        ("openstack-icps", "omssa"): 204,
        ("openstack-icps", "montage"): 24,
        ("de-hlrs", "omssa"): 20,
        ("de-hlrs", "montage"): 14,
        ("fr-inria", "omssa"): 16,
        ("fr-inria", "montage"): 11,
    }
