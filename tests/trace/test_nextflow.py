"""Trace files of Nextflow: units, retries, statuses, diagrams, and what is missing.

The inputs are written by hand in the format that docs.seqera.io/nextflow/reports describes.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import twinloop as tl
from tests.cli.test_commands import answer, run
from twinloop.calibration.losses import list_unsupported_losses
from twinloop.description import InputError
from twinloop.trace import Trace
from twinloop.trace.formats.nextflow import FORMAT, values
from twinloop.trace.formats.nextflow.diagram import link_processes, match_processes, read_diagram
from twinloop.trace.quality import check

FIELDS = (
    *("task_id", "name", "status", "exit", "submit", "start", "complete", "duration"),
    *("realtime", "%cpu", "peak_rss", "rchar", "cpus", "memory", "attempt"),
)
#: 2024-05-01 10:00:00 UTC in ms.
ZERO = int(datetime(2024, 5, 1, 10, tzinfo=UTC).timestamp() * 1000)


def row(task: int, name: str, submit: float, start: float, end: float, /, **fields: Any) -> str:
    """A line of a trace file with raw numbers; times in s after ZERO."""
    cells = {
        "task_id": task, "name": name, "status": "COMPLETED", "exit": 0,
        "submit": round(ZERO + submit * 1000), "start": round(ZERO + start * 1000),
        "complete": round(ZERO + end * 1000), "duration": round((end - submit) * 1000),
        "realtime": round((end - start) * 1000), "%cpu": 100.0, "peak_rss": 1024,
        "rchar": 5, "cpus": 1, "memory": 2**30, "attempt": 1, **fields,
    }  # fmt: skip
    return "\t".join(str(cells[field]) for field in FIELDS)


def log(path: Path, *lines: str) -> Path:
    file = path / "trace.txt"
    file.write_text("\n".join(["\t".join(FIELDS), *lines]) + "\n")
    return file


def count(trace: Trace, words: str) -> int:
    return sum(note.count for note in trace.manifest.cleaned if words in note.what)


def pairs(trace: Trace) -> set[tuple[str, str]]:
    return {
        (parent, task)
        for task, parents in trace.tasks.select("id", "parents").rows()
        for parent in parents or ()
    }


def test_the_default_fields_for_people(tmp_path: Path) -> None:
    """The fields and forms of values of the example in the documentation."""
    names = [
        *("task_id", "hash", "native_id", "name", "status", "exit", "submit", "duration"),
        *("realtime", "%cpu", "peak_rss", "peak_vmem", "rchar", "wchar"),
    ]
    lines = [
        ["28", "b4/0f9613", "2041", "align (1)", "COMPLETED", "0", "2014-10-23 16:38:19.657",
         "1m 30s", "1m 11s", "94.3%", "611.6 MB", "693.8 MB", "961.2 GB", "6.1 GB"],
        ["52", "72/41d0c6", "2055", "compare (1)", "COMPLETED", "0", "2014-10-23 17:13:23.543",
         "30s", "352ms", "0.0%", "35.6 MB", "58.3 MB", "199.3 MB", "7.9 MB"],
    ]  # fmt: skip
    file = tmp_path / "trace-2014.txt"
    file.write_text("\n".join("\t".join(line) for line in [names, *lines]))
    trace = tl.read(file)
    assert trace.manifest.source.format == "nextflow"
    assert trace.tasks.select("id", "name", "submit", "run_time", "status", "exit_code").rows() == [
        ("align (1)", "align", 0.0, 71.0, "completed", 0),
        ("compare (1)", "compare", pytest.approx(2103.886), 0.352, "completed", 0),
    ]
    assert trace.tasks["cpu_time"].to_list() == pytest.approx([0.943 * 71, 0.0])
    assert trace.tasks["memory_used"].to_list() == [round(611.6 * 2**20), round(35.6 * 2**20)]
    # Without `start`, only the end is known: submission plus duration.
    assert trace.placements.select("task", "machine", "start", "end").rows() == [
        ("align (1)", None, None, 90.0),
        ("compare (1)", None, None, pytest.approx(2133.886)),
    ]
    assert datetime.fromtimestamp(trace.manifest.epoch_ms / 1000, UTC).hour == 16
    assert count(trace, "dates have no zone") == 2
    assert count(trace, "executions of unknown start") == 2
    assert count(trace, "executions of unknown machine") == 2
    assert count(trace, "tasks of unknown dependencies") == 2
    assert count(trace, "tasks of unknown files") == 2
    for field in ("peak_vmem", "rchar", "wchar"):
        assert count(trace, f"values of the field {field}") == 2
    # The makespan and the run times are known, starts are not.
    reasons = list_unsupported_losses(trace, ["L1", "L3", "matched"])
    assert list(reasons) == ["matched"]
    ahead = tl.read(file, utc_offset=2)
    assert ahead.manifest.epoch_ms == trace.manifest.epoch_ms - 2 * 3_600_000
    assert ahead.tasks["submit"].equals(trace.tasks["submit"])
    assert count(ahead, "dates have no zone") == 0


def test_raw_numbers_and_values_for_people_are_the_same(tmp_path: Path) -> None:
    raw = tl.read(log(tmp_path, row(1, "A (x)", 0.5, 2.0, 62.0, realtime=59500)))
    (tmp_path / "people").mkdir()
    people = tl.read(
        log(
            tmp_path / "people",
            row(1, "A (x)", 0, 0, 0, submit="2024-05-01 10:00:00.500",
                start="2024-05-01 10:00:02.000", complete="2024-05-01 10:01:02.000",
                duration="1m 1.5s", realtime="59.5s", peak_rss="1 KB", memory="1 GB",
                **{"%cpu": "100.0%"}),
        )
    )  # fmt: skip
    assert raw.tasks.equals(people.tasks)
    assert raw.placements.equals(people.placements)
    assert raw.manifest.epoch_ms == people.manifest.epoch_ms == ZERO + 500  # t = 0
    assert count(raw, "dates have no zone") == 0
    (task,) = raw.tasks.rows(named=True)
    assert (task["run_time"], task["cpu_time"], task["memory_used"]) == (59.5, 59.5, 1024)
    assert (task["requested_cores"], task["requested_memory"]) == (1.0, 2**30)
    assert raw.placements.select("start", "end", "attempt", "reason").rows() == [
        (1.5, 61.5, 0, "completed")
    ]


@given(st.integers(0, 10**9))
def test_durations_are_read_as_they_are_written(ms: int) -> None:
    """A text of all units, as Nextflow writes it, is the number of milliseconds."""
    parts, rest = [], ms
    for unit, length in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        number, rest = divmod(rest, length)
        parts += [f"{number}{unit}"] if number else []
    text = " ".join([*parts, f"{rest}ms"])
    frame = pl.DataFrame({"people": [text], "raw": [str(ms)]})
    seconds = frame.select(
        values.duration_to_seconds("people"), raw=values.duration_to_seconds("raw")
    ).row(0)
    assert seconds == pytest.approx((ms / 1000, ms / 1000))


def test_a_retry_is_another_attempt_of_its_task(tmp_path: Path) -> None:
    """A retry has a new id and the same name; the first submission counts."""
    trace = tl.read(
        log(
            tmp_path,
            row(1, "A (x)", 0, 1, 5, status="FAILED", exit=137, realtime="-"),
            row(2, "A (y)", 0, 1, 6),
            row(3, "A (x)", 6, 7, 9, attempt=2, peak_rss=4096),
        )
    )
    assert trace.tasks.select("id", "submit", "status", "run_time", "exit_code").rows() == [
        ("A (x)", 0.0, "completed", 2.0, 0),
        ("A (y)", 0.0, "completed", 5.0, 0),
    ]
    assert trace.placements.select("task", "attempt", "start", "end", "reason").rows() == [
        ("A (x)", 0, 1.0, 5.0, "failed"),
        ("A (x)", 1, 7.0, 9.0, "completed"),
        ("A (y)", 0, 1.0, 6.0, "completed"),
    ]
    assert count(trace, "attempts after a failed one") == 1
    assert check(trace).ok


def test_equal_names_are_different_tasks_unless_one_has_failed(tmp_path: Path) -> None:
    trace = tl.read(
        log(
            tmp_path,
            row(1, "A (x)", 0, 1, 5),
            row(2, "A (x)", 1, 2, 6),
            row(3, "B", 0, 1, 5, status="FAILED"),
            row(4, "B", 1, 2, 6),  # another first attempt
        )
    )
    assert trace.tasks["id"].to_list() == ["A (x) [1]", "B [3]", "A (x) [2]", "B [4]"]
    assert count(trace, "tasks with the name of another one") == 4
    columns = pl.read_csv(tmp_path / "trace.txt", separator="\t").drop("attempt")
    columns.write_csv(tmp_path / "trace.txt", separator="\t")
    # Without numbers of attempts, a later task of the same name is taken as the retry.
    assert "B" in tl.read(tmp_path / "trace.txt").tasks["id"].to_list()


def test_statuses(tmp_path: Path) -> None:
    trace = tl.read(
        log(
            tmp_path,
            row(1, "A (1)", -5000, -4990, -4000, status="CACHED"),
            row(2, "A (2)", 0, 1, 5, status="ABORTED", exit="-"),
            row(3, "A (3)", 0, 1, 5, status="RUNNING", exit="-", complete="-", duration="-"),
            row(4, "A (4)", 2, 0, 0, status="SUBMITTED", start="-", complete="-", duration="-"),
            row(5, "A (5)", 2, 3, 4, status="LOST"),
            row(6, "A (6)", 2, 3, 4, status="FAILED"),
        )
    )
    by_id = {task["id"]: task for task in trace.tasks.rows(named=True)}
    assert [by_id[f"A ({n})"]["status"] for n in range(1, 7)] == [
        "completed", "killed", None, None, None, "failed",
    ]  # fmt: skip
    # A cached task keeps its run time, but was not executed; t = 0 is the first one that was.
    assert (by_id["A (1)"]["run_time"], by_id["A (1)"]["submit"]) == (990.0, 0.0)
    assert trace.manifest.epoch_ms == ZERO
    assert trace.placements.select("task", "start", "end").sort("task").rows() == [
        ("A (2)", 1.0, 5.0), ("A (3)", 1.0, None), ("A (5)", 3.0, None), ("A (6)", 3.0, 4.0),
    ]  # fmt: skip
    assert by_id["A (3)"]["run_time"] is None
    assert by_id["A (2)"]["exit_code"] is None
    assert count(trace, "CACHED tasks") == 1
    assert count(trace, "tasks that had not ended") == 2
    assert count(trace, "unknown values of status") == 1


def test_staging_is_noticed_and_not_part_of_the_run_time(tmp_path: Path) -> None:
    trace = tl.read(log(tmp_path, row(1, "A", 0, 1, 18, realtime=8000), row(2, "B", 0, 1, 9)))
    assert trace.tasks["run_time"].to_list() == [8.0, 8.0]
    assert count(trace, "longer than their realtime") == 1


def test_hosts_are_machines(tmp_path: Path) -> None:
    file = log(tmp_path, row(1, "A", 0, 1, 2), row(2, "B", 0, 1, 2))
    lines = file.read_text().splitlines()
    ends = ["hostname", "n1", "-"]
    file.write_text("\n".join(f"{line}\t{end}" for line, end in zip(lines, ends, strict=True)))
    trace = tl.read(file)
    assert trace.placements["machine"].to_list() == ["n1", None]
    assert count(trace, "executions of unknown machine") == 1


DOT = """digraph "dag" {
p0 [shape=point,label="",fixedsize=true,width=0.1,xlabel="Channel.fromPath"];
p1 [label="MAIN:SPLIT"];
p0 -> p1 [label="reads"];

p2 [shape=circle,label="",fixedsize=true,width=0.1,xlabel="flatten"];
p1 -> p2;
p3 [label="MAIN:SORT"];
p2 -> p3;
p4 [label="MAIN:COUNT"];
p3 -> p4 [label="sorted"];
p5 [label="MAIN:JOIN"];
p4 -> p5;
}
"""
MERMAID = """flowchart TB
    subgraph " "
    p0["reads"]
    end
    subgraph MAIN [MAIN]
    p1([SPLIT])
    p2(( ))
    p3([SORT])
    p4([COUNT])
    p5([JOIN])
    end
    p0 --> p1
    p1 --> p2
    p2 -->|part| p3
    p3 --> p4
    p4 --> p5
"""
OLD_MERMAID = """flowchart TD
    p0((Channel.fromPath))
    p1[MAIN:SPLIT]
    p2([flatten])
    p3[MAIN:SORT]
    p4[MAIN:COUNT]
    p5[MAIN:JOIN]
    p0 -->|reads| p1
    p1 --> p2
    p2 --> p3
    p3 -->|sorted| p4
    p4 --> p5
"""
PAGE = f"""<html><head><title>DAG</title></head><body>
<pre class="mermaid" style="text-align: center;">
{MERMAID}
</pre></body></html>
"""
PIPELINE = (
    row(1, "MAIN:SPLIT", 0, 1, 10),
    row(2, "MAIN:SORT (a)", 10, 11, 20),
    row(3, "MAIN:SORT (b)", 10, 11, 30),
    row(4, "MAIN:COUNT (a)", 20, 21, 40),
    row(5, "MAIN:COUNT (b)", 30, 31, 35),
    row(6, "MAIN:JOIN", 40, 41, 50),
)
EDGES = {
    ("MAIN:SPLIT", "MAIN:SORT (a)"), ("MAIN:SPLIT", "MAIN:SORT (b)"),
    ("MAIN:SORT (a)", "MAIN:COUNT (a)"), ("MAIN:SORT (b)", "MAIN:COUNT (b)"),
    ("MAIN:COUNT (a)", "MAIN:JOIN"), ("MAIN:COUNT (b)", "MAIN:JOIN"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text"),
    [("dag.dot", DOT), ("dag.mmd", MERMAID), ("old.mmd", OLD_MERMAID), ("dag.html", PAGE)],
)
def test_dependencies_of_a_diagram(tmp_path: Path, name: str, text: str) -> None:
    """Equal tags are one to one, other edges all to all; operators are passed through."""
    (tmp_path / name).write_text(text)
    trace = tl.read(log(tmp_path, *PIPELINE), dag=tmp_path / name)
    assert pairs(trace) == EDGES
    assert count(trace, "dependencies on tasks with the same tag") == 2
    # Operators have the form of a process in diagrams of older versions.
    assert count(trace, "vertices of the diagram that are no process") == (name == "old.mmd")
    assert count(trace, "dependencies on all tasks of a process") == 4
    assert count(trace, "tasks of unknown dependencies") == 0
    # The submission of a task with parents is when they had ended.
    assert trace.tasks.select("submit", "ready").rows()[:2] == [(0.0, None), (0.0, 10.0)]
    assert check(trace).ok
    assert [file.name for file in trace.manifest.source.files] == ["trace.txt", name]
    # Four tasks on the longest path of the pipeline.
    graph = tl.trace.Summary.from_trace(trace).graph
    assert (graph.levels, graph.width, graph.dependencies) == (4, 2, 6)


def test_times_exclude_dependencies(tmp_path: Path) -> None:
    """A task that was submitted before another had ended has not waited for it."""
    (tmp_path / "dag.mmd").write_text("flowchart TB\n p0([A])\n p1([B])\n p0 --> p1\n")
    trace = tl.read(
        log(
            tmp_path,
            row(1, "A (1)", 0, 1, 5),
            row(2, "A (2)", 0, 1, 9),
            row(3, "B (1)", 5, 6, 7),
            row(4, "B (2)", 9, 9, 12),
        ),
        dag=tmp_path / "dag.mmd",
    )
    # The numbers count the tasks of a process: they are no tags.
    assert pairs(trace) == {("A (1)", "B (1)"), ("A (1)", "B (2)"), ("A (2)", "B (2)")}
    assert count(trace, "ended after the submission, left out") == 1


def test_a_rounded_duration_excludes_no_dependency(tmp_path: Path) -> None:
    """Without `complete`, the end is known to half a second: 89.6 s are written as 1m 30s."""
    (tmp_path / "dag.mmd").write_text("flowchart TB\n p0([A])\n p1([B])\n p0 --> p1\n")
    names = ["name", "status", "submit", "duration", "realtime"]
    for submit, expected in (("10:01:29.700", {("A", "B")}), ("10:01:29.300", set())):
        lines = [
            ["A", "COMPLETED", "2024-05-01 10:00:00.000", "1m 30s", "1m 20s"],
            ["B", "COMPLETED", f"2024-05-01 {submit}", "5s", "4s"],
        ]
        file = tmp_path / "trace.txt"
        file.write_text("\n".join("\t".join(line) for line in [names, *lines]))
        trace = tl.read(file, dag=tmp_path / "dag.mmd")
        assert pairs(trace) == expected
        assert check(trace).ok


def test_processes_and_vertices_without_a_match_are_noticed(tmp_path: Path) -> None:
    (tmp_path / "dag.mmd").write_text(
        "flowchart TB\n p0([A])\n p1([SKIPPED])\n p2([B])\n p0 --> p1\n p1 --> p2\n"
    )
    trace = tl.read(
        log(tmp_path, row(1, "A", 0, 1, 5), row(2, "B", 5, 6, 7), row(3, "C", 7, 8, 9)),
        dag=str(tmp_path / "dag.mmd"),
    )
    assert pairs(trace) == {("A", "B")}
    assert count(trace, "processes of the trace that are not in the diagram") == 1
    assert count(trace, "vertices of the diagram that are no process") == 1


def test_names_of_workflows_are_matched_from_their_end() -> None:
    processes = ["RNA:ALIGN:SORT", "RNA:QC:SORT", "RNA:QC:TRIM"]
    labels = {"a": "ALIGN:SORT", "b": "QC:SORT", "c": "TRIM", "d": "SORT", "e": "OTHER:ALIGN:SORT"}
    assert match_processes(labels, processes) == {
        "a": "RNA:ALIGN:SORT", "b": "RNA:QC:SORT", "c": "RNA:QC:TRIM", "e": "RNA:ALIGN:SORT",
    }  # fmt: skip


def test_a_cycle_of_operators_is_passed_once(tmp_path: Path) -> None:
    (tmp_path / "dag.dot").write_text(
        'digraph "d" {\n a [label="A"];\n b [label="B"];\n a -> x;\n x -> y;\n y -> x;\n y -> b;\n}'
    )
    diagram = read_diagram(tmp_path / "dag.dot")
    assert link_processes(diagram, {"a": "A", "b": "B"}) == {"B": ["A"]}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("<html><div id='cy'></div></html>", "contains no diagram in DOT or Mermaid"),
        ("flowchart TB\n p0([A])\n", "contains a diagram without edges"),
        ("flowchart TB\n p0([X])\n p1([Y])\n p0 --> p1\n", "has no process of the trace"),
    ],
)
def test_a_diagram_that_cannot_be_used_is_an_error(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "dag.html").write_text(text)
    with pytest.raises(InputError, match=says) as error:
        tl.read(log(tmp_path, row(1, "A", 0, 1, 5)), dag=tmp_path / "dag.html")
    assert "dag.html" in str(error.value)


def test_processes_that_feed_each_other_need_times(tmp_path: Path) -> None:
    (tmp_path / "dag.mmd").write_text("flowchart TB\n p0([A])\n p1([B])\n p0 --> p1\n p1 --> p0\n")
    timed = log(tmp_path, row(1, "A", 0, 1, 5), row(2, "B", 5, 6, 7))
    assert pairs(tl.read(timed, dag=tmp_path / "dag.mmd")) == {("A", "B")}
    unknown = {"submit": "-", "complete": "-", "duration": "-"}
    untimed = log(tmp_path, row(1, "A", 0, 1, 5, **unknown), row(2, "B", 5, 6, 7, **unknown))
    with pytest.raises(InputError, match="wait for each other"):
        tl.read(untimed, dag=tmp_path / "dag.mmd")


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("submit", "yesterday", "lines whose submit is not a date and time"),
        ("realtime", "1 week", "lines whose realtime is not a duration"),
        ("peak_rss", "much", "lines whose peak_rss is not an amount of memory"),
        ("%cpu", "all", "lines whose %cpu is not a percentage"),
        ("cpus", "two", "lines whose cpus is not a number in range"),
        ("name", "", "lines whose name is empty"),
    ],
)
def test_unreadable_values_are_counted(tmp_path: Path, field: str, value: str, says: str) -> None:
    file = log(tmp_path, row(1, "A", 0, 1, 5), row(2, "B", 0, 1, 5, **{field: value}))
    trace = tl.read(file)
    assert trace.tasks.height == 1
    assert count(trace, says) == 1
    with pytest.raises(InputError, match=r"trace\.txt:3"):
        tl.read(file, strict=True)


def test_broken_files(tmp_path: Path) -> None:
    short = log(tmp_path, row(1, "A", 0, 1, 5), "2\tB\tCOMPLETED")
    assert count(tl.read(short), f"lines without {len(FIELDS)} fields") == 1
    with pytest.raises(InputError, match="has no task that can be read"):
        tl.read(log(tmp_path), format="nextflow")
    (tmp_path / "other.txt").write_text("a\tb\n1\t2\n")
    with pytest.raises(InputError, match="does not contain the names of Nextflow fields"):
        tl.read(tmp_path / "other.txt", format="nextflow")
    twice = tmp_path / "twice.txt"
    twice.write_text("name\tstatus\tname\trealtime\n")
    with pytest.raises(InputError, match="names the field name twice"):
        tl.read(twice, format="nextflow")


def test_recognition(tmp_path: Path) -> None:
    start = log(tmp_path, row(1, "A", 0, 1, 5)).read_bytes()
    assert FORMAT.recognises(tmp_path, start)
    assert not FORMAT.recognises(tmp_path, b"id,submit,run_time,status,name\n")
    assert not FORMAT.recognises(tmp_path, b"JobID|Submit|State|name\n")
    assert not FORMAT.recognises(tmp_path, b"")


def test_the_command_reads_the_diagram(tmp_path: Path) -> None:
    (tmp_path / "dag.mmd").write_text(MERMAID)
    file = log(tmp_path, *PIPELINE)
    words = ("inspect", file, "--dag", tmp_path / "dag.mmd")
    assert answer(*words)["summary"]["graph"]["dependencies"] == len(EDGES)
    assert "depth 4 levels" in run(*words).stdout
    error = run("inspect", tmp_path / "dag.mmd", "--format", "swf", "--dag", file, ends_with=2)
    assert "--dag applies to flowbench and nextflow" in error.stderr


def test_a_pipeline_can_be_simulated_in_dependency_order(tmp_path: Path) -> None:
    """On many cores the makespan is the longest path of run times: 9 + 19 + 9 + 9 s."""
    (tmp_path / "dag.mmd").write_text(MERMAID)
    trace = tl.read(log(tmp_path, *PIPELINE), dag=tmp_path / "dag.mmd")
    run_times = {"SPLIT": 9, "SORT (a)": 9, "SORT (b)": 19, "COUNT (a)": 19, "COUNT (b)": 4}
    assert {name: trace.tasks.filter(id=f"MAIN:{name}")["run_time"].item() for name in run_times} \
        == run_times  # fmt: skip
    twin = tl.simulate(tl.Scenario(platform="1x16", workload=trace, policy="fcfs"))
    assert twin.placements["end"].max() == 9 + max(9 + 19, 19 + 4) + 9
