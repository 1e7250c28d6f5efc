"""The scenario of an execution of Schlouder: what its name and the settings of its broker say."""

import math
import os
import tarfile
from pathlib import Path

import pytest

import twinloop as tl
from tests.platform.test_broker_settings import SETTINGS
from tests.platform.test_schiaas import CLOUDS, SIMGRID
from twinloop.description.errors import InputError
from twinloop.engine import simulate
from twinloop.scenario import Scenario, scenario_of_run

NAME = "v3.standard.2x2.afap.regular.east.v1.4.tasks"
XML = "simschlouder.regular.east.v1.xml"
TASKS = "[tasks]\na 0 60 ~ 52 50.5\nb 0 60 ~ 58 57 -> a\n"


def write(folder: Path, *, settings: str = XML, name: str = NAME, text: str = SETTINGS) -> Path:
    """Write an execution and the settings of its broker; return the file of the execution."""
    runs = folder / "runs"
    runs.mkdir(exist_ok=True)
    (folder / settings).parent.mkdir(exist_ok=True)
    (folder / settings).write_text(text)
    (runs / name).write_text(TASKS)
    return runs / name


@pytest.mark.parametrize("place", ["runs", ".", "runs/xml", "xml"])
def test_settings_are_found_near_the_execution(tmp_path: Path, place: str) -> None:
    (tmp_path / place).mkdir(exist_ok=True, parents=True)
    scenario = scenario_of_run(write(tmp_path, settings=f"{place}/{XML}"))
    assert scenario.policy.name == "afap"
    assert scenario.policy.options == {
        "margin": 50.0,
        "boot": {"base": 48.5, "per_booting": 6.0},
        "instances": 25,
        "interval": 1.0,
        "later_interval": 5.0,
        "published": True,
        "validation": True,
        "boots_as_predicted": True,
    }
    (cloud,) = scenario.platform.clouds
    assert (cloud.name, cloud.types[0].name, cloud.types[0].cores) == ("east", "small", 1.0)
    assert cloud.billing is not None
    assert (cloud.billing.unit, cloud.billing.price) == (3600.0, 1.0)
    assert cloud.limits.instances == 25
    assert sum(host.count for _, host in scenario.platform.hosts()) == 25


def test_settings_beside_the_execution_come_first(tmp_path: Path) -> None:
    path = write(tmp_path)
    nearer = SETTINGS.replace('B0="48.5"', 'B0="7"')
    (tmp_path / "runs" / XML).write_text(nearer)
    assert scenario_of_run(path).policy.options["boot"]["base"] == 7.0
    other = tmp_path / "other.xml"
    other.write_text(SETTINGS.replace('B0="48.5"', 'B0="8"'))
    assert scenario_of_run(path, settings=other).policy.options["boot"]["base"] == 8.0


def test_changed_settings_are_read_again(tmp_path: Path) -> None:
    path = write(tmp_path)
    before = scenario_of_run(path)
    assert scenario_of_run(path).platform is before.platform
    file = tmp_path / XML
    file.write_text(SETTINGS.replace('"48.5"', '"58.5"'))
    os.utime(file, ns=(1, 1))
    assert scenario_of_run(path).policy.options["boot"]["base"] == 58.5


def test_the_store_of_the_files(tmp_path: Path) -> None:
    path = write(tmp_path)
    (tmp_path / "platform.xml").write_text(SIMGRID)
    (tmp_path / "cloud.xml").write_text(CLOUDS)
    platform = scenario_of_run(path).platform
    ports = platform.stores[0].ports
    assert ports is not None
    assert (platform.stores[0].name, ports.receive, ports.send) == ("repo", 10e6, 40e6)
    assert platform.network is not None
    assert platform.network.latency == pytest.approx(0.0215)


def test_another_strategy_keeps_its_own_options(tmp_path: Path) -> None:
    path = write(tmp_path)
    assert scenario_of_run(path, strategy="one-per-task").policy.options == {}
    listed = scenario_of_run(path, strategy="list").policy.options
    assert "published" not in listed
    assert listed["margin"] == 50.0
    given = {"name": "budget", "options": {"budget": 3, "margin": 20}}
    options = scenario_of_run(path, strategy=given).policy.options
    assert (options["budget"], options["margin"], options["instances"]) == (3, 20, 25)
    with pytest.raises(InputError, match="no policy is called 'asaf'"):
        scenario_of_run(path, strategy="asaf")


def test_a_converted_execution_has_the_same_scenario(tmp_path: Path) -> None:
    path = write(tmp_path)
    folder = tl.read(path).save(tmp_path / "runs" / "converted")
    scenario = scenario_of_run(folder)
    original = scenario_of_run(path)
    assert (scenario.platform, scenario.policy) == (original.platform, original.policy)
    assert simulate(scenario).placements.equals(simulate(original).placements)


@pytest.mark.parametrize(("validation", "boot"), [(True, 49.0), (False, 55.0)])
def test_a_simulated_execution(tmp_path: Path, validation: bool, boot: float) -> None:
    """A boot takes round(48.5) s if no instance boots, or by the rule round(48.5 + 6) s.

    `a` takes 52 s, and `b` is assigned to its instance by the first scan after it, each 5 s.
    """
    settings = SETTINGS.replace('validation="true"', f'validation="{str(validation).lower()}"')
    run = simulate(scenario_of_run(write(tmp_path, text=settings)))
    a, b = run.placements.sort("start").rows(named=True)
    assert (a["task"], a["start"], a["end"]) == ("a", boot, boot + 52)
    scan = math.ceil((boot + 52) / 5) * 5
    assert (b["task"], b["start"], b["end"]) == ("b", scan, scan + 58)
    assert run.instances["price"].to_list() == [1.0]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('margin="50"', 'margin="5"', "<cloud> shutdown_margin, BTU: must be from 6 s to less tha"),
        ('BTU="3600"', 'BTU="49"', "<cloud> shutdown_margin, BTU: must be from 6 s to less than t"),
        ('BTU="3600"', 'BTU="6"', "<cloud> BTU: no margin is possible: it must be from 6 s to les"),
    ],
)
def test_settings_without_a_scan_in_the_margin(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    path = write(tmp_path, text=SETTINGS.replace(old, new))
    scenario = scenario_of_run(path, inject="predictions")
    with pytest.raises(InputError) as caught:
        simulate(scenario)
    assert str(caught.value).startswith(f"{tmp_path / XML}:7: {message}")
    # Another margin or another rule can be chosen.
    wanted = {"margin": 20} if new == 'margin="5"' else {"published": False}
    strategy = {"name": "afap", "options": wanted}
    assert simulate(scenario_of_run(path, "predictions", strategy=strategy)).placements.height == 2
    changed = scenario.replace(policy={"name": "afap", "options": {"published": True, "margin": 0}})
    with pytest.raises(InputError, match=r"^policy\.options\.(margin|published): "):
        simulate(changed)


def test_the_scenario_can_be_saved(tmp_path: Path) -> None:
    scenario = scenario_of_run(write(tmp_path))
    assert Scenario.load(scenario.save(tmp_path / "scenario.yaml")) == scenario


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("run.tasks", "its name does not say its cloud"),
        (NAME.replace("east", "west"), "there is no simschlouder.regular.west.v1.xml"),
        (NAME.replace("afap", "aqap"), "its strategy 'aqap' is none of .*asap, afap"),
    ],
)
def test_names_without_settings_or_strategy(tmp_path: Path, name: str, message: str) -> None:
    path = write(tmp_path, name=name)
    with pytest.raises(InputError, match=message) as caught:
        scenario_of_run(path)
    assert caught.value.file == str(path)
    assert caught.value.remedy


def test_a_name_without_labels_needs_settings_and_strategy(tmp_path: Path) -> None:
    path = write(tmp_path, name="run.tasks")
    with pytest.raises(InputError, match="its strategy is unknown"):
        scenario_of_run(path, settings=tmp_path / XML)
    scenario = scenario_of_run(path, settings=tmp_path / XML, strategy="asap")
    assert scenario.policy.options["published"] is True


def test_files_that_do_not_exist(tmp_path: Path) -> None:
    path = write(tmp_path)
    with pytest.raises(InputError, match="does not exist"):
        scenario_of_run(path.with_name("none.tasks"))
    with pytest.raises(InputError, match="does not exist"):
        scenario_of_run(path, settings=tmp_path / "none.xml")


@pytest.mark.realdata
def test_real_executions_have_a_scenario(real_data: Path, tmp_path: Path) -> None:
    with tarfile.open(real_data / "schlouder" / "executions.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    files = sorted(tmp_path.rglob("*.tasks"))
    scenarios = {file.name: scenario_of_run(file) for file in files}
    assert len(scenarios) == 289
    # As the settings say: those of the later versions of the private cloud are without it.
    for name, each in scenarios.items():
        cloud, version = name.split(".")[5:7]
        is_early = cloud != "openstack-icps" or version in ("v1", "v2")
        assert each.policy.options["validation"] is is_early
    limits = {each.platform.clouds[0].limits.instances for each in scenarios.values()}
    assert limits == {10, 15, 20, 25}
    assert all(each.platform.stores for each in scenarios.values())
