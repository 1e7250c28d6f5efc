"""Samples of running SLURM jobs: cumulative CPU time of steps becomes usage of jobs."""

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import twinloop as tl
from tests.examples import examples
from twinloop.description.errors import FormatError, InputError
from twinloop.trace import Trace, check
from twinloop.trace.formats.sacct import read

T0 = 1_709_290_800  # 2024-03-01T11:00:00Z
ACCT = """\
JobID|JobIDRaw|Submit|Start|End|State|AllocCPUS|NodeList|TotalCPU
7|7|{h}00:00{z}|{h}10:00{z}|{h}20:00{z}|COMPLETED|4|n1|{cpu}
7.batch|7.batch|{h}10:00{z}|{h}10:00{z}|{h}20:00{z}|COMPLETED|4|n1|{cpu}
8_3|9|{h}00:00{z}|{h}10:00{z}|{h}20:00{z}|COMPLETED|8|n[1-2]|01:00:00
"""


def accounting(folder: Path, *, zone: str = "+0000", cpu: str = "00:30:00") -> Path:
    file = folder / "jobs.txt"
    hour = "2024-03-01T11:" if zone in ("+0000", "") else "2024-03-01T12:"
    file.write_text(ACCT.format(h=hour, z=zone, cpu=cpu))
    return file


def samples(folder: Path, *lines: str) -> Path:
    file = folder / "samples.txt"
    file.write_text("".join(line + "\n" for line in lines))
    return file


def line(second: int, step: str, cpu: str, rss: str = "1K", tasks: str = "1") -> str:
    return f"{T0 + second}|{step}|{cpu}|{rss}|9K|{tasks}"


def count(trace: Trace, words: str) -> int:
    return sum(note.count for note in trace.manifest.cleaned if words in note.what)


def usage(trace: Trace, task: str = "7") -> list[tuple[float, float, float, float | None]]:
    mine = trace.usage.filter(pl.col("task") == task)
    return mine.select("t", "dt", "cpu", "rss").rows()


def test_cumulative_time_is_differenced_and_steps_are_added(tmp_path: Path) -> None:
    """Worked out by hand. The job runs from 600 s to 1200 s and uses 1800 CPU s."""
    trace = tl.read(
        accounting(tmp_path),
        sstat=samples(
            tmp_path,
            line(660, "7.extern", "00:00.000", "0"),
            line(660, "7.batch", "01:00.000", "2K"),
            line(720, "7.extern", "00:00.000", "0"),
            line(720, "7.batch", "01:30.000", "3K"),
            line(720, "7.0", "00:20.500", "10K", "4"),  # a step that began since: 4 tasks
            line(780, "7.extern", "00:00.000", "0"),
            line(780, "7.batch", "01:31.000", "3K"),
            line(780, "7.0", "01:00.500", "10K", "4"),
            line(840, "7.batch", "02:00.000", "4K"),  # and a step that has ended
        ),
    )
    assert usage(trace) == [
        (660.0, 60.0, 60.0, 2048.0),
        (720.0, 60.0, 30.0 + 4 * 20.5, 43 * 1024.0),
        (780.0, 60.0, 1.0 + 4 * 40.0, 43 * 1024.0),
        (840.0, 60.0, 29.0, 4096.0),
        (1200.0, 360.0, 1800.0 - 60 - 112 - 161 - 29, None),
    ]
    assert set(trace.usage["machine"]) == {"n1"}
    assert trace.usage["line"].to_list()[:4] == [1, 3, 6, 9]
    assert [file.name for file in trace.manifest.source.files] == ["jobs.txt", "samples.txt"]  # type: ignore[union-attr]
    assert count(trace, "TotalCPU minus the samples") == 1
    assert count(trace, "no zone") == 0
    assert trace.tasks.filter(pl.col("id") == "7")["cpu_time"][0] == trace.usage["cpu"].sum()


def test_members_of_arrays_are_identified_by_their_number(tmp_path: Path) -> None:
    file = samples(tmp_path, line(700, "9.batch", "10:00.000", "1M"), line(700, "8.0", "00:01.000"))
    trace = read(accounting(tmp_path), sstat=file)
    assert usage(trace, "8_3") == [(700.0, 100.0, 600.0, 2.0**20), (1200.0, 500.0, 3000.0, None)]
    assert set(trace.usage["machine"]) == {None}  # two nodes: not split by guess
    assert count(trace, "not in the log") == 1


def test_a_header_names_the_fields(tmp_path: Path) -> None:
    file = samples(tmp_path, "when|NTasks|jobid|AveCPU", f"{T0 + 700}|2|7.0|01:00.000")
    assert usage(read(accounting(tmp_path), sstat=file))[0] == (700.0, 100.0, 120.0, None)


@pytest.mark.parametrize(
    ("zone", "stamp", "offset"),
    [
        ("+0000", str(T0 + 700), None),
        ("+0100", str(T0 + 700), None),
        ("+0000", "2024-03-01T13:11:40+02:00", None),
        ("", str(T0 + 700), 0.0),
        ("", "2024-03-01T11:11:40", None),  # two clocks of one place
        ("", "2024-03-01T11:11:40", -5.0),
    ],
)
def test_clocks(tmp_path: Path, zone: str, stamp: str, offset: float | None) -> None:
    file = samples(tmp_path, f"{stamp}|7.0|01:00.000|1K|1K|1")
    trace = read(accounting(tmp_path, zone=zone), sstat=file, utc_offset=offset)
    assert usage(trace)[0][:3] == (700.0, 100.0, 60.0)


@pytest.mark.parametrize(("zone", "stamp"), [("", str(T0 + 700)), ("+0000", "2024-03-01T11:11:40")])
def test_times_with_and_without_a_zone_are_not_mixed(tmp_path: Path, zone: str, stamp: str) -> None:
    file = samples(tmp_path, f"{stamp}|7.0|01:00.000|1K|1K|1")
    with pytest.raises(InputError, match=r"samples\.txt:1: its time .* zone.*utc_offset="):
        read(accounting(tmp_path, zone=zone), sstat=file)


def test_decreasing_and_missing_values_are_counted(tmp_path: Path) -> None:
    file = samples(
        tmp_path,
        line(500, "7.0", "00:01.000"),  # before it started
        line(660, "7.0", "01:00.000"),
        line(720, "7.0", ""),
        line(720, "7.0", "01:20.000", tasks=""),
        line(780, "7.0", "02:00.000"),
        line(840, "7.0", "00:30.000"),
        line(900, "7.0", "00:40.000"),
        line(900, "7.0", "00:50.000"),
        line(1500, "7.0", "09:00.000"),  # after it ended
    )
    trace = read(accounting(tmp_path), sstat=file)
    assert [row[:3] for row in usage(trace)] == [
        (660.0, 60.0, 60.0),
        (780.0, 120.0, 60.0),
        (900.0, 60.0, 20.0),
    ]
    notes = {note.what: note for note in trace.manifest.cleaned}
    assert notes["samples without AveCPU or NTasks"].examples == ("samples.txt:3", "samples.txt:4")
    outside = notes["samples outside the execution of their job"]
    assert outside.examples == ("samples.txt:1", "samples.txt:9")
    assert count(trace, "less CPU time than before") == 1
    assert count(trace, "of the same time") == 1


@pytest.mark.parametrize(
    ("cpu", "rest"),
    [("00:01:00", 0.0), ("00:00:59", None), ("00:37:00", 2160.0), ("00:37:01", None)],
)
def test_the_end_must_agree_with_the_accounting(
    tmp_path: Path, cpu: str, rest: float | None
) -> None:
    """60 s were sampled, and 4 cores have 2160 s in the following 540 s."""
    file = samples(tmp_path, line(660, "7.0", "01:00.000"))
    trace = read(accounting(tmp_path, cpu=cpu), sstat=file)
    assert [row[2] for row in usage(trace)] == ([60.0] if rest is None else [60.0, rest])
    assert count(trace, "contradict TotalCPU") == (rest is None)


def test_a_requeued_job_starts_again(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs.txt"
    jobs.write_text(
        "JobID|Submit|Start|End|State|TotalCPU\n"
        "7|2024-03-01T11:00:00Z|2024-03-01T11:00:10Z|2024-03-01T11:05:00Z|REQUEUED|00:04:00\n"
        "7|2024-03-01T11:05:00Z|2024-03-01T11:10:00Z|2024-03-01T11:20:00Z|COMPLETED|00:09:00\n"
    )
    file = samples(
        tmp_path,
        line(60, "7.0", "00:50.000"),
        line(120, "7.0", "01:50.000"),
        line(660, "7.0", "00:40.000"),
        line(720, "7.0", "02:40.000"),
    )
    trace = read(jobs, sstat=file)
    assert [row[:3] for row in usage(trace)] == [
        (60.0, 50.0, 50.0),
        (120.0, 60.0, 60.0),
        (660.0, 60.0, 40.0),
        (720.0, 60.0, 120.0),
    ]
    assert count(trace, "less CPU time than before") == 0


@given(st.lists(st.lists(st.integers(0, 240), min_size=1, max_size=8), min_size=1, max_size=4))
@examples(15)
def test_no_cpu_time_is_lost_or_counted_twice(
    tmp_path_factory: pytest.TempPathFactory, steps: list[list[int]]
) -> None:
    """The windows have all usage between samples, and the last window has the rest."""
    folder = tmp_path_factory.mktemp("law")
    lines = []
    for number, used in enumerate(steps):
        for index in range(len(used)):
            so_far = sum(used[: index + 1])
            clock = f"{so_far // 60:02}:{so_far % 60:02}.000"
            lines.append(line(660 + 60 * index, f"7.{number}", clock))
    trace = read(accounting(folder, cpu="02:00:00"), sstat=samples(folder, *lines))
    rows = usage(trace)
    for index in range(max(map(len, steps))):
        expected = sum(used[index] for used in steps if index < len(used))
        assert rows[index][:3] == (660.0 + 60 * index, 60.0, float(expected))
    total = sum(map(sum, steps))
    assert sum(row[2] for row in rows) in (total, 7200.0)


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("time", "soon|7.0|01:00.000|1K|1K|1"),
        ("AveCPU", f"{T0 + 700}|7.0|213503982334-14:25:51|1K|1K|1"),
        ("AveRSS", f"{T0 + 700}|7.0|01:00.000|lots|1K|1"),
        ("NTasks", f"{T0 + 700}|7.0|01:00.000|1K|1K|one"),
        ("JobID", f"{T0 + 700}||01:00.000|1K|1K|1"),
        ("has 3 fields", f"{T0 + 700}|7.0|01:00.000"),
    ],
)
def test_lines_that_cannot_be_read(tmp_path: Path, field: str, text: str) -> None:
    file = samples(tmp_path, line(660, "7.0", "01:00.000"), text)
    trace = read(accounting(tmp_path), sstat=file)
    assert usage(trace)[0][0] == 660.0
    skipped = [note.examples for note in trace.manifest.cleaned if note.kind == "skipped"]
    assert skipped == [("samples.txt:2",)]
    with pytest.raises(InputError, match=rf"samples\.txt:2: {field}"):
        read(accounting(tmp_path), sstat=file, strict=True)


def test_refused_files(tmp_path: Path) -> None:
    jobs = accounting(tmp_path)
    for text, words in (
        ("", "is empty"),
        ("7.0|01:00.000|1K|1K|1\n", "has 5 fields, which are not a time"),
        ("time|JobID|AveCPU\n", "has 3 fields"),
        ("time|JobID|AveCPU|NTasks\n", "no sample"),
    ):
        file = tmp_path / "samples.txt"
        file.write_text(text)
        with pytest.raises((InputError, FormatError), match=words):
            read(jobs, sstat=file)
    with pytest.raises(InputError, match="does not exist"):
        read(jobs, sstat=tmp_path / "none")
    timeless = tmp_path / "few.txt"
    timeless.write_text("JobID|State\n7|COMPLETED\n")
    with pytest.raises(InputError, match="has no times"):
        read(timeless, sstat=samples(tmp_path, line(660, "7.0", "01:00.000")))


def test_such_a_trace_passes_the_gate_and_can_be_replayed(tmp_path: Path) -> None:
    passes = [
        line(t, f"{job}.batch", f"{(t - 600) * rate // 60:02}:00.000", "1M")
        for t in range(660, 1200, 60)
        for job, rate in (("7", 3), ("9", 6))
    ]
    trace = read(accounting(tmp_path), sstat=samples(tmp_path, *passes))
    audit = check(trace)
    assert audit.ok, audit
    assert dict(trace.usage.group_by("task").agg(pl.col("cpu").sum()).rows()) == {
        "7": 1800.0,
        "8_3": 3600.0,
    }
    run = tl.simulate(
        tl.Scenario(platform="2x8", workload=tl.Workload.from_trace(trace), policy="easy")
    )
    assert set(run.tasks["status"]) == {"completed"}
