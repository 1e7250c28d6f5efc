"""The Scenario: all that a run needs, in one file or one object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self

from pydantic import BeforeValidator, Field, ValidationInfo, model_validator

from twinloop.description import Description, DescriptionError
from twinloop.description.address import address_from_path
from twinloop.description.description import TextAlternative, get_read_folder
from twinloop.description.errors import InputError
from twinloop.description.files import hash_file, is_file, list_input_files
from twinloop.description.problems import ProblemCollector
from twinloop.description.quantities import Positive, Whole
from twinloop.description.safe_text import escape_name
from twinloop.platform import Platform
from twinloop.platform.shorthand import is_shorthand
from twinloop.scenario.failures import Failures
from twinloop.scenario.model import Model
from twinloop.scenario.parts import POLICY_SCHEMA, PolicyDescription, WorkloadDescription
from twinloop.scenario.prices import Prices
from twinloop.scenario.start import StartTime, start_to_epoch_ms
from twinloop.scenario.stored_workload import restore_workload
from twinloop.trace import Manifest, Trace, recognise
from twinloop.trace.folder import MANIFEST
from twinloop.trace.formats import list_related_files
from twinloop.trace.trace import format_count
from twinloop.workload import Workload
from twinloop.workload.source import SESSIONS_PREFIX, SourceDescription


class InputFile(NamedTuple):
    """A file that a scenario refers to, and the hash of its bytes; None: it is not there.

    >>> InputFile("log.swf", None).name
    'log.swf'
    """

    name: str
    sha256: str | None


def _platform(value: Any, info: ValidationInfo) -> Any:
    """A text that is no shorthand is the path of a description."""
    if not isinstance(value, str) or is_shorthand(value):
        return value
    folder = get_read_folder(info)
    path = folder / value
    if not is_file(path):
        raise InputError(
            f"'{value}' is neither a platform such as 2x8@2400MHz nor a file that is there"
        )
    return Platform.load(path)


class Scenario(Description):
    """Platform, workload, source, policy, model and seed: all that a run needs.

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

    name: str = Field("", description="name of the scenario, for the reader")
    platform: Annotated[
        Platform,
        BeforeValidator(_platform),
        TextAlternative("path of a platform description or of an OpenDC topology"),
    ] = Field(description="where it runs: a description, a shorthand, or the path of a file")
    workload: Annotated[WorkloadDescription, TextAlternative("path of a log or trace")] = Field(
        description="what is to run"
    )
    source: Annotated[
        SourceDescription,
        TextAlternative(
            "rigid: every task at its recorded time; sessions:60min: users with sessions, a pause "
            "that long starting a new one",
            {"pattern": rf"^(rigid|{SESSIONS_PREFIX}.*[0-9].*)$"},
        ),
    ] = Field(default_factory=SourceDescription, description="who submits")
    policy: Annotated[PolicyDescription, TextAlternative("name of the policy", POLICY_SCHEMA)] = (
        Field(description="who decides")
    )
    time_scale: Positive = Field(
        1.0, description="times the times of submission; how long tasks take is left as it is"
    )
    model: Model = Field(default_factory=Model, description="how faithful the simulation is")
    failures: Failures | None = Field(None, description="when nodes fail; without, they never do")
    prices: Prices | None = Field(None, description="what cores and energy cost")
    start: StartTime | None = Field(
        None,
        description="date and time of t = 0, such as 2024-07-01T08:00+02:00 (UTC where no offset "
        "is given), in place of that of the log; carbon intensities over time need one",
    )
    seed: Whole = Field(0, description="random seed")

    def __repr__(self) -> str:
        made = self.workload.generate
        written = len(self.workload.tasks) and format_count(len(self.workload.tasks), "task")
        what = self.workload.path or (made and made.name) or written or self.workload.held
        return escape_name(
            f"<Scenario {self.policy.name} on {self.platform!r}, {what}, seed {self.seed}>"
        )

    @property
    def epoch_ms(self) -> int | None:
        """The start as Unix time in milliseconds; None: it is that of the log, if that has one.

        >>> Scenario(platform="1x1", workload="log.swf", policy="fifo", start="1970-01-02").epoch_ms
        86400000
        """
        return None if self.start is None else start_to_epoch_ms(self.start)

    def effective_platform(self) -> Platform:
        """The platform with the overrides of the model.

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
        return self.platform.replace(**overrides) if overrides else self.platform

    def host_speeds(self, reference_mhz: float | None) -> list[float]:
        """The speed of a core of each group of hosts, in reference cores.

        Where the clock of the reference is not known, that of a host counts only as far as an
        override of the model changes it: every host is as fast as described, which is 1.

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

    def to_yaml(self) -> str:
        """YAML text that `from_text` reads back; an object in memory cannot be written."""
        self._check_written()
        return super().to_yaml()

    def save(self, path: str | Path) -> Path:
        """Write it as YAML or JSON; an object in memory cannot be written."""
        self._check_written()
        return super().save(path)

    def _check_written(self) -> None:
        for field, held, remedy in (
            ("workload", self.workload.held, "save it with twinloop.write, and give its path"),
            ("policy", self.policy.held, "name its class as module:Class"),
        ):
            if held is not None:
                problem = f"a file cannot hold an object in memory ({held})"
                raise InputError(problem, field=field, remedy=remedy)

    def inputs(self) -> tuple[InputFile, ...]:
        """The files that it refers to: workload, carbon intensities, failures."""
        return tuple(InputFile(file.as_posix(), _hash(file)) for file in self._files())

    def to_manifest(self) -> dict[str, Any]:
        """All its values and the hashes of its inputs, as the manifest of a Trace keeps them."""
        inputs = {file.name: file.sha256 for file in self.inputs()}
        values = self.to_dict(complete=True)
        if self.workload.object is not None:
            # Its description alone is the same for every workload of so many tasks.
            values["workload"]["sha256"] = self.workload.object.content_hash()
        return {**values, "inputs": inputs}

    @classmethod
    def from_manifest(
        cls,
        manifest: Manifest | Mapping[str, Any],
        *,
        workload: Trace | Workload | None = None,
    ) -> Self:
        """The scenario that a manifest keeps, with the paths as they were then.

        Args:
            manifest: The manifest of a run, or the scenario in it.
            workload: The workload, if the scenario held it in memory; `from_trace` finds it.
        """
        kept = manifest.scenario if isinstance(manifest, Manifest) else manifest
        if kept is None:
            raise InputError("the manifest keeps no scenario", field="scenario")
        values = {name: value for name, value in kept.items() if name != "inputs"}
        noted = values.get("workload")
        if isinstance(noted, Mapping) and "object" in noted:
            values["workload"] = {k: v for k, v in noted.items() if k != "sha256"}
            if workload is not None:
                if noted.get("sha256") != workload.content_hash():
                    raise InputError(
                        f"is not the workload of this run ({noted['object']}): its hash differs",
                        field="workload",
                    )
                values["workload"]["object"] = workload
        return cls.from_dict(values)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read one from a YAML or JSON file; a log in its place is said to be one."""
        try:
            return super().load(path)
        except InputError as error:
            try:
                form = recognise(path)
            except InputError:
                raise error from None
            raise InputError(
                f"is a log, not a scenario: {form.title}",
                file=Path(path),
                remedy=f"name it as the workload of a scenario (`workload: {path}`), or use "
                f"`twinloop simulate --workload {path}` with --platform and --policy",
            ) from None

    @classmethod
    def from_trace(cls, trace: Trace) -> Self:
        """The scenario that a run was made from; a workload in memory is kept with its trace.

        >>> from twinloop.engine import simulate
        >>> from twinloop.workload.generators import generate
        >>> log = generate("poisson", tasks=5)
        >>> run = simulate(Scenario(platform="2x8", workload=log, policy="easy"))
        >>> Scenario.from_trace(run).workload.object is log
        True
        """
        kept = trace.workload
        return cls.from_manifest(
            trace.manifest, workload=None if kept is None else restore_workload(kept)
        )

    def _files(self) -> Iterator[Path]:
        if self.workload.path is not None:
            path = Path(self.workload.path)
            if (path / MANIFEST).is_file():
                yield path / MANIFEST  # which has the hashes of the rest
            elif path.is_dir():
                yield from list_input_files(path)
            else:
                yield path
            yield from list_related_files(path, self.workload.options)
        for cluster in self.effective_platform().clusters:
            if isinstance(cluster.carbon, str):
                yield Path(cluster.carbon)
        if self.failures is not None and self.failures.trace is not None:
            yield Path(self.failures.trace)

    @model_validator(mode="after")
    def _overrides_fit(self) -> Scenario:
        self._notes = self.platform.notes
        findings = ProblemCollector()
        try:
            self.effective_platform()
        except DescriptionError as error:
            for problem in error.problems:
                self._find(findings, problem)
        except InputError as error:
            self._find(findings, error)
        findings.check()
        return self

    def _find(self, findings: ProblemCollector, problem: InputError) -> None:
        """Lay a problem of the changed platform on the override that it comes from."""
        field = problem.field or ""
        guilty = [path for path in self.model.overrides if _meet(path, field)]
        where = ("model", "overrides", *guilty[:1])
        said = problem.problem if field in guilty else f"{field}: {problem.problem}".lstrip(": ")
        findings.add(where, said, problem.remedy)


def load(path: str | Path) -> Scenario:
    """Read a scenario from a YAML or JSON file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as there:
    ...     scenario = Scenario(platform="2x8", workload="log.swf", policy="easy")
    ...     load(scenario.save(there + "/scenario.yaml")).policy.name
    'easy'
    """
    return Scenario.load(path)


def _meet(one: str, other: str) -> bool:
    """Whether one path leads through what the other one leads to."""
    try:
        first, second = address_from_path(one), address_from_path(other)
    except InputError:
        return one == other or not other
    shared = min(len(first), len(second))
    return first[:shared] == second[:shared]


def _hash(file: Path) -> str | None:
    return hash_file(file) if is_file(file) else None
