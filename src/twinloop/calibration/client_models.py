"""Models of what a client of a cloud cannot know: boots, shortages and errors of predictions.

They are fitted to executions that recorded the boots of their instances and the times of their
tasks; `docs/client-models.md` has the formulas.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import pydantic

from twinloop import __version__
from twinloop.calibration.boot_fitting import collect_boots, fit_boots, has_instances
from twinloop.calibration.prediction_error_fitting import fit_errors
from twinloop.calibration.record_checks import check_client_records
from twinloop.description.errors import InputError
from twinloop.description.files import require_input, write_atomically
from twinloop.description.saved_json import StoredJson, read_stored_json
from twinloop.description.text import dump_document
from twinloop.platform.boots import Boot, Shortage
from twinloop.scenario import Scenario
from twinloop.trace import Trace
from twinloop.workload.prediction_errors import PredictionErrors

#: Files in a folder of fitted models.
MODELS: Final = "models.json"
PARTS: Final = "models.yaml"
#: With a scenario: this scenario with the models in place.
SCENARIO: Final = "scenario.yaml"


@dataclass(frozen=True)
class FittedTo:
    """What models were fitted to.

    >>> FittedTo(executions=2, boots=30, slow=3).queued
    0
    """

    executions: int
    #: Boots with a known time; of these slow ones, and those that waited at the provider.
    boots: int
    slow: int = 0
    queued: int = 0
    #: The largest number of instances that booted at once.
    most_booting: int = 1
    #: Boots that failed, and requests that the provider refused.
    failed: int = 0
    refused: int = 0
    #: Tasks with a predicted and a measured time, and the executions that have some.
    tasks: int = 0
    executions_with_tasks: int = 0
    #: Executions without boots and requests of instances, such as those on a cluster, and tasks of
    #: the others without both times, or with a time of 0.
    executions_left_out: int = 0
    tasks_left_out: int = 0

    def __post_init__(self) -> None:
        for name, count in asdict(self).items():
            least = 1 if name == "executions" else 0
            if count < least:
                raise InputError(f"must be at least {least}", kind="out-of-range", field=name)


@dataclass(frozen=True)
class ClientModels:
    """Fitted models of boots, shortages and prediction errors, and what they were fitted to.

    `boot` belongs in an image of a cloud, `shortage` in the cloud, `prediction_errors` in a
    workload: `apply` puts them there.
    """

    boot: Boot
    shortage: Shortage | None
    prediction_errors: PredictionErrors | None
    fitted_to: FittedTo

    def apply(self, scenario: Scenario) -> Scenario:
        """Return a scenario with the models in place.

        The boot replaces those of all images, the shortage that of all clouds. A broker that lets
        instances boot as it predicted (`boots_as_predicted`) no longer does. The errors of
        predictions become those of a workload that predicts run times: with `inject`, but without
        recorded run times; otherwise it stays as it is.

        >>> from twinloop.scenario import Scenario
        >>> models = ClientModels(Boot(delay="48s"), None, None, FittedTo(executions=1, boots=1))
        >>> cloud = {"clusters": [{"hosts": [{"cores": 1}]}], "clouds": [{"name": "east"}]}
        >>> scenario = Scenario(platform=cloud, workload={"tasks": [{"id": "a", "run_time": 5}]},
        ...                     policy="one-per-task")
        >>> models.apply(scenario).platform.clouds[0].images[0].boot.delay
        48.0
        """
        if not scenario.platform.clouds:
            raise InputError(
                "has no cloud: boots and shortages are those of clouds",
                kind="missing-field",
                field="platform.clouds",
                remedy="describe one, as docs/clouds.md shows",
            )
        parts = self.to_parts()
        if self.prediction_errors is None or not predicts_run_times(scenario):
            del parts["prediction_errors"]
        return apply_parts(scenario, parts)

    def to_parts(self) -> dict[str, Any]:
        """Return the models as parts of a scenario; None: there is no such model."""
        return {
            "boot": self.boot.to_dict(),
            "shortage": None if self.shortage is None else self.shortage.to_dict(),
            "prediction_errors": None
            if self.prediction_errors is None
            else self.prediction_errors.to_dict(),
        }

    # --- storage ---------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return the models and what they were fitted to; `from_dict` reads it."""
        return {**self.to_parts(), "fitted_to": asdict(self.fitted_to)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> ClientModels:
        """Read what `to_dict` returned.

        >>> models = ClientModels(Boot(delay="48s"), None, None, FittedTo(executions=1, boots=1))
        >>> ClientModels.from_dict(models.to_dict()) == models
        True
        """
        shortage, errors = values["shortage"], values["prediction_errors"]
        return cls(
            boot=Boot.from_dict(values["boot"]),
            shortage=None if shortage is None else Shortage.from_dict(shortage),
            prediction_errors=None if errors is None else PredictionErrors.from_dict(errors),
            fitted_to=FittedTo(**values["fitted_to"]),
        )

    def save(self, folder: str | Path) -> Path:
        """Write the models into a folder: `models.json`, and the parts of a scenario as YAML."""
        folder = Path(folder)
        text = json.dumps({"twinloop": __version__, **self.to_dict()}, indent=2) + "\n"
        with write_atomically(folder / PARTS) as stream:
            stream.write(dump_document(self.to_parts()).encode())
        with write_atomically(folder / MODELS) as stream:
            stream.write(text.encode())
        return folder

    @classmethod
    def load(cls, folder: str | Path) -> ClientModels:
        """Read the models of a folder that `save` or `twinloop calibrate --client` has written.

        >>> import tempfile
        >>> models = ClientModels(Boot(delay="48s"), None, None, FittedTo(executions=1, boots=1))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ClientModels.load(models.save(folder)) == models
        True
        """
        path = Path(folder) / MODELS
        require_input(path)
        stored = read_stored_json(path, _StoredModels)
        try:
            return cls.from_dict(stored.model_dump(exclude={"twinloop"}))
        except (ValueError, LookupError, TypeError) as error:
            raise InputError(f"cannot be read: {error}", kind="damaged-file", file=path) from None

    # --- display ---------------------------------------------------------------------------------

    def __str__(self) -> str:
        from twinloop.calibration.client_model_text import format_models

        return format_models(self)


class _StoredModels(StoredJson):
    """The content of `models.json`."""

    model_config = pydantic.ConfigDict(extra="forbid", strict=True)

    twinloop: str = ""
    boot: dict[str, Any]
    shortage: dict[str, Any] | None
    prediction_errors: dict[str, Any] | None
    fitted_to: dict[str, int]


def refuse_client_models(folder: str | Path) -> None:
    """Raise an error if a folder has models of clients, where another result is needed."""
    folder = Path(folder)
    if not (folder / MODELS).is_file():
        return
    scenario = folder / SCENARIO
    raise InputError(
        "has models of boots and run times, which have no report and are no fit to runs",
        kind="not-a-result",
        file=folder,
        remedy=f"`twinloop simulate {scenario}` runs the scenario with the models"
        if scenario.is_file()
        else "`twinloop calibrate --client` with --scenario puts them into a scenario",
    )


def apply_parts(scenario: Scenario, parts: Mapping[str, Any]) -> Scenario:
    """Return a scenario with those parts of fitted models in place that are given.

    >>> cloud = {"clusters": [{"hosts": [{"cores": 1}]}], "clouds": [{"name": "east"}]}
    >>> scenario = Scenario(platform=cloud, workload={"tasks": [{"id": "a", "run_time": 5}]},
    ...                     policy="one-per-task")
    >>> found = apply_parts(scenario, {"shortage": {"share": 0.5, "hosts": [1, 2]}})
    >>> found.platform.clouds[0].shortage.share
    0.5
    """
    changes: dict[str, Any] = {}
    for number, cloud in enumerate(scenario.platform.clouds):
        place = f"platform.clouds[{number}]"
        if "shortage" in parts:
            changes[f"{place}.shortage"] = parts["shortage"]
        images = range(len(cloud.images) if "boot" in parts else 0)
        changes |= {f"{place}.images[{image}].boot": parts["boot"] for image in images}
    if "boot" in parts and "boots_as_predicted" in scenario.policy.options:
        changes["policy.options.boots_as_predicted"] = False
    if "prediction_errors" in parts:
        changes["workload.prediction_errors"] = parts["prediction_errors"]
    return scenario.replace(**changes) if changes else scenario


def predicts_run_times(scenario: Scenario) -> bool:
    """Whether the run times of a scenario are predicted, so that they can have random errors.

    >>> scenario = Scenario(platform="2x4", policy="easy", workload="log.swf")
    >>> predicts_run_times(scenario)
    False
    >>> predicts_run_times(scenario.replace(**{"workload.inject": "predictions"}))
    True
    """
    from twinloop.workload.injection import resolve_injection

    injected = scenario.workload.inject
    if injected is None:
        return False
    return not {"wall_times", "run_times"} & set(resolve_injection(injected))


def fit_client_models(
    traces: Sequence[Trace],
    *,
    unit: float | None = 3600.0,
    files: Sequence[str | Path] | None = None,
) -> ClientModels:
    """Fit models of boots, shortages and prediction errors to executions.

    The line of the boot times over the number of booting instances is that of Theil and Sen
    through the boots that are not slow. Slow ones take more than three standard deviations of the
    logarithm longer, and more than twice as long: their additional times have a Pareto distribution
    (maximum likelihood). A slow boot that ends after another instance of the execution may have
    ended its first unit of billing was queued: it belongs to a shortage, in which the other
    instances are the free hosts.

    An execution without boots and without requests of instances, such as one on a cluster, is left
    out: its tasks do not run on the instances of the client. In the others a boot or a time of a
    task that is negative or not finite is an error.

    Args:
        traces: Recorded executions, with the table `boots` or `instances`.
        unit: The unit of billing after which instances can end (s); None: no boot was queued.
        files: The files or folders of the executions, for messages.

    >>> import polars as pl
    >>> run = Trace(
    ...     tasks=pl.DataFrame({"id": ["a", "b"], "requested_time": [10.0, 20.0],
    ...                         "run_time": [12.0, 24.0]}),
    ...     boots=pl.DataFrame({"provisioned": [0.0, 0.0, 0.0], "boot_time": [12.0, 14.0, 16.0]}))
    >>> models = fit_client_models([run])
    >>> models.boot.delay, models.boot.per_booting, models.prediction_errors.factor
    (10.0, 2.0, 1.2)
    """
    fitted = []
    for number, trace in enumerate(traces):
        if has_instances(trace):
            check_client_records(trace, None if files is None else files[number])
            fitted.append(trace)
    records = collect_boots(fitted)
    if not records.has_booted.any():
        raise InputError(
            "no execution recorded a boot",
            kind="missing-field",
            remedy="name executions with a table `boots` or `instances`",
        )
    found = fit_boots(records, len(fitted), unit)
    errors = fit_errors(fitted)
    tasks = 0 if errors is None else errors.tasks
    return ClientModels(
        boot=found.boot,
        shortage=found.shortage,
        prediction_errors=None if errors is None else errors.errors,
        fitted_to=FittedTo(
            executions=len(fitted),
            boots=found.boots,
            slow=found.slow,
            queued=found.queued,
            most_booting=found.most_booting,
            failed=found.failed,
            refused=found.refused,
            tasks=tasks,
            executions_with_tasks=0 if errors is None else errors.executions,
            executions_left_out=len(traces) - len(fitted),
            tasks_left_out=sum(trace.tasks.height for trace in fitted) - tasks,
        ),
    )


def fit_prediction_errors(traces: Iterable[Trace]) -> PredictionErrors | None:
    """Fit the errors of predicted run times; None without tasks with both times.

    >>> import polars as pl
    >>> run = Trace(tasks=pl.DataFrame({"id": ["a", "b"], "requested_time": [10.0, 20.0],
    ...                                 "run_time": [12.0, 24.0]}))
    >>> fit_prediction_errors([run]).factor
    1.2
    >>> fit_prediction_errors([]) is None
    True
    """
    found = fit_errors(traces)
    return None if found is None else found.errors
