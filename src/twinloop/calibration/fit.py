"""The result of a calibration: fitted values, their uncertainty and their provenance."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import polars as pl
import pydantic

from twinloop import __version__
from twinloop.calibration.identifiability import Identifiability
from twinloop.calibration.parameters.values import set_values
from twinloop.description.errors import InputError, UnwritableError
from twinloop.description.files import require_input, write_atomically
from twinloop.description.json_values import to_json_values
from twinloop.description.plugins import load_component
from twinloop.description.safe_text import escape_name
from twinloop.description.saved_json import StoredJson, read_stored_json
from twinloop.execution.announcement import COMMANDS, is_command_file
from twinloop.scenario import Model, Scenario
from twinloop.scenario.stored_workload import read_scenario, store_workload
from twinloop.trace.parquet import read_parquet

if TYPE_CHECKING:
    from twinloop.calibration.uncertainty.prediction import Prediction
    from twinloop.fidelity import Verdict

#: Files in the folder of a stored calibration.
MANIFEST: Final = "fit.json"
JOURNAL: Final = "journal.jsonl"
HISTORY: Final = "history.parquet"
CONFIDENCE_REGION: Final = "cloud.parquet"
DRAWS: Final = "draws.parquet"


@dataclass(frozen=True, repr=False)
class Fit:
    """The result of a calibration.

    `values` are the fitted values by name, `defaults` the values before the fit. `history` has a
    row per evaluation, `confidence_region` a row per calibration whose loss differs from the best
    by no more than noise, and `identifiability` states which values the data determine. `before`
    and `after` are the verdicts on the twin of each run, by the name of the run.
    """

    values: dict[str, Any]
    defaults: dict[str, Any]
    loss: float
    loss_before: float
    loss_name: str
    aggregation: str
    optimiser: str
    seed: int
    evaluations: int
    failed: int
    seconds: float
    history: pl.DataFrame = field(compare=False)
    confidence_region: pl.DataFrame | None = field(default=None, compare=False)
    identifiability: Identifiability | None = field(default=None, compare=False)
    validation_loss: float | None = None
    floor: float | None = None
    runs: tuple[dict[str, Any], ...] = ()
    before: tuple[tuple[str, Verdict], ...] = field(default=(), compare=False)
    after: tuple[tuple[str, Verdict], ...] = field(default=(), compare=False)
    #: The verdicts on the runs that were held out for validation.
    unseen: tuple[tuple[str, Verdict], ...] = field(default=(), compare=False)
    recipe: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    #: The scenarios of the runs, with the fitted values.
    scenarios: tuple[Scenario, ...] = ()
    #: A sample of the posterior: a column per value, a row per draw.
    draws: pl.DataFrame | None = field(default=None, compare=False)
    #: The residual scatter of real runs about the twin, by figure.
    noise: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    #: The status of each verdict in the stored file: `before`, `after` and `unseen`, by run.
    stored_verdicts: Mapping[str, Mapping[str, str]] = field(default_factory=dict, compare=False)
    #: The settings: `parameters` with their ranges, `budget`, `optimiser`, `analysis`, and the
    #: `criteria` of the verdicts.
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def scenario(self) -> Scenario:
        """The scenario of the first run, with the fitted values."""
        if not self.scenarios:
            raise InputError(
                "a black box has no scenario", kind="missing-scenario", field="scenario"
            )
        return self.scenarios[0]

    @property
    def statuses(self) -> Mapping[str, Mapping[str, str]]:
        """PASS, FAIL or not assessable by run, `before` and `after` the fit, and `unseen`."""
        verdicts = {"before": self.before, "after": self.after, "unseen": self.unseen}
        if not any(verdicts.values()):
            return self.stored_verdicts
        return {when: {name: v.status for name, v in runs} for when, runs in verdicts.items()}

    @property
    def model(self) -> Model:
        """The fitted Model."""
        return self.scenario.model

    def apply(self, scenario: Scenario) -> Scenario:
        """Set the fitted values in another scenario."""
        if not isinstance(scenario, Scenario):
            kind = type(scenario).__name__
            raise InputError(
                f"must be a Scenario, not a {kind}",
                kind="wrong-argument",
                remedy="twinloop.load(...) reads one",
            )
        if self.scenarios:
            measured = {
                f"model.{name}": getattr(self.model, name)
                for name in ("dispatch_latency", "release_latency", "fitted_on")
            }
            scenario = scenario.replace(**measured)
        return set_values(scenario, self.values)

    def predict(
        self,
        scenario: Scenario,
        *,
        outputs: Sequence[str] = ("makespan_s", "wait_mean_s"),
        level: float = 0.9,
        threads: int | None = None,
        allow_code: bool = False,
    ) -> Prediction:
        """Predict figures of another scenario, with prediction intervals.

        Args:
            scenario: The scenario to predict.
            outputs: The figures: any of `makespan_s`, `wait_mean_s`, `turnaround_mean_s` and
                `energy_j`.
            level: The probability that a new run lies within its interval.
            threads: The number of threads to simulate on.
            allow_code: Whether a policy named as `module:Class` may be imported and run.
        """
        from twinloop.calibration.uncertainty.prediction import predict_figures

        return predict_figures(
            self, scenario, outputs=outputs, level=level, threads=threads, allow_code=allow_code
        )

    @property
    def plot(self) -> Any:
        """The figures of the calibration: `fit.plot.history()`; see `FitPlots`."""
        return load_component("fit-plots")(self)

    # --- storage ---------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return everything except the tables as plain data."""
        identifiability = self.identifiability
        return {
            "twinloop": __version__,
            "values": self.values,
            "defaults": self.defaults,
            "loss": self.loss,
            "loss_before": self.loss_before,
            "validation_loss": self.validation_loss,
            "floor": self.floor,
            "loss_name": self.loss_name,
            "aggregation": self.aggregation,
            "optimiser": self.optimiser,
            "seed": self.seed,
            "evaluations": self.evaluations,
            "failed": self.failed,
            "seconds": self.seconds,
            "asked": dict(self.settings),
            "noise": {name: dict(scatter) for name, scatter in self.noise.items()},
            "runs": list(self.runs),
            "identifiability": None if identifiability is None else identifiability.to_dict(),
            "verdicts": {when: dict(runs) for when, runs in self.statuses.items()},
            "recipe": list(self.recipe),
            "warnings": list(self.warnings),
            "scenarios": [scenario.to_manifest() for scenario in self.scenarios],
        }

    def save(self, folder: str | Path) -> Path:
        """Write the calibration to a folder: scenarios, values, history and tables.

        A folder that holds a calibration is never overwritten.
        """
        folder = Path(folder)
        refuse_existing(folder)
        make_folder(folder)
        _write_table(self.history, folder / HISTORY)
        for table, name in ((self.confidence_region, CONFIDENCE_REGION), (self.draws, DRAWS)):
            if table is not None:
                _write_table(table, folder / name)
        for number, scenario in enumerate(self.scenarios, start=1):
            name = "scenario.yaml" if number == 1 else f"scenario-{number}.yaml"
            store_workload(scenario, folder).save(folder / name)
        with write_atomically(folder / MANIFEST) as stream:
            text = json.dumps(
                to_json_values(self.to_dict()), indent=2, allow_nan=False, default=str
            )
            stream.write(text.encode())
        return folder

    @classmethod
    def load(cls, folder: str | Path) -> Fit:
        """Read a stored calibration.

        Only the statuses of the verdicts are stored; `assess` computes the verdicts from the runs.
        """
        folder = Path(folder)
        path = folder / MANIFEST
        if not path.is_file():
            from twinloop.calibration.client_models import refuse_client_models

            refuse_client_models(folder)
            raise InputError("no calibration is stored there", kind="not-a-result", file=folder)
        stored = read_stored_json(path, _StoredFit)
        identifiability = stored.identifiability
        try:
            return cls(
                values=stored.values,
                defaults=stored.defaults,
                loss=stored.loss,
                loss_before=math.nan if stored.loss_before is None else stored.loss_before,
                loss_name=stored.loss_name,
                aggregation=stored.aggregation,
                optimiser=stored.optimiser,
                seed=stored.seed,
                evaluations=stored.evaluations,
                failed=stored.failed,
                seconds=stored.seconds,
                history=_read_history(folder / HISTORY),
                confidence_region=_read_table(folder / CONFIDENCE_REGION),
                draws=_read_table(folder / DRAWS),
                identifiability=None
                if identifiability is None
                else Identifiability.from_dict(identifiability),
                validation_loss=stored.validation_loss,
                floor=stored.floor,
                runs=tuple(run.model_dump(exclude_unset=True) for run in stored.runs),
                recipe=tuple(stored.recipe),
                warnings=tuple(stored.warnings),
                scenarios=tuple(read_scenario(each, folder) for each in stored.scenarios),
                noise=cast(dict[str, dict[str, float]], stored.noise),
                stored_verdicts=stored.verdicts,
                settings=stored.asked,
            )
        except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
            if isinstance(error, InputError) and error.file is not None:
                raise
            raise InputError(f"cannot be read: {error}", kind="damaged-file", file=path) from None
        except (pl.exceptions.PolarsError, OSError) as error:
            raise InputError(f"cannot be read: {error}", kind="damaged-file", file=folder) from None

    # --- display ---------------------------------------------------------------------------------

    def __str__(self) -> str:
        from twinloop.calibration.fit_text import format_fit

        return format_fit(self)

    def markdown(self) -> str:
        """Format the calibration as a Markdown document, with every setting to repeat it."""
        from twinloop.calibration.fit_text import format_markdown

        return format_markdown(self)

    def __repr__(self) -> str:
        values = ", ".join(f"{name} {_format(value)}" for name, value in self.values.items())
        return escape_name(
            f"<Fit {values}; {self.loss_name} loss {self.loss_before:.3g} -> {self.loss:.3g}>"
        )

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(str(self))}</pre>"


def refuse_existing(folder: Path | None) -> None:
    """Raise an error if a folder contains a calibration or foreign files.

    Nothing is overwritten; a folder with the journal of an interrupted calibration is accepted.
    """
    if folder is not None and folder.exists() and not folder.is_dir():
        raise InputError(
            "is not a folder",
            kind="wrong-file-type",
            file=folder,
            remedy="name a folder that does not exist",
        )
    if folder is not None and (folder / MANIFEST).exists():
        raise InputError(
            "a calibration is stored there already",
            kind="output-exists",
            file=folder,
            remedy="name another folder; Fit.load reads this one",
        )
    if folder is not None and folder.is_dir() and not (folder / JOURNAL).exists():
        for other in folder.iterdir():
            if other.name == COMMANDS and is_command_file(other):
                continue
            raise InputError(
                f"exists already and is not a calibration: it contains {other.name}",
                kind="not-replaceable",
                file=folder,
                remedy="name a folder that does not exist",
            )


def make_folder(folder: Path) -> None:
    """Create the folder of a calibration if it does not exist."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnwritableError(
            f"cannot be created: {error.strerror}", kind="cannot-write", file=folder
        ) from None


def _format(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, int | float) else str(value)


class _StoredRun(StoredJson):
    """A run in `fit.json`; the types of other fields are not checked."""

    model_config = pydantic.ConfigDict(extra="allow", strict=True)

    name: str = ""
    used: str = ""
    mode: str | None = None
    tasks: int = 0
    injected: list[str] = pydantic.Field(default_factory=list)


class _StoredFit(StoredJson):
    """The content of `fit.json`."""

    values: dict[str, float | bool | str]
    defaults: dict[str, float | bool | str | None]
    loss: float
    loss_before: float | None
    validation_loss: float | None
    floor: float | None
    loss_name: str
    aggregation: str
    optimiser: str
    seed: int
    evaluations: int
    failed: int
    seconds: float
    asked: dict[str, Any]
    noise: dict[str, dict[str, float | bool | None]]
    runs: list[_StoredRun]
    identifiability: dict[str, Any] | None
    verdicts: dict[str, dict[str, str]]
    recipe: list[str]
    warnings: list[str]
    scenarios: list[dict[str, Any]]


def _read_history(path: Path) -> pl.DataFrame:
    """Read the table of evaluations and check the types of its fixed columns."""
    require_input(path)
    table = read_parquet(path)
    types = {"evaluation": pl.Int64, "loss": pl.Float64, "best": pl.Float64, "failed": pl.Boolean}
    for name, dtype in types.items():
        if name in table.columns and table.schema[name] not in (dtype, pl.Null):
            raise InputError(
                f"is {table.schema[name]}, not {dtype}", kind="damaged-file", file=path, field=name
            )
    return table


def _read_table(path: Path) -> pl.DataFrame | None:
    return read_parquet(path) if path.is_file() else None


def _write_table(table: pl.DataFrame, path: Path) -> None:
    with write_atomically(path) as stream:
        table.write_parquet(stream)
