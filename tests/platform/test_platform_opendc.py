"""OpenDC's topology files: reading by OpenDC's rules, reported losses, writing."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinloop.description import DescriptionError, InputError
from twinloop.description.errors import TwinloopWarning
from twinloop.platform import Mse, Platform, platform_to_topology, read_topology, write_topology

TOPOLOGY: dict[str, Any] = {
    "clusters": [
        {
            "name": "A",
            "hosts": [
                {
                    "name": "big",
                    "count": 3,
                    "cpu": {"coreCount": 8, "coreSpeed": "2.1 GHz", "count": 2},
                    "memory": {"memorySize": "64 GiB"},
                    "cpuPowerModel": {
                        "modelType": "asymptotic",
                        "idlePower": "25 W",
                        "maxPower": "0.2 KWatts",
                        "asymUtil": 0.3,
                        "dvfs": False,
                    },
                }
            ],
        }
    ]
}


def with_host(**changes: Any) -> dict[str, Any]:
    topology = copy.deepcopy(TOPOLOGY)
    topology["clusters"][0]["hosts"][0].update(changes)
    return topology


def test_a_topology_is_a_platform() -> None:
    platform = Platform.from_dict(TOPOLOGY)
    (cluster,) = platform.clusters
    (host,) = cluster.hosts
    assert (cluster.name, host.name, host.count) == ("A", "big", 3)
    assert (host.cores, host.mhz, host.memory) == (16.0, 2100.0, 64 * 2.0**30)
    assert host.power is not None
    assert host.power.to_dict() == {"model": "asymptotic", "idle": 25, "max": 200, "a": 0.3}
    assert platform.notes == ()


QUANTITIES = [
    ("cpu", "coreSpeed", "mhz", [
        (2100, 2100.0), ("2100", 2100.0), ("2.1GHz", 2100.0), (" 2  GHz ", 2000.0),
        ("2megahertz", 2.0), ("1000000 Hz", 1.0), ("5 ghz", 5000.0), ("100 KHz", 0.1),
    ]),
    ("memory", "memorySize", "memory", [
        (128000000, 128000000 * 2.0**20), ("100", 100 * 2.0**20), ("100GB", 100e9),
        ("  1    MB   ", 1e6), ("2 GiB", 2 * 2.0**30), ("8 Kibits", 1024.0), ("8 Mb", 1e6),
        ("1 Tebibyte", 2.0**40), ("512 Bytes", 512.0), ("1e3 KiB", 1024000.0),
    ]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("part", "field", "ours", "given", "value"),
    [(p, f, o, g, v) for p, f, o, values in QUANTITIES for g, v in values],
)
def test_quantities_are_read_by_the_rules_of_opendc(
    part: str, field: str, ours: str, given: object, value: float
) -> None:
    topology = copy.deepcopy(TOPOLOGY)
    topology["clusters"][0]["hosts"][0][part][field] = given
    platform = Platform.from_dict(topology)
    assert getattr(platform.clusters[0].hosts[0], ours) == pytest.approx(value)
    bare = not isinstance(given, str) or not any(letter.isalpha() for letter in given)
    assert len(platform.notes) == bare


@pytest.mark.parametrize(
    ("given", "watts"), [(350, 350.0), ("350 W", 350.0), ("4 watts", 4.0), (" 1  KWatt ", 1000.0)]
)
def test_powers_are_read_by_the_rules_of_opendc(given: object, watts: float) -> None:
    model = {"modelType": "constant", "power": given, "idlePower": "0 W", "maxPower": "0 W"}
    platform = Platform.from_dict(with_host(cpuPowerModel=model))
    power = platform.clusters[0].hosts[0].power
    assert power is not None
    assert power.to_dict() == {"model": "constant", "power": watts}


@pytest.mark.parametrize("given", ["fast", "", "GHz", "2.1.1 GHz", "1 parsec", True, None, [1], {}])
def test_an_invalid_quantity_is_refused_by_its_path(given: object) -> None:
    cpu = {"coreCount": 8, "coreSpeed": given}
    with pytest.raises(DescriptionError) as caught:
        Platform.from_dict(with_host(cpu=cpu))
    assert caught.value.field == "clusters[0].hosts[0].cpu.coreSpeed"


def test_bare_numbers_and_unknown_fields_are_reported_by_line(tmp_path: Path) -> None:
    topology = with_host(
        cpu={"coreCount": 8, "coreSpeed": 2100, "vendor": "x", "arch": "y"},
        memory={"memorySize": 100},
        gpu={"count": 4, "coreCount": 100, "coreSpeed": "1 GHz"},
        powerModel={"modelType": "linear", "idlePower": "1 W", "maxPower": "2 W"},
    )
    topology["clusters"][0]["battery"] = {"capacity": 3}
    topology["clusters"][0]["powerSource"] = {"carbonTracePath": "carbon.parquet", "maxPower": 5}
    path = tmp_path / "topology.json"
    path.write_text(json.dumps(topology, indent="\t"))
    (tmp_path / "carbon.parquet").write_bytes(b"PAR1")
    lines = {
        key: n for n, line in enumerate(path.read_text().splitlines(), 1)
        for key in ("vendor", "arch", "battery", "memorySize") if f'"{key}"' in line
    }  # fmt: skip
    platform = read_topology(path)
    assert Platform.load(path) == platform
    told = {note.what: (note.kind, note.count, note.examples) for note in platform.notes}

    def ignored(field: str) -> str:
        return f"field '{field}', which a platform cannot represent"

    for field in ("vendor", "arch", "battery"):
        assert told[ignored(field)] == ("ignored", 1, (f"topology.json:{lines[field]}",))
    for field in ("coreCount", "coreSpeed", "maxPower"):
        assert told[ignored(field)][0] == "ignored"
    mebibytes = told["numbers without a unit are in MiB, as OpenDC reads them"]
    assert mebibytes == ("assumed", 1, (f"topology.json:{lines['memorySize']}",))
    assert "powerModel beside cpuPowerModel" in told
    assert platform.clusters[0].hosts[0].resources == {"gpu": 4.0}
    assert platform.clusters[0].carbon == (tmp_path / "carbon.parquet").as_posix()


@pytest.mark.parametrize("named", ["/app/workload/carbon.parquet", "../gone/carbon.parquet"])
def test_a_missing_carbon_trace_is_searched_beside_the_topology(tmp_path: Path, named: str) -> None:
    topology = copy.deepcopy(TOPOLOGY)
    topology["clusters"][0]["powerSource"] = {"carbonTracePath": named}
    path = tmp_path / "topology.json"
    path.write_text(json.dumps(topology))
    with pytest.warns(TwinloopWarning, match=f"topology.json: .* {named} does not exist"):
        alone = Platform.load(path)
    assert alone.clusters[0].carbon is None
    (note,) = alone.notes
    assert (note.kind, note.what) == (
        "ignored",
        f"the carbon trace {named} does not exist, so carbon is unknown",
    )
    (tmp_path / "carbon.parquet").write_bytes(b"PAR1")
    beside = Platform.load(path)
    assert beside.clusters[0].carbon == (tmp_path / "carbon.parquet").as_posix()
    (note,) = beside.notes
    assert (note.kind, note.what) == (
        "repaired",
        f"the carbon trace is carbon.parquet beside the topology: {named} does not exist",
    )


@pytest.mark.realdata
def test_the_topology_of_surf_has_a_carbon_trace(real_data: Path) -> None:
    carbon = Platform.load(real_data / "surf/topology.json").clusters[0].carbon
    assert carbon == (real_data / "surf/carbon.parquet").as_posix()


def test_a_host_without_a_power_model_has_the_default_of_opendc() -> None:
    topology = copy.deepcopy(TOPOLOGY)
    del topology["clusters"][0]["hosts"][0]["cpuPowerModel"]
    platform = Platform.from_dict(topology)
    power = platform.clusters[0].hosts[0].power
    assert power is not None
    assert power.to_dict() == {"model": "linear", "idle": 200, "max": 400}
    assert [note.kind for note in platform.notes] == ["assumed"]


def test_the_old_key_of_the_power_model_is_read() -> None:
    old = {"modelType": "square", "idlePower": "1 W", "maxPower": "2 W"}
    topology = with_host(powerModel=old)
    del topology["clusters"][0]["hosts"][0]["cpuPowerModel"]
    power = Platform.from_dict(topology).clusters[0].hosts[0].power
    assert power is not None
    assert power.to_dict() == {"model": "square", "idle": 1, "max": 2}


def test_duplicate_names_and_counted_clusters_are_numbered_and_reported() -> None:
    topology = copy.deepcopy(TOPOLOGY)
    (cluster,) = topology["clusters"]
    cluster["hosts"] *= 2
    cluster["count"] = 2
    platform = Platform.from_dict(topology)
    assert [c.name for c in platform.clusters] == ["A", "A-2"]
    assert [h.name for h in platform.clusters[0].hosts] == ["big", "big-2"]
    assert platform.total_nodes == 12
    assert {note.kind for note in platform.notes} == {"assumed", "repaired"}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"cpu": {"coreCount": 0, "coreSpeed": 1}}, "cpu.coreCount"),
        ({"cpu": {"coreCount": 1}}, "cpu.coreSpeed"),
        ({"memory": {}}, "memory.memorySize"),
        ({"count": -1}, "count"),
        (
            {"cpuPowerModel": {"modelType": "linear", "idlePower": 3, "maxPower": 2}},
            "cpuPowerModel.maxPower",
        ),
        (
            {"cpuPowerModel": {"modelType": "magic", "idlePower": 1, "maxPower": 2}},
            "cpuPowerModel.modelType",
        ),
        (
            {
                "cpuPowerModel": {
                    "modelType": "mse", "idlePower": 1, "maxPower": 2, "calibrationFactor": 0
                }
            },
            "cpuPowerModel.calibrationFactor",
        ),
    ],
)  # fmt: skip
def test_an_invalid_topology_is_refused_by_its_own_paths(
    changes: dict[str, Any], field: str, tmp_path: Path
) -> None:
    path = tmp_path / "topology.json"
    path.write_text(json.dumps(with_host(**changes), indent=2))
    with pytest.raises(DescriptionError) as caught:
        Platform.load(path)
    assert caught.value.field == f"clusters[0].hosts[0].{field}"
    assert caught.value.file == str(path)
    assert caught.value.line is not None


NUMBERS = st.floats(1e-3, 1e9) | st.integers(1, 10**6)
MODELS = st.one_of(
    st.fixed_dictionaries(
        {
            "modelType": st.sampled_from(
                ["sqrt", "linear", "square", "cubic", "mse", "asymptotic"]
            ),
            "idlePower": st.floats(0, 100),
            "maxPower": st.floats(100, 1e4),
        },
        optional={
            "calibrationFactor": st.floats(0.1, 9),
            "asymUtil": st.floats(0, 1),
            "dvfs": st.booleans(),
        },
    ),
    st.fixed_dictionaries(
        {
            "modelType": st.just("constant"),
            "idlePower": st.just(0),
            "maxPower": st.just(0),
            "power": st.floats(0, 1e4),
        }
    ),
)
TOPOLOGIES = st.fixed_dictionaries(
    {
        "clusters": st.lists(
            st.fixed_dictionaries(
                {
                    "hosts": st.lists(
                        st.fixed_dictionaries(
                            {
                                "cpu": st.fixed_dictionaries(
                                    {"coreCount": st.integers(1, 128), "coreSpeed": NUMBERS}
                                ),
                                "memory": st.fixed_dictionaries({"memorySize": NUMBERS}),
                            },
                            optional={
                                "name": st.sampled_from(["x", "y"]),
                                "count": st.integers(1, 300),
                                "cpuPowerModel": MODELS,
                            },
                        ),
                        min_size=1,
                        max_size=3,
                    )
                },
                optional={
                    "name": st.sampled_from(["A", "C02"]),
                    "powerSource": st.just({"carbonTracePath": "/data/carbon.parquet"}),
                },
            ),
            min_size=1,
            max_size=3,
        )
    }
)


@given(TOPOLOGIES)
def test_a_topology_written_and_read_again_is_the_same_platform(topology: dict[str, Any]) -> None:
    platform = Platform.from_dict(topology)
    written = platform_to_topology(platform)
    again = Platform.from_dict(json.loads(json.dumps(written)))
    assert again == platform
    # Everything is written with its unit, so nothing has to be assumed the second time.
    assert [note for note in again.notes if "without a unit" in note.what] == []


@pytest.mark.parametrize(
    "power",
    [
        {"model": "mse", "idle": 25, "max": 174, "r": 4},
        {"model": "asymptotic", "idle": 25, "max": 174, "a": 0.3, "dvfs": True},
        {"model": "asymptotic", "idle": 25, "max": 174, "a": 0.3},
        {"model": "cubic", "idle": 0.1, "max": 1e7},
        {"model": "constant", "power": 12.5},
    ],
)
def test_every_power_model_of_opendc_survives_a_round_trip(power: dict[str, Any]) -> None:
    platform = Platform.parse("3x8@2.1GHz/1000B").replace(**{"clusters[0].hosts[0].power": power})
    assert Platform.from_dict(platform_to_topology(platform)) == platform


def test_unsupported_parts_of_a_platform_are_reported_or_refused(tmp_path: Path) -> None:
    platform = Platform.parse("2x8@2GHz/1GiB").replace(
        queues=[{"name": "q"}], **{"clusters[0].hosts[0].names": ["a", "b"]}
    )
    notes = write_topology(platform, tmp_path / "topology.json")
    assert [(note.kind, note.count) for note in notes] == [("ignored", 1)] * 3
    assert read_topology(tmp_path / "topology.json").total_cores == 16
    with pytest.raises(InputError, match="required by OpenDC") as caught:
        platform_to_topology(Platform.parse("100x1"))
    assert caught.value.field == "clusters[0].hosts[0].mhz"
    with pytest.raises(InputError, match="table"):
        platform_to_topology(
            platform.replace(
                **{"clusters[0].hosts[0].power": {"model": "table", "points": [[0, 1], [1, 2]]}}
            )
        )


@pytest.mark.realdata
def test_the_surf_topology_has_its_277_hosts(real_data: Path) -> None:
    platform = Platform.load(real_data / "surf" / "topology.json")
    ((_, host),) = platform.hosts()
    assert (host.count, host.cores, host.mhz) == (277, 16.0, 2100.0)
    assert host.power == Mse(idle=25, max=174, r=4)
    assert host.memory == 128_000_000 * 2.0**20
    assert platform.nodes().height == 277
    assumed = {note.what: note.count for note in platform.notes if note.kind == "assumed"}
    assert sorted(what.split()[6].strip(",") for what in assumed) == ["MHz", "MiB", "W"]
    assert Platform.from_dict(platform_to_topology(platform)) == platform
