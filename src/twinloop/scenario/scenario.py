"""The Scenario: the complete input of a run, in one file or one object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self

from pydantic import BeforeValidator, Field, ValidationInfo, model_validator

from twinloop.description import Description, DescriptionError
from twinloop.description.address import address_from_path
from twinloop.description.description import TextAlternative, get_read_folder
from twinloop.description.document import Address
from twinloop.description.errors import InputError
from twinloop.description.files import hash_file, is_file, list_input_files
from twinloop.description.position import Position
from twinloop.description.problems import ProblemCollector
from twinloop.description.quantities import Positive, Whole
from twinloop.description.safe_text import escape_name
from twinloop.platform import Platform
from twinloop.platform.host_store import resolve_host_stores
from twinloop.platform.network import describe_missing_store
from twinloop.platform.shorthand import is_shorthand
from twinloop.scenario.detail import check_detail
from twinloop.scenario.failures import OLD_ON_FAILURE, Failures, read_old_key
from twinloop.scenario.model import Model
from twinloop.scenario.parts import (
    CONTROLLER_SCHEMA,
    POLICY_SCHEMA,
    ControllerDescription,
    PolicyDescription,
    WorkloadDescription,
)
from twinloop.scenario.prices import Prices
from twinloop.scenario.start import StartTime, start_to_epoch_ms
from twinloop.scenario.stored_workload import restore_workload
from twinloop.trace import Manifest, Trace, recognise
from twinloop.trace.folder import MANIFEST
from twinloop.trace.formats import list_related_files
from twinloop.trace.trace import format_count
from twinloop.workload import Workload
from twinloop.workload.source_description import NAMED_SCHEMA, SESSIONS_PREFIX, SourceDescription


class InputFile(NamedTuple):
    """A file that a scenario refers to, and the hash of its bytes; None if it does not exist.

    >>> InputFile("log.swf", None).name
    'log.swf'
    """

    name: str
    sha256: str | None


def _load_platform(value: Any, info: ValidationInfo) -> Any:
    """Load a platform from its path; a shorthand or a description is returned unchanged."""
    if not isinstance(value, str) or is_shorthand(value):
        return value
    folder = get_read_folder(info)
    path = folder / value
    if not is_file(path):
        raise InputError(
            f"'{value}' is neither a platform such as 2x8@2400MHz nor an existing file",
            kind="not-a-platform",
        )
    return Platform.load(path)


class Scenario(Description):
    """A scenario: platform, workload, source, policy, model and seed of a run.

    >>> scenario = Scenario(
    ...     platform="2x8@2400MHz",
    ...     workload={"generate": {"name": "poisson", "parameters": {"tasks": 100}}},
    ...     policy="easy",
    ... )
    >>> scenario.replace(policy="sjf", **{"model.speed_factor": 1.2}).model.speed_factor
    1.2
    >>> Scenario.from_text(scenario.to_yaml()) == scenario
    True
    """

    name: str = Field("", description="name of the scenario, for reports")
    platform: Annotated[
        Platform,
        BeforeValidator(_load_platform),
        TextAlternative("path of a platform description or of an OpenDC topology"),
    ] = Field(description="platform: a description, a shorthand, or the path of a file")
    workload: Annotated[WorkloadDescription, TextAlternative("path of a log or trace")] = Field(
        description="workload"
    )
    source: Annotated[
        SourceDescription,
        TextAlternative(
            "rigid: every task at its recorded time; sessions:60min: users with sessions, "
            "separated by pauses of at least 60 min; module:Class: a class of yours",
            {"anyOf": [{"pattern": rf"^(rigid|{SESSIONS_PREFIX}.*[0-9].*)$"}, NAMED_SCHEMA]},
        ),
    ] = Field(default_factory=SourceDescription, description="source of submissions")
    policy: Annotated[PolicyDescription, TextAlternative("name of the policy", POLICY_SCHEMA)] = (
        Field(description="scheduling policy")
    )
    controllers: tuple[
        Annotated[
            ControllerDescription,
            TextAlternative("name of the controller", CONTROLLER_SCHEMA),
        ],
        ...,
    ] = Field(
        (),
        description="controllers that act after the policy, in this order: power-saving, or "
        "policies of your own",
    )
    time_scale: Positive = Field(
        1.0, description="factor on the submission times; run times do not change"
    )
    model: Model = Field(default_factory=Model, description="model parameters of the simulation")
    failures: Failures | None = Field(None, description="node failures; by default none")
    prices: Prices | None = Field(None, description="prices of cores and energy")
    start: StartTime | None = Field(
        None,
        description="date and time of t = 0, such as 2024-07-01T08:00+02:00 (by default UTC), in "
        "place of that of the log; needed for carbon intensities over time",
    )
    seed: Whole = Field(0, description="random seed")

    def __repr__(self) -> str:
        generator = self.workload.generate
        tasks = len(self.workload.tasks) and format_count(len(self.workload.tasks), "task")
        origin = self.workload.path or (generator and generator.name)
        if self.workload.workflows:
            origin = format_count(len(self.workload.workflows), "workflow")
        what = origin or tasks or self.workload.object_summary
        return escape_name(
            f"<Scenario {self.policy.name} on {self.platform!r}, {what}, seed {self.seed}>"
        )

    @property
    def epoch_ms(self) -> int | None:
        """The start as Unix time in milliseconds; None if the scenario has no start.

        The date of the log, if it has one, then applies.

        >>> Scenario(platform="1x1", workload="log.swf", policy="fifo", start="1970-01-02").epoch_ms
        86400000
        """
        return None if self.start is None else start_to_epoch_ms(self.start)

    def effective_platform(self) -> Platform:
        """Return the platform with the overrides of the model, and with all numbers of stores.

        >>> scenario = Scenario.from_text('''
        ... platform: 2x8@2400MHz
        ... workload: log.swf
        ... policy: fifo
        ... model: {overrides: {"clusters[0].hosts[0].mhz": 3 GHz}}
        ... ''')
        >>> scenario.effective_platform().shorthand
        '2x8@3000MHz'
        """
        overrides = self.model.overrides
        platform = self.platform.replace(**overrides) if overrides else self.platform
        return resolve_host_stores(platform)

    def host_speeds(self, reference_mhz: float | None) -> list[float]:
        """Return the speed of a core of each group of hosts, in reference cores.

        If the reference clock is unknown, the speed is 1, multiplied by the ratio by which an
        override of the model changes the clock.

        >>> scenario = Scenario(platform="2x8@2400MHz", workload="log.swf", policy="fifo")
        >>> scenario.host_speeds(1200.0), scenario.host_speeds(None)
        ([2.0], [1.0])
        >>> faster = {"model.overrides": {"clusters[0].hosts[0].mhz": "3 GHz"}}
        >>> scenario.replace(**faster).host_speeds(None)
        [1.25]
        """
        hosts = [host for _, host in self.effective_platform().hosts()]
        described = [host.mhz for _, host in self.platform.hosts()]
        if len(described) != len(hosts):
            described = [None] * len(hosts)
        return [
            host.speed_of_core(reference_mhz or mhz)
            for host, mhz in zip(hosts, described, strict=True)
        ]

    def replace(self, **changes: Any) -> Self:
        """Return a scenario with other values at these dotted paths.

        The old path `failures.then` of a study is read as `failures.on_failure`.
        """
        old, new = f"failures.{OLD_ON_FAILURE}", "failures.on_failure"
        return super().replace(**read_old_key(changes, old, new, "scenario"))

    def to_yaml(self) -> str:
        """Convert to YAML text for `from_text`; an object in memory cannot be written."""
        self._check_writable()
        return super().to_yaml()

    def save(self, path: str | Path) -> Path:
        """Write the scenario as YAML or JSON; an object in memory cannot be written."""
        self._check_writable()
        return super().save(path)

    def _check_writable(self) -> None:
        for field, summary, remedy in (
            (
                "workload",
                self.workload.object_summary,
                "save it with twinloop.write and give its path",
            ),
            ("source", self.source.object_summary, "name its class as module:Class"),
            ("policy", self.policy.object_summary, "name its class as module:Class"),
            *(
                (f"controllers[{i}]", each.object_summary, "name its class as module:Class")
                for i, each in enumerate(self.controllers)
            ),
        ):
            if summary is not None:
                problem = f"a file cannot contain an object in memory ({summary})"
                raise InputError(problem, kind="not-stored", field=field, remedy=remedy)

    def inputs(self) -> tuple[InputFile, ...]:
        """Return the files that it refers to: workload, carbon intensities, failures."""
        return tuple(InputFile(file.as_posix(), _hash_if_file(file)) for file in self._files())

    def to_manifest(self) -> dict[str, Any]:
        """Return all values and the hashes of the input files, for the manifest of a Trace."""
        inputs = {file.name: file.sha256 for file in self.inputs()}
        values = self.to_dict(complete=True)
        if self.workload.object is not None:
            # The summary in `values` does not identify the workload.
            values["workload"]["sha256"] = self.workload.object.content_hash()
        return {**values, "inputs": inputs}

    @classmethod
    def from_manifest(
        cls,
        manifest: Manifest | Mapping[str, Any],
        *,
        workload: Trace | Workload | None = None,
    ) -> Self:
        """Create the scenario of a manifest, with the paths of the recorded run.

        Args:
            manifest: The manifest of a run, or the scenario in it.
            workload: The workload, if it was an object in memory; `from_trace` finds it.
        """
        stored = manifest.scenario if isinstance(manifest, Manifest) else manifest
        if stored is None:
            raise InputError(
                "the manifest has no scenario", kind="missing-scenario", field="scenario"
            )
        values = {name: value for name, value in stored.items() if name != "inputs"}
        described = values.get("workload")
        if isinstance(described, Mapping) and "object" in described:
            values["workload"] = {k: v for k, v in described.items() if k != "sha256"}
            if workload is not None:
                if described.get("sha256") != workload.content_hash():
                    raise InputError(
                        f"is not the workload of this run ({described['object']}): "
                        "its hash differs",
                        kind="hash-mismatch",
                        field="workload",
                    )
                values["workload"]["object"] = workload
        return cls.from_dict(values)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a scenario from a YAML or JSON file; the error for a log suggests how to use it."""
        try:
            return super().load(path)
        except InputError as error:
            try:
                form = recognise(path)
            except InputError:
                raise error from None
            raise InputError(
                f"is a log, not a scenario: {form.title}",
                kind="log-as-scenario",
                file=Path(path),
                remedy=f"use it as the workload of a scenario (`workload: {path}`), or run "
                f"`twinloop simulate --workload {path}` with --platform and --policy",
            ) from None

    @classmethod
    def from_trace(cls, trace: Trace) -> Self:
        """Create the scenario of a run; a workload in memory is stored with the trace.

        >>> from twinloop.engine import simulate
        >>> from twinloop.workload.generators import generate
        >>> log = generate("poisson", tasks=5)
        >>> run = simulate(Scenario(platform="2x8", workload=log, policy="easy"))
        >>> Scenario.from_trace(run).workload.object is log
        True
        """
        stored = trace.workload
        return cls.from_manifest(
            trace.manifest, workload=None if stored is None else restore_workload(stored)
        )

    def _files(self) -> Iterator[Path]:
        for name, options in self.workload.list_logs():
            path = Path(name)
            yield from _list_files_of(path)
            yield from list_related_files(path, options)
        for generator in self.workload.list_generators():
            for path in generator.list_files():
                yield from _list_files_of(path)
        for cluster in self.effective_platform().clusters:
            if isinstance(cluster.carbon, str):
                yield Path(cluster.carbon)
        if self.failures is not None and self.failures.trace is not None:
            yield Path(self.failures.trace)

    def note_positions(self, data: Any, file: str | None, address: Address = ()) -> None:
        """Note the positions of classes named by the scenario, and of parts of its platform."""
        if not isinstance(data, Mapping):
            return
        listed = data.get("controllers")
        given = listed if isinstance(listed, list | tuple) else [None] * len(self.controllers)
        for described, value, step in (
            (self.policy, data.get("policy"), ("policy",)),
            (self.source, data.get("source"), ("source",)),
            *(
                (each, value, ("controllers", i))
                for i, (each, value) in enumerate(zip(self.controllers, given, strict=True))
            ),
        ):
            # A description was read elsewhere.
            if isinstance(value, str | Mapping):
                is_short = isinstance(value, str)
                described._position = Position(file, (*address, *step), is_short)
        if isinstance(data.get("platform"), Mapping):
            self.platform.note_positions(data["platform"], file, (*address, "platform"))

    @model_validator(mode="after")
    def _check_overrides(self) -> Scenario:
        self._notes = self.platform.notes
        findings = ProblemCollector()
        try:
            self.effective_platform()
        except DescriptionError as error:
            for problem in error.problems:
                self._add_override_problem(findings, problem)
        except InputError as error:
            self._add_override_problem(findings, error)
        findings.check()
        self._check_stores(findings)
        check_detail(self.model.detail, self.effective_platform(), findings)
        findings.check()
        return self

    def _check_stores(self, findings: ProblemCollector) -> None:
        """Check that the platform has the stores of the listed files."""
        named = {file.store for file in self.workload.files if file.store is not None}
        if not named:
            return
        platform = self.effective_platform()
        missing = {name: describe_missing_store(platform, name) for name in named}
        for index, file in enumerate(self.workload.files):
            if file.store is not None and (problem := missing[file.store]) is not None:
                address = ("workload", "files", index, "store")
                findings.add(address, *problem, kind="unknown-reference")

    def _add_override_problem(self, findings: ProblemCollector, problem: InputError) -> None:
        """Report a problem of the changed platform at the override that causes it."""
        field = problem.field or ""
        causes = [path for path in self.model.overrides if _is_prefix_or_extension(path, field)]
        where = ("model", "overrides", *causes[:1])
        text = problem.problem if field in causes else f"{field}: {problem.problem}".lstrip(": ")
        findings.add(where, text, problem.remedy, kind=problem.kind)


def load(path: str | Path) -> Scenario:
    """Read a scenario from a YAML or JSON file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     scenario = Scenario(platform="2x8", workload="log.swf", policy="easy")
    ...     load(scenario.save(folder + "/scenario.yaml")).policy.name
    'easy'
    """
    return Scenario.load(path)


def _is_prefix_or_extension(path: str, other_path: str) -> bool:
    """Whether one of two paths is a prefix of the other."""
    try:
        address, other_address = address_from_path(path), address_from_path(other_path)
    except InputError:
        return path == other_path or not other_path
    shared = min(len(address), len(other_address))
    return address[:shared] == other_address[:shared]


def _list_files_of(path: Path) -> Iterator[Path]:
    """List the files of an input that is a file or a folder."""
    if (path / MANIFEST).is_file():
        yield path / MANIFEST  # contains the hashes of the other files
    elif path.is_dir():
        yield from list_input_files(path)
    else:
        yield path


def _hash_if_file(file: Path) -> str | None:
    return hash_file(file) if is_file(file) else None
