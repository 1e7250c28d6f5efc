"""Energy counters of a machine: detection, wrap-arounds, and unknown values without access."""

import math
import tempfile
import time
from pathlib import Path

import polars as pl
import pytest

from tests.execution.sysfs import Ticking, Zone
from tests.ordinary_user import ordinary_user
from twinloop.execution.power import (
    Meter,
    PowerRecorder,
    Readings,
    find_meters,
    find_vm_meters,
    reconstruct,
)
from twinloop.execution.power.recorder import NO_COUNTER

RANGE = 262_143_328_850


def zone(root: Path, folder: str, name: str | None, value: int = 0, **more: object) -> Zone:
    return Zone(root / folder, name, wraps_at=RANGE, value=value, **more)  # type: ignore[arg-type]


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, Zone]:
    """Two packages with DRAM and cores, the whole machine, and a package that occurs twice."""
    for control in ("intel-rapl", "intel-rapl-mmio", "dtpm"):
        (tmp_path / control).mkdir()
    (tmp_path / "dtpm:0").mkdir()  # a zone without a counter
    return {
        folder: zone(tmp_path, folder, name, 1000 * number)
        for number, (folder, name) in enumerate(
            [
                ("intel-rapl:0", "package-0"),
                ("intel-rapl:0:0", "core"),
                ("intel-rapl:0:1", "uncore"),
                ("intel-rapl:0:2", "dram"),
                ("intel-rapl:1", "package-1"),
                ("intel-rapl:1:0", "dram"),
                ("intel-rapl:2", "psys"),
                ("intel-rapl-mmio:0", "package-0"),
            ]
        )
    }


def test_everything_is_counted_once(machine: dict[str, Zone], tmp_path: Path) -> None:
    meters = find_meters(tmp_path)
    assert [(meter.node, meter.source, meter.file.parent.name) for meter in meters] == [
        (None, "package-0", "intel-rapl:0"),
        (None, "package-0/dram", "intel-rapl:0:2"),
        (None, "package-1", "intel-rapl:1"),
        (None, "package-1/dram", "intel-rapl:1:0"),
    ]
    assert {meter.wraps_at for meter in meters} == {RANGE}
    assert [meter.read() for meter in meters] == [0, 3000, 4000, 5000]


def test_zones_within_zones_are_found_and_ten_comes_after_nine(tmp_path: Path) -> None:
    for number in range(11):
        zone(tmp_path, f"intel-rapl:{number}", f"package-{number}")
    zone(tmp_path, "intel-rapl:0/intel-rapl:0:0", "dram")
    found = [meter.source for meter in find_meters(tmp_path, node="host")]
    packages = [f"package-{number}" for number in range(11)]
    assert found == ["package-0", "package-0/dram", *packages[1:]]
    assert {meter.node for meter in find_meters(tmp_path, node="host")} == {"host"}


def test_the_whole_machine_counts_where_there_is_no_package(tmp_path: Path) -> None:
    zone(tmp_path, "intel-rapl:0", "psys")
    assert [meter.source for meter in find_meters(tmp_path)] == ["psys"]


def test_no_counter_is_no_power(tmp_path: Path) -> None:
    for root in (tmp_path, tmp_path / "none"):
        recorder = PowerRecorder(find_meters(root))
        assert recorder.due == math.inf
        assert recorder.sample(1.0) == []
        assert recorder.due == math.inf
        assert recorder.facts() == {"sources": [], "said": [NO_COUNTER]}


def test_virtual_machines_of_scaphandre(tmp_path: Path) -> None:
    for vm, joules in (("worker1", 7), ("worker2", 9)):
        # As written by its exporter: an empty folder for a part, and no names.
        (tmp_path / vm / "intel-rapl:0:0").mkdir(parents=True)
        Zone(tmp_path / vm / "intel-rapl:0", None, wraps_at=None, value=joules * 10**6)
    meters = find_vm_meters(tmp_path)
    assert [(meter.node, meter.wraps_at, meter.read()) for meter in meters] == [
        ("worker1", None, 7_000_000),
        ("worker2", None, 9_000_000),
    ]
    meters[0].file.write_text("")  # its writer empties the file first
    recorder = PowerRecorder(meters)
    assert [row[0] for row in recorder.sample(0.0)] == ["worker2"]
    meters[0].file.write_text("8000000")
    assert [row[2] for row in recorder.sample(1.0)] == [0.0, 0.0]
    meters[0].file.write_text("1000")  # the virtual machine was started again
    assert recorder.sample(2.0)[:2] == [
        ["worker1", "intel-rapl:0", None, None],
        ["worker1", "intel-rapl:0", 0.0, None],
    ]
    assert "worker1 intel-rapl:0: decreased 1 times" in recorder.facts()["said"][0]


def test_a_reading_is_due_once_a_period(tmp_path: Path) -> None:
    zone(tmp_path, "intel-rapl:0", "package-0")
    recorder = PowerRecorder(find_meters(tmp_path), period=0.5)
    assert recorder.due == 0.0
    for moment, then in ((0.0, 0.5), (0.5, 1.0), (1.2, 1.5), (7.49, 7.5)):
        recorder.sample(moment)
        assert recorder.due == then


def test_a_live_counter_is_followed_through_its_wraps(tmp_path: Path) -> None:
    """Updated every 1 to 50 ms, read at any time: no microjoule is lost or counted twice."""
    # A range so small that it wraps every few reads.
    fast = Zone(tmp_path / "intel-rapl:0", "package-0", wraps_at=300_000_000, value=299_000_000)
    slow = Zone(tmp_path / "intel-rapl:0:0", "dram", wraps_at=65_532_610_987)
    recorder = PowerRecorder(find_meters(tmp_path), period=0.01)
    passes = [(0.0, recorder.sample(0.0))]
    before = {zone: zone.truth for zone in (fast, slow)}
    with Ticking((fast, 0.001, 1_234_567), (slow, 0.05, 7_654_321)):
        for number in range(1, 80):
            time.sleep(0.013)
            fast.read()
            passes.append((number * 0.013, recorder.sample(number * 0.013)))
    passes.append((80 * 0.013, recorder.sample(80 * 0.013)))
    used = {zone: (zone.truth - before[zone]) / 1e6 for zone in (fast, slow)}
    assert [row[2] for row in passes[-1][1]] == [used[fast], used[slow]]
    facts = {source["source"]: source for source in recorder.facts()["sources"]}
    wraps = fast.truth // 300_000_000 - before[fast] // 300_000_000
    assert facts["package-0"]["wraps"] == wraps > 0
    assert facts["package-0/dram"]["wraps"] == 0
    assert facts["package-0"]["gaps"] == 0
    assert recorder.facts()["said"] == []
    # The table has the energy between the first and the last observed update.
    rows = Readings.from_passes(passes).table
    table = reconstruct(Readings(rows.filter(pl.col("source") == "package-0/dram")))
    seen = rows.filter(pl.col("source") == "package-0/dram")["joules"]
    changes = seen.filter(seen.diff() > 0)
    energy = float((table["watts"] * table["dt"]).sum())
    assert energy == pytest.approx(changes[-1] - changes[0])


def test_a_removed_counter_is_unknown_from_then_on(tmp_path: Path) -> None:
    kept = zone(tmp_path, "intel-rapl:0", "package-0")
    gone = zone(tmp_path, "intel-rapl:1", "package-1")
    recorder = PowerRecorder(find_meters(tmp_path))
    passes = []
    for second in range(8):
        passes.append((float(second), recorder.sample(float(second))))
        kept.add(50_000_000)
        if second < 3:
            gone.add(20_000_000)
        elif second == 3:
            gone.vanish()
    unknown = [row for _, rows in passes for row in rows if row[2] is None]
    assert unknown == [[None, "package-1", None, None]]  # reported once
    table = reconstruct(Readings.from_passes(passes))
    assert table.select("t", "watts").rows() == [(1.0, 70.0), (2.0, 70.0), (3.0, 70.0)]
    [warning] = recorder.facts()["said"]
    assert warning == "package-1: cannot be read at t = 4.000 s: No such file or directory"
    assert [source["gaps"] for source in recorder.facts()["sources"]] == [0, 1]


def test_a_returned_counter_counts_from_then_on(tmp_path: Path) -> None:
    one = zone(tmp_path, "intel-rapl:0", "package-0", 10**6)
    recorder = PowerRecorder(find_meters(tmp_path))
    recorder.sample(0.0)
    one.vanish()
    assert recorder.sample(1.0) == [[None, "package-0", None, None]]
    assert recorder.sample(2.0) == []
    zone(tmp_path, "intel-rapl:0", "package-0", 5 * 10**9).add(0)
    assert recorder.sample(3.0) == [[None, "package-0", 0.0, None]]
    one.add(10**6 * 7 + 5 * 10**9 - 10**6)  # to 5,007 J
    assert recorder.sample(4.0) == [[None, "package-0", 7.0, None]]


def test_an_invalid_number_is_no_reading(tmp_path: Path) -> None:
    file = tmp_path / "energy_uj"
    for text in ("-5", "1e9", "many", "\xff\x00"):
        file.write_text(text, encoding="latin-1")
        recorder = PowerRecorder([Meter("n", "p", file, None)])
        assert recorder.sample(0.0) == [["n", "p", None, None]]
        assert "not a number of microjoules" in recorder.facts()["said"][0]


def test_an_unreadable_counter_is_reported_once_and_never_zero() -> None:
    # Since Linux 5.10, only root can read these files.
    with tempfile.TemporaryDirectory() as there:
        root = Path(there)
        root.chmod(0o755)
        one = zone(root, "intel-rapl:0", "package-0", 5)
        (root / "intel-rapl:0").chmod(0o755)
        (one.folder / "energy_uj").chmod(0o000)
        with ordinary_user():
            recorder = PowerRecorder(find_meters(root))
            passes = [(float(second), recorder.sample(float(second))) for second in range(4)]
    assert [rows for _, rows in passes] == [[[None, "package-0", None, None]], [], [], []]
    assert recorder.facts()["said"] == [
        "package-0: cannot be read at t = 0.000 s: Permission denied"
    ]
    assert reconstruct(Readings.from_passes(passes)).is_empty()


def test_the_counters_of_this_machine(tmp_path: Path) -> None:
    meters = find_meters()
    if not meters:
        pytest.skip("this machine shows no power counters")
    recorder = PowerRecorder(meters)
    recorder.sample(0.0)
    time.sleep(0.2)
    recorder.sample(0.2)
    if not any(source["reads"] for source in recorder.facts()["sources"]):
        pytest.skip("the power counters of this machine are for root alone")
    assert all(row[2] is None or 0 <= row[2] < 1000 for row in recorder.sample(0.3))
