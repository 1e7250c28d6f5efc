"""Clouds of SCHIaaS with their SimGrid platform: hand-computed times, routes, notes and errors."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import twinloop as tl
from twinloop.cli import app
from twinloop.description.errors import InputError
from twinloop.platform import Platform, read_schiaas
from twinloop.platform.network import expand_links
from twinloop.platform.simgrid_platform import parse_quantity

#: One storage, whose link has other values in each direction, and two hosts behind a backbone.
SIMGRID = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "http://simgrid.gforge.inria.fr/simgrid/simgrid.dtd">
<platform version="4">
  <AS id="all" routing="Full">
    <cluster id="rack" prefix="pm-" suffix=".me" radical="1-2" speed="3Gf" core="4"
             bw="1Gbps" lat="1ms" bb_bw="500MBps" bb_lat="500us"/>
    <AS id="site" routing="Full"><host id="disk" speed="1Gf" core="2" coordinates=""/></AS>
    <AS id="office" routing="Full"><host id="front" speed="1Gf"/></AS>
    <link id="up" bandwidth="40MBps" latency="20ms"/>
    <link id="down" bandwidth="10MBps" latency="30ms"/>
    <link id="wire" bandwidth="1MBps" latency="1s"/>
    <ASroute src="site" dst="rack" gw_src="disk" gw_dst="pm-rack_router.me" symmetrical="NO">
      <link_ctn id="up"/></ASroute>
    <ASroute src="rack" dst="site" gw_src="pm-rack_router.me" gw_dst="disk" symmetrical="NO">
      <link_ctn id="down"/></ASroute>
    <ASroute src="office" dst="rack" gw_src="front" gw_dst="pm-rack_router.me">
      <link_ctn id="wire"/></ASroute>
  </AS>
</platform>
"""
CLOUDS = """<?xml version='1.0'?>
<!DOCTYPE clouds>
<clouds version="1">
  <cloud id="east">
    <storage id="repo" engine="org.simgrid.schiaas.engine.storage.rise.Rise">
      <config controller="disk"/>
    </storage>
    <compute engine="org.simgrid.schiaas.engine.compute.rice.Rice">
      <config controller="front" image_storage="repo" image_caching="OFF"
              inter_boot_delay="5" standard_power="2e9"/>
      <scheduler name="org.simgrid.schiaas.engine.compute.scheduler.simplescheduler.SimpleScheduler"
                 type="balancer" controller="front" delay="100"/>
      <instance_type id="small" core="1" memory="1000" disk="1690"/>
      <instance_type id="large" core="4" memory="2000" disk="1690"/>
      <image id="base" size="400e6"/>
      <cluster id="rack" prefix="pm-" suffix=".me" radical="1-2"/>
    </compute>
  </cloud>
</clouds>
"""
BROKER = """<simschlouder version="1">
  <config platform="platform.xml" cloud="cloud.xml"/>
  <broker id="front"/>
  <cloud id="east" B0="48" B1="6" BTU="60" shutdown_margin="50" max_instances_per_user="3"
         standard_power="1.5e9"/>
  <provisioning>
    <config cloud="east" storage="repo" image="base" instance_type="large" validation="true"/>
  </provisioning>
</simschlouder>
"""


#: A command of the controller: latencies of `wire`, the backbone and the link of the host, 1 kB.
COMMAND = 1 + 0.0005 + 0.001 + 1e3 / 1e6


def write(folder: Path, clouds: str = CLOUDS, simgrid: str = SIMGRID, broker: str = BROKER) -> Path:
    """Write the three files; return the path of the clouds."""
    (folder / "platform.xml").write_text(simgrid, encoding="utf-8")
    (folder / "simschlouder.xml").write_text(broker, encoding="utf-8")
    (folder / "cloud.xml").write_text(clouds, encoding="utf-8")
    return folder / "cloud.xml"


def simulate(platform: Platform | Path, *tasks: Mapping[str, object], **more: object) -> tl.Trace:
    workload = {"tasks": [{"id": f"t{i}", **task} for i, task in enumerate(tasks)], **more}
    given = platform if isinstance(platform, Platform) else str(platform)
    return tl.simulate(tl.Scenario(platform=given, workload=workload, policy="one-per-task"))


def notes(platform: Platform) -> dict[str, int]:
    return {f"{note.kind}: {note.what}": note.count for note in platform.notes}


def test_a_run_has_the_notes_of_the_files_of_its_platform(tmp_path: Path) -> None:
    """In Python, in the manifest, and for the command, whose JSON has them as `cleaned`."""
    path = write(tmp_path)
    expected = read_schiaas(path).notes
    assert expected
    assert simulate(path, {"run_time": 10.0}).manifest.cleaned == expected
    scenario = {"platform": str(path), "workload": {"tasks": [{"id": "a", "run_time": 10}]}}
    (tmp_path / "run.yaml").write_text(json.dumps(scenario | {"policy": "one-per-task"}))
    arguments = ["simulate", str(tmp_path / "run.yaml"), "-o", str(tmp_path / "run")]
    printed = CliRunner().invoke(app, [*arguments, "--json"])
    assert json.loads(printed.stdout)["cleaned"] == [
        note.model_dump(mode="json") for note in expected
    ]
    assert tl.read(tmp_path / "run").manifest.cleaned == expected
    shown = CliRunner().invoke(app, [*arguments, "--overwrite"]).stdout
    for note in expected:
        assert f"\n  {note}\n" in shown


# --- units ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("1f", "speed", 1),
        ("10e9f", "speed", 10e9),
        ("250Mf", "speed", 250e6),
        ("2.5 Gf", "speed", 2.5e9),
        ("3megaflops", "speed", 3e6),
        ("938e6Bps", "bandwidth", 938e6),
        ("36MBps", "bandwidth", 36e6),
        ("1Gbps", "bandwidth", 125e6),
        ("8kbps", "bandwidth", 1000),
        ("1KiBps", "bandwidth", 1024),
        ("1Mibps", "bandwidth", 131072),
        ("170us", "time", 0.00017),
        ("25ms", "time", 0.025),
        ("0.0001s", "time", 0.0001),
        ("2m", "time", 120),
        ("7", "time", 7),
    ],
)
def test_units_of_simgrid(text: str, kind: str, value: float) -> None:
    assert parse_quantity(text, kind) == value  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "kind", "problem"),
    [
        ("1GBPS", "bandwidth", "did you mean Gbps or GBps"),
        ("1Gb/s", "bandwidth", "must be a bandwidth"),
        ("-1Bps", "bandwidth", "0 or more"),
        ("3GHz", "speed", "'GHz' is not a unit"),
        ("1e400s", "time", "0 or more"),
        ("fast", "speed", "must be a speed"),
    ],
)
def test_a_wrong_quantity_is_an_error(text: str, kind: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_quantity(text, kind)  # type: ignore[arg-type]


# --- the result -----------------------------------------------------------------------------------


def test_the_parts_of_a_cloud(tmp_path: Path) -> None:
    platform = read_schiaas(write(tmp_path))
    (cluster,) = platform.clusters
    (host,) = cluster.hosts
    assert (cluster.name, host.names, host.cores) == ("rack", ("pm-1.me", "pm-2.me"), 4)
    assert host.speed == 1.5  # 3 Gf of the host, 2 Gf of the standard power
    (store,) = platform.stores
    assert store.name == "repo"
    assert store.ports is not None
    assert (store.ports.send, store.ports.receive) == (40e6, 10e6)
    (cloud,) = platform.clouds
    assert [(t.name, t.cores, t.memory) for t in cloud.types] == [
        ("small", 1, 1000 * 2**20),
        ("large", 4, 2000 * 2**20),
    ]
    assert [(i.name, i.size, i.store, i.caching) for i in cloud.images] == [
        ("base", 400e6, "repo", "none")
    ]
    assert cloud.controllers.placement.to_dict() == {
        "name": "worst-fit",
        "options": {"queue": "refuse"},
    }
    assert (cloud.inter_boot_delay, cloud.billing, cloud.limits.instances) == (5, None, None)


def test_nothing_is_left_out_without_a_note(tmp_path: Path) -> None:
    assert notes(read_schiaas(write(tmp_path))) == {
        "assumed: the platform of the clouds is platform.xml beside them": 1,
        "assumed: commands of a controller are messages of 1 kB to the first host of its cloud": 1,
        "ignored: attribute 'controller' of <scheduler>": 1,
        "ignored: attribute 'delay' of <scheduler>": 1,
        "ignored: attribute 'disk' of <instance_type>": 2,
        "assumed: inter_boot_delay, per host in SCHIaaS, is between the starts of a cloud": 1,
        "assumed: memory of an instance type is in MiB": 2,
        "ignored: latencies to a store that differ from those from it, which are used": 1,
        "assumed: transfers between hosts of a cluster do not pass its backbone": 1,
    }


def test_a_controller_sends_commands_over_its_route(tmp_path: Path) -> None:
    messages = read_schiaas(write(tmp_path)).clouds[0].messages
    assert messages is not None
    found = messages.client, messages.controller, messages.size, messages.reply
    assert found == ("front", "pm-1.me", 1000, None)
    run = simulate(write(tmp_path), {"run_time": 30, "cores": 1})
    times = run.transfers.filter(kind="message").select("from", "to", "start", "end").rows()
    end = COMMAND + 0.0215 + 10 + 20
    assert times[0] == ("front", "pm-1.me", 0.0, pytest.approx(COMMAND))
    assert times[1] == ("front", "pm-1.me", pytest.approx(end), pytest.approx(end + COMMAND))
    assert len(times) == 2


@pytest.mark.parametrize(
    ("host", "node"), [("disk", "repo"), ("pm-2.me", "pm-2.me"), ("nowhere", None)]
)
def test_a_controller_may_be_at_a_store_or_a_host_or_not_be_reached(
    tmp_path: Path, host: str, node: str | None
) -> None:
    clouds = CLOUDS.replace('<config controller="front"', f'<config controller="{host}"')
    platform = read_schiaas(write(tmp_path, clouds))
    messages = platform.clouds[0].messages
    assert (messages and messages.client) == node
    what = "controllers without a route to the hosts of their cloud: commands take no time"
    assert (f"ignored: {what}" in notes(platform)) == (node is None)
    # No node was added for it.
    assert platform.network is not None
    assert not {host, "front"} & set(platform.network.switches)


def test_unknown_elements_and_attributes_are_noted_with_their_lines(tmp_path: Path) -> None:
    clouds = CLOUDS.replace("<cloud id", "<network/><cloud colour='red' id")
    simgrid = SIMGRID.replace('<AS id="office"', '<peer id="p"/><AS id="office"')
    simgrid = simgrid.replace('core="2" coord', 'core="2" state_file="f" coord')
    found = {str(note) for note in read_schiaas(write(tmp_path, clouds, simgrid)).notes}
    assert found >= {
        "ignored 1: element <network> (cloud.xml:4)",
        "ignored 1: attribute 'colour' of <cloud> (cloud.xml:4)",
        "ignored 1: element <peer> (platform.xml:8)",
        "ignored 1: attribute 'state_file' of <host> (platform.xml:7)",
    }


def test_image_transfer_takes_what_the_files_say(tmp_path: Path) -> None:
    run = simulate(write(tmp_path), {"run_time": 30, "cores": 1})
    # The command; 20 ms of `up`, 0.5 ms of the backbone, 1 ms of the host; 400 MB at 40 MB/s; no
    # boot.
    assert run.instances["ready"].to_list() == pytest.approx([COMMAND + 0.0215 + 10], rel=1e-12)
    # 30 reference seconds at a speed of 1.5.
    assert run.placements["end"].to_list() == pytest.approx([COMMAND + 0.0215 + 10 + 20], rel=1e-12)


def test_files_are_read_and_written_at_the_bandwidth_of_their_direction(tmp_path: Path) -> None:
    clouds = CLOUDS.replace('image_caching="OFF"', 'image_caching="PRE"')
    files = [{"name": "in", "size": "20 MB"}, {"name": "out", "size": "20 MB"}]
    task = {"run_time": 3, "cores": 1, "reads": ["in"], "writes": ["out"]}
    run = simulate(write(tmp_path, clouds), task, files=files)
    moved = run.transfers.filter(run.transfers["kind"] != "message")
    times = (moved["end"] - moved["start"]).to_list()
    assert times == pytest.approx([0.0215 + 20 / 40, 0.0215 + 20 / 10], rel=1e-9)


def test_instances_start_at_least_the_delay_apart_on_the_emptiest_host(tmp_path: Path) -> None:
    clouds = CLOUDS.replace('image_caching="OFF"', 'image_caching="PRE"')
    run = simulate(write(tmp_path, clouds), *[{"run_time": 30, "cores": 1}] * 3)
    # Three commands share the bandwidth.
    first = COMMAND + 2e3 / 1e6
    assert run.instances["ready"].to_list() == pytest.approx([first, first + 5, first + 10])
    assert run.instances["host"].to_list() == ["pm-1.me", "pm-2.me", "pm-1.me"]


def test_an_instance_that_fits_nowhere_is_refused(tmp_path: Path) -> None:
    clouds = CLOUDS.replace('image_caching="OFF"', 'image_caching="PRE"')
    clouds = clouds.replace('id="small" core="1"', 'id="small" core="3"')
    run = simulate(write(tmp_path, clouds), *[{"run_time": 30, "cores": 1}] * 3)
    assert run.instances["reason"].to_list() == ["released", "released", "refused"]


@pytest.mark.parametrize(
    ("text", "caching"), [("ON", "first-use"), ("OFF", "none"), ("PRE", "pre-staged")]
)
def test_image_caching(tmp_path: Path, text: str, caching: str) -> None:
    clouds = CLOUDS.replace('image_caching="OFF"', f'image_caching="{text}"')
    platform = read_schiaas(write(tmp_path, clouds))
    assert platform.clouds[0].images[0].caching == caching
    assert (platform.clusters[0].hosts[0].store is None) == (caching == "none")


def test_the_consolidator_takes_the_fullest_host(tmp_path: Path) -> None:
    clouds = CLOUDS.replace('"balancer"', '"consolidator"').replace('"OFF"', '"PRE"')
    run = simulate(write(tmp_path, clouds), *[{"run_time": 300, "cores": 1}] * 5)
    assert run.instances["host"].to_list() == ["pm-1.me"] * 4 + ["pm-2.me"]


def test_simschlouder_adds_boot_limit_and_billing_and_comes_first(tmp_path: Path) -> None:
    platform = Platform.load(write(tmp_path).with_name("simschlouder.xml"))
    (cloud,) = platform.clouds
    assert [each.name for each in cloud.types] == ["large", "small"]
    assert cloud.limits.instances == 3
    assert cloud.billing is not None
    assert (cloud.billing.unit, cloud.billing.price) == (60, 1)
    assert platform.clusters[0].hosts[0].speed == 2  # 3 Gf / 1.5 Gf
    run = simulate(platform, {"run_time": 30, "cores": 4})
    assert run.instances["ready"].to_list() == pytest.approx(
        [COMMAND + 10.0215 + 48 + 6], rel=1e-12
    )
    # Ended at 81.0265 s: the second minute has begun.
    assert run.instances["price"].to_list() == [2]
    found = notes(platform)
    assert found["assumed: the price of a billing unit (BTU) is 1"] == 1
    assert found["ignored: element <broker>"] == 1
    assert found["ignored: standard_power of a cloud, because that of the broker differs"] == 1


def test_a_platform_that_was_read_can_be_saved(tmp_path: Path) -> None:
    platform = Platform.load(write(tmp_path))
    assert Platform.load(platform.save(tmp_path / "platform.yaml")) == platform


def test_the_platform_may_have_any_name(tmp_path: Path) -> None:
    path = write(tmp_path)
    other = (tmp_path / "platform.xml").rename(tmp_path / "other.xml")
    assert read_schiaas(path, other).total_nodes == 2
    with pytest.raises(InputError, match=r"no platform\.xml beside it") as caught:
        read_schiaas(path)
    assert caught.value.remedy is not None
    assert "simschlouder" in caught.value.remedy


def test_storages_on_one_host_share_its_link(tmp_path: Path) -> None:
    second = '<storage id="more"><config controller="disk"/></storage>\n    <compute'
    platform = read_schiaas(write(tmp_path, CLOUDS.replace("<compute", second)))
    assert [store.name for store in platform.stores] == ["repo"]
    assert notes(platform)["assumed: storage repo, more of cloud east is one store, repo"] == 2


def test_speeds_of_performance_states(tmp_path: Path) -> None:
    simgrid = SIMGRID.replace('speed="3Gf"', 'speed="3Gf,1Gf" pstate="1.0"')
    platform = read_schiaas(write(tmp_path, simgrid=simgrid))
    assert platform.clusters[0].hosts[0].speed == 0.5
    assert "ignored: speeds of other performance states (pstate)" in notes(platform)


def test_without_standard_power_the_first_host_is_the_reference(tmp_path: Path) -> None:
    platform = read_schiaas(write(tmp_path, CLOUDS.replace('standard_power="2e9"', "")))
    assert platform.clusters[0].hosts[0].speed == 1
    what = "a cloud without standard_power: the speed of its first host is the reference"
    assert notes(platform)[f"assumed: {what}"] == 1


def test_two_clouds_with_parts_of_one_cluster(tmp_path: Path) -> None:
    first = CLOUDS.replace('radical="1-2"/>\n    </c', 'radical="1"/>\n    </c')
    cloud = first[first.index("  <cloud ") : first.index("</clouds>")]
    second = cloud.replace('"east"', '"west"').replace('radical="1"', 'radical="2"')
    platform = read_schiaas(write(tmp_path, first.replace("</clouds>", second + "</clouds>")))
    assert [(c.name, c.hosts[0].names) for c in platform.clusters] == [
        ("rack", ("pm-1.me",)),
        ("west-rack", ("pm-2.me",)),
    ]
    assert [cloud.clusters for cloud in platform.clouds] == [("rack",), ("west-rack",)]
    # Both storages are called `repo`, so they are named by cloud and host.
    assert [store.name for store in platform.stores] == ["east-disk", "west-disk"]
    run = simulate(platform, {"run_time": 30, "cores": 1})
    assert run.instances["ready"].to_list() == pytest.approx([COMMAND + 10.0215], rel=1e-12)


# --- routes ---------------------------------------------------------------------------------------


def find_path(platform: Platform, store: str, node: str) -> tuple[float, float]:
    """Latency and least bandwidth of the path of least latency, by relaxation over all links."""
    best = {store: (0.0, 0, float("inf"))}
    links = expand_links(platform)
    for _ in links:
        for link in links:
            for a, b in (link.ends, link.ends[::-1]):
                if a in best:
                    latency, hops, bandwidth = best[a]
                    width = min(bandwidth, link.link.bandwidth or float("inf"))
                    new = (latency + link.link.latency, hops + 1, width)
                    if b not in best or new[:2] < best[b][:2]:
                        best[b] = new
    (send,) = [s.ports.send if s.ports else None for s in platform.stores if s.name == store]
    return best[node][0], min(best[node][2], send or float("inf"))


def make_site(
    stores: list[tuple[int, int, int, int]], clusters: list[tuple[int, int, int, int]], trunk: bool
) -> tuple[str, str]:
    """Make files with stores (up, down: MB/s, ms) and clusters (host, line: MB/s, ms)."""
    parts, compute = ['<link id="trunk" bandwidth="3MBps" latency="7ms"/>'], []
    storages = []
    for i, (up, down, up_ms, down_ms) in enumerate(stores):
        parts.append(f'<AS id="S{i}"><host id="disk{i}" speed="1Gf"/></AS>')
        parts.append(f'<link id="up{i}" bandwidth="{up}MBps" latency="{up_ms}ms"/>')
        parts.append(f'<link id="down{i}" bandwidth="{down}MBps" latency="{down_ms}ms"/>')
        storages.append(f'<storage id="s{i}"><config controller="disk{i}"/></storage>')
    for j, (width, line, ms, line_ms) in enumerate(clusters):
        parts.append(
            f'<cluster id="c{j}" prefix="c{j}-" suffix="" radical="0-1" speed="1Gf" '
            f'bw="{width}MBps" lat="{ms}ms"/>'
            f'<link id="line{j}" bandwidth="{line}MBps" latency="{line_ms}ms"/>'
        )
        compute.append(f'<cluster id="c{j}" prefix="c{j}-" suffix="" radical="0-1"/>')
        middle = '<link_ctn id="trunk"/>' if trunk else ""
        for i in range(len(stores)):
            parts.append(
                f'<ASroute src="S{i}" dst="c{j}" gw_src="disk{i}" gw_dst="c{j}-c{j}_router" '
                f'symmetrical="NO"><link_ctn id="up{i}"/>{middle}<link_ctn id="line{j}"/></ASroute>'
                f'<ASroute src="c{j}" dst="S{i}" gw_src="c{j}-c{j}_router" gw_dst="disk{i}" '
                f'symmetrical="NO"><link_ctn id="line{j}"/>{middle}<link_ctn id="down{i}"/>'
                "</ASroute>"
            )
        for k in range(j):
            parts.append(
                f'<ASroute src="c{k}" dst="c{j}" gw_src="c{k}-c{k}_router" '
                f'gw_dst="c{j}-c{j}_router"><link_ctn id="line{k}"/><link_ctn id="line{j}"/>'
                "</ASroute>"
            )
    simgrid = f'<platform version="4"><AS id="all" routing="Full">{"".join(parts)}</AS></platform>'
    clouds = (
        f'<clouds><cloud id="k">{"".join(storages)}<compute><config image_storage="s0" '
        'image_caching="OFF" inter_boot_delay="0"/><instance_type id="t" core="1"/>'
        f'<image id="i" size="6e6"/>{"".join(compute)}</compute></cloud></clouds>'
    )
    return clouds, simgrid


_VALUES = st.tuples(*[st.integers(1, 50)] * 4)


@settings(max_examples=10)
@given(
    stores=st.lists(_VALUES, min_size=1, max_size=3),
    clusters=st.lists(_VALUES, min_size=1, max_size=3),
    trunk=st.booleans(),
)
def test_routes_have_the_latency_and_bandwidth_of_simgrid(
    tmp_path_factory: pytest.TempPathFactory,
    stores: list[tuple[int, int, int, int]],
    clusters: list[tuple[int, int, int, int]],
    trunk: bool,
) -> None:
    path = write(tmp_path_factory.mktemp("site"), *make_site(stores, clusters, trunk))
    platform = read_schiaas(path)
    for i, (up, _, up_ms, _) in enumerate(stores):
        for j, (width, line, ms, line_ms) in enumerate(clusters):
            latency, bandwidth = find_path(platform, f"s{i}", f"c{j}-0")
            assert latency == pytest.approx((up_ms + ms + line_ms + 7 * trunk) / 1000)
            assert bandwidth == min(up, width, line, *([3] if trunk else [])) * 1e6
    up, _, up_ms, _ = stores[0]
    width, line, ms, line_ms = clusters[0]
    run = simulate(platform, {"run_time": 1, "cores": 1})
    rate = min(up, width, line, *([3] if trunk else []))
    expected = (up_ms + ms + line_ms + 7 * trunk) / 1000 + 6 / rate
    assert run.instances["ready"].to_list() == pytest.approx([expected])


def test_a_link_that_has_no_arm_is_noted(tmp_path: Path) -> None:
    site = [(5, 6, 1, 2)] * 2
    platform = read_schiaas(write(tmp_path, *make_site(site, site, trunk=True)))
    what = "links that routes share, of which each of these routes has one of its own"
    assert notes(platform)[f"assumed: {what}"] == 1


def test_a_route_that_is_longer_than_another_way_is_noted(tmp_path: Path) -> None:
    clouds, simgrid = make_site([(5, 6, 1, 2)], [(5, 5, 1, 1)] * 2, trunk=False)
    # Only the way to the second cluster has a detour of 7 ms, which no other route has.
    line = '<link_ctn id="up0"/><link_ctn id="line1"/>'
    assert simgrid.count(line) == 1
    detour = simgrid.replace(line, line.replace("/><", '/><link_ctn id="trunk"/><'))
    what = "noticed: routes with another latency than in SimGrid, because another way is shorter"
    assert what not in notes(read_schiaas(write(tmp_path, clouds, simgrid)))
    assert notes(read_schiaas(write(tmp_path, clouds, detour)))[what] == 1


def test_routes_are_searched_in_zones_with_dijkstra(tmp_path: Path) -> None:
    simgrid = """<platform version="4"><AS id="all" routing="Dijkstra">
      <host id="disk" speed="1Gf"/><router id="middle"/><host id="pm" speed="1Gf" core="8"/>
      <link id="a" bandwidth="8Mbps" latency="1s"/><link id="b" bandwidth="2MBps" latency="2s"/>
      <route src="disk" dst="middle"><link_ctn id="a"/></route>
      <route src="middle" dst="pm"><link_ctn id="b"/></route></AS></platform>"""
    clouds = CLOUDS.replace('<cluster id="rack" prefix="pm-" suffix=".me" radical="1-2"/>', "")
    clouds = clouds.replace('size="400e6"/>', 'size="3e6"/><host id="pm"/>')
    run = simulate(write(tmp_path, clouds, simgrid), {"run_time": 1, "cores": 1})
    assert run.instances["ready"].to_list() == [1 + 2 + 3]


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"disk"/>', '"dish"/>', r"cloud.xml:5: <storage> controller: unknown host 'dish'.*'disk'"),
        ('"1-2"/>', '"1-3"/>', r"cloud.xml:\d+: <cluster> radical: unknown host 'pm-3.me'"),
        ('"1-2"/>', '"1-"/>', r"radical: must be numbers and ranges such as 1-4,7, not '1-'"),
        ('"1-2"/>', '"2-1"/>', "range 2-1 ends before it begins"),
        ('"1-2"/>', '"1-2,2"/>', "host 'pm-2.me' belongs to cloud 'east' already"),
        ('"OFF"', '"MAYBE"', r"cloud.xml:9: <config> image_caching: must be ON, OFF or PRE"),
        ('inter_boot_delay="5"', "", "<config> inter_boot_delay: is missing"),
        ('inter_boot_delay="5"', 'inter_boot_delay="5s"', "must be a number, not '5s'"),
        ('image_storage="repo"', 'image_storage="rope"', r"unknown storage 'rope' \(known: repo\)"),
        ('"balancer"', '"roulette"', "must be balancer or consolidator, not 'roulette'"),
        ('"400e6"', '"-1"', r"cloud.xml:15: <image> size: must be 0 or more"),
        ('core="4"', 'core="5"', r"cloud.xml:14: clouds\[0\].types\[1\].cores: type 'large' needs"),
        ('id="large"', 'id="small"', r"cloud.xml:14: .*another instance type"),
        ("</compute>", "", r"cloud.xml:\d+: is not XML: mismatched tag"),
        ("<clouds ", "<cloud ", "is not XML"),
        ("<!DOCTYPE clouds>", '<!DOCTYPE clouds [<!ENTITY a "b">]>', "cloud.xml:2: entity 'a'"),
        ('id="base"', 'id="&base;"', "cloud.xml:15: entity 'base' is refused"),
    ],
)
def test_errors_in_clouds_name_the_place(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in CLOUDS
    with pytest.raises(InputError, match=message):
        Platform.load(write(tmp_path, CLOUDS.replace(old, new)))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"40MBps"', '"40MB/s"', r"platform.xml:9: <link> bandwidth: must be a bandwidth"),
        ('"40MBps"', '"40mBps"', r"'mBps' is not a unit of SimGrid.*did you mean"),
        ('"40MBps"', '"0Bps"', "must be positive, not 0"),
        ('"3Gf"', '""', r"platform.xml:5: <cluster> speed: is missing"),
        ('ctn id="up"', 'ctn id="upp"', r"platform.xml:13: <link_ctn> id: unknown link 'upp'"),
        ('gw_src="disk"', 'gw_src="disc"', r"gw_src: unknown host or router 'disc'"),
        ('id="front"', 'id="disk"', "another host or router is called 'disk'"),
        ('id="down"', 'id="up"', "another link is called 'up'"),
        ('src="site" dst="rack"', 'src="site" dst="r"', "no route from its host 'disk'"),
        ('routing="Full">\n', 'routing="Vivaldi">\n', "routing 'Vivaldi' is not supported"),
        ('version="4"', 'version="2"', "version 2 of the format is not supported"),
        ('lat="1ms"', 'lat="1ms" topology="TORUS"', "topology TORUS is not supported"),
        ("<platform", "<clouds", "is not XML"),
    ],
)
def test_errors_in_the_platform_name_the_place(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert old in SIMGRID
    with pytest.raises(InputError, match=message):
        Platform.load(write(tmp_path, simgrid=SIMGRID.replace(old, new)))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"cloud.xml"', '"clouds.xml"', r"<config> cloud: file .*clouds.xml does not exist"),
        ('<cloud id="east"', '<cloud id="west"', r"simschlouder.xml:4: <cloud> id: unknown cloud"),
        ('image="base"', 'image="case"', r"simschlouder.xml:7: <config> image: unknown image"),
        ('B0="48"', 'B0="soon"', "<cloud> B0: must be a number, not 'soon'"),
        ('"3"', '"2.5"', "max_instances_per_user: must be a whole number"),
    ],
)
def test_errors_in_simschlouder_name_the_place(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert old in BROKER
    path = write(tmp_path, broker=BROKER.replace(old, new))
    with pytest.raises(InputError, match=message):
        Platform.load(path.with_name("simschlouder.xml"))


def test_a_simgrid_platform_alone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a SimGrid platform without clouds"):
        Platform.load(write(tmp_path).with_name("platform.xml"))


def test_entities_that_expand_without_bound_are_refused(tmp_path: Path) -> None:
    names = "abcdefgh"
    nested = "".join(f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in pairwise(names))
    text = f'<!DOCTYPE clouds [<!ENTITY a "x">{nested}]><clouds>&h;</clouds>'
    with pytest.raises(InputError, match="is refused"):
        Platform.load(write(tmp_path, text))


def test_deep_nesting_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nested deeper"):
        Platform.load(write(tmp_path, "<a>" * 100 + "</a>" * 100))


# --- the files of Schlouder -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def schlouder(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The XML files of the executions of Schlouder."""
    archive = real_data / "schlouder/executions.tar.gz"
    if not archive.is_file():
        pytest.skip(f"no {archive}")
    folder = tmp_path_factory.mktemp("schlouder")
    with tarfile.open(archive) as packed:
        members = [m for m in packed.getmembers() if m.name.endswith(".xml")]
        packed.extractall(folder, members=members, filter="data")
    return next(folder.rglob("cloudICPS.xml")).parent


@pytest.mark.realdata
def test_all_real_files_are_read(schlouder: Path) -> None:
    files = sorted(schlouder.glob("simschlouder.*.xml"))
    assert len(files) == 16
    for path in files:
        platform = Platform.load(path)
        icps = "icps" in path.name
        assert platform.total_nodes == (2 if icps else 4 + 7 + 36)
        assert platform.total_cores == (48 if icps else 4 * 24 + 2 * 48 + 5 * 16 + 36 * 24)
        assert platform.clouds[0].name.removeprefix("bonfire-") in (
            "icps-opst",
            *path.name.split("."),
        )


@pytest.mark.realdata
@pytest.mark.parametrize(
    ("name", "latency", "rate", "boot", "speed", "command"),
    [
        # The up link of the storage, the backbone and the link of a host. A command: latencies and
        # the time of 1 kB.
        (
            "regular.openstack-icps.v5",
            0.025 + 0.0001 + 0.0001,
            36e6,
            (48, 6),
            1.0,
            (0.001 + 0.0001 + 0.0001, 1e3 / 1e9),
        ),
        # The links of the storage and to the site, the link of the cluster and that of a host.
        (
            "regular.de-hlrs.v1",
            0.0002 + 0.003 + 0.00017 + 0.00017,
            2.5e6,
            (197.71, 47.775),
            1.787138e9 / 1.779863e9,
            (3 * 0.00017, 1e3 / 940e6),
        ),
    ],
)
def test_a_real_cloud_runs_tasks_at_the_times_of_its_files(
    schlouder: Path,
    name: str,
    latency: float,
    rate: float,
    boot: tuple[float, float],
    speed: float,
    command: tuple[float, float],
) -> None:
    platform = Platform.load(schlouder / f"simschlouder.{name}.xml")
    size = platform.clouds[0].images[0].size
    assert size == (2e9 if "icps" in name else 10e9)
    task = {"run_time": 100, "cores": 1}
    # The images are pre-staged, and the second instance waits for the inter-boot delay; its boot
    # takes longer, because the first one boots then.
    run = simulate(platform, task, task)
    delay = platform.clouds[0].inter_boot_delay
    first = command[0] + 2 * command[1] + sum(boot)  # two commands at once
    assert delay < sum(boot)
    expected = pytest.approx([first, first + delay + boot[1]], rel=1e-9)
    assert run.instances["ready"].to_list() == expected
    assert run.placements["end"].min() == pytest.approx(first + 100 / speed)
    copied = platform.replace(**{"clouds[0].images[0].caching": "none"})
    run = simulate(copied, task)
    assert run.instances["ready"].to_list() == pytest.approx(
        [sum(command) + latency + size / rate + sum(boot)]
    )
