"""Tables in text: maps, units, exact line numbers, and Python's own csv module as the oracle."""

import csv
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinloop.description.errors import FormatError, InputError
from twinloop.trace.formats.csv_map import FORMAT, read
from twinloop.trace.trace import Trace

MAP = {"id": "JobID", "submit": "When", "cores": "NCPUS"}


def table(path: Path, text: str) -> Path:
    file = path / "jobs.csv"
    file.write_bytes(text.encode())
    return file


def count(trace: Trace, words: str) -> int:
    return sum(note.count for note in trace.manifest.cleaned if words in note.what)


def test_a_map_assigns_the_columns(tmp_path: Path) -> None:
    file = table(
        tmp_path,
        "JobID,Colour,When,Begin,Finish,NCPUS,Mem,Host,Deps,How\n"
        "a,red,100,130,150,4,2.5,n1,,COMPLETED\n"
        "b,blue,110,,,1,1,,a;x,weird\n",
    )
    trace = read(
        file,
        columns={
            **MAP,
            "start": "Begin",
            "end": "Finish",
            "memory": "Mem",
            "machine": "Host",
            "parents": "Deps",
            "status": "How",
            "allocated_cores": "NCPUS",
        },
        units={"memory": "GiB", "submit": "s", "start": "s", "end": "s"},
    )
    assert trace.tasks.select("id", "submit", "requested_cores", "requested_memory").rows() == [
        ("a", 100.0, 4.0, 2.5 * 2**30),
        ("b", 110.0, 1.0, 2.0**30),
    ]
    assert trace.tasks["run_time"].to_list() == [20.0, None]
    assert trace.tasks["parents"].to_list() == [[], ["a", "x"]]
    assert trace.tasks["status"].to_list() == ["completed", None]
    assert trace.placements.select("task", "machine", "cores", "start", "end").rows() == [
        ("a", "n1", 4.0, 130.0, 150.0),
        ("b", None, 1.0, None, None),
    ]
    assert count(trace, "the column 'Colour'") == 2
    assert count(trace, "status that are none of") == 1
    assert not count(trace, "is in s")


def test_a_wait_gives_the_start(tmp_path: Path) -> None:
    file = table(tmp_path, "id\tsubmit\twait\trun_time\n1\t10\t5\t60\n2\t11\t\t60\n")
    trace = read(file, units={"submit": "min", "wait": "s", "run_time": "ms"})
    assert trace.placements.select("start", "end").rows() == [(605.0, 605.06), (None, None)]


@pytest.mark.parametrize(
    ("unit", "seconds"),
    [("s", 1), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9), ("min", 60), ("h", 3600)],
)
def test_units_of_time(tmp_path: Path, unit: str, seconds: float) -> None:
    file = table(tmp_path, "JobID,When,NCPUS\na,7200,1\n")
    trace = read(file, columns=MAP, units={"submit": unit})
    assert trace.tasks["submit"][0] == pytest.approx(7200 * seconds, rel=1e-15)


@pytest.mark.parametrize(
    ("unit", "size"),
    [("B", 1), ("KB", 1e3), ("MB", 1e6), ("GB", 1e9), ("KiB", 1024), ("MiB", 2**20)],
)
def test_units_of_memory(tmp_path: Path, unit: str, size: float) -> None:
    file = table(tmp_path, "id,submit,memory\na,1,3\n")
    assert read(file, units={"memory": unit}).tasks["requested_memory"][0] == 3 * size


def test_missing_units_are_reported(tmp_path: Path) -> None:
    trace = read(table(tmp_path, "id,submit,memory\na,1,3\nb,2,4\n"))
    assert count(trace, "'submit' is in s") == 1
    assert count(trace, "'memory' is in B") == 1
    assert trace.manifest.epoch_ms is None


moments = st.datetimes(datetime(1990, 1, 1), datetime(2090, 1, 1)).map(
    lambda when: when.replace(microsecond=when.microsecond // 1000 * 1000)
)
zones = st.sampled_from([None, UTC, timezone(timedelta(hours=-9, minutes=-30))])


@given(rows=st.lists(st.tuples(moments, zones), min_size=1, max_size=8))
def test_date_times_are_parsed_as_in_the_standard_library(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[datetime, timezone | None]]
) -> None:
    whens = [when.replace(tzinfo=zone) for when, zone in rows]
    text = "JobID,When,NCPUS\n" + "".join(f"j,{when.isoformat()},1\n" for when in whens)
    trace = read(table(tmp_path_factory.mktemp("dates"), text), columns=MAP)
    unix = [(when.replace(tzinfo=when.tzinfo or UTC)).timestamp() for when in whens]
    assert trace.manifest.epoch_ms == round(min(unix) * 1000)
    expected = [t - min(unix) for t in unix]
    assert trace.tasks["submit"].to_list() == pytest.approx(expected, abs=1e-6)


CELLS = st.text(st.sampled_from('ab ",\n;é'), max_size=6)


@given(rows=st.lists(st.tuples(CELLS, st.integers(0, 99)), min_size=1, max_size=12))
def test_quotes_and_line_numbers_are_as_in_the_csv_module(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, int]]
) -> None:
    file = tmp_path_factory.mktemp("quotes") / "jobs.csv"
    lines = []
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["id", "submit", "name"])
        line = 2
        for name, submit in rows:
            writer.writerow(["x", submit, name])
            lines.append(line)
            line += 1 + name.count("\n")
    trace = read(file)
    assert trace.tasks["line"].to_list() == lines
    assert trace.tasks["submit"].to_list() == [float(submit) for _, submit in rows]
    assert trace.tasks["name"].to_list() == [name.strip() or None for name, _ in rows]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_all_line_ends(tmp_path: Path, end: str) -> None:
    file = table(tmp_path, end.join(["id,submit", "a,1", "", "b,2", "bad", "c,3"]))
    trace = read(file)
    assert trace.tasks["line"].to_list() == [2, 4, 6]
    (skipped,) = (note for note in trace.manifest.cleaned if note.kind == "skipped")
    assert (skipped.count, skipped.examples) == (1, ("jobs.csv:5",))


def test_rows_that_cannot_be_read(tmp_path: Path) -> None:
    text = 'id,submit,exit_code\na,1,0\nb,soon,0\nc,3,0.5\nd,4\n"e" x,5,0\nf,6,\xff\0\ng,7,-9\n'
    file = table(tmp_path, text)
    trace = read(file)
    assert trace.tasks["id"].to_list() == ["a", "g"]
    assert trace.tasks["exit_code"].to_list() == [0, -9]
    skipped = {n.what: n.examples for n in trace.manifest.cleaned if n.kind == "skipped"}
    assert skipped == {
        "lines whose submit is not a time in range": ("jobs.csv:3",),
        "lines whose exit_code is not a whole number": ("jobs.csv:4",),
        "lines without 3 cells": ("jobs.csv:5",),
        "lines whose quotes cannot be read": ("jobs.csv:6",),
        "lines with a NUL byte": ("jobs.csv:7",),
    }
    with pytest.raises(InputError, match=r"jobs\.csv:5: has 2 cells"):
        read(file, strict=True)


def test_latin_1_is_skipped_not_misread(tmp_path: Path) -> None:
    file = tmp_path / "jobs.csv"
    file.write_bytes("id,submit,user\na,1,J\xfcrgen\nb,2,x\n".encode("latin-1"))
    trace = read(file)
    assert trace.tasks["id"].to_list() == ["b"]
    assert count(trace, "not UTF-8") == 1


def test_a_quote_that_never_ends_is_an_error_with_its_line(tmp_path: Path) -> None:
    file = table(tmp_path, 'id,submit\na,1\n"b,2\nc,3\n')
    with pytest.raises(InputError, match=r"jobs\.csv:3.*never ends"):
        read(file)


def test_a_repeated_name_in_a_wide_table_is_found(tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(100_000)]
    file = tmp_path / "wide.csv"
    file.write_text(",".join([*names, names[-1]]) + "\n")
    with pytest.raises(FormatError, match=r"wide\.csv:1: names the column 'c99999' twice"):
        read(file)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"columns": {"id": "Nope"}}, "id: there is no column 'Nope'.*JobID, When, NCPUS"),
        ({"columns": {"idd": "JobID"}}, "cannot be read as 'idd'"),
        ({"columns": {"cores": "NCPUS", "requested_cores": "NCPUS"}}, "mapped twice"),
        ({"columns": {}}, "maps no column"),
        ({"columns": MAP, "units": {"submit": "fortnight"}}, "is not a unit of submit"),
        ({"columns": MAP, "units": {"memory": "MB"}}, "not mapped"),
        ({"columns": MAP, "separator": "::"}, "separator"),
        ({}, "no map of columns was given.*JobID, When, NCPUS"),
        ({"columns": {**MAP, "end": "NCPUS"}, "units": {"submit": "datetime"}}, "two clocks"),
    ],
)
def test_invalid_maps_are_refused(tmp_path: Path, options: dict[str, object], words: str) -> None:
    file = table(tmp_path, "JobID,When,NCPUS\na,1,1\n")
    with pytest.raises(InputError, match=words):
        read(file, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["", "\n\n", "id,submit\n", "id,id\n1,2\n", "id,submit\nx\n"])
def test_no_table_at_all(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match=r"jobs\.csv"):
        read(table(tmp_path, text))


def test_tables_are_recognised_by_content(tmp_path: Path) -> None:
    assert FORMAT.recognises(tmp_path, b"id,name,submit\n")
    assert FORMAT.recognises(tmp_path, b"\xef\xbb\xbfid;submit\n")
    assert not FORMAT.recognises(tmp_path, b"JobID|Submit\n")
    assert not FORMAT.recognises(tmp_path, b"")
    with pytest.raises(FormatError, match="no map"):
        read(table(tmp_path, "x,y\n1,2\n"))


def test_many_rows_are_read_in_batches(tmp_path: Path) -> None:
    rows = 100_000
    text = "id,submit,user\n" + "".join(f"{i},{i / 10},u{i % 7}\n" for i in range(rows))
    trace = read(table(tmp_path, text))
    assert trace.tasks.height == rows
    assert trace.tasks["line"].to_list() == list(range(2, rows + 2))
    assert trace.tasks["submit"].to_list() == [i / 10 for i in range(rows)]
