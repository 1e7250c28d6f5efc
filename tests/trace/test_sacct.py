"""SLURM accounting: all formats of sacct for ids, times, durations, memory and states."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from twinloop.description.errors import FormatError, InputError
from twinloop.trace.formats.sacct import FORMAT, read
from twinloop.trace.formats.sacct.values import STATUS_OF_STATE
from twinloop.trace.tables import STATUSES
from twinloop.trace.trace import Trace

FIELDS = (
    *("JobID", "JobName", "User", "Group", "Account", "Partition", "QOS", "Submit", "Start"),
    *("End", "State", "ExitCode", "Elapsed", "Timelimit", "ReqCPUS", "AllocCPUS", "ReqNodes"),
    *("NNodes", "ReqMem", "MaxRSS", "TotalCPU", "NodeList", "ReqTRES"),
)
JOB = dict.fromkeys(FIELDS, "") | {
    "JobID": "100",
    "JobName": "sim",
    "User": "ann",
    "Group": "phys",
    "Account": "grant1",
    "Partition": "batch",
    "QOS": "normal",
    "Submit": "2024-03-01T12:00:00",
    "Start": "2024-03-01T12:10:00",
    "End": "2024-03-01T13:10:30",
    "State": "COMPLETED",
    "ExitCode": "0:0",
    "Elapsed": "01:00:30",
    "Timelimit": "1-00:00:00",
    "ReqCPUS": "8",
    "AllocCPUS": "16",
    "ReqNodes": "2",
    "NNodes": "2",
    "ReqMem": "4Gn",
    "TotalCPU": "08:00:00",
    "NodeList": "node7",
    "ReqTRES": "cpu=8,gres/gpu=2,mem=8G,node=2",
}


def log(path: Path, *jobs: dict[str, str], fields: tuple[str, ...] = FIELDS) -> Path:
    file = path / "acct.txt"
    rows = ["|".join(fields)] + ["|".join((JOB | job)[name] for name in fields) for job in jobs]
    file.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return file


def step(**changes: str) -> dict[str, str]:
    blank = dict.fromkeys(("User", "Group", "Partition", "Timelimit", "ReqMem", "ReqTRES"), "")
    return blank | changes


def count(trace: Trace, words: str) -> int:
    return sum(note.count for note in trace.manifest.cleaned if words in note.what)


def test_every_field_is_in_its_column(tmp_path: Path) -> None:
    trace = read(log(tmp_path, {}))
    row = trace.tasks.row(0, named=True)
    assert {name: value for name, value in row.items() if value is not None} == {
        "id": "100",
        "name": "sim",
        "user": "ann",
        "group": "phys",
        "queue": "batch",
        "partition": "batch",
        "submit": 0.0,
        "requested_cores": 8.0,
        "requested_nodes": 2,
        "requested_memory": 2 * 4 * 2.0**30,
        "requested_time": 86_400.0,
        "resources": [{"name": "gpu", "amount": 2.0}],
        "run_time": 3630.0,
        "cpu_time": 8 * 3600.0,
        "status": "completed",
        "exit_code": 0,
        "line": 2,
    }
    assert trace.placements.row(0) == (
        *("100", 0, "node7", 16.0, None, 600.0, 600 + 3630.0, "completed"),
    )
    noon = datetime(2024, 3, 1, 12, tzinfo=UTC)
    assert trace.manifest.epoch_ms == int(noon.timestamp()) * 1000
    assert count(trace, "no zone") == 1
    assert count(trace, "values of the field QOS") == 1


def test_the_offset_of_the_clock_moves_the_epoch_alone(tmp_path: Path) -> None:
    plain, ahead = read(log(tmp_path, {})), read(log(tmp_path, {}), utc_offset=2)
    assert ahead.manifest.epoch_ms == plain.manifest.epoch_ms - 2 * 3_600_000  # type: ignore[operator]
    assert ahead.tasks.equals(plain.tasks)
    assert not count(ahead, "no zone")


def test_steps_are_merged_into_their_job(tmp_path: Path) -> None:
    trace = read(
        log(
            tmp_path,
            {"TotalCPU": ""},
            step(JobID="100.batch", MaxRSS="1180K", TotalCPU="00:10.500"),
            step(JobID="100.extern", MaxRSS="0", TotalCPU="00:00:00"),
            step(JobID="100.0", MaxRSS="2.5M", TotalCPU="01:00:00"),
            step(JobID="999.0", MaxRSS="9G"),
        )
    )
    assert trace.tasks.height == 1
    assert trace.tasks.select("memory_used", "cpu_time").row(0) == (2.5 * 2**20, 3610.5)
    assert count(trace, "job steps, folded") == 4
    assert count(trace, "steps whose job is not in the log") == 1


@pytest.mark.parametrize("used", [("", ""), ("00:10:00", "")])
def test_a_cpu_time_that_is_missing_in_a_step_is_unknown(
    tmp_path: Path, used: tuple[str, str]
) -> None:
    steps = [step(JobID=f"100.{n}", TotalCPU=each) for n, each in enumerate(used)]
    trace = read(log(tmp_path, {"TotalCPU": ""}, *steps, {"JobID": "101", "TotalCPU": ""}))
    assert trace.tasks["cpu_time"].to_list() == [None, None]


def test_run_times_are_known_without_start_times(tmp_path: Path) -> None:
    fields = ("JobID", "Submit", "Elapsed", "State")
    waiting = {"JobID": "101", "Elapsed": "00:00:00", "State": "CANCELLED"}
    trace = read(log(tmp_path, {}, waiting, fields=fields))
    assert trace.tasks["run_time"].to_list() == [3630.0, None]


def test_arrays_heterogeneous_jobs_and_requeues(tmp_path: Path) -> None:
    trace = read(
        log(
            tmp_path,
            {"JobID": "5_1"},
            {"JobID": "5_[2-9%2]", "State": "PENDING", "Start": "Unknown", "End": "Unknown"},
            {"JobID": "6+0"},
            {"JobID": "6+1"},
            {"JobID": "7", "State": "REQUEUED"},
            {"JobID": "7", "Submit": "2024-03-01T14:00:00", "Start": "2024-03-01T15:00:00"},
        )
    )
    assert trace.tasks["id"].to_list() == ["5_1", "5_[2-9%2]", "6+0", "6+1", "7"]
    assert trace.tasks["array"].to_list() == ["5", "5", None, None, None]
    assert trace.tasks["submit"].to_list() == [0.0] * 5
    attempts = trace.placements.select("task", "attempt", "reason").rows()
    assert attempts[-2:] == [("7", 0, "preempted"), ("7", 1, "completed")]
    assert "5_[2-9%2]" not in trace.placements["task"]
    assert count(trace, "several array members") == 1
    assert count(trace, "heterogeneous") == 2
    assert count(trace, "next attempts") == 1


@pytest.mark.parametrize("state", ["RUNNING", "PENDING", "SUSPENDED"])
def test_jobs_that_have_not_ended(tmp_path: Path, state: str) -> None:
    trace = read(log(tmp_path, {"State": state, "End": "Unknown", "Start": "None"}))
    assert trace.tasks.select("status", "run_time", "exit_code").row(0) == (None, None, None)
    assert trace.placements.is_empty()
    assert count(trace, "not ended") == 1
    running = read(log(tmp_path, {"State": "RUNNING", "End": "Unknown"}))
    assert running.placements.select("start", "end").row(0) == (600.0, None)


@pytest.mark.parametrize(
    ("state", "status"),
    [
        ("COMPLETED", "completed"),
        ("FAILED", "failed"),
        ("CANCELLED by 1000", "cancelled"),
        ("TIMEOUT", "killed"),
        ("OUT_OF_MEMORY", "killed"),
        ("NODE_FAIL", "lost"),
        ("PREEMPTED", "killed"),
        ("DREAMING", None),
    ],
)
def test_states(tmp_path: Path, state: str, status: str | None) -> None:
    trace = read(log(tmp_path, {"State": state}))
    assert trace.tasks["status"][0] == status
    assert count(trace, "unknown states") == (status is None)
    assert set(STATUS_OF_STATE.values()) <= set(STATUSES)


@pytest.mark.parametrize(("text", "code"), [("0:0", 0), ("2:0", 2), ("0:9", -9), ("1:15", -15)])
def test_exit_codes(tmp_path: Path, text: str, code: int) -> None:
    assert read(log(tmp_path, {"ExitCode": text})).tasks["exit_code"][0] == code


def test_a_job_that_never_started_has_no_exit_code(tmp_path: Path) -> None:
    cancelled = {"JobID": "2", "State": "CANCELLED by 0", "Start": "None", "Elapsed": "00:00:00"}
    trace = read(log(tmp_path, {}, cancelled))
    assert trace.tasks["exit_code"].to_list() == [0, None]
    assert trace.tasks["run_time"].to_list() == [3630.0, None]
    few = read(log(tmp_path, {}, fields=("JobID", "Submit", "State", "ExitCode")))
    assert few.tasks["exit_code"].to_list() == [0]


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4Gn", 8 * 2.0**30),
        ("2Gc", 16 * 2.0**30),
        ("16G", 16 * 2.0**30),
        ("512", 512 * 2.0**20),
        ("1.5T", 1.5 * 2**40),
        ("0n", None),
        ("", 8 * 2.0**30),  # then from ReqTRES
    ],
)
def test_requested_memory(tmp_path: Path, text: str, size: float | None) -> None:
    assert read(log(tmp_path, {"ReqMem": text})).tasks["requested_memory"][0] == size


@given(
    lengths=st.lists(
        st.tuples(st.integers(0, 99), st.integers(0, 86_399), st.integers(0, 999)), min_size=1
    )
)
@examples(20)
def test_lengths_of_time(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[tuple[int, int, int]]
) -> None:
    jobs = []
    for days, seconds, milli in lengths:
        clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{milli:03}"
        text = f"{days}-{clock}" if days else clock
        jobs.append({"JobID": str(len(jobs)), "TotalCPU": text})
    trace = read(log(tmp_path_factory.mktemp("length"), *jobs))
    expected = [days * 86_400 + seconds + milli / 1000 for days, seconds, milli in lengths]
    assert trace.tasks["cpu_time"].to_list() == pytest.approx(expected, abs=1e-6)


def test_unlimited_times_are_unknown(tmp_path: Path) -> None:
    trace = read(log(tmp_path, {"Timelimit": "UNLIMITED"}, {"Timelimit": "Partition_Limit"}))
    assert trace.tasks["requested_time"].to_list() == [None]
    assert count(trace, "time limits UNLIMITED") == 2


def test_several_nodes_are_not_split_by_guess(tmp_path: Path) -> None:
    trace = read(
        log(tmp_path, {"NodeList": "node[01-02]"}, {"JobID": "2", "NodeList": "None assigned"})
    )
    assert trace.placements["machine"].to_list() == [None, None]
    assert count(trace, "lists of several nodes") == 1


def test_few_fields_are_enough(tmp_path: Path) -> None:
    fields = ("JobID", "Submit", "Start", "End")
    trace = read(log(tmp_path, {}, fields=fields))
    assert trace.tasks.select("id", "submit", "requested_cores").row(0) == ("100", 0.0, None)
    assert trace.placements.select("start", "end").row(0) == (600.0, None)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("Submit", "yesterday"),
        ("Submit", "2024-02-30T00:00:00"),
        ("Elapsed", "soon"),
        ("ReqCPUS", "1e400"),
        ("ReqMem", "4Q"),
        ("MaxRSS", "-5K"),
        ("ExitCode", "9"),
        ("JobID", ""),
    ],
)
def test_lines_that_cannot_be_read(tmp_path: Path, field: str, value: str) -> None:
    file = log(tmp_path, {"JobID": "1"}, {"JobID": "2"} | {field: value}, {"JobID": "3"})
    trace = read(file)
    assert trace.tasks["id"].to_list() == ["1", "3"]
    assert [n.examples for n in trace.manifest.cleaned if n.kind == "skipped"] == [("acct.txt:3",)]
    with pytest.raises(InputError, match=rf"acct\.txt:3: {field}"):
        read(file, strict=True)


def test_a_bar_in_a_name_is_not_read_as_two_fields(tmp_path: Path) -> None:
    trace = read(log(tmp_path, {"JobName": "a|b"}, {"JobID": "2"}))
    assert trace.tasks["id"].to_list() == ["2"]
    assert count(trace, f"lines without {len(FIELDS)} fields") == 1


def test_recognised_and_refused_files(tmp_path: Path) -> None:
    assert FORMAT.recognises(tmp_path, b"JobID|User|State\n")
    assert FORMAT.recognises(tmp_path, b"jobid|submit|\n")
    assert not FORMAT.recognises(tmp_path, b"JobID,SubmitTime,RunTime\n")
    assert not FORMAT.recognises(tmp_path, b"id|submit\n")
    file = tmp_path / "x.txt"
    for text, words in (
        ("", "is empty"),
        ("Name|Colour\na|b\n", "JobID"),
        ("JobID|JobID|User\n", "twice"),
        ("JobID|User\n", "no job"),
        ("JobID|User\n1.batch|\n", "steps only"),
    ):
        file.write_text(text)
        with pytest.raises((InputError, FormatError), match=words):
            read(file)
