"""The scenario that simulates an execution of the broker Schlouder again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from twinloop.description.cleaning import Cleaning
from twinloop.description.errors import InputError
from twinloop.description.files import is_file, require_input
from twinloop.description.position import ValueOrigin
from twinloop.platform import Platform
from twinloop.platform.broker_settings import BrokerSettings, read_broker_settings
from twinloop.policy import list_clients
from twinloop.policy.registry import CLIENTS, check_policy_name
from twinloop.scenario.scenario import Scenario
from twinloop.trace import Manifest, read
from twinloop.trace.formats.schlouder import parse_execution_name

#: The folder of the settings, beside that of the executions, and the number of folders above an
#: execution in which they are searched.
_SETTINGS_FOLDER: Final = "xml"
_SEARCHED_FOLDERS: Final = 3
_NAME_FORM: Final = (
    "broker.campaign.use_case.strategy.storage.cloud.cloud_version.repetition.tasks, "
    "such as v3.standard.2x2.asap.regular.openstack-icps.v3.2.tasks"
)
#: Time between scans of the queue by SimSchlouder, before and after the last submission (s).
_INTERVAL: Final = 1.0
_LATER_INTERVAL: Final = 5.0
#: Hosts of a cloud without a limit of instances.
_UNLIMITED_HOSTS: Final = 10_000
_ASSUMED_HOSTS: Final = "a host for each instance: the hosts of the cloud are not simulated"


def scenario_of_run(
    path: str | Path,
    inject: str | Sequence[str] | None = None,
    *,
    strategy: str | Mapping[str, Any] | None = None,
    settings: str | Path | None = None,
) -> Scenario:
    """Create the scenario that simulates an execution of the broker Schlouder.

    The name of the file has the strategy, and those of the storage and of the cloud: the settings
    of the broker are read from `simschlouder.STORAGE.CLOUD.VERSION.xml` in the folder of the
    execution or one of the three above it, or in a folder `xml` of these. The cloud has a host of
    one core and of the speed of the recorded instances for each instance up to the limit.

    The strategies `asap` and `afap` follow the rules of SimSchlouder (`published`).

    Args:
        path: The execution: a `.tasks` file, or a trace folder that was converted from one.
        inject: What is taken from the execution: keys, or the name of a preset.
        strategy: A policy in place of the recorded strategy: its name, or `name` and `options`.
        settings: The file of the settings, in place of the one that is found by its name.

    >>> import tempfile
    >>> xml = '''<simschlouder version="1">
    ...   <config platform="platform.xml" cloud="cloud.xml"/>
    ...   <cloud id="east" B0="48" B1="6" BTU="3600" shutdown_margin="50"
    ...          max_instances_per_user="25" standard_power="1e10"/>
    ...   <provisioning><config cloud="east" storage="disk" image="base" instance_type="small"
    ...                         validation="true"/></provisioning></simschlouder>'''
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "v3.standard.brs.afap.regular.east.v1.1.tasks")
    ...     _ = file.write_text("[tasks]\\na 10 60 ~ 52 50.5\\n")
    ...     _ = Path(folder, "simschlouder.regular.east.v1.xml").write_text(xml)
    ...     scenario = scenario_of_run(file)
    >>> scenario.policy.name, scenario.policy.options["boot"]
    ('afap', {'base': 48.0, 'per_booting': 6.0})
    >>> scenario.platform.clouds[0].limits.instances
    25
    """
    path = Path(path)
    require_input(path, folder=path.is_dir())
    labels = list_labels(path, read(path).manifest if path.is_dir() else None)
    if settings is None:
        settings = _find_settings(path, labels)
    found, platform = _load_settings(settings)
    if strategy is None:
        strategy = _recorded_strategy(path, labels)
    scenario = Scenario(
        name=path.name,
        platform=platform,
        workload=_describe_workload(path, inject),
        policy=_describe_policy(strategy, found),
    )
    origins = _find_origins(strategy, Path(settings), found.line)
    return scenario.model_copy(update={"policy": scenario.policy.with_origins(origins)})


def _find_origins(
    strategy: str | Mapping[str, Any], file: Path, line: int
) -> dict[str, ValueOrigin]:
    """Find which options are from the settings, for errors that are found in a simulation."""
    given = {} if isinstance(strategy, str) else dict(strategy.get("options") or {})
    fields = {"margin": "<cloud> shutdown_margin, BTU", "published": "<cloud> BTU"}
    return {
        name: ValueOrigin(str(file), line, field)
        for name, field in fields.items()
        if name not in given
    }


def _describe_workload(path: Path, inject: str | Sequence[str] | None) -> dict[str, Any]:
    values: dict[str, Any] = {"path": path.as_posix()}
    if inject is not None:
        values["inject"] = inject if isinstance(inject, str) else list(inject)
    return values


def list_labels(path: Path, manifest: Manifest | None) -> dict[str, str]:
    """List the labels of an execution: from the manifest of its trace, or the name of its file.

    >>> list_labels(Path("v3.standard.2x2.asap.regular.de-hlrs.v3.2.tasks"), None)["platform"]
    'bonfire'
    """
    if manifest is None:
        return parse_execution_name(path.name)
    labels = manifest.facts.get("labels")
    return {str(k): str(v) for k, v in labels.items()} if isinstance(labels, Mapping) else {}


def _find_settings(path: Path, labels: Mapping[str, str]) -> Path:
    """Find the settings of the broker near an execution, by its labels."""
    parts = [labels.get(name) for name in ("storage", "cloud", "cloud_version")]
    if None in parts:
        raise InputError(
            "the settings of its broker are unknown, because its name does not say its cloud",
            kind="missing-field",
            file=path,
            remedy=f"name it {_NAME_FORM}, or give the settings (simschlouder.*.xml)",
        )
    name = f"simschlouder.{'.'.join(map(str, parts))}.xml"
    folders = list(_list_settings_folders(path.absolute()))
    for folder in folders:
        if is_file(folder / name):
            return folder / name
    raise InputError(
        f"there is no {name} with the settings of its broker, neither beside it nor in "
        f"{_SETTINGS_FOLDER}/ of the folders above it",
        kind="file-not-found",
        file=path,
        remedy="copy the file there, or give its path as the settings",
    )


def _list_settings_folders(path: Path) -> Iterator[Path]:
    for folder in path.parents[: 1 + _SEARCHED_FOLDERS]:
        yield folder
        yield folder / _SETTINGS_FOLDER


def _recorded_strategy(path: Path, labels: Mapping[str, str]) -> str:
    strategy = labels.get("strategy")
    if strategy is None:
        raise InputError(
            "its strategy is unknown, because its name does not say it",
            kind="missing-field",
            file=path,
            remedy=f"name it {_NAME_FORM}, or give the strategy",
        )
    if strategy not in CLIENTS:
        raise InputError(
            f"its strategy '{strategy}' is none of {', '.join(CLIENTS)}",
            kind="unknown-name",
            file=path,
            remedy="give the strategy with which it is simulated",
        )
    return strategy


def _load_settings(path: str | Path) -> tuple[BrokerSettings, Platform]:
    """Read settings and make their platform, once for each content of the file."""
    path = Path(path).absolute()
    require_input(path)
    status = path.stat()
    return _load_unchanged_settings(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=256)
def _load_unchanged_settings(
    path: Path, _changed: int, _size: int
) -> tuple[BrokerSettings, Platform]:
    settings = read_broker_settings(path)
    return settings, _make_platform(settings)


def _make_platform(settings: BrokerSettings) -> Platform:
    """Make a cloud with a host for each instance, and the store of the files of tasks."""
    hosts = settings.instances or _UNLIMITED_HOSTS
    values: dict[str, Any] = {
        "clusters": [{"name": "hosts", "hosts": [{"count": hosts, "cores": 1}]}],
        "clouds": [
            {
                "name": settings.cloud,
                "types": [{"name": settings.instance_type, "cores": 1}],
                "images": [{"name": settings.image, "boot": _describe_boot(settings)}],
                "billing": {"unit": settings.unit, "price": 1},
                "limits": {"instances": settings.instances},
            }
        ],
    }
    if settings.store is not None:
        values["stores"] = [{"name": settings.store.name, "ports": settings.store.ports.to_dict()}]
        values["network"] = {"latency": settings.store.latency}
    note = Cleaning(kind="assumed", what=_ASSUMED_HOSTS, count=hosts)
    return Platform.from_dict(values).with_notes([*settings.notes, note])


def _describe_boot(settings: BrokerSettings) -> dict[str, float]:
    """Describe the boots that are not recorded, by the prediction of the broker."""
    return {"delay": settings.boot_base, "per_booting": settings.boot_per_booting}


def _describe_policy(strategy: str | Mapping[str, Any], settings: BrokerSettings) -> dict[str, Any]:
    """Describe a policy: its options, then those of the settings that it has."""
    given: dict[str, Any] = {"name": strategy} if isinstance(strategy, str) else dict(strategy)
    name = given.get("name")
    if not isinstance(name, str) or name not in CLIENTS:
        check_policy_name(str(name))
        return given
    known = list_clients()[name].model_fields
    options = {
        "margin": settings.margin,
        "boot": {"base": settings.boot_base, "per_booting": settings.boot_per_booting},
        "instances": settings.instances,
        "interval": _INTERVAL,
        "later_interval": _LATER_INTERVAL,
        "published": True,
        "validation": settings.validation,
        "boots_as_predicted": True,
    }
    own = {key: value for key, value in options.items() if key in known and value is not None}
    return {**given, "options": {**own, **dict(given.get("options") or {})}}
