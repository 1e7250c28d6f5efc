"""Platforms as values: shorthands, nodes, tables of nodes, changes, files."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinloop.description import DescriptionError, InputError
from twinloop.platform import Host, Platform
from twinloop.policy import Place, Policy, View
from twinloop.scenario import Scenario
from twinloop.trace import Manifest, Trace
from twinloop.workload import Sessions

EXAMPLE = Path(__file__).parents[2] / "examples" / "platform.yaml"
AMOUNTS = st.floats(min_value=1e-3, max_value=1e12) | st.integers(1, 10**6).map(float)
SHORT_HOSTS = st.fixed_dictionaries(
    {"count": st.integers(1, 2000), "cores": st.integers(1, 4096) | st.sampled_from([0.5, 1.25])},
    optional={"mhz": AMOUNTS, "memory": AMOUNTS},
)
POWERS = st.sampled_from(
    [
        {"model": "linear", "idle": 10.0, "max": 20.5},
        {"model": "mse", "idle": 25.0, "max": 174.0, "r": 4.0},
        {"model": "asymptotic", "idle": 1.0, "max": 2.0, "a": 0.3, "dvfs": True},
        {"model": "table", "points": [[0.0, 1.0], [1.0, 2.0]]},
        {"model": "constant", "power": 5.0},
    ]
)
HOSTS = st.fixed_dictionaries(
    {"count": st.integers(1, 12), "cores": st.sampled_from([1.0, 2.0, 8.0])},
    optional={
        "mhz": st.sampled_from([2100.0, 2400.0]),
        "memory": AMOUNTS,
        "resources": st.dictionaries(st.sampled_from(["gpu", "fpga"]), st.just(2.0)),
        "power": POWERS,
    },
)
PLATFORMS = st.lists(
    st.fixed_dictionaries({"hosts": st.lists(HOSTS, min_size=1, max_size=3)}),
    min_size=1,
    max_size=3,
).map(lambda clusters: Platform.from_dict({"clusters": clusters}))


@given(SHORT_HOSTS)
def test_a_simple_platform_survives_its_shorthand(host: dict[str, Any]) -> None:
    platform = Platform.from_dict({"clusters": [{"hosts": [host]}]})
    text = platform.shorthand
    assert text is not None
    assert Platform.parse(text) == platform


@given(PLATFORMS)
def test_a_shorthand_exists_only_for_a_platform_that_it_describes_fully(platform: Platform) -> None:
    text = platform.shorthand
    assert text is None or Platform.parse(text) == platform
    if len(platform.clusters) > 1 or platform.clusters[0].hosts[0].power is not None:
        assert text is None


@pytest.mark.parametrize(
    ("text", "count", "cores", "mhz", "memory"),
    [
        ("100x1", 100, 1.0, None, None),
        ("2x8@2400MHz", 2, 8.0, 2400.0, None),
        ("2x8@2400", 2, 8.0, 2400.0, None),
        ("2x8@2.4 GHz/64GiB", 2, 8.0, 2400.0, 68719476736.0),
        ("2x8/16 GB", 2, 8.0, None, 16e9),
        ("2x8/64", 2, 8.0, None, 64.0),
        (" 2 x 0.5 ", 2, 0.5, None, None),
    ],
)
def test_shorthands(
    text: str, count: int, cores: float, mhz: float | None, memory: float | None
) -> None:
    for platform in (Platform.parse(text), Platform.from_text(text), Platform.from_dict(text)):
        (cluster,) = platform.clusters
        (host,) = cluster.hosts
        assert (host.count, host.cores, host.mhz, host.memory) == (count, cores, mhz, memory)
        assert (cluster.name, host.name) == ("C01", "H01")


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", "2x", "x8", "0x8", "2x0", "-2x8", "2x8@", "2x8@fast", "2x8/", "2x1.2.3"),
        *("99999999x1", "2x8@1GHz@2GHz"),
    ],
)
def test_an_invalid_shorthand_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        Platform.parse(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0x1", "the number of nodes in '0x1': must be at least 1, not 0"),
        ("1000001x1", "too many nodes, at most 1,000,000"),
        ("9" * 30 + "x1", "too many nodes"),
        ("1x0", "the number of cores in '1x0': must be positive, not 0"),
        ("2x1.2.3", "the number of cores in '2x1.2.3': '1.2.3' is not a number"),
        ("2x1@0", "the clock in '2x1@0': must be positive, not 0"),
        ("2x1@-2GHz", "the clock in '2x1@-2GHz': must be positive, not -2000"),
        ("2x1@fast", "the clock in '2x1@fast': must be a frequency"),
        ("2x1/0", "the memory in '2x1/0': must be positive, not 0"),
        (
            "2x1@1GHz/1gb",
            "the memory in '2x1@1GHz/1gb': 'gb' is not a unit for an amount of memory",
        ),
    ],
)
def test_the_part_of_a_shorthand_that_is_wrong_is_named(text: str, said: str) -> None:
    for make in (Platform.parse, Platform.from_dict):
        with pytest.raises(InputError, match=re.escape(said)):
            make(text)
    assert Host(cores=1, count=1_000_000).count == 1_000_000


@given(st.integers(1, 2500))
def test_the_order_of_the_names_is_that_of_the_numbers(count: int) -> None:
    names = Host(name="H01", cores=1, count=count).node_names("C01")
    assert len(set(names)) == count
    assert list(names) == sorted(names)


@given(PLATFORMS)
def test_the_totals_are_the_sums_over_the_nodes(platform: Platform) -> None:
    nodes = platform.nodes()
    assert nodes.height == platform.total_nodes
    assert nodes["cores"].sum() == pytest.approx(platform.total_cores)
    if nodes["memory"].null_count():
        assert platform.total_memory is None
    else:
        assert platform.total_memory == pytest.approx(nodes["memory"].sum())
    assert nodes["node"].n_unique() == nodes.height
    assert platform.select() == tuple(nodes["node"])


@given(PLATFORMS)
def test_a_platform_made_of_its_own_nodes_has_the_same_nodes(platform: Platform) -> None:
    again = Platform.from_nodes(platform.nodes())
    assert again.nodes().sort("node").equals(platform.nodes().sort("node"))
    for cluster in again.clusters:
        alike = [(h.cores, h.mhz, h.memory, tuple(h.resources.items())) for h in cluster.hosts]
        assert len(set(alike)) == len(alike)


@given(SHORT_HOSTS)
def test_generated_names_need_not_be_kept(host: dict[str, Any]) -> None:
    platform = Platform.from_dict({"clusters": [{"hosts": [host]}]})
    assert Platform.from_nodes(platform.nodes()) == platform


def test_identical_nodes_are_grouped_and_keep_their_names() -> None:
    nodes = pl.DataFrame(
        {
            "node": ["b", "a", "c", "d"],
            "cores": [8.0, 8.0, 8.0, 4.0],
            "mhz": [2100.0, 2100.0, 2400.0, 2100.0],
            "memory": [1e9, 1e9, 1e9, 1e9],
        }
    )
    (cluster,) = Platform.from_nodes(nodes).clusters
    assert [(h.count, h.cores, h.mhz, h.names) for h in cluster.hosts] == [
        (2, 8.0, 2100.0, ("b", "a")),
        (1, 8.0, 2400.0, ("c",)),
        (1, 4.0, 2100.0, ("d",)),
    ]


@pytest.mark.parametrize(
    "nodes",
    [
        {"node": [], "cores": []},
        {"node": ["a", None], "cores": [1.0, 1.0]},
        {"node": ["a", "b"], "cores": [1.0, None]},
        {"node": ["a", "a"], "cores": [1.0, 1.0]},
        {"node": ["a", "b"], "cores": [1.0, 0.0]},
    ],
)
def test_an_incomplete_node_table_is_refused(nodes: dict[str, Any]) -> None:
    frame = pl.DataFrame(nodes, schema={"node": pl.String, "cores": pl.Float64})
    with pytest.raises(InputError):
        Platform.from_nodes(frame)


@pytest.mark.parametrize(
    ("facts", "shorthand"),
    [
        ({"max_procs": 100, "max_nodes": 100}, "100x1"),
        ({"max_procs": 256, "max_nodes": 128}, "128x2"),
        ({"max_procs": 240, "max_nodes": 120}, "120x2"),
        ({"max_procs": 100, "max_nodes": 30}, "100x1"),
        ({"max_procs": 128}, "128x1"),
        ({"max_nodes": 64}, "64x1"),
    ],
)
def test_the_platform_of_a_log_follows_from_its_header(
    facts: dict[str, int], shorthand: str
) -> None:
    trace = Trace(manifest=Manifest(facts={"swf": facts}))
    assert Platform.from_trace(trace).shorthand == shorthand


def test_the_platform_of_a_trace_has_its_nodes() -> None:
    trace = Trace(nodes=pl.DataFrame({"node": ["n1"], "cores": [4.0]}))
    assert Platform.from_trace(trace).select() == ("n1",)
    with pytest.raises(InputError, match="its platform is unknown"):
        Platform.from_trace(Trace())


def test_names_of_clusters_groups_and_nodes_select_nodes() -> None:
    platform = Platform.load(EXAMPLE)
    assert len(platform.select(["plain"])) == 16
    assert platform.select(["fast-gpu"]) == platform.select(["fast"])
    assert platform.select(["plain-cpu-007", "plain-cpu-003"]) == ("plain-cpu-003", "plain-cpu-007")
    for part in (*platform.queues, *platform.reservations, *platform.maintenance):
        assert platform.select(part.hosts)


@given(PLATFORMS)
def test_a_platform_survives_text_file_and_process(platform: Platform) -> None:
    assert Platform.from_text(platform.to_yaml()) == platform
    assert Platform.from_dict(platform.to_dict()) == platform
    assert Platform.from_dict(platform.to_dict(complete=True)) == platform
    copied = pickle.loads(pickle.dumps(platform))
    assert copied == platform
    assert hash(copied) == hash(platform)


@pytest.mark.parametrize("name", ["p.yaml", "p.json"])
def test_a_saved_platform_is_loaded_as_the_same(tmp_path: Path, name: str) -> None:
    platform = Platform.load(EXAMPLE)
    assert Platform.load(platform.save(tmp_path / name)) == platform
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_paths_are_relative_to_their_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    here = Path("here")
    here.mkdir()
    text = "clusters:\n- hosts: [{cores: 1}]\n  carbon: carbon.parquet\n"
    (here / "p.yaml").write_text(text)
    platform = Platform.load(here / "p.yaml")
    assert platform.clusters[0].carbon == "here/carbon.parquet"
    platform.save("there/q.yaml")
    assert "../here/carbon.parquet" in Path("there/q.yaml").read_text()
    assert Path(Platform.load("there/q.yaml").clusters[0].carbon or "").resolve() == (
        here.resolve() / "carbon.parquet"
    )


def test_values_are_replaced_by_their_paths_and_checked_as_a_whole() -> None:
    platform = Platform.load(EXAMPLE)
    changed = platform.replace(
        **{"clusters[0].hosts[0].cores": 64, "clusters[0].hosts[0].mhz": "2 GHz", "name": "new"}
    )
    host = changed.clusters[0].hosts[0]
    assert (host.cores, host.mhz, changed.name) == (64.0, 2000.0, "new")
    assert platform.clusters[0].hosts[0].cores == 16.0
    assert changed.clusters[1] == platform.clusters[1]
    with pytest.raises(DescriptionError, match=r"clusters\[0\].hosts\[0\].power.idle|max"):
        platform.replace(**{"clusters[0].hosts[0].power.idle": "900 W"})


@pytest.mark.parametrize("reverse", [False, True])
def test_a_value_and_values_inside_it_are_replaced_together(reverse: bool, tmp_path: Path) -> None:
    scenario = Scenario(platform="2x4", policy="easy", workload="log.swf")

    def replace(**changes: Any) -> Scenario:
        return scenario.replace(**dict(sorted(changes.items(), reverse=reverse)))

    # Neither `budget` nor its option is valid alone.
    budget = replace(**{"policy": "budget", "policy.options.budget": 20})
    assert (budget.policy.name, budget.policy.options) == ("budget", {"budget": 20})
    by_dict = {"policy": {"name": "budget"}, "policy.options": {"budget": 20}}
    assert replace(**by_dict).policy == budget.policy
    # Short forms of platforms, of sources, and the path of a file.
    cores = "platform.clusters[0].hosts[0].cores"
    assert replace(**{"platform": "3x4", cores: 8}).platform == Platform.parse("3x8")
    Platform.parse("3x4").save(tmp_path / "p.yaml")
    file = {"platform": str(tmp_path / "p.yaml"), cores: 8}
    assert replace(**file).platform.total_cores == 24
    sessions = replace(**{"source": "sessions:60", "source.sessions.by": "last"}).source.sessions
    assert sessions == Sessions(by="last", threshold=60)
    # A cloud inside a list, and a controller inside it.
    placement = "platform.clouds[0].controllers.placement"
    changes = {
        "platform.clouds": [{"name": "east"}],
        placement: "pack-ic",
        f"{placement}.options.overcommit": 2,
    }
    found = replace(**changes).platform.clouds[0].controllers.placement
    assert (found.name, found.options) == ("pack-ic", {"overcommit": 2})


def test_the_options_of_a_policy_in_memory_cannot_be_replaced() -> None:
    class Idle(Policy):
        def decide(self, view: View) -> tuple[Place, ...]:
            return ()

    scenario = Scenario(platform="2x4", policy="easy", workload="log.swf")
    with pytest.raises(InputError, match=r"policy\.options: have no effect on a policy in memory"):
        scenario.replace(**{"policy": Idle(), "policy.options.depth": 2})


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("cluster", "did you mean 'clusters'?"),
        ("clusters[7].name", "has no item 7: it has 2"),
        ("clusters[0].host[0].cores", "did you mean 'hosts'?"),
        ("clusters.hosts", "is a list"),
        ("clusters[0].carbon.x", "is not set"),
        ("clusters[0].hosts[0].cores.x", "is one value"),
        ("clusters[0].hosts[0].core", "is not a field of the host"),
    ],
)
def test_an_unknown_path_is_refused(path: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        Platform.load(EXAMPLE).replace(**{path: 1})
    assert said in str(caught.value)


def test_a_description_cannot_be_changed_in_place() -> None:
    platform = Platform.parse("1x1")
    with pytest.raises(ValueError, match="frozen"):
        platform.name = "x"  # type: ignore[misc]
