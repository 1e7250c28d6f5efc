"""Figures of runs with clouds: instances on hosts, power by state, transfers over links."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import twinloop as tl
from tests.report.page_reader import EVIL, PageReader, read_figures
from tests.report.sample_runs import FEWER, draw_tasks, run_fcfs, sum_seconds
from twinloop.description import InputError
from twinloop.metrics.trace_figures import figures
from twinloop.platform import Platform
from twinloop.report import write_run_page
from twinloop.report.figures import instances as instance_figure
from twinloop.report.figures.instances import plot_instances
from twinloop.report.figures.network_routes import NetworkRoutes
from twinloop.report.figures.power_states import plot_power_states, split_power
from twinloop.report.figures.transfers import plot_transfers
from twinloop.report.key_figures import list_key_figures
from twinloop.trace import Manifest, Trace

SCENARIO = """
platform:
  clusters:
    - name: rack
      hosts:
        - name: pm
          count: 2
          cores: 4
          ports: 100 MB/s
          power: {model: linear, idle: 100 W, max: 200 W}
          states:
            "off": {power: 10 W}
            switching-on: {power: 150 W, duration: 20s}
            switching-off: {power: 160 W, duration: 5s}
  stores: [{name: images, ports: 100 MB/s}]
  network: {latency: 1s}
  clouds:
    - name: east
      images: [{name: base, size: 400 MB, store: images, boot: {delay: 2s, work: 6, limit: 1}}]
      controllers: {machines: on-demand}
workload:
  tasks:
    - {id: a, cores: 2, run_time: 50}
    - {id: b, cores: 4, run_time: 60}
    - {id: c, cores: 4, run_time: 20}
policy: one-per-task
"""


@cache
def make_run(power_step: float | None = None) -> Trace:
    """Three instances on two hosts that are switched on one after the other.

    The first host runs from 20 s on, the second from 40 s to 113 s. An image takes 1 + 4 s, a boot
    2 + 6 s; the instances are on hosts from 20 to 83 s, 40 to 113 s and 83 to 116 s.
    """
    return tl.simulate(tl.Scenario.from_text(SCENARIO), power_step=power_step)


def make_rented(
    stays: list[tuple[str, str, float, float, float | None]],
    states: list[tuple[str, str, float, float | None]],
    nodes: int = 2,
    **more: Any,
) -> Trace:
    """Make a trace of stays (instance, host, cores, start, end) and states."""
    names = ["instance", "host", "cores", "start", "end"]
    given_states = ["instance", "state", "start", "end"]
    return Trace(
        instances=pl.DataFrame(stays, schema=names, orient="row").with_columns(
            cloud=pl.lit("east")
        ),
        instance_states=pl.DataFrame(states, schema=given_states, orient="row"),
        nodes=pl.DataFrame({"node": [f"n{n}" for n in range(nodes)], "cores": 4.0}),
        **more,
    )


def sum_bars(figure: Any) -> dict[str, float]:
    """Core-seconds of the bars by state."""
    unit = sum_seconds(figure)
    return {bars.name: float(np.sum(bars.x * bars.width)) * unit for bars in figure.data}


def sum_areas(figure: Any) -> dict[str, float]:
    """Core-seconds of the areas by state: of each polygon by the shoelace formula."""
    found = {}
    for area in figure.data:
        x, y = np.asarray(area.x, dtype=float), np.asarray(area.y, dtype=float)
        ends = np.flatnonzero(np.isnan(x))
        total, begin = 0.0, 0
        for end in ends.tolist():
            a, b = x[begin:end] - x[begin], y[begin:end]
            total += abs(float(a @ np.roll(b, 1) - b @ np.roll(a, 1))) / 2
            begin = end + 1
        found[area.name] = total * sum_seconds(figure)
    return found


def test_bars_are_the_states_of_instances_on_their_hosts() -> None:
    figure = plot_instances(make_run())
    found = {
        bars.name: sorted(zip(bars.base.tolist(), bars.x.tolist(), bars.width, strict=True))
        for bars in figure.data
    }
    assert list(found) == ["initial-transfer", "startup", "running"]
    assert found["initial-transfer"] == [(20.0, 5.0, 2.0), (40.0, 5.0, 4.0), (83.0, 5.0, 4.0)]
    assert found["startup"] == [(25.0, 8.0, 2.0), (45.0, 8.0, 4.0), (88.0, 8.0, 4.0)]
    assert found["running"] == [(33.0, 50.0, 2.0), (53.0, 60.0, 4.0), (96.0, 20.0, 4.0)]
    assert list(figure.layout.yaxis.ticktext) == ["rack-pm-001", "rack-pm-002"]
    assert "instance-1" in figure.data[0].hovertext[0]
    # What is drawn is the metric of the rented core-seconds.
    rentals = figures(make_run()).rentals
    assert rentals is not None
    assert sum(sum_bars(figure).values()) == pytest.approx(rentals.core_seconds)


def test_a_migration_changes_the_lane_and_the_states_follow() -> None:
    trace = make_rented(
        [("i", "n0", 2.0, 0.0, 6.0), ("i", "n1", 2.0, 6.0, None)],
        [("i", "queued", -3.0, 0.0), ("i", "running", 0.0, 4.0), ("i", "migrating", 4.0, 5.0),
         ("i", "stopped", 5.0, 6.0), ("i", "running", 6.0, None)],
        power=pl.DataFrame({"t": [10.0], "dt": 10.0, "watts": 1.0}),
    )  # fmt: skip
    figure = plot_instances(trace)
    assert sum_bars(figure) == {"running": 16.0, "migrating": 2.0, "stopped": 2.0}
    lanes = {
        (start, "n0" if y < 4.0 else "n1")
        for bars in figure.data
        for start, y in zip(bars.base, bars.y, strict=True)
    }
    assert lanes == {(0.0, "n0"), (4.0, "n0"), (5.0, "n0"), (6.0, "n1")}


def test_an_instance_keeps_its_place_in_the_lane_in_all_states() -> None:
    figure = plot_instances(make_rented(
        [("a", "n0", 1.0, 0.0, 4.0), ("b", "n0", 1.0, 1.0, 9.0), ("c", "n0", 1.0, 5.0, 9.0)],
        [("a", "running", 0.0, 4.0), ("b", "startup", 1.0, 6.0), ("b", "running", 6.0, 9.0),
         ("c", "running", 5.0, 9.0)],
    ))  # fmt: skip
    places: dict[str, set[float]] = {}
    for bars in figure.data:
        for text, y in zip(bars.hovertext, bars.y, strict=True):
            places.setdefault(text[3], set()).add(float(y))
    assert places == {"a": {0.5}, "b": {1.5}, "c": {0.5}}


def test_unknown_states_and_instances_without_a_host_are_counted() -> None:
    trace = make_rented(
        [("a", "n0", 1.0, 0.0, 4.0), ("b", "n0", 1.0, 0.0, 4.0), ("c", None, 1.0, None, None)],  # type: ignore[list-item]
        [("b", "running", 1.0, 4.0)],
    )
    figure = plot_instances(trace)
    assert sum_bars(figure) == {"running": 3.0, "state not recorded": 4.0}
    assert figure.layout.meta["notes"] == [
        "not drawn: 1 instance that had no host for any time",
        "not drawn: 1 s on hosts without a recorded state",
    ]
    with pytest.raises(InputError, match="no rented instance was on a host"):
        plot_instances(Trace())


def test_a_window_cuts_the_bars_at_its_ends() -> None:
    figure = plot_instances(make_run(), window=(30.0, 50.0))
    # 2 cores from 30 to 33 and to 50 s; 4 cores from 40 to 45 and to 50 s.
    assert sum_bars(figure) == {"initial-transfer": 20.0, "startup": 26.0, "running": 34.0}
    with pytest.raises(InputError, match="is empty"):
        plot_instances(make_run(), window=(5.0, 5.0))
    with pytest.raises(InputError, match="no instances to draw between"):
        plot_instances(make_run(), window=(0.0, 20.0))


boxes = st.lists(
    st.tuples(
        st.integers(0, 5), st.integers(0, 60), st.integers(1, 40), st.integers(1, 4),
        st.floats(0.1, 0.9),
    ),
    min_size=1,
    max_size=30,
)  # fmt: skip


@FEWER
@given(boxes, st.integers(1, 6))
def test_areas_have_the_core_seconds_of_the_bars(
    drawn: list[tuple[int, int, int, int, float]], lanes: int
) -> None:
    stays: list[tuple[str, str, float, float, float | None]] = []
    states: list[tuple[str, str, float, float | None]] = []
    wanted = {"startup": 0.0, "running": 0.0}
    for number, (host, start, length, cores, share) in enumerate(drawn):
        name, ready, end = f"i{number}", start + share * length, float(start + length)
        stays.append((name, f"n{host}", float(cores), float(start), end))
        states += [(name, "startup", float(start), ready), (name, "running", ready, end)]
        wanted["startup"] += cores * share * length
        wanted["running"] += cores * (1 - share) * length
    trace = make_rented(stays, states, nodes=6)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(instance_figure, "MAX_BARS", 0)
        patch.setattr(instance_figure, "MAX_LANES", lanes)
        figure = plot_instances(trace)
    assert sum_areas(figure) == pytest.approx(wanted, rel=1e-6)
    assert len(figure.layout.yaxis.ticktext) <= lanes
    cells = {area.name: area.meta["cells"] for area in figure.data}
    for name, total in wanted.items():
        step = float(np.diff(cells[name]["x"]).mean()) * sum_seconds(figure)
        assert float(np.sum(cells[name]["z"])) * step == pytest.approx(total, rel=1e-4)


def test_many_instances_are_summed_with_a_note_and_few_bytes() -> None:
    rng = np.random.default_rng(1)
    count, nodes = 8_000, 500
    start = rng.uniform(0, 1e6, count)
    ready, end = start + 30, start + 30 + rng.exponential(3600, count)
    names = [f"instance-{n}" for n in range(count)]
    trace = Trace(
        instances=pl.DataFrame({
            "instance": names, "host": [f"n{n}" for n in rng.integers(0, 450, count)],
            "cores": 2.0, "start": start, "end": end, "cloud": "east",
        }),
        instance_states=pl.concat([
            pl.DataFrame({"instance": names, "start": start, "end": ready, "state": "startup"}),
            pl.DataFrame({"instance": names, "start": ready, "end": end, "state": "running"}),
        ]),
        transfers=pl.DataFrame({
            "from": "images", "to": [f"n{n}" for n in rng.integers(0, 450, count)],
            "bytes": 1e8, "start": start, "end": ready,
        }),
        nodes=pl.DataFrame({"node": [f"n{n}" for n in range(nodes)], "cores": 64.0}),
    )  # fmt: skip
    figure = plot_instances(trace)
    wanted = {"startup": 2 * 30.0 * count, "running": 2 * float((end - ready).sum())}
    assert sum_areas(figure) == pytest.approx(wanted, rel=1e-6)
    together, shown = figure.layout.meta["notes"]
    assert together.startswith("8,000 instances in 16,000 periods are drawn together")
    assert together.endswith("450 hosts in 38 groups of adjacent hosts")
    assert shown == "450 of 500 hosts are drawn: the others had no instance"
    rates = plot_transfers(trace)
    assert rates.layout.yaxis.ticktext[-1] == "412 others"
    assert len(figure.to_json()) + len(rates.to_json()) < 4e6
    # Each transfer leaves the store and enters a host.
    step = float(np.diff(rates.data[0].x).mean()) * sum_seconds(rates)
    assert float(rates.data[0].z.sum()) * step == pytest.approx(2 * 1e8 * count, rel=1e-4)


def test_the_parts_of_the_power_are_those_by_hand() -> None:
    parts = split_power(make_run()).energies
    # The run ends at 116 s. Boots and tasks use 3 x 6 + 420 core-seconds, at 25 W each.
    assert parts == pytest.approx({
        "off": 20 * 10.0, "switching-off": 3 * 160.0, "switching-on": 2 * 20 * 150.0,
        "running, idle part": (96 + 73) * 100.0, "running, variable part": 438 * 25.0,
    })  # fmt: skip


@pytest.mark.parametrize("step", [None, 0.05, 1.0, 7.0, 1000.0])
def test_the_parts_add_up_to_the_energy_at_every_resolution(step: float | None) -> None:
    trace = make_run(step)
    figure = plot_power_states(trace)
    width = np.diff(figure.data[0].x) * sum_seconds(figure)
    total = sum(float(part.y[:-1] @ width) for part in figure.data)
    assert total == pytest.approx(figures(trace).energy, rel=1e-9)
    assert [part.stackgroup for part in figure.data] == ["power"] * 5
    assert split_power(trace).energies == pytest.approx(split_power(make_run()).energies)
    assert len(width) <= 1000
    averaged = "means of 1,000 windows of time; the energy is exact"
    assert (averaged in figure.layout.meta["notes"]) == (step == 0.05)
    assert "in total 34" in figure.layout.meta["notes"][0]


def test_failed_hosts_have_no_power_and_own_states_have_theirs() -> None:
    host = {
        "names": ["a", "b"], "cores": 4, "power": {"model": "linear", "idle": 100, "max": 200},
        "states": {"asleep": {"power": 7, "enter": {"duration": 2, "power": 50}}},
    }  # fmt: skip
    trace = Trace(
        power=pl.DataFrame({"t": [10.0], "dt": 10.0, "watts": [94.5]}),
        nodes=pl.DataFrame({"node": ["a", "b"], "cores": 4.0}),
        node_states=pl.DataFrame({
            "node": ["a", "b", "b"], "start": [0.0, 0.0, 2.0], "end": [5.0, 2.0, None],
            "state": ["down", "entering-asleep", "asleep"],
        }),
        manifest=Manifest(scenario={"platform": {"clusters": [{"hosts": [host]}]}}),
    )  # fmt: skip
    assert split_power(trace).energies == pytest.approx({
        "asleep": 56.0, "entering-asleep": 100.0,
        "running, idle part": 500.0, "running, variable part": 289.0,
    })  # fmt: skip


def test_power_that_cannot_be_split_is_an_error_with_the_reason() -> None:
    trace = make_run()
    with pytest.raises(InputError, match="no scenario"):
        split_power(trace.replace(manifest=Manifest()))
    with pytest.raises(InputError, match="no known value"):
        split_power(trace.replace(power=trace.power.clear()))
    gaps = pl.DataFrame({"t": [10.0, 30.0], "dt": 10.0, "watts": 5.0})
    with pytest.raises(InputError, match="has gaps"):
        split_power(trace.replace(power=gaps))
    # Less power than the states need, as measured values may have.
    little = trace.replace(power=trace.power.with_columns(pl.col("watts") / 2))
    assert "the variable part is negative" in split_power(little).notes[0]
    added = pl.DataFrame({"node": ["new"], "cores": [4.0]})
    more = trace.replace(nodes=pl.concat([trace.nodes.select("node", "cores"), added]))
    assert "all power of 1 host whose power is not described" in split_power(more).notes[0]


def sum_bytes(figure: Any) -> dict[str, float]:
    """Bytes of each row of the heat map of transfers; without a bandwidth."""
    cells = figure.data[0]
    step = float(np.diff(cells.x).mean()) * sum_seconds(figure)
    names = figure.layout.yaxis.ticktext
    return {names[at]: float(row.sum()) * step for at, row in zip(cells.y, cells.z, strict=True)}


def test_rows_of_transfers_have_the_bytes_over_each_port() -> None:
    """Of 100 MB/s, 12 s in use are 1.2 GB; an image has the whole port after its latency."""
    figure = plot_transfers(make_run())
    (cells,) = figure.data
    assert sum_bytes(figure) == pytest.approx({
        "out of images (100 MB/s)": 12.0, "into rack-pm-001 (100 MB/s)": 8.0,
        "into rack-pm-002 (100 MB/s)": 4.0,
    }, rel=1e-4)  # fmt: skip
    assert float(cells.z.max()) == pytest.approx(1.0)
    assert (cells.zmin, cells.zmax) == (0.0, 1.0)
    notes = figure.layout.meta["notes"]
    assert "3 transfers with 1.2 GB" in notes[0]
    assert not any("100 %" in each for each in notes)


def test_a_transfer_is_drawn_after_its_latency_and_its_wait_for_a_stream() -> None:
    """One stream: the second image waits 5 s for the first; each has 1 s of latency, then 4 s.

    Each image has the whole port to itself, from 1 to 5 s and from 6 to 10 s.
    """
    text = SCENARIO.replace("{name: images,", "{name: images, streams: 1,")
    text = text.replace("machines: on-demand", "placement: round-robin")
    trace = tl.simulate(
        tl.Scenario.from_text(text.replace("- {id: c, cores: 4, run_time: 20}", ""))
    )
    assert trace.transfers.select("start", "end").rows() == [(0.0, 5.0), (0.0, 10.0)]
    figure = plot_transfers(trace)
    (cells,) = figure.data
    x = np.asarray(cells.x) * sum_seconds(figure)
    assert figure.layout.yaxis.ticktext[0] == "out of images (100 MB/s)"
    drawn = ((x > 1.0) & (x < 5.0)) | (x > 6.0)
    width = float(np.diff(x).mean())
    inside = np.abs(x[:, None] - [1.0, 5.0, 6.0]).min(axis=1) > width
    assert cells.z[0][inside] == pytest.approx(drawn[inside].astype(float))


def test_transfers_at_the_same_time_have_a_scale_that_ends_at_the_bandwidth() -> None:
    """Two transfers of 150 bytes that share 10 bytes/s from 10 to 20 s: each has 7.5 on average."""
    platform = make_network([])
    platform["stores"] = [{"name": "disk", "ports": 10}]
    moved = pl.DataFrame({"from": "disk", "to": ["a", "b"], "bytes": 150.0, "start": [0.0, 10.0],
                          "end": [20.0, 30.0]})  # fmt: skip
    figure = plot_transfers(
        Trace(transfers=moved, manifest=Manifest(scenario={"platform": platform}))
    )
    shares, rates = figure.data
    names = list(figure.layout.yaxis.ticktext)
    assert names == ["out of disk (10 B/s)", "into a", "into b"]
    assert [list(each.y) for each in (shares, rates)] == [[0], [1, 2]]
    assert float(shares.z.max()) == pytest.approx(1.5)
    assert shares.zmax == 1.0
    assert any("colours end at 100 %" in each for each in figure.layout.meta["notes"])
    # Ports without a bandwidth are below, with their rate.
    assert float(rates.z.max()) == pytest.approx(7.5)


def test_a_route_has_the_latency_of_its_links_or_its_own() -> None:
    links = [{"between": ["c", "s"], "latency": 1.0}, {"between": ["s", "disk"], "latency": 2.0}]
    routes = [{"between": ["b", "disk"], "latency": 0.5}]
    described = Platform.from_dict(make_network(links, latency=4.0, routes=routes))
    network = NetworkRoutes(described)
    ways = [("disk", "a"), ("a", "b"), ("a", "a"), ("disk", "b"), ("s", "t"), ("added", "a")]
    assert [network.find_latency(*way) for way in ways] == [7.0, 6.0, 0.0, 0.5, None, None]
    assert network.find("added", "a") is None


def make_network(links: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {
        "clusters": [{"name": "c", "hosts": [{"names": ["a", "b"], "count": 2, "cores": 1}]}],
        "stores": [{"name": "disk"}],
        "network": {"switches": ["s", "t"], "links": links, **more},
    }


STAR = [{"between": ["c", "s"]}, {"between": ["s", "disk"]}]


def test_transfers_pass_the_links_of_their_route() -> None:
    moved = pl.DataFrame(
        [("disk", "a", 10.0, 0.0, 1.0), ("a", "b", 5.0, 0.0, 2.0), ("b", "b", 7.0, 1.0, 2.0)],
        schema=["from", "to", "bytes", "start", "end"],
        orient="row",
    )
    manifest = Manifest(scenario={"platform": make_network(STAR)})
    figure = plot_transfers(Trace(transfers=moved, manifest=manifest))
    assert sum_bytes(figure) == pytest.approx({
        "out of a": 5, "out of disk": 10, "link a → s": 5, "link disk → s": 10, "link s → a": 10,
        "link s → b": 5, "into a": 10, "into b": 5, "local store of b": 7,
    }, rel=1e-4)  # fmt: skip


def test_a_route_has_the_least_latency_then_the_fewest_links() -> None:
    def find(links: list[dict[str, Any]], **more: Any) -> tuple[str, ...] | None:
        return NetworkRoutes(Platform.from_dict(make_network(links, **more))).find("disk", "a")

    assert find(STAR) == ("disk → s", "s → a")
    direct = {"between": ["disk", "a"], "latency": 1.0}
    assert find([*STAR, direct]) == ("disk → s", "s → a")
    assert find([*STAR, direct | {"latency": 0.0}]) == ("disk → a",)
    assert find([*STAR, direct | {"latency": 0.0, "duplex": "half", "name": "x"}]) == ("x",)
    declared = {"between": ["a", "disk"], "links": ["x"]}
    assert find([*STAR, direct | {"name": "x"}], routes=[declared]) == ("disk → a",)
    # Two equal ways: the description does not determine which one is taken.
    other = [{"between": ["c", "t"]}, {"between": ["t", "disk"]}]
    assert find([*STAR, *other]) is None
    assert NetworkRoutes(Platform.parse("2x1")).find("C01-H01-001", "C01-H01-002") == ()


def test_transfers_of_an_instance_are_those_of_its_host_at_the_time() -> None:
    trace = make_rented(
        [("i", "n0", 1.0, 0.0, 5.0), ("i", "n1", 1.0, 5.0, 9.0)],
        [("i", "running", 0.0, 9.0)],
        transfers=pl.DataFrame({
            "from": ["disk", "i"], "to": ["i", "disk"], "bytes": [6.0, 8.0], "start": [1.0, 6.0],
            "end": [3.0, 8.0],
        }),
    )  # fmt: skip
    wanted = {"out of disk": 6, "into n0": 6, "out of n1": 8, "into disk": 8}
    assert sum_bytes(plot_transfers(trace)) == pytest.approx(wanted, rel=1e-4)


def test_transfers_without_a_duration_or_a_unique_route_are_counted() -> None:
    moved = pl.DataFrame({
        "from": "disk", "to": "a", "bytes": [9.0, 5.0, None], "start": 1.0, "end": [3.0, 1.0, 2.0],
    })  # fmt: skip
    two_ways = [*STAR, {"between": ["c", "t"]}, {"between": ["t", "disk"]}]
    manifest = Manifest(scenario={"platform": make_network(two_ways)})
    figure = plot_transfers(Trace(transfers=moved, manifest=manifest))
    assert sum_bytes(figure) == pytest.approx({"out of disk": 9, "into a": 9}, rel=1e-4)
    _, omitted, routes = figure.layout.meta["notes"]
    assert omitted == "not drawn: 2 transfers without bytes or a duration, 5 bytes in total"
    assert routes.startswith("the links of 1 transfer are not drawn, only the ports")
    with pytest.raises(InputError, match="no transfers to draw"):
        plot_transfers(Trace(transfers=moved[1:]))


def test_the_page_of_a_cloud_has_its_figures_and_another_page_has_not(tmp_path: Path) -> None:
    names = {"instances", "power_states", "transfers"}

    def read(trace: Trace) -> PageReader:
        return PageReader(write_run_page(trace, tmp_path / "run.html").read_text("utf-8"))

    page = read(make_run())
    drawn = read_figures(page)
    assert names <= set(drawn)
    over_time = [drawn[name]["layout"]["xaxis"]["range"] for name in (*names, "gantt")]
    assert len({tuple(each) for each in over_time}) == 1
    for text in ("Instances on hosts", "Power by state of the hosts", "energy: off 200 J"):
        assert text in page.text
    other = read(run_fcfs(draw_tasks(5)))
    assert not names & set(read_figures(other))
    assert "no instances to draw" not in other.text
    # A run with clouds whose powers are not described says so.
    without = read(make_run().replace(manifest=Manifest()))
    assert "there is no power by state to draw" in without.text


def test_no_name_of_a_host_or_an_instance_becomes_markup(tmp_path: Path) -> None:
    evil = pl.lit(EVIL)
    trace = make_run()
    called = {"instance": evil + pl.col("instance"), "host": evil + pl.col("host")}
    trace = trace.replace(
        nodes=trace.nodes.with_columns(node=evil + pl.col("node")),
        instances=trace.instances.with_columns(**called, type=evil, image=evil, user=evil),
        instance_states=trace.instance_states.with_columns(
            instance=called["instance"], state=evil + pl.col("state")
        ),
        transfers=trace.transfers.with_columns(
            pl.format("{}{}", evil, pl.col(name)).alias(name) for name in ("from", "to")
        ),
        node_states=trace.node_states.with_columns(node=evil + pl.col("node")),
    )
    text = write_run_page(trace, tmp_path / "run.html").read_text("utf-8")
    assert EVIL not in text
    drawn = json.dumps(read_figures(PageReader(text)))
    assert {"instances", "transfers"} <= set(read_figures(PageReader(text)))
    assert "<a" not in drawn
    assert "<script" not in drawn


def test_the_key_figures_have_the_rented_core_hours() -> None:
    # 2 x 63 + 4 x 73 + 4 x 33 = 550 core-seconds.
    shown = dict(list_key_figures(figures(make_run())))
    assert (shown["instances"], shown["rented core-hours"]) == ("3", "0.153")
