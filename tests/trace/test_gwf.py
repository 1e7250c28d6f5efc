"""The Grid Workloads Format, on lines with values computed by hand."""

from pathlib import Path

import pytest

from twinloop.description.errors import InputError
from twinloop.trace.formats.gwf import FIELDS, FORMAT, read
from twinloop.trace.trace import Trace

# JobID submit wait run nproc cpu mem reqn reqtime reqmem status user group exe queue partition
# orig last structure params, then nine more.
JOB = [
    *("7", "10", "5", "60", "4", "50", "100", "8", "3600", "200", "1", "u1", "g1", "x1", "q1"),
    *("p1", "s0", "s1", "BoT", "b9", *["-1"] * 9),
]


def line(sep: str = " ", **changes: str) -> str:
    cells = list(JOB)
    for name, value in changes.items():
        cells[FIELDS.index(name)] = value
    return sep.join(cells)


def log(path: Path, *lines: str) -> Path:
    file = path / "log.gwf"
    file.write_text("\n".join(["# made by hand", *lines]) + "\n")
    return file


def count(trace: Trace, words: str) -> int:
    return sum(note.count for note in trace.manifest.cleaned if words in note.what)


def test_there_are_29_fields() -> None:
    assert len(FIELDS) == len(set(FIELDS)) == 29


@pytest.mark.parametrize("sep", [" ", "\t", "   "])
def test_every_field_is_in_its_column(tmp_path: Path, sep: str) -> None:
    trace = read(log(tmp_path, line(sep)))
    row = trace.tasks.row(0, named=True)
    assert {name: value for name, value in row.items() if value is not None} == {
        "id": "7",
        "name": "x1",
        "user": "u1",
        "group": "g1",
        "queue": "q1",
        "partition": "p1",
        "array": "b9",
        "submit": 10.0,
        "requested_cores": 8.0,
        "requested_memory": 200 * 1024 * 8.0,
        "requested_time": 3600.0,
        "run_time": 60.0,
        "cpu_time": 200.0,
        "memory_used": 100 * 1024 * 4.0,
        "status": "completed",
        "line": 2,
    }
    assert trace.placements.select("task", "cores", "start", "end", "reason").row(0) == (
        *("7", 4.0, 15.0, 75.0, "completed"),
    )
    assert trace.manifest.source is not None
    assert trace.manifest.source.header == ("made by hand",)
    assert count(trace, "values of LastRunSiteID") == 1


def test_minus_one_is_unknown_never_a_number(tmp_path: Path) -> None:
    trace = read(log(tmp_path, "1 0" + " -1" * 27))
    row = trace.tasks.row(0, named=True)
    assert {name for name, value in row.items() if value is not None} == {"id", "submit", "line"}
    assert trace.placements.select("cores", "start", "end").row(0) == (None, None, None)


def test_a_missing_wait_leaves_the_start_unknown_but_not_the_run_time(tmp_path: Path) -> None:
    trace = read(log(tmp_path, line(WaitTime="-1")))
    assert trace.placements.select("start", "end").row(0) == (None, None)
    assert trace.tasks["run_time"][0] == 60


def test_unix_times_start_at_the_first_submission(tmp_path: Path) -> None:
    first, second = line(SubmitTime="1136070024"), line(JobID="8", SubmitTime="1136070690")
    trace = read(log(tmp_path, first, second))
    assert trace.manifest.epoch_ms == 1_136_070_024_000
    assert trace.tasks["submit"].to_list() == [0.0, 666.0]
    assert count(trace, "Unix seconds") == 2


def test_broken_lines_are_counted_with_their_place(tmp_path: Path) -> None:
    file = log(tmp_path, line(), "1 2 3", line(RunTime="long"), "", line(JobID="9"), line() + " 0")
    trace = read(file)
    assert trace.tasks["id"].to_list() == ["7", "9", "7"]
    assert trace.tasks["line"].to_list() == [2, 6, 7]
    notes = {note.what: note for note in trace.manifest.cleaned}
    assert notes["lines without 29 fields"].examples == ("log.gwf:3",)
    assert notes["lines whose RunTime is not a time in range"].examples == ("log.gwf:4",)
    assert count(trace, "fields after the 29th") == 1
    assert notes["fields after the 29th"].examples == ("log.gwf:7",)
    with pytest.raises(InputError, match=r"log\.gwf:3: has 3 fields"):
        read(file, strict=True)
    with pytest.raises(InputError, match=r"log\.gwf:2: RunTime: 'long' is not a time in range"):
        read(log(tmp_path, line(RunTime="long")), strict=True)


@pytest.mark.parametrize("value", ["1e400", "nan", "inf", "9" * 30, "0x10", "1,5", "5e11"])
def test_impossible_times_do_not_become_numbers(tmp_path: Path, value: str) -> None:
    trace = read(log(tmp_path, line(SubmitTime=value), line(JobID="8")))
    assert trace.tasks["id"].to_list() == ["8"]
    assert count(trace, "SubmitTime is not a time in range") == 1


def test_workflow_logs_name_their_fields_and_dependencies(tmp_path: Path) -> None:
    file = tmp_path / "flow.gwf"
    file.write_text(
        "WorkflowID, JobID , SubmitTime, RunTime , NProcs , ReqNProcs , Dependencies\n"
        "0, 1 , 16, 11, 1, 1, \n0, 2 , 40, 12, 1, 2, 1\n0, 3, 41, 13, 1, 1, 1 2\n"
    )
    assert FORMAT.recognises(file, file.read_bytes())
    trace = read(file)
    assert trace.tasks["parents"].to_list() == [None, ["1"], ["1", "2"]]
    assert trace.tasks["requested_cores"].to_list() == [1.0, 2.0, 1.0]


def test_only_files_of_the_format_are_recognised(tmp_path: Path) -> None:
    def claims(text: str) -> bool:
        return FORMAT.recognises(tmp_path / "x", text.encode())

    assert claims("# c\n" + line() + "\n")
    assert claims(line("\t"))
    assert not claims("; swf\n" + " ".join(["1"] * 18))
    assert not claims("JobID|Submit|Start\n1|2|3")
    assert not claims("id,submit\n1,2")
    assert not claims("")


@pytest.mark.parametrize("text", ["", "# only words\n", "x y z\n"])
def test_a_log_without_jobs_is_an_error(tmp_path: Path, text: str) -> None:
    file = tmp_path / "none.gwf"
    file.write_text(text)
    with pytest.raises(InputError, match=r"none\.gwf.*no job"):
        read(file)
