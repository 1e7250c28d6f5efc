"""SWF: the parser against a slow one, the archive's conventions, round trips, broken logs."""

import gzip
import re
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinloop._core import SwfParser
from twinloop.description import Cleaning, FormatError, InputError
from twinloop.trace import Edit, Manifest, Trace
from twinloop.trace.formats import swf
from twinloop.trace.formats.swf.header import parse_header
from twinloop.trace.recorded_runs import collect_runs
from twinloop.trace.tables import COMMAND_COLUMNS, COUNTER_COLUMNS

# --- the slow parser -----------------------------------------------------------------------------

NUMBER = re.compile(r"-?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
WHOLE_FIELDS = {0, *range(10, 17)}


class Unreadable(Exception):
    pass


def slow_field(index: int, word: str) -> float | int | None:
    if not NUMBER.fullmatch(word):
        raise Unreadable
    exact = Decimal(word)
    if index in WHOLE_FIELDS:
        if abs(exact) >= 2**63 or exact != int(exact):
            raise Unreadable
        return int(exact) if exact >= 0 else None
    value = float(word)
    if abs(value) > 2**53 or (value == 0 and exact != 0):
        raise Unreadable
    return value if value >= 0 else None


def slow_parse(data: bytes) -> tuple[list[tuple[Any, ...]], int, list[str]]:
    """Records with their lines, the number of unreadable lines, the header."""
    text = data.removeprefix(b"\xef\xbb\xbf").decode("latin-1")
    lines = re.split("\r\n|\r|\n", text)
    records, unreadable, header, in_header = [], 0, [], True
    for number, line in enumerate(lines, start=1):
        words = [word for word in re.split("[ \t]+", line) if word]
        if words and words[0].startswith(";"):
            if in_header:
                header.append(line.lstrip(" \t")[1:])
            continue
        if not words:
            continue
        in_header = False
        try:
            if len(words) != 18:
                raise Unreadable
            records.append((number, *(slow_field(i, word) for i, word in enumerate(words))))
        except Unreadable:
            unreadable += 1
    return records, unreadable, header


def native_parse(data: bytes, cuts: list[int]) -> tuple[list[tuple[Any, ...]], int, list[str]]:
    parser = SwfParser()
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    for begin, end in pairwise(edges):
        parser.feed(data[begin:end])
    table = pl.DataFrame(parser.finish())
    kept = {"negative", "comment"}
    unreadable = sum(each.count for each in parser.problems if each.kind not in kept)
    return table.rows(), unreadable, [line.decode("latin-1") for line in parser.header]


plain_number = st.one_of(
    st.just("-1"),
    st.integers(0, 10**9).map(str),
    st.decimals(0, 10**6, places=2).map(str),
)
odd_number = st.sampled_from(
    ["-0", "-7", "007", "5.", ".5", "1e3", "2.5E-3", "9007199254740992", "9007199254740993"]
    + ["9223372036854775807", "9223372036854775808", "1e400", "1e-400", "0e999", "1.0", "-1.0"]
    + ["+5", "nan", "inf", "0x10", "1_0", "1e", "-", ".", "--1", "1,5", "abc", "1\x00", "\xff"]
    + ["123456789012345678901234567890", "0.1000000000000000055511151231257827", "1e22", "1e23"]
    + ["4503599627370497.5", "8.5e-320", "1" + "0" * 400, "12;"]
)
good_line = st.lists(plain_number, min_size=18, max_size=18)
any_line = st.one_of(
    good_line,
    good_line,
    st.lists(st.one_of(plain_number, odd_number), min_size=18, max_size=18),
    st.lists(plain_number, max_size=20),
).map(lambda words: " ".join(words))
comment = st.text(st.characters(codec="latin-1", exclude_characters="\r\n"), max_size=20).map(
    ";".__add__
)
log = st.lists(
    st.tuples(
        st.sampled_from(["", "  ", "\t"]),
        st.one_of(any_line, any_line, comment, st.just("")),
        st.sampled_from(["\n", "\r\n", "\r", " \n", "\n\n"]),
    ).map("".join),
    max_size=12,
).map("".join)


@given(log, st.booleans(), st.booleans(), st.lists(st.integers(0, 10**6), max_size=8))
def test_the_parser_agrees_with_a_slow_one_for_any_cut_of_the_text(
    text: str, mark: bool, ended: bool, cuts: list[int]
) -> None:
    text = text if ended else text.rstrip("\r\n")
    data = (b"\xef\xbb\xbf" if mark else b"") + text.encode("latin-1")
    assert native_parse(data, cuts) == slow_parse(data)


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=4))
def test_any_bytes_are_parsed_alike(data: bytes, cuts: list[int]) -> None:
    assert native_parse(data, cuts) == slow_parse(data)


@given(st.floats(0, 2.0**53))
def test_every_double_is_read_to_its_last_bit(value: float) -> None:
    line = " ".join(["1", repr(value), *["-1"] * 16]).encode()
    assert native_parse(line, [])[0][0][2] == value


def test_lines_are_found_in_bounded_memory() -> None:
    parser = SwfParser()
    for _ in range(64):
        parser.feed(b"1 " * (1 << 19))  # one line of 64 MiB
    parser.feed(b"\n1" + b" -1" * 17 + b"\n")
    assert len(parser.finish()) == 1
    (problem,) = parser.problems
    assert (problem.kind, problem.count, problem.places[0][0]) == ("too_long", 1, 1)


def test_a_parser_that_has_finished_takes_nothing_more() -> None:
    parser = SwfParser()
    parser.finish()
    with pytest.raises(ValueError, match="has finished"):
        parser.feed(b"")


# --- meaning of the fields -----------------------------------------------------------------------

LOG = """\
; Version: 2.2
; UnixStartTime: 1000
; MaxProcs: 100
; Queue:  0  interactive
1 10 5 60 4 50.5 2048 8 90 1024 1 3 2 9 0 1 -1 -1
2 20.5 -1 0 -1 -1 -1 2 -1 -1 0 3 -1 -1 -1 -1 1 7.5
3 30 1 -1 0 -1 -1 -1 -1 -1 5 -1 -1 -1 -1 -1 -1 -1
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.swf"


def read(path: Path, text: str | bytes, **options: bool) -> Trace:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return swf.read(path, **options)


def test_a_log_becomes_these_tables(path: Path) -> None:
    trace = read(path, LOG)
    # The other columns, which no log has, are null.
    silent = ("parents", "planned_time", *COMMAND_COLUMNS, *COUNTER_COLUMNS)
    assert trace.tasks.drop(silent).select(pl.all().drop_nulls().len()).row(0) == (
        *(3, 1, 2, 1, 1, 1, 0, 0, 3, 0, 2, 0, 1, 1, 0, 0, 2, 1, 1, 0, 0, 3, 0, 0, 1, 0, 3),
    )
    assert trace.tasks.select(silent[1:]).null_count().row(0) == (3,) * (len(silent) - 1)
    assert trace.tasks.to_dicts()[0] == {
        **dict.fromkeys(trace.tasks.columns),
        "id": "1",
        "name": "9",
        "user": "3",
        "group": "2",
        "queue": "0",
        "partition": "1",
        "submit": 10.0,
        "requested_cores": 8.0,
        "requested_memory": 1024.0 * 1024 * 8,
        "requested_time": 90.0,
        "run_time": 60.0,
        "cpu_time": 202.0,
        "memory_used": 2048.0 * 1024 * 4,
        "status": "completed",
        "line": 5,
    }
    second = trace.tasks.row(1, named=True)
    assert (second["parents"], second["think_time"], second["status"]) == (["1"], 7.5, "failed")
    assert trace.placements.drop("machine", "memory").rows() == [
        ("1", 0, 4.0, 15.0, 75.0, "completed"),
        ("3", 0, 0.0, 31.0, None, "cancelled"),
    ]
    assert trace.manifest.epoch_ms == 1_000_000
    assert trace.manifest.facts["swf"] == {
        "version": "2.2",
        "unix_start_time": 1000,
        "max_procs": 100,
        "queues": {"0": "interactive"},
    }
    assert trace.manifest.cleaned == ()


def test_runnable_needs_processors_and_a_run_time(path: Path) -> None:
    lines = [
        "1 0 -1 60 4 -1 -1 8 -1 -1 1",  # requested before allocated
        "2 0 -1 0 4 -1 -1 -1 -1 -1 0",  # allocated, zero seconds, failed
        "3 0 -1 -1 4 -1 -1 8 -1 -1 1",  # no run time
        "4 0 -1 60 -1 -1 -1 -1 -1 -1 1",  # no processors
        "5 0 -1 60 0 -1 -1 0 90 -1 1",  # zero processors
        "6 0 -1 60 4 -1 -1 0 -1 -1 1",  # a request of zero is no request
    ]
    trace = read(path, "\n".join(line + " -1" * 7 for line in lines))
    chosen = collect_runs(trace).filter("runnable")
    assert chosen.select("id", "processors", "run_time").rows() == [
        ("1", 8.0, 60.0),
        ("2", 4.0, 0.0),
        ("6", 4.0, 60.0),
    ]
    assert trace.tasks["requested_time"].to_list() == [None, None, None, None, 90.0, None]


PARTS = """\
7 100 20 50 4 -1 -1 4 -1 -1 1 1 -1 -1 -1 -1 -1 -1
7 100 10 20 4 -1 -1 4 -1 -1 2 1 -1 -1 -1 -1 -1 -1
7 -1 10 30 2 -1 -1 4 -1 -1 3 1 -1 -1 -1 -1 -1 -1
8 200 5 40 1 -1 -1 1 -1 -1 2 1 -1 -1 -1 -1 -1 -1
8 -1 6 2 1 -1 -1 1 -1 -1 4 1 -1 -1 -1 -1 -1 -1
"""


def test_partial_executions_are_attempts_of_one_task(path: Path) -> None:
    trace = read(path, PARTS)
    assert trace.tasks.select("id", "submit", "run_time", "status").rows() == [
        ("7", 100.0, 50.0, "completed"),
        ("8", 200.0, 42.0, "failed"),
    ]
    assert trace.placements.select("task", "attempt", "cores", "start", "end", "reason").rows() == [
        ("7", 0, 4.0, 110.0, 130.0, "preempted"),
        ("7", 1, 2.0, 140.0, 170.0, "completed"),
        ("8", 0, 1.0, 205.0, 245.0, "preempted"),
        ("8", 1, 1.0, 251.0, 253.0, "failed"),
    ]
    (note,) = trace.manifest.cleaned
    assert (note.kind, note.count) == ("invented", 1)
    swf.write(trace, path)
    again = swf.read(path)
    for table in ("tasks", "placements"):
        one, other = (each.tables[table].drop("line", strict=False) for each in (trace, again))
        assert one.equals(other)


# --- broken logs ---------------------------------------------------------------------------------

GOOD = "1 0 5 60 4 -1 -1 4 90 -1 1 7 1 -1 0 -1 -1 -1\n"


@pytest.mark.parametrize(
    ("line", "error", "cleaning"),
    [
        ("2 0 5", "log.swf:2: has 3 fields, not 18", "skipped 1: lines without 18 fields"),
        (GOOD.strip() + " 9", "log.swf:2: has 19 fields, not 18", "skipped 1: lines without 18"),
        (
            GOOD.replace("60", "abc").strip(),
            "log.swf:2: run time: 'abc' is not a number",
            "skipped 1: lines whose run time is not a number",
        ),
        (
            GOOD.replace("60", "6\x000").strip(),
            r"log.swf:2: run time: '6\\x000' is not a number",
            "skipped 1: lines whose run time is not a number",
        ),
        (
            GOOD.replace("7", "7.5").strip(),
            "log.swf:2: user: '7.5' is not a whole number",
            "skipped 1: lines whose user is not a whole number",
        ),
        (
            GOOD.replace("60", "1e999").strip(),
            "log.swf:2: run time: '1e999' is too large or too small",
            "skipped 1: lines whose run time is out of range",
        ),
        (
            GOOD.replace("60", "-60").strip(),
            r"log.swf:2: run time: '-60' is below zero \(write -1 where it is unknown\)",
            "repaired 1: values of run time below zero, read as unknown",
        ),
        ("1" * (1 << 20) + "1", "log.swf:2: is longer than 1 MiB", "skipped 1: lines longer than"),
    ],
)
def test_a_line_that_cannot_be_read_is_counted_or_raised(
    path: Path, line: str, error: str, cleaning: str
) -> None:
    trace = read(path, GOOD + line + "\n" + GOOD)
    (note,) = trace.manifest.cleaned
    assert str(note).startswith(cleaning)
    assert note.examples == ("log.swf:2",)
    assert trace.tasks.height == (3 if note.kind == "repaired" else 2)
    with pytest.raises(InputError, match=error):
        read(path, GOOD + line + "\n" + GOOD, strict=True)


def test_all_bad_lines_are_counted_and_the_first_three_named(path: Path) -> None:
    (note,) = read(path, GOOD + "bad\n" * 1000).manifest.cleaned
    assert note.count == 1000
    assert note.examples == ("log.swf:2", "log.swf:3", "log.swf:4")


@pytest.mark.parametrize("text", ["", "\n \n", "\r\r"])
def test_an_empty_file_is_no_log(path: Path, text: str) -> None:
    with pytest.raises(FormatError, match="has no record and no header"):
        read(path, text)


def test_a_file_without_one_readable_record_is_an_error_that_shows_the_first(path: Path) -> None:
    with pytest.raises(InputError, match=r"log\.swf:2: has 2 fields, not 18"):
        read(path, "; Version: 2.2\nhello world\n1 2 3\n")


def test_a_missing_file_is_an_input_error(path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        swf.read(path)


def test_unused_and_unusual_values_are_counted(path: Path) -> None:
    trace = read(
        path,
        b"; caf\xe9\n; MaxRecords: 9\n"
        + GOOD.encode()
        + b"; in between\n"
        + b"2 0 5 60 -1 8 8 -1 90 8 9 7 1 -1 0 -1 -1 -1\n",
    )
    assert [str(note) for note in trace.manifest.cleaned] == [
        "ignored 1: comments that are not in the header (log.swf:4)",
        "assumed 1: header lines that are not UTF-8 are Latin-1",
        "noticed 1: MaxRecords is 9, but the log has 2 records",
        "ignored 1: status codes that the format does not have (log.swf:5)",
        "ignored 1: CPU time or memory per processor where the processors are unknown (log.swf:5)",
    ]
    assert trace.manifest.source is not None
    assert trace.manifest.source.header[0] == " café"
    assert trace.tasks["status"].to_list() == ["completed", None]


def test_numbers_in_a_header_are_facts_only_if_they_are_numbers() -> None:
    header = [" MaxProcs: many", " MaxNodes: -1", " UnixStartTime: 12 (UTC)", "MaxJobs:" + "9" * 99]
    assert parse_header(header) == {"unix_start_time": 12}


# --- round trips ---------------------------------------------------------------------------------

exact_number = st.one_of(
    st.just("-1"), st.integers(0, 10**9).map(str), st.decimals(0, 10**7, places=4).map(str)
)
small_whole = st.one_of(st.just("-1"), st.integers(0, 5000).map(str))
processors = st.integers(1, 10_000).map(str)
status = st.sampled_from(["-1", "0", "1", "5"])
record = st.tuples(
    *(exact_number, exact_number, exact_number, processors, exact_number, exact_number, processors),
    *(exact_number, exact_number, status, *[small_whole] * 6, exact_number),
)


def numbers(path: Path) -> list[list[float]]:
    lines = path.read_text().splitlines()
    return [list(map(float, line.split())) for line in lines if not line.startswith(";")]


@given(st.lists(record, min_size=1, max_size=8))
def test_records_survive_a_round_trip_digit_for_digit(
    tmp_path_factory: pytest.TempPathFactory, records: list[tuple[str, ...]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "log.swf"
    lines = [" ".join((str(i), *fields)) for i, fields in enumerate(records)]
    trace = read(path, "; Note: mine  \n" + "\n".join(lines))
    # A Trace cannot represent a wait after an unknown submission.
    expected = [[float(word) for word in line.split()] for line in lines]
    for fields in expected:
        if fields[1] == -1:
            fields[2] = -1.0
    assert not swf.write(trace, path)
    assert numbers(path) == expected
    again = swf.read(path)
    assert all(frame.equals(again.tables[name]) for name, frame in trace.tables.items())
    assert path.read_text().startswith("; Note: mine  \n")


TEXTS = {"user", "queue", "name", "status"}
TASK_COLUMNS = (
    *("user", "queue", "name", "submit", "run_time", "requested_time", "think_time"),
    *("requested_cores", "status"),
)


names = st.one_of(st.none(), st.text(max_size=5), st.integers(0, 99).map(str))
seconds = st.one_of(st.none(), st.floats(0, 1e9), st.integers(0, 10**6).map(float))
task = st.fixed_dictionaries(
    {
        "user": names,
        "queue": names,
        "name": names,
        "submit": seconds,
        "run_time": seconds,
        "requested_time": seconds,
        "think_time": seconds,
        "requested_cores": st.one_of(st.none(), st.integers(0, 100).map(float)),
        "status": st.sampled_from([None, "completed", "failed", "cancelled"]),
        "wait": seconds,
        "cores": st.one_of(st.none(), st.integers(0, 100).map(float)),
    }
)


@given(st.lists(task, max_size=6), st.booleans())
def test_the_fields_of_the_format_survive_a_round_trip(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]], named: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "log.swf.gz"
    ids = [f"job {i}" if named else str(i) for i in range(len(rows))]
    columns = (*TASK_COLUMNS, "wait", "cores")
    schema = {name: pl.String if name in TEXTS else pl.Float64 for name in columns}
    given_rows = pl.DataFrame(rows, schema=schema).with_columns(id=pl.Series(ids, dtype=pl.String))
    start = pl.col("submit") + pl.col("wait")
    trace = Trace(
        tasks=given_rows.drop("wait", "cores"),
        placements=given_rows.select(
            task="id", cores="cores", start=start, end=start + pl.col("run_time")
        ).with_columns(attempt=0),
    )
    swf.write(trace, path)
    again = swf.read(path)
    held = ["submit", "run_time", "requested_time", "think_time", "requested_cores", "status"]
    assert again.tasks.select(held).rows() == trace.tasks.select(held).rows()
    for column in ("user", "queue", "name"):
        pairs = dict(zip(trace.tasks[column], again.tasks[column], strict=True))
        assert len(set(pairs.values())) == len(pairs)  # a renaming, one to one
        assert pairs.get(None) is None
    recorded = pl.col("cores").is_not_null() | pl.col("start").is_not_null()
    figures = ["cores", "start", "end"]
    expected = trace.placements.filter(recorded).select(figures)
    assert again.placements.select(figures).rows() == expected.rows()


def test_names_are_numbered_and_listed_in_the_header(path: Path) -> None:
    tasks = pl.DataFrame(
        {
            "id": ["a", "b", "c"],
            "user": ["ann", "bob", "ann"],
            "queue": ["fast\nlane", None, "1"],
            "group": ["10", "7", "10"],
            "parents": [None, ["a", "c"], ["elsewhere"]],
            "status": ["killed", "rejected", "completed"],
            "requested_cores": [1.5, 2.0, None],
            "submit": [-1.5, 0.0, 3.0],
            "exit_code": [9, None, None],
        }
    )
    notes = swf.write(Trace(tasks=tasks, manifest=Manifest(epoch_ms=10_500)), path)
    text = path.read_text().splitlines()
    assert text[2:] == [
        "; UnixStartTime: 8",
        "; MaxJobs: 3",
        "; MaxRecords: 3",
        "; Note: job 1 is a",
        "; Note: job 2 is b",
        "; Note: job 3 is c",
        "; Note: user 1 is ann",
        "; Note: user 2 is bob",
        '; Queue: 1  "fast\\nlane"',
        "; Queue: 2  1",
        "1 0.5 -1 -1 -1 -1 -1 2 -1 -1 0 1 10 -1 1 -1 -1 -1",
        "2 2 -1 -1 -1 -1 -1 2 -1 -1 5 2 7 -1 -1 -1 1 -1",
        "3 5 -1 -1 -1 -1 -1 -1 -1 -1 1 1 10 -1 2 -1 -1 -1",
    ]
    assert sorted(map(str, notes)) == [
        "assumed 2: queues numbered in order of appearance",
        "assumed 2: users numbered in order of appearance",
        "assumed 3: jobs numbered in order of appearance",
        "ignored 1: milliseconds of the epoch",
        "ignored 1: parents beyond the first",
        "ignored 1: parents that are not tasks of the trace",
        "ignored 1: tasks: exit_code",
        "repaired 1: requested cores rounded up to whole numbers",
        "repaired 2: killed and lost tasks written as failed, rejected ones as cancelled",
        "repaired 3: submissions moved 2 s later, so that none is before 0",
    ]


def test_the_header_of_an_edited_log_lists_the_edits(path: Path) -> None:
    trace = read(path, LOG).with_manifest(edit=Edit(operation="window", parameters={"end": 5}))
    swf.write(trace.replace(tasks=trace.tasks.head(1), placements=trace.placements.head(1)), path)
    assert [line for line in path.read_text().splitlines() if line.startswith(";")] == [
        "; Version: 2.2",
        "; UnixStartTime: 1000",
        "; MaxProcs: 100",
        "; Queue:  0  interactive",
        "; MaxJobs: 1",
        "; MaxRecords: 1",
        '; Note: window {"end": 5}',
    ]


@pytest.mark.parametrize("ids", [["a", "a"], ["a", None]])
def test_tasks_without_unique_ids_are_not_written(path: Path, ids: list[str]) -> None:
    with pytest.raises(InputError, match=r"tasks\.id"):
        swf.write(Trace(tasks=pl.DataFrame({"id": ids})), path)
    assert not path.exists()


def test_an_empty_trace_is_an_empty_log(path: Path) -> None:
    swf.write(Trace(), path)
    assert swf.read(path).tasks.height == 0


@pytest.mark.parametrize(
    ("text", "known"),
    [
        (GOOD, True),
        (LOG, True),
        ("; Computer: x\n", True),
        ("\ufeff" + GOOD, True),
        ("1 2 3\n", False),
        ("a,b,c\n1,2,3\n", False),
        ("; just a comment\n", False),
        ("", False),
    ],
)
def test_a_log_is_recognised_by_its_content(tmp_path: Path, text: str, known: bool) -> None:
    assert swf.FORMAT.recognises(tmp_path / "x", text.encode()) is known


# --- real logs -----------------------------------------------------------------------------------

LOGS = (
    "KTH-SP2-1996-2.1-cln",
    "KTH-SP2.input-filtered-log",
    "KTH-SP2.res_easy_backfill_scheduler_None_None",
    "NASA-iPSC-1993-3.1-cln",
    pytest.param("HPC2N-2002-2.2-cln", marks=pytest.mark.long),
)


@pytest.mark.realdata
@pytest.mark.parametrize("name", LOGS)
def test_real_logs_survive_a_round_trip(real_data: Path, path: Path, name: str) -> None:
    source = real_data / "swf" / f"{name}.swf.gz"
    trace = swf.read(source, strict=True)
    assert not swf.write(trace, path)
    original = gzip.decompress(source.read_bytes()).decode()
    lines = original.splitlines()
    assert [line for line in path.read_text().splitlines() if line.startswith(";")] == [
        line for line in lines if line.startswith(";")
    ]
    written = numbers(path)
    assert written == [[float(w) for w in x.split()] for x in lines if not x.startswith(";")]
    again = swf.read(path)
    assert all(frame.equals(again.tables[table]) for table, frame in trace.tables.items())
    if trace.tasks.height < 50_000:
        records, unreadable, header = native_parse(original.encode(), [12_345, 678_901])
        assert (records, unreadable, header) == slow_parse(original.encode())


@pytest.mark.realdata
def test_real_logs_have_their_published_sizes(real_data: Path) -> None:
    kth = swf.read(real_data / "swf" / "KTH-SP2-1996-2.1-cln.swf.gz")
    runnable = kth.tasks.filter(collect_runs(kth)["runnable"])
    assert (kth.tasks.height, runnable.height, runnable["user"].n_unique()) == (28_476, 28_475, 214)
    nasa = swf.read(real_data / "swf" / "NASA-iPSC-1993-3.1-cln.swf.gz")
    assert nasa.tasks.height == nasa.placements.height == 18_239
    assert nasa.placements["start"].null_count() == nasa.placements.height
    hpc2n = swf.read(real_data / "swf" / "HPC2N-2002-2.2-cln.swf.gz")
    assert (hpc2n.tasks.height, hpc2n.tasks["user"].n_unique()) == (202_871, 257)
    assert hpc2n.manifest.cleaned == ()


def test_notes_are_cleanings(path: Path) -> None:
    assert all(isinstance(note, Cleaning) for note in swf.write(Trace(), path))


def test_a_wait_without_a_submission_is_dropped_and_counted(path: Path) -> None:
    trace = read(path, b"1 -1 5 60 4 -1 -1 4 -1 -1 1 7 1 -1 0 -1 -1 -1\n")
    assert "ignored 1: waits of jobs whose submission is unknown (log.swf:1)" in map(
        str, trace.manifest.cleaned
    )
