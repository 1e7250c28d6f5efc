"""Export to OpenDC: supported values survive a round trip, losses are counted."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinloop.description.errors import InputError
from twinloop.platform import Platform, read_topology
from twinloop.trace.formats.opendc import read
from twinloop.trace.manifest import Manifest
from twinloop.trace.trace import Trace
from twinloop.workload import Workload
from twinloop.workload.opendc import write


def tables(folder):
    return tuple(pl.read_parquet(folder / f"{name}.parquet") for name in ("tasks", "fragments"))


def counted(notes, kind):
    return {n.what: n.count for n in notes if n.kind == kind and n.count}


def test_the_column_types_are_those_of_opendc(tmp_path):
    tasks = pl.DataFrame(
        {
            "id": ["3", "4"],
            "submit": [0.0, 1.5],
            "requested_cores": [2.0, 1.0],
            "requested_memory": [2e6 * 1024, 1500.0],
            "run_time": [10.0, 20.0],
            "deadline": [None, 60.0],
            "parents": [None, ["3"]],
            "resources": [[{"name": "gpu", "amount": 2.0}], None],
        }
    )
    manifest = Manifest(epoch_ms=1_000_000)
    write(Trace(tasks=tasks, manifest=manifest), tmp_path / "out", reference_mhz=2500.0)
    tasks, fragments = tables(tmp_path / "out")
    assert tasks.schema == {
        "id": pl.Int32,
        "submission_time": pl.Int64,
        "duration": pl.Int64,
        "cpu_count": pl.Int32,
        "cpu_capacity": pl.Float64,
        "mem_capacity": pl.Int64,
        "gpu_count": pl.Int32,
        "parents": pl.List(pl.Int32),
        "children": pl.List(pl.Int32),
        "deadline": pl.Int64,
    }
    assert tasks.rows() == [
        (3, 1_000_000, 10_000, 2, 5000.0, 2_000_000, 2, [], [4], None),
        (4, 1_001_500, 20_000, 1, 2500.0, 2, 0, [3], [], 1_060_000),
    ]
    assert fragments.schema == {"id": pl.Int32, "duration": pl.Int64, "cpu_usage": pl.Float64}
    assert fragments.rows() == [(3, 10_000, 5000.0), (4, 20_000, 2500.0)]


def sampled():
    """Two tasks on two equal nodes of 2,399 MHz, of which one was too short for a sample."""
    return Trace(
        tasks=pl.DataFrame({"id": ["145156", "145157"], "submit": [0.0, 0.0]}),
        placements=pl.DataFrame(
            {
                "task": ["145156", "145157"],
                "machine": ["n1", "n2"],
                "start": [0.0, 0.5],
                "end": [2.736, 0.9],
            }
        ),
        usage=pl.DataFrame(
            {
                "task": ["145156"] * 2,
                "machine": ["n1"] * 2,
                "t": [1.735, 2.736],
                "dt": [1.008, 1.001],
                "cpu": [1.000, 1.010],
                "rss": [100_000 * 1024.0, 129_984 * 1024.0],
            }
        ),
        nodes=pl.DataFrame(
            {"node": ["n1", "n2"], "cores": [4.0] * 2, "mhz": [2399.0] * 2, "memory": [8e9] * 2}
        ),
        manifest=Manifest(epoch_ms=1_758_059_356_963),
    )


def test_the_published_example(tmp_path):
    # Tables 4.1 and 4.2 of the thesis that defines this adaptation.
    notes = write(sampled(), tmp_path / "out")
    tasks, fragments = tables(tmp_path / "out")
    assert fragments["duration"].to_list() == [727, 1008, 1001, 400]
    assert fragments["cpu_usage"].to_list() == pytest.approx(
        [2379.9603174603176, 2379.9603174603176, 2420.5694305694306, 1199.5]
    )
    first = tasks.row(0, named=True)
    assert first["id"] == 145156
    assert first["submission_time"] == 1_758_059_356_963
    assert (first["duration"], first["cpu_count"], first["mem_capacity"]) == (2736, 1, 129_984)
    # Ranks 1 and 2 of three, at 0.95 * 2 = 1.9.
    assert first["cpu_capacity"] == pytest.approx(
        2379.96031746 + 0.9 * (2420.56943057 - 2379.96031746)
    )
    assert (
        sum(counted(notes, "invented").values()) == 5
    )  # head, synthetic task, its memory, both cores


def test_identical_nodes_are_one_group_of_hosts(tmp_path):
    write(sampled(), tmp_path / "out")
    (cluster,) = json.loads((tmp_path / "out/topology.json").read_text())["clusters"]
    (hosts,) = cluster["hosts"]
    assert hosts["count"] == 2
    platform = read_topology(tmp_path / "out/topology.json")
    assert sum(host.cores * host.count for c in platform.clusters for host in c.hosts) == 8


def test_a_platform_can_be_given(tmp_path):
    trace = sampled().replace(nodes=sampled().nodes.head(0))
    write(
        trace, tmp_path / "out", platform=Platform.parse("3x16@2100MHz/64GiB"), reference_mhz=2399
    )
    (cluster,) = json.loads((tmp_path / "out/topology.json").read_text())["clusters"]
    assert cluster["hosts"][0]["count"] == 3


def test_ids_that_are_not_numbers_are_stored_as_names(tmp_path):
    tasks = pl.DataFrame(
        {"id": ["b", "07"], "submit": [0.0] * 2, "run_time": [1.0] * 2, "parents": [None, ["b"]]}
    )
    notes = write(Trace(tasks=tasks), tmp_path / "out")
    table, fragments = tables(tmp_path / "out")
    assert table.select("id", "name", "parents").rows() == [(0, "b", []), (1, "07", [0])]
    assert fragments["id"].to_list() == [0, 1]
    (note,) = [n for n in notes if n.kind == "repaired" and n.count]
    assert (note.count, note.examples) == (2, ("b", "07"))


def test_an_unknown_clock_is_assumed_and_reported(tmp_path):
    tasks = pl.DataFrame(
        {"id": ["1"], "submit": [0.0], "requested_cores": [2.0], "run_time": [1.0]}
    )
    notes = write(Trace(tasks=tasks), tmp_path / "out")
    assert tables(tmp_path / "out")[1]["cpu_usage"].to_list() == [2000.0]
    assert "cores of 1000 MHz: no clock is known" in counted(notes, "assumed")


def test_only_a_folder_of_this_writer_is_replaced(tmp_path):
    target = tmp_path / "out"
    write(sampled(), target)
    write(sampled(), target)
    (target / "mine.txt").write_text("keep me")
    with pytest.raises(InputError, match="contains other files"):
        write(sampled(), target)
    assert (target / "mine.txt").read_text() == "keep me"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


milliseconds = st.floats(0.0001, 50.0)


@given(st.lists(st.lists(milliseconds, min_size=1, max_size=20), min_size=1, max_size=4))
def test_rounding_errors_do_not_accumulate(tmp_path_factory, lengths):
    names = [str(i) for i, mine in enumerate(lengths) for _ in mine]
    seconds = np.concatenate([np.array(mine) / 1000 for mine in lengths])
    workload = Workload(
        tasks=pl.DataFrame({"id": [str(i) for i in range(len(lengths))], "submit": 0.0}),
        fragments=pl.DataFrame({"task": names, "duration": seconds, "rate": 1.0}),
    )
    folder = tmp_path_factory.mktemp("rounding") / "out"
    write(workload, folder)
    fragments = tables(folder)[1]
    for i, mine in enumerate(lengths):
        ends = fragments.filter(pl.col("id") == i)["duration"].cum_sum().to_numpy()
        assert np.abs(ends - np.cumsum(mine)).max() <= 0.5 + 1e-6


def round_trip(folder, there: Path):
    """The tables of a folder, and the tables that are written after reading it."""
    trace = read(folder)
    notes = write(trace, there)
    return tables(folder), tables(there), notes


def same(one, other):
    """Equal columns by value: identifiers may be text or numbers, times may be typed."""
    assert one.height == other.height
    for name in other.columns:
        left, right = one[name], other[name]
        if left.dtype == pl.Datetime:
            left = left.dt.epoch("ms")
        if left.dtype == pl.Float64:
            # Also where both are 0.
            assert ((left - right).abs() <= 1e-12 * left.abs()).all(), name
        else:
            assert left.cast(right.dtype).equals(right), name


@pytest.mark.realdata
@pytest.mark.parametrize("name", ["surf", "opendc/bitbrains-small", "opendc/workflow_example"])
def test_real_folders_survive_a_round_trip(real_data, tmp_path, name):
    before, after, _ = round_trip(real_data / name, tmp_path / "out")
    for one, other in zip(before, after, strict=True):
        # The number of cores in a fragment is that of its task, and no longer in the format.
        assert set(one.columns) - set(other.columns) <= {"cpu_count"}
        same(one, other)


ids = st.integers(0, 99)
usages = st.just(0.0) | st.floats(1e-3, 1e5)


@st.composite
def folders(draw):
    numbers = draw(st.lists(ids, unique=True, min_size=1, max_size=5))
    tasks = [
        {
            "id": number,
            "submission_time": draw(st.integers(10**12, 10**12 + 10**6)),
            # Also longer or shorter than the fragments, and zero.
            "duration": draw(st.integers(0, 10**6)),
            "cpu_count": draw(st.integers(1, 64)),
            "cpu_capacity": draw(st.floats(1.0, 1e5)),
            "mem_capacity": draw(st.integers(0, 10**9)),
        }
        for number in numbers
    ]
    fragments = [
        {"id": number, "duration": duration, "cpu_usage": usage}
        for number in draw(st.permutations(numbers))
        for duration, usage in draw(st.lists(st.tuples(st.integers(1, 10**6), usages), max_size=4))
    ]
    schema = {"id": pl.Int32, "duration": pl.Int64, "cpu_usage": pl.Float64}
    return pl.DataFrame(tasks), pl.DataFrame(fragments, schema=schema)


@given(folders())
def test_any_folder_survives_a_round_trip(tmp_path_factory, folder):
    there = tmp_path_factory.mktemp("round")
    (there / "in").mkdir()
    for name, frame in zip(("tasks", "fragments"), folder, strict=True):
        frame.write_parquet(there / "in" / f"{name}.parquet")
    before, after, _ = round_trip(there / "in", there / "out")
    for one, other in zip(before, after, strict=True):
        assert one.columns == other.columns
        same(one, other)


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("requested_cores", 2.0**32, "task '1': cores: 4.29497e"),
        ("requested_memory", 1e30, "task '1': memory: 9.7656"),
        ("resources", [{"name": "gpu", "amount": 2.0**32}], "task '1': resources: gpu: 4.29497e"),
    ],
)
def test_numbers_beyond_the_range_of_opendc_are_refused(tmp_path, column, value, said):
    task = {"id": ["1"], "submit": [0.0], "requested_cores": [1.0], "run_time": [1.0]}
    trace = Trace(tasks=pl.DataFrame({**task, column: [value]}))
    with pytest.raises(InputError, match=said):
        write(trace, tmp_path / "out.opendc", reference_mhz=2000.0)
    assert not (tmp_path / "out.opendc").exists()
