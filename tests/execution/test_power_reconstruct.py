"""Laws of the reconstruction of power: the energy of the table is that of the counters."""

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinloop.execution.power import Readings, reconstruct
from twinloop.execution.power.energy_counter import MAX_WATTS, EnergyCounter
from twinloop.execution.power.power_table import reconstruct_with_notes
from twinloop.trace.trace import Trace

#: Lengths of time and amounts of energy that a counter may show between two updates.
PAUSES = st.floats(0.05, 7.0)
AMOUNTS = st.floats(0.5, 900.0)


def readings(*series: tuple[str | None, str, list[float], list[float | None]]) -> Readings:
    """Readings of counters, by node and source, each with its times and joules."""
    return Readings.from_passes(
        (t, [[node, source, value, None]])
        for node, source, times, values in series
        for t, value in zip(times, values, strict=True)
    )


def of(table: pl.DataFrame, node: str | None) -> pl.DataFrame:
    return table.filter(pl.col("node").is_null() if node is None else pl.col("node") == node)


def energy(table: pl.DataFrame, node: str | None) -> float:
    return float((of(table, node)["watts"] * of(table, node)["dt"]).sum())


@given(st.lists(st.tuples(PAUSES, AMOUNTS), min_size=2, max_size=40), st.floats(0, 1e5))
def test_the_energy_is_that_of_the_counter(steps: list[tuple[float, float]], first: float) -> None:
    """For a counter that is read at its updates, no window loses energy."""
    times = np.cumsum([first, *(pause for pause, _ in steps)]).tolist()
    joules = np.cumsum([0.0, *(used for _, used in steps)]).tolist()
    table = reconstruct(readings(("n", "package-0", times, joules)))
    assert energy(table, "n") == pytest.approx(joules[-1], rel=1e-9)
    assert energy(table, None) == pytest.approx(joules[-1], rel=1e-9)
    # The windows are contiguous seconds; only the first and the last are shorter.
    mine = of(table, "n")
    begin = (mine["t"] - mine["dt"]).to_numpy()
    assert begin[1:] == pytest.approx(mine["t"].to_numpy()[:-1])
    assert begin[0] == pytest.approx(times[0])
    assert mine["t"][-1] == pytest.approx(times[-1])
    assert (mine["dt"] > 0).all()
    assert (mine["dt"] < 1 + 3e-6).all()
    assert mine["t"][:-1].to_numpy() == pytest.approx(np.round(mine["t"][:-1].to_numpy()))
    # The mean power of each is that of the linear interpolation between the updates.
    ends = mine["t"].to_numpy()
    exact = np.interp(ends, times, joules) - np.interp(begin, times, joules)
    assert (mine["watts"] * mine["dt"]).to_numpy() == pytest.approx(exact, rel=1e-6, abs=1e-6)


@given(
    powers=st.lists(st.floats(1.0, 500.0), min_size=3, max_size=12),
    update=st.sampled_from([2, 3, 5]),
    data=st.data(),
)
def test_a_slow_counter_shows_the_power_between_its_updates(
    powers: list[float], update: int, data: st.DataObject
) -> None:
    """Updated every few seconds, read every second: the steps of the true power are found."""
    truth = np.repeat(powers, update)  # W in each second
    so_far = np.concatenate([[0.0], np.cumsum(truth)])
    late = data.draw(st.integers(0, update - 1))  # time since the last update at the start
    seconds = range(len(truth) - late + 1)
    shown = [so_far[(t + late) // update * update] for t in seconds]
    table = of(reconstruct(readings(("n", "p", [float(t) for t in seconds], shown))), "n")
    begin = update - late  # the first observed update
    last = (len(truth) - late) - (len(truth) % update)
    assert table["t"].to_list() == [float(t) for t in range(begin + 1, last + 1)]
    expected = [truth[t - 1 + late] for t in range(begin + 1, last + 1)]
    assert table["watts"].to_list() == pytest.approx(expected)


@given(
    st.lists(
        st.tuples(st.floats(0.01, 3.0), st.integers(0, 2_000_000_000)), min_size=1, max_size=60
    ),
    st.integers(3_100_000_000, 300_000_000_000),
    st.integers(0, 3_000_000_000),
)
def test_wraps_are_exact(steps: list[tuple[float, int]], wraps_at: int, first: int) -> None:
    """Counters with and without wrap-around give the same energy."""
    counter = EnergyCounter(wraps_at)
    t, truth = 0.0, first
    assert counter.add_reading(t, truth % wraps_at)
    for pause, used in steps:
        t += pause
        truth += used
        assert counter.add_reading(t, truth % wraps_at)
        assert counter.joules == (truth - first) / 1e6
    assert counter.wraps == truth // wraps_at - first // wraps_at
    assert counter.updates == sum(used > 0 for _, used in steps)


def test_energy_is_unknown_if_a_counter_may_have_wrapped_unread() -> None:
    counter = EnergyCounter(wraps_at=262_143_328_850)
    limit = 262_143.328850 / MAX_WATTS
    assert counter.max_gap == pytest.approx(limit)
    assert counter.add_reading(0.0, 5)
    assert counter.add_reading(limit, 1_000_005)
    assert not counter.add_reading(3 * limit, 900_000_000)
    assert (counter.unsure, counter.joules) == (1, 1.0)
    assert counter.add_reading(3 * limit + 1, 902_000_000)
    assert counter.joules == 3.0


def test_a_counter_without_a_range_restarts_when_it_decreases() -> None:
    counter = EnergyCounter(None, per_joule=1.0)
    seen = [counter.add_reading(t, value) for t, value in enumerate([10, 12, 1, 4])]
    assert seen == [True, True, False, True]
    assert (counter.joules, counter.resets, counter.wraps) == (5.0, 1, 0)


@given(
    st.lists(st.lists(st.tuples(PAUSES, AMOUNTS), min_size=2, max_size=10), min_size=2, max_size=4),
    st.lists(st.floats(0, 9), min_size=4, max_size=4),
)
def test_the_total_is_the_sum_where_all_nodes_are_known(
    nodes: list[list[tuple[float, float]]], firsts: list[float]
) -> None:
    series = []
    for number, steps in enumerate(nodes):
        times = np.cumsum([firsts[number], *(pause for pause, _ in steps)]).tolist()
        joules: list[float | None] = np.cumsum([0.0, *(used for _, used in steps)]).tolist()
        series.append((f"n{number}", "package-0", times, joules))
    table, notes = reconstruct_with_notes(readings(*series))
    begin = max(times[0] for _, _, times, _ in series)
    end = min(times[-1] for _, _, times, _ in series)
    exact = sum(
        np.interp(end, times, joules) - np.interp(begin, times, joules)
        for _, _, times, joules in series
    )
    covered = float(of(table, None)["dt"].sum())
    assert covered == pytest.approx(max(end - begin, 0.0), abs=1e-6)
    if end > begin:
        assert energy(table, None) == pytest.approx(exact, rel=1e-6, abs=1e-3)
    # The rest is reported: the union of all times without the time of the total.
    spans = sorted((times[0], times[-1]) for _, _, times, _ in series)
    union, until = 0.0, -math.inf
    for start, stop in spans:
        union += max(stop - max(start, until), 0.0)
        until = max(until, stop)
    reported = sum(note.count for note in notes if "have no total" in note.what)
    assert reported == pytest.approx(union - covered, abs=1.0)
    for name, _, _, joules in series:
        assert energy(table, name) == pytest.approx(joules[-1], rel=1e-9)


def test_the_sources_of_a_node_are_added_where_all_are_known() -> None:
    seconds = [0.0, 1.0, 2.0, 3.0, 4.0]
    table, notes = reconstruct_with_notes(
        readings(
            ("n", "package-0", seconds, [0.0, 10.0, 20.0, 30.0, 40.0]),
            ("n", "package-0/dram", seconds, [0.0, 3.0, 6.0, None, None]),
        )
    )
    assert of(table, "n").select("t", "watts").rows() == [(1.0, 13.0), (2.0, 13.0)]
    assert of(table, None).height == 2
    assert [(note.kind, note.count) for note in notes] == [("noticed", 2)]


def test_the_reading_of_the_whole_machine_is_the_total() -> None:
    seconds = [0.0, 1.0, 2.0]
    table = reconstruct(
        readings(("vm1", "p", seconds, [0.0, 1.0, 2.0]), (None, "p", seconds, [0.0, 50.0, 100.0]))
    )
    assert of(table, None)["watts"].to_list() == [50.0, 50.0]
    assert of(table, "vm1")["watts"].to_list() == [1.0, 1.0]


def test_gaps_are_not_filled() -> None:
    times, joules = [0.0, 1.0, 2.0, 3.0, 4.0], [0.0, 5.0, None, 5.0, 9.0]
    table = of(reconstruct(readings(("n", "p", times, joules))), "n")
    assert table.select("t", "watts").rows() == [(1.0, 5.0), (4.0, 4.0)]
    down = of(reconstruct(readings(("n", "p", times, [0.0, 5.0, 6.0, 1.0, 3.0]))), "n")
    assert down.select("t", "watts").rows() == [(1.0, 5.0), (2.0, 1.0), (4.0, 2.0)]


def test_a_reading_covers_the_time_since_the_previous_one() -> None:
    passes = [
        (t, [["n", "dcmi", None, watts]])
        for t, watts in (
            (0.0, 100.0),
            (5.0, 120.0),
            (10.0, 80.0),
            (15.0, 90.0),
            (100.0, 70.0),
            (105.0, 60.0),
        )
    ]
    table = of(reconstruct(Readings.from_passes(passes)), "n")
    seconds = dict(zip(table["t"], table["watts"], strict=True))
    assert seconds[3.0] == 120.0
    assert seconds[8.0] == 80.0
    assert seconds[15.0] == 90.0
    assert not [t for t in seconds if 15 < t <= 100]
    assert energy(table, "n") == pytest.approx(5 * (120 + 80 + 90 + 60))


def test_readings_without_information() -> None:
    still, notes = reconstruct_with_notes(readings((None, "p", [0.0, 1.0, 2.0], [7.0, 7.0, 7.0])))
    assert still.is_empty()
    assert [(note.count, note.examples) for note in notes] == [(1, ("p",))]
    none, notes = reconstruct_with_notes(Readings.from_passes([]))
    assert none.is_empty()
    assert notes == ()
    assert Trace(power=none).power.is_empty()
