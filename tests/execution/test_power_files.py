"""Power from files of other tools: formats, units and clocks."""

from pathlib import Path

import polars as pl
import pytest

from twinloop.description.errors import FormatError, InputError
from twinloop.execution.power import Readings, read_power, reconstruct, with_power
from twinloop.metrics.energy_and_carbon import energy
from twinloop.trace import Trace, check
from twinloop.trace.manifest import Manifest

T0 = 1_700_000_000
DCMI = """
    Instantaneous power reading:              {watts:8d} Watts
    Minimum during sampling period:                  1 Watts
    Maximum during sampling period:               6560 Watts
    Average power reading over sample period:      113 Watts
    IPMI timestamp:                           Thu Jan  1 00:00:00 1970
    Sampling period:                          00000001 Seconds.
    Power reading state is:                   {state}

"""
SENSOR = """\
CPU Temp         | 41.000     | degrees C  | ok    | 0.000     | 0.000
PSU1 Power In    | {one}    | Watts      | ok    | na        | na
PSU2 Power In    | {two}     | Watts      | ok    | na        | na
"""
SENSORS = """\
coretemp-isa-0000
Adapter: ISA adapter
Package id 0:  +37.0 C  (high = +82.0 C, crit = +92.0 C)

power_meter-acpi-0
Adapter: ACPI interface
power1:      {watts} (interval =   1.00 s)

"""


def count(readings: Readings | Trace, words: str) -> int:
    notes = readings.cleaned if isinstance(readings, Readings) else readings.manifest.cleaned
    return sum(note.count for note in notes if words in note.what)


def rows(readings: Readings) -> list[tuple[object, ...]]:
    return readings.table.select("node", "source", "t", "watts").rows()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "power.txt"


def test_ipmi_dcmi(file: Path) -> None:
    blocks = [
        f"{T0 + 5 * i}{DCMI.format(watts=w, state='activated')}" for i, w in enumerate((176, 180))
    ]
    file.write_text("".join(blocks))
    readings = read_power(file, node="n1")
    assert rows(readings) == [("n1", "dcmi", 0.0, 176.0), ("n1", "dcmi", 5.0, 180.0)]
    assert readings.epoch_ms == T0 * 1000
    # "Deactivated" means that there is no measurement, for any figure.
    file.write_text("".join(blocks) + f"{T0 + 10}{DCMI.format(watts=234, state='deactivated')}")
    again = read_power(file, node="n1")
    assert rows(again) == rows(readings)
    assert count(again, "deactivated") == 1


def test_ipmi_sensors_must_be_chosen_where_there_are_several(file: Path) -> None:
    file.write_text(
        f"{T0}\n{SENSOR.format(one='168.000', two='90.000')}"
        f"{T0 + 1}.5\n{SENSOR.format(one='170.000', two='na')}"
    )
    with pytest.raises(InputError, match=r"2 sensors .* PSU1 Power In, PSU2 Power In"):
        read_power(file)
    both = read_power(file, sensors=["PSU1 Power In", "PSU2 Power In"])
    assert sorted(rows(both), key=str) == [
        (None, "PSU1 Power In", 0.0, 168.0),
        (None, "PSU1 Power In", 1.5, 170.0),
        (None, "PSU2 Power In", 0.0, 90.0),
        (None, "PSU2 Power In", 1.5, None),
    ]
    one = read_power(file, sensors=["PSU1 Power In"])
    assert [row[3] for row in rows(one)] == [168.0, 170.0]
    assert count(one, "sensor 'PSU2 Power In'") == 2
    assert count(one, "without a reading") == 2
    with pytest.raises(InputError, match="no sensor 'PSU3'"):
        read_power(file, sensors=["PSU3"])


@pytest.mark.parametrize(
    "line",
    ["Pwr Consumption  | 168 Watts         | ok", "Pwr Consumption | B0h | ok | 7.1 | 168 Watts"],
)
def test_ipmi_records(file: Path, line: str) -> None:
    file.write_text(f"{T0} {line}\n")
    assert rows(read_power(file)) == [(None, "Pwr Consumption", 0.0, 168.0)]


def test_lm_sensors(file: Path) -> None:
    texts = ("95.50 W ", "500.00 mW", "1.50 kW", "4.29 MW")
    file.write_text(
        "".join(f"{T0 + i}\n{SENSORS.format(watts=text)}" for i, text in enumerate(texts))
    )
    readings = read_power(file)
    assert [(source, watts) for _, source, _, watts in rows(readings)] == [
        ("power_meter-acpi-0/power1", watts) for watts in (95.5, 0.5, 1500.0, None)
    ]
    assert count(readings, "megawatt") == 1


@pytest.mark.parametrize(
    ("stamp", "offset", "unix"),
    [
        ("1700000000", None, T0),
        ("1700000000.25", None, T0 + 0.25),
        ("1700000000250", None, T0 + 0.25),
        ("2023-11-14T22:13:20Z", None, T0),
        ("2023-11-14 23:13:20+01:00", None, T0),
        ("2023-11-14T23:13:20", 1.0, T0),
        ("2023-11-14T22:13:20.250000", None, T0 + 0.25),
    ],
)
@pytest.mark.parametrize("newline", ["\n", " "])
def test_times(file: Path, stamp: str, offset: float | None, unix: float, newline: str) -> None:
    file.write_text(f"{stamp}{newline}Instantaneous power reading: 5 Watts\n")
    readings = read_power(file, utc_offset=offset)
    assert readings.epoch_ms is not None
    assert readings.epoch_ms / 1000 + readings.table["t"][0] == pytest.approx(unix, abs=1e-6)
    assert count(readings, "without a zone") == (stamp.endswith("250000"))


def test_a_reading_without_a_time_is_an_error_with_its_line(file: Path) -> None:
    file.write_text("\n    Instantaneous power reading:   176 Watts\n")
    with pytest.raises(InputError, match=r"power\.txt:2: has no time before it"):
        read_power(file)
    file.write_text(f"{T0}\nall quiet\n")
    with pytest.raises(FormatError, match="no reading of power"):
        read_power(file)
    with pytest.raises(InputError, match="does not exist"):
        read_power(file.with_name("other"))


@pytest.mark.parametrize(
    ("times", "unit", "epoch"),
    [
        (("1700000000", "1700000010"), None, T0 * 1000),
        (("1700000000000", "1700000010000"), None, T0 * 1000),
        (("1700000000000000000", "1700000010000000000"), None, T0 * 1000),
        (("2023-11-14T22:13:20Z", "2023-11-14T22:13:30Z"), None, T0 * 1000),
        (("0", "10"), None, None),
        (("0", "10000"), "ms", None),
    ],
)
def test_a_table_with_watts(
    file: Path, times: tuple[str, str], unit: str | None, epoch: int | None
) -> None:
    file.write_text(f"when;vm;power\n{times[0]};a;1500\n{times[1]};a;2500\n")
    readings = read_power(
        file,
        columns={"time": "when", "watts": "power", "node": "vm"},
        units={"watts": "mW"} | ({"time": unit} if unit else {}),
    )
    assert rows(readings) == [("a", "table", 0.0, 1.5), ("a", "table", 10.0, 2.5)]
    assert readings.epoch_ms == epoch
    assert count(readings, "column of the time") == (unit is None)
    assert count(readings, "t = 0 of the run") == (2 if epoch is None else 0)


def test_counters_in_a_table_wrap_and_restart(file: Path) -> None:
    file.write_text("time,joules,source,other\n0,9990,p,x\n1,9998,p,x\n2,6,p,x\n3,11,p,x\n")
    known = read_power(file, wraps_at=10_000)
    assert known.table["joules"].to_list() == [0.0, 8.0, 16.0, 21.0]
    hours = read_power(file, wraps_at=10_000, units={"joules": "Wh"})
    assert hours.table["joules"].to_list() == pytest.approx([0.0, 28_800.0, 57_600.0, 75_600.0])
    assert count(known, "wrap-arounds") == 1
    assert count(known, "column 'other'") == 4
    unknown = read_power(file)
    assert unknown.table["joules"].to_list() == [0.0, 8.0, None, 8.0, 13.0]
    assert count(unknown, "that decreased") == 1
    watts = reconstruct(unknown).select("t", "watts").rows()
    assert watts == [(1.0, 8.0), (3.0, 5.0)]
    rare = read_power(file, wraps_at=0.5, units={"joules": "kJ"})
    assert count(rare, "of wrap-arounds is unknown") == 3


def test_rows_out_of_order_and_twice(file: Path) -> None:
    file.write_text("time,watts\n5,50\n1,10\n5,55\n")
    readings = read_power(file)
    assert [(t, watts) for _, _, t, watts in rows(readings)] == [(1.0, 10.0), (5.0, 55.0)]
    assert count(readings, "older than the one before") == 1
    assert count(readings, "of the same time") == 1


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("soon,5", "time: 'soon' is not a time in range"),
        (",5", "time: '' is not a time"),
        ("3,lots", "watts: 'lots' is not a number in range"),
        ("3,-5", "watts: '-5' is negative"),
        ("3,nan", "watts: 'nan' is not a number in range"),
        ("3,4,5", "has 3 cells, not 2"),
        ("3,4\x00", "NUL"),
    ],
)
def test_lines_that_cannot_be_read(file: Path, line: str, problem: str) -> None:
    file.write_text(f"time,watts\n1,10\n{line}\n5,50\n")
    assert [row[2] for row in rows(read_power(file))] == [1.0, 5.0]
    assert [n.examples for n in read_power(file).cleaned if n.kind == "skipped"] == [
        ("power.txt:3",)
    ]
    with pytest.raises(InputError, match=rf"power\.txt:3: .*{problem}"):
        read_power(file, strict=True)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"columns": {"time": "time"}}, "either the watts or the joules"),
        ({"columns": {"time": "when", "watts": "watts"}}, "no column 'when'"),
        ({"columns": {"time": "time", "volts": "watts"}}, "there is no kind of column 'volts'"),
        ({"units": {"watts": "hp"}}, "'hp' is not a unit of 'watts'"),
        ({"units": {"joules": "J"}}, "'J' is not a unit of 'joules'"),
        ({"sensors": ["dcmi"]}, "not for tables"),
    ],
)
def test_invalid_options_are_refused(file: Path, options: dict[str, object], problem: str) -> None:
    file.write_text("time,watts\n1,10\n")
    with pytest.raises(InputError, match=problem):
        read_power(file, **options)  # type: ignore[arg-type]


def test_files_without_readings(file: Path) -> None:
    for text, problem in (
        ("", "is empty"),
        ("time,watts\n", "no reading"),
        ("time,watts,watts\n", "more than once"),
    ):
        file.write_text(text)
        with pytest.raises(InputError, match=problem):
            read_power(file)
    file.write_text("1700000000 Instantaneous power reading: 5 Watts\n")
    with pytest.raises(InputError, match="units: is for tables"):
        read_power(file, units={"time": "s"})


@pytest.fixture
def trace() -> Trace:
    return Trace(
        tasks=pl.DataFrame({"id": ["a"], "submit": [0.0], "status": ["completed"]}),
        placements=pl.DataFrame({"task": ["a"], "machine": ["n1"], "start": [0.0], "end": [100.0]}),
        nodes=pl.DataFrame({"node": ["n1"], "cores": [1.0]}),
        manifest=Manifest(epoch_ms=T0 * 1000 + 250),
    )


def test_power_is_converted_to_the_clock_of_the_run(file: Path, trace: Trace) -> None:
    """Constant 60 W from 10 s before the run to 30 s after it: 6 kJ in its 100 s."""
    times = range(T0 - 10, T0 + 131, 10)
    file.write_text("time,watts\n" + "".join(f"{t},60\n" for t in times))
    powered = with_power(trace, read_power(file, node="n1"))
    assert energy(powered) == pytest.approx(6000.0)
    mine = powered.power.filter(pl.col("node") == "n1")
    assert float((mine["t"] - mine["dt"]).min()) == 0.0  # type: ignore[arg-type]
    assert mine["t"].max() == 100.0
    # At T0 - 10, T0, T0 + 110, T0 + 120 and T0 + 130: t = 0 is at T0 + 0.25.
    assert count(powered, "outside the run") == 5
    assert count(powered, "power is not known") == 0
    assert powered.manifest.edits[-1].parameters["files"][0]["name"] == "power.txt"
    assert check(powered).ok


def test_a_step_of_power_has_the_time_of_the_clocks(file: Path, trace: Trace) -> None:
    """10 W until T0 + 10, then 100 W; t = 0 is at T0 + 0.25, so the step is at 9.75 s."""
    file.write_text(f"time,watts\n{T0},10\n{T0 + 10},10\n{T0 + 20},100\n")
    power = with_power(trace, read_power(file)).power
    seconds = dict(power.select("t", "watts").rows())
    assert [seconds[t] for t in (9.0, 10.0, 11.0)] == pytest.approx([10, 0.75 * 10 + 25, 100])


def test_uncovered_time_is_reported(file: Path, trace: Trace) -> None:
    file.write_text("time,watts,node\n" + "".join(f"{t},60,n9\n" for t in range(20, 61, 10)))
    powered = with_power(trace, read_power(file))
    assert energy(powered) == pytest.approx(60 * 40)
    assert count(powered, "power is not known") == 60
    assert count(powered, "not in the trace") == 1


def test_power_that_cannot_be_added_to_a_run_is_an_error(file: Path, trace: Trace) -> None:
    file.write_text(f"time,watts\n{T0},60\n{T0 + 10},60\n")
    readings = read_power(file)
    with pytest.raises(InputError, match="the trace has no epoch"):
        with_power(trace.with_manifest(epoch_ms=None), readings)
    with pytest.raises(InputError, match=r"from t = 3600 s to 3610 s lies outside the run"):
        with_power(trace.with_manifest(epoch_ms=(T0 - 3600) * 1000), readings)
    with pytest.raises(InputError, match="has power already"):
        with_power(with_power(trace, readings), readings)


def test_the_end_of_a_run_can_be_given(trace: Trace) -> None:
    passes = [(float(t), [[None, "package-0", 10.0 * t, None]]) for t in range(121)]
    readings = Readings.from_passes(passes)
    assert energy(with_power(trace, readings)) == pytest.approx(1000)
    assert energy(with_power(trace, readings, end=110.5)) == pytest.approx(1105)
    assert with_power(trace, Readings.from_passes([])).power.is_empty()
