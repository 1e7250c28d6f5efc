"""Clouds in a platform description: forms, defaults, and problems by path."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from twinloop.description import DescriptionError, InputError
from twinloop.description.number_fields import list_numbers
from twinloop.platform import Billing, Cloud, ControllerChoice, InstanceType, Platform
from twinloop.platform.clouds import find_image_store, list_cloud_hosts
from twinloop.platform.topology_export import export_topology
from twinloop.scenario.schema import build_schemas

TEXT = """
clusters:
- name: rack
  hosts:
  - name: pm
    count: 20
    cores: 64
    memory: 256 GB
    mhz: 2000
    store: {capacity: 5 TB}
    ports: {in: 1 Gb/s, out: 1 Gb/s}
    power: {model: linear, idle: 368.8 W, max: 722.7 W}
- name: other
  hosts: [{name: small, cores: 4, memory: 8 GB}]
stores:
- {name: images, capacity: 10 TB, ports: {in: 1 Gb/s, out: 1 Gb/s}}
- {name: disk}
network: {latency: 5ms}
clouds:
- name: szt
  clusters: [rack]
  images:
  - {name: base, size: 100 MB, store: images, boot: {work: 30, limit: 1}, caching: none}
  - {name: tools, size: 1 GB, caching: pre-staged}
  types:
  - {name: any, fits: task}
  - {name: small, cores: 2, memory: 4 GB}
  controllers:
    placement: {name: first-fit, options: {queue: blocking}}
    machines: on-demand
    consolidation: packing
  limits: {instances: 100, cores: 640, memory: 1 TB}
  billing: {unit: 1h, price: 0.10, from: request}
  decision_delay: 0s
  inter_boot_delay: 6s
  migration: {mode: live, dirty_rate: 50 MB/s, rounds: 30, threshold: 50 MB, bandwidth: 1 Gb/s}
  meters:
  - {name: fan, watts: 0.1 * hvac + 5}
  - {name: hvac, watts: 0.3 * it}
"""
VALID: dict[str, Any] = yaml.safe_load(TEXT)
HOST = {"cores": 1}


def change(path: str, value: Any) -> dict[str, Any]:
    """The valid platform with another value at this path of its cloud."""
    values = copy.deepcopy(VALID)
    inner: Any = values["clouds"][0]
    *steps, last = [
        int(step) if step.isdigit() else step
        for step in path.replace("[", ".").replace("]", "").split(".")
    ]
    for step in steps:
        inner = inner[step]
    inner[last] = value
    return values


def refuse(values: dict[str, Any]) -> list[InputError]:
    with pytest.raises(DescriptionError) as found:
        Platform.from_dict(values)
    return list(found.value.problems)


def test_all_fields_are_read_in_their_units() -> None:
    cloud = Platform.from_text(TEXT).clouds[0]
    assert cloud.clusters == ("rack",)
    assert [image.size for image in cloud.images] == [1e8, 1e9]
    boot = cloud.images[0].boot
    assert boot.to_dict() == {"work": 30}
    assert (boot.limit, boot.delay, boot.per_booting, boot.is_random) == (1.0, 0.0, 0.0, False)
    assert cloud.types[1] == InstanceType(name="small", cores=2, memory=4e9)
    assert cloud.controllers.placement.options == {"queue": "blocking"}
    assert cloud.controllers.machines == ControllerChoice(name="on-demand")
    assert cloud.limits.to_dict() == {"instances": 100, "cores": 640, "memory": 10**12}
    assert cloud.billing == Billing(unit=3600, price=0.1)
    assert (cloud.decision_delay, cloud.inter_boot_delay) == (0.0, 6.0)
    assert cloud.migration.to_dict() == {"dirty_rate": 5 * 10**7, "bandwidth": 125 * 10**6}


def test_the_defaults_are_a_container_cloud_on_all_clusters() -> None:
    values = {**VALID, "clouds": [{"name": "c"}]}
    platform = Platform.from_dict(values)
    cloud = platform.clouds[0]
    assert platform.to_dict()["clouds"] == [{"name": "c"}]
    assert [cluster.name for cluster, _ in list_cloud_hosts(platform, cloud)] == ["rack", "other"]
    (image,), (kind,) = cloud.images, cloud.types
    assert (image.name, image.size, image.boot.work, image.boot.delay) == ("none", 0.0, 0.0, 0.0)
    assert (kind.name, kind.fits, kind.cores) == ("any", "task", None)
    assert (cloud.controllers.placement.name, cloud.controllers.machines.name) == (
        "first-fit",
        "always-on",
    )
    assert cloud.controllers.consolidation is None
    assert cloud.billing is None


def test_a_platform_without_clouds_is_written_without_them() -> None:
    platform = Platform.parse("2x8")
    assert platform.clouds == ()
    assert "clouds" not in platform.to_dict()


def test_the_schema_accepts_what_is_read_and_written() -> None:
    schema = build_schemas()["platform.schema.json"]
    for values in (VALID, Platform.from_text(TEXT).to_dict()):
        jsonschema.validate(values, schema)


def test_a_controller_without_options_is_written_by_its_name() -> None:
    cloud = Platform.from_text(TEXT).to_dict()["clouds"][0]
    assert cloud["controllers"] == {
        "placement": {"name": "first-fit", "options": {"queue": "blocking"}},
        "machines": "on-demand",
        "consolidation": "packing",
    }


IMAGES = st.fixed_dictionaries(
    {},
    optional={
        "size": st.integers(0, 10**9),
        "store": st.sampled_from(["images", "disk"]),
        "boot": st.fixed_dictionaries(
            {},
            optional={
                "work": st.floats(0, 100),
                "limit": st.floats(0.1, 8),
                "delay": st.sampled_from(["2s", 0, 1.5]),
            },
        ),
        "caching": st.sampled_from(["none", "first-use", "pre-staged"]),
    },
)
TYPES = st.just({"fits": "task"}) | st.fixed_dictionaries(
    {"cores": st.integers(1, 64)},
    optional={"memory": st.sampled_from(["1 GB", 2.5e9]), "price": st.floats(0, 9)},
)
CONTROLLERS = st.sampled_from(["a", "b"]) | st.fixed_dictionaries(
    {"name": st.just("c")}, optional={"options": st.just({"x": [1, {"y": None}]})}
)


def name_parts(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"name": f"p{i}", **part} for i, part in enumerate(parts)]


def bill_if_needed(cloud: dict[str, Any]) -> dict[str, Any]:
    """Add a billing if there are prices that need one."""
    has_prices = "spot" in cloud or any("price" in each for each in cloud.get("types", ()))
    return {"billing": {"price": 1}, **cloud} if has_prices else cloud


CLOUDS = st.fixed_dictionaries(
    {"name": st.just("szt"), "clusters": st.just(["rack"])},
    optional={
        "images": st.lists(IMAGES, min_size=1, max_size=3).map(name_parts),
        "types": st.lists(TYPES, min_size=1, max_size=3).map(name_parts),
        "controllers": st.fixed_dictionaries(
            {}, optional={"placement": CONTROLLERS, "machines": CONTROLLERS}
        ),
        "limits": st.fixed_dictionaries({}, optional={"instances": st.integers(1, 9)}),
        "billing": st.fixed_dictionaries(
            {"price": st.floats(0, 9)},
            optional={
                "unit": st.just("1min"),
                "from": st.sampled_from(["request", "start"]),
                "reserved": st.just({"instances": 2, "price": 0.1, "upfront": 5}),
                "transfer": st.sampled_from([{}, {"in": 0.01}, {"out": 0.09}]),
            },
        ),
        "spot": st.fixed_dictionaries(
            {"prices": st.sampled_from([[[0, 1]], [["1h", 0.5], [7200, 0]], "prices.csv"])},
            optional={"interrupted_unit": st.just("billed")},
        ),
        "inter_boot_delay": st.floats(0, 9),
        "migration": st.fixed_dictionaries(
            {}, optional={"mode": st.just("cold"), "dirty_rate": st.integers(0, 9)}
        ),
        "meters": st.lists(st.fixed_dictionaries({"watts": st.sampled_from([5, "2 * it"])})).map(
            name_parts
        ),
    },
).map(bill_if_needed)


@given(CLOUDS)
def test_a_cloud_survives_plain_values_and_text(values: dict[str, Any]) -> None:
    platform = Platform.from_dict({**VALID, "clouds": [values]})
    for again in (
        Platform.from_dict(platform.to_dict()),
        Platform.from_dict(platform.to_dict(complete=True)),
        Platform.from_text(platform.to_yaml()),
    ):
        assert again == platform
        assert hash(again) == hash(platform)


@pytest.mark.parametrize(
    ("path", "value", "field", "problem"),
    [
        ("clusters", ["rak"], "clusters[0]", "unknown cluster 'rak' (did you mean 'rack'?)"),
        (
            "clusters",
            ["rack", "rack"],
            "clusters[1]",
            "cluster 'rack' belongs to cloud 'szt' already",
        ),
        (
            "images[1].store",
            "imges",
            "images[1].store",
            "unknown store 'imges' (did you mean 'images'?)",
        ),
        ("images[1].name", "base", "images[1].name", "image of this cloud is called 'base'"),
        ("types[1].name", "any", "types[1].name", "instance type of this cloud is called 'any'"),
        ("meters[1].name", "fan", "meters[1].name", "meter of this cloud is called 'fan'"),
        (
            "clusters",
            [],
            "clusters",
            "must not be empty (leave it out for all clusters of the platform)",
        ),
        ("billing.price", 1e308, "billing.price", "must be at most 1000000000000000"),
        ("images[0].boot.work", 1e300, "images[0].boot.work", "must be at most 1000000000000000"),
        ("images[0].boot.delay", 1e300, "images[0].boot.delay", "is beyond 1e+15 s"),
        ("images", [], "images", "must have at least 1 item"),
        ("types", [], "types", "must have at least 1 item"),
        ("images[0].size", "-1 MB", "images[0].size", "must not be negative"),
        ("images[0].boot.limit", 0, "images[0].boot.limit", "must be positive"),
        ("images[0].caching", "first", "images[0].caching", "must be one of none, first-use"),
        (
            "images[0].size",
            "11 TB",
            "images[0].size",
            "with image 'base', the images of store 'images' have 11 TB, more than its capacity, "
            "10 TB (enlarge the store, or move an image to another one)",
        ),
        (
            "images[1].size",
            "9999999999999",
            "images[1].size",
            "with image 'tools', the images of store 'images' have",
        ),
        (
            "images[1].size",
            "6 TB",
            "images[1].size",
            "the pre-staged images up to 'tools' have 6 TB, more than the store of a host of "
            "'rack-pm', 5 TB",
        ),
        (
            "images[1]",
            {"name": "x", "size": "6 TB", "caching": "first-use"},
            "images[1].size",
            "image 'x' has 6 TB, more than the store of a host of 'rack-pm', 5 TB",
        ),
        (
            "clusters",
            ["rack", "other"],
            "images[1].caching",
            "pre-staged needs a store on every host, but 'other-small' has none",
        ),
        (
            "types[1].cores",
            128,
            "types[1].cores",
            "type 'small' needs 128 cores, but no host of the cloud has more than 64",
        ),
        (
            "types[1].memory",
            "1 TB",
            "types[1].memory",
            "type 'small' needs 2 cores with 1 TB of memory, but no host of the cloud has both",
        ),
        (
            "limits",
            {"cores": 1},
            "types[1].cores",
            "type 'small' needs 2 cores, but the limits of the cloud allow 1 for all instances",
        ),
        (
            "limits",
            {"cores": 2, "memory": "1 GB"},
            "types[1].memory",
            "type 'small' needs 4 GB of memory, but the limits of the cloud allow 1 GB for all",
        ),
        ("types[0]", {"name": "x"}, "types[0].cores", "is missing (give either `cores` or"),
        (
            "types[0].cores",
            2,
            "types[0].cores",
            "must not be given for a type that fits the task",
        ),
        (
            "types[0].memory",
            2,
            "types[0].memory",
            "must not be given for a type that fits the task",
        ),
        ("types[0].fits", "host", "types[0].fits", "must be one of task, not 'host'"),
        ("limits.instances", 0, "limits.instances", "must be at least 1"),
        ("billing.unit", "0s", "billing.unit", "must be at least 0.001"),
        ("billing.price", -1, "billing.price", "must not be negative"),
        ("billing.from", "boot", "billing.from", "must be one of request, start, not 'boot'"),
        (
            "billing",
            {"unit": "1h"},
            "billing.price",
            "is missing (give `price`, price of one unit of one instance)",
        ),
        (
            "messages",
            {"client": "disk"},
            "messages.controller",
            "is missing (give `controller`, node of the controller: a host, a store or a switch)",
        ),
        (
            "migration.dirty_rate",
            "30 MB",
            "migration.dirty_rate",
            "'MB' is not a unit for a bandwidth (did you mean 'MB/s'?)",
        ),
        (
            "images[0].caching",
            "always",
            "images[0].caching",
            "must be one of none, first-use, pre-staged, not 'always' [",
        ),
        (
            "sla",
            [{"metric": "downtime", "limit": 1, "share": 5}],
            "sla[0].share",
            "must be at most 1, not 5 (did you mean 5 %?)",
        ),
        (
            "migration.mode",
            "liv",
            "migration.mode",
            "must be one of live, cold, not 'liv' (did you mean 'live'?)",
        ),
        ("migration.mode", "warm", "migration.mode", "must be one of live, cold"),
        ("migration.dirty_rate", "50 MB", "migration.dirty_rate", "not a unit for a bandwidth"),
        ("controllers.machines", 3, "controllers.machines", "must be a mapping"),
        ("controllers.placements", "x", "controllers.placements", "did you mean 'placement'?"),
        ("meters[1].watts", "0.3 * itt", "meters[1].watts", "unknown name 'itt' (did you mean"),
        (
            "meters[1].watts",
            "it + fan",
            "meters[0].watts",
            "the meters depend on each other: fan -> hvac -> fan",
        ),
        ("meters[1].watts", "it +", "meters[1].watts", "the expression ends with '+'"),
        ("metres", [], "metres", "is not a field of the cloud (did you mean 'meters'?)"),
    ],
)
def test_problems_have_their_path(path: str, value: Any, field: str, problem: str) -> None:
    found = refuse(change(path, value))
    assert f"clouds[0].{field}" in [each.field for each in found]
    only = next(each for each in found if each.field == f"clouds[0].{field}")
    assert problem in str(only)


@pytest.mark.parametrize(
    ("second", "field"),
    [
        ({"name": "b"}, "clouds[1].clusters"),
        ({"name": "b", "clusters": ["other", "rack"]}, "clouds[1].clusters[1]"),
        ({"name": "szt", "clusters": ["other"]}, "clouds[1].name"),
    ],
)
def test_clouds_have_their_own_names_and_clusters(second: dict[str, Any], field: str) -> None:
    found = refuse({**VALID, "clouds": [*VALID["clouds"], second]})
    assert {each.field for each in found} == {field}
    assert {each.code for each in found} == {"TL0211"}


def test_images_of_several_clouds_share_the_capacity_of_a_store() -> None:
    clouds: list[dict[str, Any]] = [
        {"name": name, "clusters": [cluster], "images": [{"name": "i", "size": "6 TB"}]}
        for name, cluster in (("a", "rack"), ("b", "other"))
    ]
    (problem,) = refuse({**VALID, "clouds": clouds})
    assert problem.field == "clouds[1].images[0].size"
    assert "the images of store 'images' have 12 TB" in problem.problem
    clouds[1]["images"][0]["store"] = "disk"
    platform = Platform.from_dict({**VALID, "clouds": clouds})
    stores = [find_image_store(platform, cloud.images[0]) for cloud in platform.clouds]
    assert [store.name for store in stores if store] == ["images", "disk"]


def test_an_image_with_data_needs_a_store_of_the_platform() -> None:
    values: dict[str, Any] = {
        "clusters": [{"hosts": [HOST]}],
        "clouds": [{"name": "c", "images": [{"name": "i", "size": 1}, {"name": "j"}]}],
    }
    (problem,) = refuse(values)
    assert problem.field == "clouds[0].images[0].store"
    assert str(problem).startswith(
        "clouds[0].images[0].store: image 'i' needs a store, but the platform has none"
    )
    values["clouds"][0]["images"][0]["store"] = "disk"
    (problem,) = refuse(values)
    assert "unknown store 'disk' (there is no store)" in str(problem)


@given(
    st.lists(st.tuples(st.integers(1, 8), st.none() | st.integers(1, 8)), min_size=1, max_size=4),
    st.integers(1, 9),
    st.none() | st.integers(1, 9),
)
def test_a_type_is_accepted_exactly_if_a_host_is_large_enough(
    hosts: list[tuple[int, int | None]], cores: int, memory: int | None
) -> None:
    values = {
        "clusters": [{"hosts": [{"cores": c, "memory": m} for c, m in hosts]}],
        "clouds": [{"name": "c", "types": [{"name": "t", "cores": cores, "memory": memory}]}],
    }
    fits = [cores <= c and (m is None or (memory or 0) <= m) for c, m in hosts]
    if any(fits):
        assert Platform.from_dict(values).clouds[0].types[0].cores == cores
    else:
        (problem,) = refuse(values)
        too_many_cores = cores > max(c for c, _ in hosts)
        assert problem.field == f"clouds[0].types[0].{'cores' if too_many_cores else 'memory'}"


def test_numbers_of_clouds_have_paths_and_can_be_replaced() -> None:
    platform = Platform.from_text(TEXT)
    numbers = {each.address: each.type for each in list_numbers(platform)}
    assert numbers["clouds", 0, "inter_boot_delay"].unit == "s"
    unit = numbers["clouds", 0, "billing", "unit"]
    assert (unit.minimum, unit.is_exclusive) == (0.001, False)
    changed = platform.replace(
        **{"clouds[0].billing.price": 0.2, "clouds[0].limits.instances": 5}
    ).clouds[0]
    assert changed.billing is not None
    assert (changed.billing.price, changed.limits.instances) == (0.2, 5)


def test_late_errors_have_the_line_of_what_was_given(tmp_path: Path) -> None:
    file = tmp_path / "platform.yaml"
    file.write_text(TEXT, encoding="utf-8")
    cloud = Platform.load(file).clouds[0]
    lines = TEXT.splitlines()

    def line_of(text: str) -> int:
        return next(i for i, line in enumerate(lines, 1) if text in line)

    def locate(part: Any, *path: str) -> tuple[int | None, str | None]:
        error = part.locate(InputError("is wrong", kind="invalid-setting"), *path)
        return error.line, error.field

    assert locate(cloud, "name") == (line_of("- name: szt"), "clouds[0].name")
    assert locate(cloud.images[1], "size") == (line_of("name: tools"), "clouds[0].images[1].size")
    assert locate(cloud.types[1], "cores") == (
        line_of("name: small, cores: 2"),
        "clouds[0].types[1].cores",
    )
    assert locate(cloud.meters[0], "watts") == (line_of("name: fan"), "clouds[0].meters[0].watts")
    controllers = cloud.controllers
    assert locate(controllers.machines, "name") == (
        line_of("machines:"),
        "clouds[0].controllers.machines",
    )
    assert locate(controllers.placement, "options", "queue") == (
        line_of("placement:"),
        "clouds[0].controllers.placement.options.queue",
    )


def test_defaults_have_no_position(tmp_path: Path) -> None:
    file = tmp_path / "platform.yaml"
    file.write_text("clusters: [{hosts: [{cores: 1}]}]\nclouds: [{name: c}]\n", encoding="utf-8")
    cloud = Platform.load(file).clouds[0]
    parts = (cloud.images[0], cloud.types[0], cloud.controllers.placement)
    assert [part._position for part in parts] == [None, None, None]
    assert Cloud(name="c")._position is None


def test_a_topology_has_no_clouds_and_says_so() -> None:
    values = {
        "clusters": [{"hosts": [{"cores": 1, "mhz": 1000, "memory": "1 GB"}]}],
        "clouds": [{"name": "c"}],
    }
    notes = export_topology(Platform.from_dict(values), Path())[1]
    assert "clouds, which a topology does not have" in [note.what for note in notes]
