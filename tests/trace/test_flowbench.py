"""Runs of FlowBench, in files whose values are known, and the real ones."""

import gzip
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import twinloop as tl
from tests.trace.broken import FORMATS
from twinloop.cli import app
from twinloop.description import InputError
from twinloop.trace import Trace, read, recognise
from twinloop.trace.quality import check

#: A job per line: id, anomaly, type, site, host, then the times, bytes, CPU time and exit code.
COLUMNS = (
    ",anomaly_type,type,kickstart_site,kickstart_hostname,kickstart_transformations,"
    "kickstart_executables_argv,ready,submit,execute_start,execute_end,post_script_end,"
    "stage_in_start,stage_in_end,stage_in_bytes,stage_out_start,stage_out_end,stage_out_bytes,"
    "kickstart_executables_cpu_time,kickstart_executables_exitcode,kickstart_user,queue_delay\n"
)
DIR = "dir,None,auxiliary,local,s,mkdir,,1000,1001,1005,1010,1015,,,,,,,0.25,0,ann,4\n"
#: The clock of the hosts is 100 s ahead: stage-in from 1030 to 1035, stage-out from 1080 to 1085.
ONE = (
    'one,None,compute,pool,n1,sim,"-i a,b -o c",1015,1020,1025,1085,1090,'
    "1130,1135,8e6,1180,1185,4e6,44.5,0,ann,5\n"
)
TWO = (
    "two,cpu_2,compute,pool,n2,sim,,1015,1020,1026,1095,1100,"
    "1132,1138,8e6,1186,1190,4e6,40,0,ann,6\n"
)
OUT = "out,None,transfer,local,s,cp,,1100,1105,1105,1120,1125,,,,1110,1118,8e6,1,3,ann,0\n"
RUN = COLUMNS + OUT + TWO + ONE + DIR
DAG = {"dir": ["one", "two"], "one": ["out"], "two": ["out"]}


def write(folder: Path, text: str = RUN, name: str = "flow-run007.csv") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def write_dag(folder: Path, dag: object = DAG) -> Path:
    file = folder / "dag.json"
    file.write_text(json.dumps(dag))
    return file


def notes(trace: Trace) -> dict[tuple[str, str], tuple[int, tuple[str, ...]]]:
    return {(note.kind, note.what): (note.count, note.examples) for note in trace.manifest.cleaned}


def test_every_field_is_in_its_column(tmp_path: Path) -> None:
    trace = read(write(tmp_path), dag=write_dag(tmp_path))
    assert trace.manifest.source is not None
    assert trace.manifest.source.format == "flowbench"
    assert [each.name for each in trace.manifest.source.files] == ["flow-run007.csv", "dag.json"]
    columns = ("id", "name", "user", "partition", "kind", "submit", "ready", "requested_cores")
    assert trace.tasks.select(columns).rows() == [
        ("dir", "mkdir", "ann", "local", "auxiliary", 0.0, 1000.0, 1.0),
        ("one", "sim", "ann", "pool", "compute", 0.0, 1015.0, 1.0),
        ("two", "sim", "ann", "pool", "compute", 0.0, 1015.0, 1.0),
        ("out", "cp", "ann", "local", "transfer", 0.0, 1100.0, 1.0),
    ]
    columns = ("run_time", "cpu_time", "status", "exit_code", "parents", "line")
    assert trace.tasks.select(columns).rows() == [
        (5.0, 0.25, "completed", 0, [], 5),
        (60.0, 44.5, "completed", 0, ["dir"], 4),
        (69.0, 40.0, "completed", 0, ["dir"], 3),
        (15.0, 1.0, "failed", 3, ["one", "two"], 2),
    ]
    columns = ("task", "attempt", "machine", "cores", "start", "end", "reason")
    assert trace.placements.select(columns).rows()[1] == (
        ("one", 0, "n1", 1.0, 1025.0, 1085.0, "completed")
    )
    assert trace.manifest.facts == {
        "makespan": 125.0,
        "labels": {"workflow": "flow", "anomaly": "cpu_2", "repetition": "007"},
        "anomalies": {"n2": "cpu_2"},
        "clock_offsets": {"pool": 100.0},
    }


def test_wall_times_are_the_sum_of_their_parts(tmp_path: Path) -> None:
    times = read(write(tmp_path), dag=write_dag(tmp_path)).task_times
    assert times.rows() == [
        # task, wall_time, run_time, management_time, before, after
        ("dir", 5.0, 5.0, 0.0, 1.0, 5.0),
        ("one", 60.0, 45.0, 5.0, 5.0, 5.0),
        ("two", 69.0, 48.0, 11.0, 5.0, 5.0),
        ("out", 15.0, 0.0, 7.0, 5.0, 5.0),
    ]


def test_times_of_staging_are_by_the_clock_of_the_manager(tmp_path: Path) -> None:
    """The smallest offset that has every stage-out end by the end of its job is 100 s."""
    transfers = read(write(tmp_path), dag=write_dag(tmp_path)).transfers
    columns = ("kind", "subject", "from", "to", "bytes", "start", "end", "reason")
    assert transfers.select(columns).rows() == [
        ("read", "one", None, "n1", 8e6, 1030.0, 1035.0, "completed"),
        ("read", "two", None, "n2", 8e6, 1032.0, 1038.0, "completed"),
        ("write", "one", "n1", None, 4e6, 1080.0, 1085.0, "completed"),
        ("write", "two", "n2", None, 4e6, 1086.0, 1090.0, "completed"),
        ("write", "out", "s", None, 8e6, 1110.0, 1118.0, "completed"),
    ]


@pytest.mark.parametrize(
    ("stage_in", "stage_out", "offset"),
    [
        ((30, 35), (80, 84), 0.0),  # within the execution, from 25 to 85
        ((25, 35), (80, 85), 0.0),
        ((30, 35), (80, 86), 1.0),
        ((-50, -45), (0, 5), -80.0),  # the lower bound: 5 - 85
        ((-50, -45), None, -75.0),  # without a lower bound, the upper one: -50 - 25
        ((100, 105), None, 0.0),
        (None, None, 0.0),
    ],
)
def test_a_clock_is_moved_only_if_it_must_be_off(
    tmp_path: Path,
    stage_in: tuple[int, int] | None,
    stage_out: tuple[int, int] | None,
    offset: float,
) -> None:
    def cells(pair: tuple[int, int] | None) -> str:
        return "," if pair is None else f"{pair[0]},{pair[1]}"

    head = (
        ",type,ready,submit,execute_start,execute_end,post_script_end,kickstart_hostname,"
        "stage_in_start,stage_in_end,stage_out_start,stage_out_end\n"
    )
    row = f"a,compute,0,5,25,85,90,n,{cells(stage_in)},{cells(stage_out)}\n"
    trace = read(write(tmp_path, head + row))
    assert trace.manifest.facts.get("clock_offsets", {}).get("of no name", 0.0) == offset
    starts = [pair[0] - offset for pair in (stage_in, stage_out) if pair is not None]
    assert trace.transfers["start"].to_list() == starts


def test_a_clock_without_a_possible_offset_is_left_alone(tmp_path: Path) -> None:
    """One host is 100 s ahead, the other 100 s behind."""
    late = TWO.replace("1132,1138,8e6,1186,1190", "932,938,8e6,986,990")
    trace = read(write(tmp_path, COLUMNS + ONE + late))
    what = "jobs of the site pool: its clock has no offset that fits all times of staging"
    assert notes(trace)["noticed", what] == (2, ())
    assert trace.transfers["start"].to_list() == [932.0, 986.0, 1130.0, 1180.0]
    assert "clock_offsets" not in trace.manifest.facts


def test_unix_times_begin_with_the_first_ready_task(tmp_path: Path) -> None:
    row = (
        "a,compute,1659744775,1659744780,1659744785,1659744800,1659744805,n,"
        "1659744712,1659744715,8\n"
    )
    head = (
        ",type,ready,submit,execute_start,execute_end,post_script_end,kickstart_hostname,"
        "stage_in_start,stage_in_end,stage_in_bytes\n"
    )
    trace = read(write(tmp_path, head + row))
    assert trace.manifest.epoch_ms == 1_659_744_775_000
    assert trace.placements.select("start", "end").row(0) == (10.0, 25.0)
    # A clock 73 s behind; without a stage-out, the upper bound is all that is known.
    assert trace.transfers.select("start", "end").row(0) == (10.0, 13.0)


def test_tasks_are_in_the_order_of_the_dependencies(tmp_path: Path) -> None:
    """The manager submits tasks that are ready together in this order."""
    turned = {"dir": ["two", "one"], "two": ["out"], "one": ["out"]}
    trace = read(write(tmp_path), dag=write_dag(tmp_path, turned))
    assert trace.tasks["id"].to_list() == ["dir", "two", "one", "out"]
    one_core = tl.simulate(
        tl.Scenario(platform="1x1", workload=tl.Workload.from_trace(trace), policy="fcfs")
    )
    assert one_core.placements["start"].to_list() == [0.0, 5.0, 74.0, 134.0]


def test_without_dependencies_tasks_are_submitted_when_they_were_ready(tmp_path: Path) -> None:
    trace = read(write(tmp_path))
    assert trace.tasks["submit"].to_list() == trace.tasks["ready"].to_list()
    assert trace.tasks["parents"].null_count() == 4
    what = "tasks whose dependencies are not known: submitted when they were ready"
    assert notes(trace)["assumed", what] == (4, ())


def test_differences_between_run_and_dependencies_are_counted(tmp_path: Path) -> None:
    dag = {"dir": ["one", "one", "lost"], "lost": ["two"]}
    trace = read(write(tmp_path), dag=write_dag(tmp_path, dag))
    columns = ("id", "submit", "parents")
    assert trace.tasks.select(columns).rows() == [
        ("dir", 0.0, []),
        ("one", 0.0, ["dir"]),
        ("two", 0.0, []),
        ("out", 1100.0, []),
    ]
    said = notes(trace)
    assert said["ignored", "tasks of the dependencies that are not in the run, left out"] == (
        (1, ("lost",))
    )
    what = "tasks that the dependencies do not have: submitted when they were ready"
    assert said["assumed", what] == (1, ("flow-run007.csv:2",))
    assert said["repaired", "children that a task lists more than once"] == (1, ())


@pytest.mark.parametrize(
    ("dag", "message"),
    [
        ({"x": ["y"]}, r"dag\.json: dag: has no task of flow-run007\.csv"),
        ({}, r"dag\.json: dag: has no task of flow-run007\.csv"),
        ({"one": ["two"], "two": ["one"]}, "the tasks wait for each other: one -> two -> one"),
        ({"one": ["one"]}, "the tasks wait for each other: one -> one"),
        (["one"], r"dag\.json: the document: is not an object"),
        ({"one": "two"}, r"dag\.json: one: is not a list"),
        ({"one": [2]}, r"dag\.json: one\[0\]: 2 is not text"),
    ],
)
def test_dependencies_that_cannot_be_used_are_an_error(
    tmp_path: Path, dag: object, message: str
) -> None:
    file = write(tmp_path)
    with pytest.raises(InputError, match=message):
        read(file, dag=write_dag(tmp_path, dag))


@pytest.mark.parametrize("name", [",", "type", "ready", "submit", "execute_start", "execute_end"])
def test_a_missing_column_is_named(tmp_path: Path, name: str) -> None:
    other = "id," if name == "," else f",other_{name}"
    head = COLUMNS.replace(name if name == "," else f",{name}", other, 1)
    with pytest.raises(InputError, match="has no column") as error:
        read(write(tmp_path, head + ONE), format="flowbench")
    assert ("without a name" if name == "," else name) in str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("1015,1020,1025", "soon,1020,1025", "lines whose ready is not a time in range"),
        ("8e6,1180", "many,1180", "lines whose stage_in_bytes is not a number in range"),
        ("one,None", ",None", "lines whose id is missing"),
        ("44.5,0,ann,5", "44.5,0,ann", "lines without 22 cells"),
    ],
)
def test_a_line_that_cannot_be_read_is_counted_with_its_number(
    tmp_path: Path, old: str, new: str, what: str
) -> None:
    assert old in ONE
    file = write(tmp_path, RUN.replace(ONE, ONE.replace(old, new, 1)))
    trace = read(file)
    assert trace.tasks["id"].to_list() == ["out", "two", "dir"]
    assert notes(trace)["skipped", what] == (1, ("flow-run007.csv:4",))
    with pytest.raises(InputError, match=r"flow-run007\.csv:4"):
        read(file, strict=True)


def test_what_the_log_lacks_is_noted(tmp_path: Path) -> None:
    bare = ONE.replace("1130,1135,8e6", ",,8e6").replace("1180,1185,4e6", ",,")
    trace = read(write(tmp_path, COLUMNS + bare + TWO + DIR))
    assert trace.task_times.row(0) == ("one", 60.0, 60.0, 0.0, 5.0, 5.0)
    said = notes(trace)
    for staging, consequence in (("in", "begins with"), ("out", "lasts until the end of")):
        what = (
            f"tasks of the type compute without a time of stage_{staging}: their computation "
            f"{consequence} their execution"
        )
        assert said["assumed", what] == (1, ("flow-run007.csv:2",))
    assert said["ignored", "bytes of stage_in without a time"] == (1, ("flow-run007.csv:2",))
    assert said["ignored", "values of the column 'kickstart_executables_argv'"] == (1, ())
    assert said["noticed", "times in whole seconds"] == (15, ())
    assert said["assumed", "tasks need one core each: none is recorded"] == (3, ())
    assert said["noticed", "machines that tasks ran on, but that are not described"] == (
        (3, ("n1", "n2", "s"))
    )


def test_a_run_without_an_anomaly_is_normal(tmp_path: Path) -> None:
    file = write(tmp_path, COLUMNS + ONE + DIR, "big-flow-run12.csv.gz")
    file.write_bytes(gzip.compress(file.read_bytes()))
    assert read(file).manifest.facts["labels"] == {
        "workflow": "big-flow",
        "anomaly": "normal",
        "repetition": "12",
    }
    assert "labels" not in read(write(tmp_path, name="anything.csv")).manifest.facts


def test_the_quality_gate_names_the_line(tmp_path: Path) -> None:
    assert not check(read(write(tmp_path), dag=write_dag(tmp_path))).errors
    twice = RUN.replace("two,cpu_2", "one,cpu_2")
    found = {each.rule: each for each in check(read(write(tmp_path, twice))).errors}
    assert [str(each.place) for each in found["unique-names"].examples] == ["flow-run007.csv:4"]
    backwards = RUN.replace("1132,1138", "1138,1132")
    trace = read(write(tmp_path, backwards), dag=write_dag(tmp_path))
    assert {each.rule for each in check(trace).errors} == {"lifecycle-order"}


def test_the_trace_folder_keeps_everything(tmp_path: Path) -> None:
    trace = read(write(tmp_path), dag=write_dag(tmp_path))
    assert Trace.load(trace.save(tmp_path / "saved")) == trace


def test_the_format_is_recognised_and_cannot_be_written(tmp_path: Path) -> None:
    assert recognise(write(tmp_path, name="log.txt")).name == "flowbench"
    assert FORMATS["flowbench"].write is None


def test_the_commands_have_an_option_for_the_dependencies(tmp_path: Path) -> None:
    run, dag, out = write(tmp_path), write_dag(tmp_path), tmp_path / "flow.trace"
    words = ["convert", str(run), str(out), "--dag", str(dag)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert Trace.load(out).tasks["parents"].list.len().to_list() == [0, 1, 1, 2]
    (tmp_path / "log.swf").write_text("1 0 5 10 4 -1 -1 4 60 -1 1 7 1 -1 1 -1 -1 -1\n")
    result = CliRunner().invoke(app, ["inspect", str(tmp_path / "log.swf"), "--dag", str(dag)])
    assert result.exit_code == 2
    assert "--dag applies to flowbench" in result.output.replace("\n", " ")


def test_a_scenario_names_the_dependencies_beside_itself(tmp_path: Path) -> None:
    write(tmp_path)
    write_dag(tmp_path)
    file = tmp_path / "scenario.yaml"
    file.write_text(
        "platform: 1x2\nworkload: {path: flow-run007.csv, options: {dag: dag.json}}\npolicy: fcfs\n"
    )
    twin = tl.simulate(tl.load(file))
    assert twin.placements["end"].to_list() == [5.0, 65.0, 74.0, 89.0]
