"""Settings of the broker Schlouder: their values, the store of the platform, and their errors."""

import re
from pathlib import Path

import pytest

from tests.platform.test_schiaas import CLOUDS, SIMGRID
from twinloop.description.errors import InputError
from twinloop.platform.broker_settings import BrokerSettings, BrokerStore, read_broker_settings
from twinloop.platform.network import Ports

SETTINGS = """<?xml version='1.0'?>
<!DOCTYPE simschlouder>
<simschlouder version="1">
  <config platform="platform.xml" cloud="cloud.xml"/>
  <broker id="front"/>
  <cloud id="west" B0="1" B1="2" BTU="60" shutdown_margin="3" standard_power="1e9"/>
  <cloud id="east" B0="48.5" B1="6" BTU="3600" shutdown_margin="50" standard_power="2e9"
         max_instances_per_user="25"/>
  <provisioning>
    <config cloud="east" storage="repo" image="base" instance_type="small" validation="true"/>
  </provisioning>
</simschlouder>
"""


def read(folder: Path, text: str = SETTINGS, *, platform: bool = False) -> BrokerSettings:
    file = folder / "simschlouder.xml"
    file.write_text(text)
    if platform:
        (folder / "platform.xml").write_text(SIMGRID)
        (folder / "cloud.xml").write_text(CLOUDS)
    return read_broker_settings(file)


def test_the_provisioned_cloud_counts(tmp_path: Path) -> None:
    settings = read(tmp_path)
    assert settings.notes[0].what == "transfers of files take no time: no file of the platform"
    assert settings == BrokerSettings(
        cloud="east",
        image="base",
        instance_type="small",
        boot_base=48.5,
        boot_per_booting=6.0,
        unit=3600.0,
        margin=50.0,
        instances=25,
        validation=True,
        store=None,
        notes=settings.notes,
    )


def test_the_store_has_the_narrowest_links_of_each_direction(tmp_path: Path) -> None:
    """To the host: 40 MB/s, 20 + 0.5 + 1 ms; to the store: 10 MB/s."""
    store = read(tmp_path, platform=True).store
    ports = Ports.from_dict({"in": 10e6, "out": 40e6})
    assert store == BrokerStore("repo", ports, pytest.approx(0.0215))


@pytest.mark.parametrize("limit", ['max_instances_per_user="0"', ""])
def test_no_limit(tmp_path: Path, limit: str) -> None:
    text = SETTINGS.replace('max_instances_per_user="25"', limit)
    assert read(tmp_path, text).instances is None


@pytest.mark.parametrize(("value", "expected"), [("1", True), ("false", False), ("0", False)])
def test_forms_of_flags(tmp_path: Path, value: str, expected: bool) -> None:
    text = SETTINGS.replace('validation="true"', f'validation="{value}"')
    assert read(tmp_path, text).validation is expected
    assert read(tmp_path, SETTINGS.replace('validation="true"', "")).validation is False


def test_what_is_not_read_is_noted(tmp_path: Path) -> None:
    text = SETTINGS.replace('B1="6"', 'B1="6" monitoring_time="200"')
    (note,) = read(tmp_path, text, platform=True).notes
    expected = "ignored", "attribute 'monitoring_time' of <cloud>", ("simschlouder.xml:7",)
    assert (note.kind, note.what, note.examples) == expected


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ('B0="48.5"', "", 7, "<cloud> B0: is missing"),
        ('B0="48.5"', 'B0="-1"', 7, "<cloud> B0: must be 0 or more, not -1"),
        ('B1="6"', 'B1="six"', 7, "<cloud> B1: must be a number, not 'six'"),
        ('B1="6"', 'B1="inf"', 7, "<cloud> B1: must be 0 or more, not inf"),
        ('BTU="3600"', 'BTU="0"', 7, "<cloud> BTU: must be 0.001 or more, not 0"),
        ('shutdown_margin="50"', "", 7, "<cloud> shutdown_margin: is missing"),
        ("25", "2.5", 7, "max_instances_per_user: must be a whole number, not 2.5"),
        ("25", "99999999", 7, "max_instances_per_user: must be at most 1,000,000, not 99999999"),
        ('id="west"', 'id="east"', 7, "<cloud> id: 'east' is also the <cloud> in line 6"),
        ('cloud="east"', 'cloud="eats"', 10, "<config> cloud: unknown cloud 'eats' .*'east'"),
        ('"true"', '"yes"', 10, "validation: must be true or false, not 'yes'"),
        ("provisioning", "provision", 3, "needs one <provisioning>, but has 0"),
        ("  <config platform", "  <config/><config platform", 3, "needs one <config>, but has 2"),
        ('storage="repo"', 'storage="rope"', 10, "unknown storage 'rope' in cloud.xml .*repo"),
        ("simschlouder", "clouds", 3, "is <clouds>, not the settings of a broker"),
    ],
)
def test_errors_name_line_and_field(
    tmp_path: Path, old: str, new: str, line: int, message: str
) -> None:
    text = SETTINGS.replace(old, new)
    assert text != SETTINGS
    with pytest.raises(InputError, match=message) as caught:
        read(tmp_path, text, platform=True)
    assert caught.value.line == line
    assert str(tmp_path / "simschlouder.xml") in str(caught.value)


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("cloud.xml", 'radical="1-2"', 'radical="7"', "unknown host 'pm-7.me' in platform.xml"),
        ("cloud.xml", 'controller="disk"', 'controller="tape"', "unknown host 'tape'"),
        ("platform.xml", 'dst="site"', 'dst="office"', "no route from 'pm-1.me' to 'disk'"),
    ],
)
def test_errors_of_the_platform_of_the_store(
    tmp_path: Path, file: str, old: str, new: str, message: str
) -> None:
    read(tmp_path, platform=True)
    path = tmp_path / file
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(InputError, match=message):
        read_broker_settings(tmp_path / "simschlouder.xml")


def test_entities_are_refused(tmp_path: Path) -> None:
    """A file of another person must not name files of this machine."""
    secret = tmp_path / "secret"
    secret.write_text("east")
    declared = f'<!DOCTYPE simschlouder [<!ENTITY name SYSTEM "{secret.as_uri()}">]>'
    text = SETTINGS.replace("<!DOCTYPE simschlouder>", declared)
    with pytest.raises(InputError, match=re.escape("entity 'name' is refused")):
        read(tmp_path, text.replace('cloud="east"', 'cloud="&name;"'))
