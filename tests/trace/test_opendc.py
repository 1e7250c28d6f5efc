"""OpenDC workloads: published counts, every type of column, and hand-computed fragments."""

import json
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinloop.description.errors import FormatError, InputError
from twinloop.platform import Platform
from twinloop.trace.formats.opendc import FORMAT, read, read_carbon, read_failures
from twinloop.trace.trace import Trace

TASKS = {
    "id": [1, 2],
    "submission_time": [10_000, 4_000],
    "duration": [60_000, 5_000],
    "cpu_count": [2, 1],
    "cpu_capacity": [4000.0, 2000.0],
    "mem_capacity": [8, 16],
}
FRAGMENTS = {
    "id": [1, 2, 1],
    "duration": [20_000, 5_000, 40_000],
    "cpu_usage": [2000.0, 500.0, 1000.0],
}


def folder(path: Path, tasks: object = None, fragments: object = None) -> Path:
    path.mkdir(exist_ok=True, parents=True)
    pl.DataFrame(TASKS if tasks is None else tasks).write_parquet(path / "tasks.parquet")
    pl.DataFrame(FRAGMENTS if fragments is None else fragments).write_parquet(
        path / "fragments.parquet"
    )
    return path


def counts(trace: Trace) -> dict[str, int]:
    return {note.what: note.count for note in trace.manifest.cleaned}


def count(trace: Trace, words: str) -> int:
    return sum(number for what, number in counts(trace).items() if words in what)


@pytest.mark.realdata
def test_surf_has_its_published_counts(real_data: Path) -> None:
    trace = read(real_data / "surf")
    assert trace.tasks.height == 7_850
    assert trace.usage.height == 2_323_475
    assert count(trace, "without any fragment") == 1_555
    assert count(trace, "zero length") == 303
    assert count(trace, "more cores than any host has (16)") == 9
    # All but 101 of the tasks that have fragments.
    assert count(trace, "not the sum of their fragments") == 7_850 - 1_555 - 101
    assert trace.manifest.reference_mhz == 2100
    assert trace.tasks["submit"].min() == 0
    assert trace.usage.filter(pl.col("dt") != 30).is_empty()
    # Work is conserved: MHz x seconds, for any grouping.
    fragments = pl.read_parquet(real_data / "surf" / "fragments.parquet")
    work = (fragments["cpu_usage"] * fragments["duration"]).sum() / 1000 / 2100
    assert trace.usage["cpu"].sum() == pytest.approx(work, rel=1e-12)


@pytest.mark.realdata
def test_the_other_folders_of_opendc(real_data: Path) -> None:
    vms = read(real_data / "opendc" / "bitbrains-small")
    assert (vms.tasks.height, vms.usage.height) == (50, 276_979)
    flow = read(real_data / "opendc" / "workflow_example" / "tasks.parquet")
    assert flow.tasks["parents"].to_list() == [[], ["0"], ["0"], ["1", "2"]]
    assert count(flow, "parents") == 0
    assert count(flow, "only one") == 0


def test_fragments_are_laid_end_to_end_in_the_order_of_the_file(tmp_path: Path) -> None:
    trace = read(folder(tmp_path))
    assert trace.manifest.epoch_ms == 4_000
    assert trace.tasks.select("id", "submit", "run_time", "requested_cores").rows() == [
        ("1", 6.0, 60.0, 2.0),
        ("2", 0.0, 5.0, 1.0),
    ]
    assert trace.tasks.select("requested_mhz", "requested_memory").row(0) == (4000.0, 8192.0)
    # Task 1: 6 s + 20 s, then + 40 s; CPU seconds at 2000 MHz.
    assert trace.usage.select("task", "t", "dt", "cpu", "line").rows() == [
        ("1", 26.0, 20.0, 20.0, 1),
        ("2", 5.0, 5.0, 1.25, 2),
        ("1", 66.0, 40.0, 20.0, 3),
    ]
    assert trace.placements.is_empty()


MINUTES = st.lists(st.tuples(st.integers(0, 5), st.integers(1, 9)), max_size=40)


@given(rows=MINUTES)
def test_the_fragments_of_each_task_are_consecutive_for_any_order_of_rows(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, int]]
) -> None:
    tasks = {name: [TASKS[name][0]] * 6 for name in TASKS} | {"id": list(range(6))}
    fragments = pl.DataFrame(
        {
            "id": [task for task, _ in rows],
            "duration": [minutes * 60_000 for _, minutes in rows],
            "cpu_usage": [1.0] * len(rows),
        },
        schema={"id": pl.Int32, "duration": pl.Int64, "cpu_usage": pl.Float64},
    )
    trace = read(folder(tmp_path_factory.mktemp("any"), tasks, fragments))
    clock = [0.0] * 6
    for (task, minutes), (name, t) in zip(
        rows, trace.usage.select("task", "t").rows(), strict=True
    ):
        clock[task] += minutes * 60
        assert (name, t) == (str(task), clock[task])


WHEN = [datetime(2024, 1, 1, 0, 0, 10), datetime(2024, 1, 1, 0, 0, 4)]


@pytest.mark.parametrize("ids", [pl.Int32, pl.Int64, pl.String, pl.UInt16])
@pytest.mark.parametrize(
    "when",
    [
        pl.Series(WHEN, dtype=pl.Datetime("ms")),
        pl.Series(WHEN, dtype=pl.Datetime("us")),
        pl.Series(WHEN, dtype=pl.Datetime("ns")),
        pl.Series(WHEN, dtype=pl.Datetime("ms")).dt.replace_time_zone("UTC"),
        pl.Series([1_704_067_210_000, 1_704_067_204_000]),
    ],
    ids=["ms", "us", "ns", "zone", "int"],
)
def test_every_type_of_id_and_time_gives_the_same_trace(
    tmp_path: Path, ids: pl.DataType, when: pl.Series
) -> None:
    tasks = pl.DataFrame(TASKS).with_columns(
        pl.col("id").cast(ids),
        when.alias("submission_time"),
        pl.col("duration").cast(pl.Float64),
        pl.col("cpu_count").cast(pl.Float64),
    )
    fragments = pl.DataFrame(FRAGMENTS).with_columns(
        pl.col("id").cast(ids), pl.col("duration").cast(pl.Int32)
    )
    trace = read(folder(tmp_path, tasks, fragments))
    expected = read(folder(tmp_path / "plain"))
    assert trace.tasks.equals(expected.tasks)
    assert trace.usage.equals(expected.usage)
    assert trace.manifest.epoch_ms == int(WHEN[1].replace(tzinfo=UTC).timestamp() * 1000)


def test_older_names_of_files_and_columns(tmp_path: Path) -> None:
    pl.DataFrame(
        {
            "id": ["a"],
            "submissionTime": pl.Series([5_000]).cast(pl.Datetime("ms")),
            "endTime": pl.Series([65_000]).cast(pl.Datetime("ms")),
            "maxCores": [4],
            "requiredMemory": [100],
        }
    ).write_parquet(tmp_path / "meta.parquet")
    pl.DataFrame(
        {
            "id": ["a"],
            "time": pl.Series([0]).cast(pl.Datetime("ms")),
            "duration": [60_000],
            "cores": [4],
            "cpuUsage": [3000.0],
        }
    ).write_parquet(tmp_path / "trace.parquet")
    assert FORMAT.recognises(tmp_path, b"")
    trace = read(tmp_path, reference_mhz=1000)
    assert trace.tasks.select("run_time", "requested_cores", "requested_memory").row(0) == (
        60.0,
        4.0,
        100 * 1024.0,
    )
    assert trace.usage.select("t", "cpu").row(0) == (60.0, 180.0)
    assert count(trace, "the column time of trace.parquet") == 1
    with pytest.raises(InputError, match="reference_mhz"):
        read(tmp_path)


def test_newer_columns(tmp_path: Path) -> None:
    tasks = pl.DataFrame(TASKS).with_columns(
        name=pl.Series(["train", None]),
        gpu_count=pl.Series([2, 0]),
        gpu_capacity=pl.Series([1.0, 0.0]),
        deadline=pl.Series([70_000, -1]),
        deferrable=pl.Series([True, False]),
    )
    trace = read(folder(tmp_path, tasks))
    assert trace.tasks["name"].to_list() == ["train", None]
    assert trace.tasks["resources"].to_list() == [[{"name": "gpu", "amount": 2.0}], None]
    assert trace.tasks["deadline"].to_list() == [66.0, None]
    assert count(trace, "the column deferrable") == 1


def test_contradictions_are_counted_and_nothing_is_changed(tmp_path: Path) -> None:
    tasks = pl.DataFrame({name: [*values, values[0]] for name, values in TASKS.items()})
    tasks = tasks.with_columns(
        id=pl.Series([1, 2, 3]),
        duration=pl.Series([60_000, 0, 5_000]),
        parents=pl.Series([[], [1], [9]]),
        children=pl.Series([[3], [], []], dtype=pl.List(pl.Int64)),
    )
    fragments = pl.DataFrame({name: [*values, values[0]] for name, values in FRAGMENTS.items()})
    fragments = fragments.with_columns(id=pl.Series([1, 2, 1, 77]))
    (tmp_path / "topology.json").write_text(
        json.dumps({"clusters": [{"hosts": [{"cpu": {"coreCount": 1, "coreSpeed": "2 GHz"}}]}]})
    )
    trace = read(folder(tmp_path, tasks, fragments))
    assert trace.manifest.reference_mhz == 2000
    assert count(trace, "fragments of no task") == 1
    assert count(trace, "without any fragment") == 1
    assert count(trace, "zero length") == 1
    assert count(trace, "not the sum") == 1
    assert count(trace, "more cores than any host") == 2
    assert count(trace, "parents that are not tasks") == 1
    # 1 -> 2 is named by the parents only, 1 -> 3 by the children only.
    assert count(trace, "only in parents or only in children") == 2
    assert trace.tasks["parents"].to_list() == [[], ["1"], ["9"]]
    assert trace.usage.height == 3


def test_invalid_numbers_are_unknown_and_counted(tmp_path: Path) -> None:
    broken = FRAGMENTS | {"cpu_usage": [float("nan"), float("inf"), 1000.0]}
    trace = read(folder(tmp_path, fragments=broken))
    assert trace.usage["cpu"].to_list() == [None, None, 20.0]
    assert count(trace, "cpu_usage that are not finite or too large") == 2
    with pytest.raises(InputError, match=r"fragments\.parquet:1"):
        read(tmp_path, strict=True)
    lengths = FRAGMENTS | {"duration": [20_000, -5_000, None]}
    trace = read(folder(tmp_path, fragments=lengths))
    assert trace.usage.height == 1
    assert count(trace, "without a possible duration") == 2


@pytest.mark.parametrize(
    ("tasks", "fragments", "words"),
    [
        ({"id": [1]}, None, "has no column 'submission_time'.*it has: id"),
        (None, {"id": [1], "duration": [5]}, "has no column 'cpu_usage'"),
        (TASKS | {"cpu_count": ["many", "few"]}, None, "cpu_count: is of type String"),
        (TASKS | {"id": [0.5, 1.5]}, None, "id: is of type Float64"),
        (TASKS | {"submission_time": [None, None]}, None, "submission time"),
        (TASKS | {"parents": ["1", "2"]}, None, "parents: is of type String"),
    ],
)
def test_invalid_tables_are_refused(
    tmp_path: Path, tasks: object, fragments: object, words: str
) -> None:
    with pytest.raises(InputError, match=words) as error:
        read(folder(tmp_path, tasks, fragments))
    assert error.value.file is not None


@pytest.mark.parametrize(
    "speed", ["2.1e3 MHz", "2100 megahertz", "2100", "2.1GHz", "2.1 giga hertz", 2100, 2.1e3]
)
def test_the_clock_of_a_topology_is_that_of_the_platform(tmp_path: Path, speed: object) -> None:
    cpu = {"coreCount": 1, "coreSpeed": speed}
    host = {"name": "h", "cpu": cpu, "memory": {"memorySize": "1 GiB"}}
    topology = {"clusters": [{"name": "c", "hosts": [host]}]}
    (tmp_path / "topology.json").write_text(json.dumps(topology))
    assert read(folder(tmp_path)).manifest.reference_mhz == 2100
    assert Platform.from_dict(topology).clusters[0].hosts[0].mhz == 2100


@pytest.mark.parametrize("speed", ["fast", "", "2 GB", "1e308 THz", "-1 GHz", True, None, [2100]])
def test_an_invalid_clock_is_reported_and_ignored(tmp_path: Path, speed: object) -> None:
    cpu = {"coreCount": 1, "coreSpeed": speed}
    host = {"name": "h", "cpu": cpu, "memory": {"memorySize": "1 GiB"}}
    topology = {"clusters": [{"name": "c", "hosts": [host]}]}
    (tmp_path / "topology.json").write_text(json.dumps(topology))
    trace = read(folder(tmp_path))
    assert trace.manifest.reference_mhz == 2000
    assert count(trace, "clocks in the topology") == 1
    with pytest.raises(InputError, match="coreSpeed"):
        Platform.from_dict(topology)


def test_a_damaged_topology_is_reported_and_ignored(tmp_path: Path) -> None:
    for text in ("{", "[]", '{"clusters": 3}', "[" * 5000):
        (tmp_path / "topology.json").write_text(text)
        trace = read(folder(tmp_path))
        assert count(trace, "the topology beside the tables") == 1
        assert trace.manifest.reference_mhz == 2000


def test_a_small_file_with_very_many_rows_is_refused(tmp_path: Path) -> None:
    folder(tmp_path)
    pl.select(id=pl.repeat(1, 40_000_000, dtype=pl.Int32)).with_columns(
        duration=pl.lit(1, dtype=pl.Int64), cpu_usage=pl.lit(1.0)
    ).write_parquet(tmp_path / "fragments.parquet", compression="zstd")
    with pytest.raises(InputError, match=r"40,000,000 rows.*TWINLOOP_MAX_INPUT=1GiB"):
        read(tmp_path)


@pytest.mark.realdata
def test_carbon_of_surf(real_data: Path) -> None:
    carbon = read_carbon(real_data / "surf" / "carbon.parquet")
    assert carbon.height == 34_944
    assert carbon.schema == {"unix_ms": pl.Int64, "grams_per_kwh": pl.Float64}
    first = datetime(2021, 12, 31, 23, tzinfo=UTC)
    assert carbon.row(0) == (int(first.timestamp() * 1000), pytest.approx(168.138693))
    assert carbon["unix_ms"].diff().drop_nulls().unique().to_list() == [900_000]


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("timestamp", 0, "not later than the one before"),
        ("timestamp", None, "timestamp"),
        ("carbon_intensity", -1.0, "0 or more"),
        ("carbon_intensity", float("nan"), "0 or more"),
    ],
)
def test_invalid_carbon_tables_are_refused(
    tmp_path: Path, column: str, value: object, words: str
) -> None:
    rows = {"timestamp": [0, 900_000], "carbon_intensity": [1.0, 2.0]}
    rows[column][1] = value  # type: ignore[call-overload]
    pl.DataFrame(rows).write_parquet(tmp_path / "c.parquet")
    with pytest.raises(InputError, match=rf"c\.parquet:2.*{words}"):
        read_carbon(tmp_path / "c.parquet")


def test_failures(tmp_path: Path) -> None:
    rows = {
        "failure_interval": [3_600_000, 60_000],
        "failure_duration": [1_500, 0],
        "failure_intensity": [0.25, 1.0],
    }
    file = tmp_path / "f.parquet"
    pl.DataFrame(rows).write_parquet(file)
    assert read_failures(file).rows() == [(3600.0, 1.5, 0.25), (60.0, 0.0, 1.0)]
    pl.DataFrame(rows | {"failure_intensity": [0.25, 1.5]}).write_parquet(file)
    with pytest.raises(InputError, match=r"f\.parquet:2: failure_intensity: 1\.5 is not between"):
        read_failures(file)
    pl.DataFrame(rows | {"failure_duration": [-1, 0]}).write_parquet(file)
    with pytest.raises(InputError, match="failure_duration"):
        read_failures(file)
    pl.DataFrame({"failure_interval": [1]}).write_parquet(file)
    with pytest.raises(FormatError, match="has no column"):
        read_failures(file)
    with pytest.raises(InputError, match="does not exist"):
        read_failures(tmp_path / "none.parquet")
