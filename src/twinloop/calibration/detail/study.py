"""The result of a study of the level of detail."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
import pydantic
from numpy.typing import NDArray

from twinloop import __version__
from twinloop.calibration.detail.differences import LossDifference, compare_losses
from twinloop.calibration.detail.levels import DetailFactor, Version
from twinloop.calibration.detail.study_tables import (
    BASELINE,
    BEFORE,
    FITTED,
    SPEC_SHEET,
    TABLES,
    WARM_STARTED,
    read_table,
)
from twinloop.calibration.detail.verdict import (
    LevelDifference,
    choose_unit,
    collect_losses,
    compare_levels,
    compare_with_best,
    find_best,
    recommend,
)
from twinloop.calibration.detail.version_runs import TRAINING, VALIDATION
from twinloop.description.errors import InputError
from twinloop.description.files import write_atomically
from twinloop.description.json_values import to_json_values
from twinloop.description.saved_json import StoredJson, read_stored_json

_Floats = NDArray[np.float64]

#: The file of everything but the tables.
MANIFEST: Final = "detail.json"


@dataclass(frozen=True, repr=False, eq=False)
class DetailStudy:
    """Versions of a scenario at several levels of detail, each calibrated, and their comparison.

    Tables, with `values` saying what a version was simulated with (`fitted`, `warm-started`,
    `before`, `spec-sheet`, or `baseline`, which has no version):

    - `searches`: a row per version and seed: the losses on training and validation runs, the
      number of evaluations, and the error of a search that failed.
    - `losses`: the loss of each real run.
    - `values`: the fitted values.
    - `identifiability`: the parameters of each version, at its best fit. `effect` is false for a
      parameter that changes nothing.
    - `history`: the loss of each evaluation, and the smallest so far.
    - `times`: the duration of each search, and of a simulation of one run. It is the only table
      that depends on the machine.
    """

    factors: tuple[DetailFactor, ...]
    versions: tuple[Version, ...]
    #: The parameters of each version, and those that it does not have.
    parameters: Mapping[int, tuple[str, ...]]
    skipped: Mapping[int, tuple[str, ...]]
    searches: pl.DataFrame
    losses: pl.DataFrame
    values: pl.DataFrame
    identifiability: pl.DataFrame
    history: pl.DataFrame
    times: pl.DataFrame
    #: Sentences on the identifiability of the parameters of each version.
    sentences: Mapping[int, tuple[str, ...]]
    #: The settings: loss, aggregation, optimiser, budget, seeds, analysis, and the parameters.
    settings: Mapping[str, Any]
    #: The runs: `name`, `used`, `mode`, `injected`, `tasks`.
    runs: tuple[Mapping[str, Any], ...]
    #: The error of the ideal simulator: `loss`, `runs`, `workloads`; None: no repetitions.
    ideal: Mapping[str, Any] | None = None
    #: The crude baseline: its mean `loss`, and from which `times` its tasks have their run times.
    baseline: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = ()
    folder: Path | None = field(default=None, compare=False)

    @property
    def loss_name(self) -> str:
        """The loss that was minimised."""
        return str(self.settings["loss"])

    @property
    def used(self) -> str:
        """The runs that versions are compared on: `validation`, or `training` if none was held."""
        return VALIDATION if any(run["used"] == VALIDATION for run in self.runs) else TRAINING

    @property
    def failed(self) -> int:
        """The number of searches that failed."""
        return self.searches.filter(pl.col("error").is_not_null()).height

    def get_version(self, number: int) -> Version:
        """Return the version with a number."""
        return next(each for each in self.versions if each.number == number)

    # --- comparison ------------------------------------------------------------------------------

    @cached_property
    def _compared(self) -> tuple[dict[int, _Floats], list[str]]:
        return collect_losses(self.losses.filter(values=FITTED), self.used)

    @property
    def compared_losses(self) -> dict[int, _Floats]:
        """The losses that versions are compared by: a row per search, a column per run."""
        return self._compared[0]

    @property
    def compared_unit(self) -> str:
        """What the differences of versions are paired by: `run` or `workload`."""
        return choose_unit(self.losses.filter(values=FITTED, used=self.used))

    @property
    def compared_units(self) -> list[str]:
        """The runs, or the workloads, of the columns of `compared_losses`."""
        return self._compared[1]

    @cached_property
    def level_differences(self) -> tuple[LevelDifference, ...]:
        """The differences between the levels of each factor."""
        return tuple(compare_levels(self.factors, self.versions, self.compared_losses))

    @cached_property
    def best(self) -> Version | None:
        """The version with the smallest mean loss; None if all searches failed."""
        losses = self.compared_losses
        return self.get_version(find_best(losses)) if losses else None

    @cached_property
    def differences_from_best(self) -> dict[int, LossDifference]:
        """The difference of each other version from the best one."""
        return compare_with_best(self.compared_losses) if self.compared_losses else {}

    @cached_property
    def recommended(self) -> Version | None:
        """The version with the fewest parameters of those not distinguishable from the best."""
        if not self.compared_losses:
            return None
        counts = {number: len(names) for number, names in self.parameters.items()}
        return self.get_version(recommend(self.compared_losses, counts)[0])

    @cached_property
    def difference_from_baseline(self) -> LossDifference | None:
        """The loss of the recommended version minus that of the crude baseline; None without."""
        return self._compare_with(BASELINE)

    @cached_property
    def difference_from_spec_sheet(self) -> LossDifference | None:
        """The loss of the recommended version minus that with the values of the sheet."""
        return self._compare_with(SPEC_SHEET)

    @cached_property
    def warm_start_difference(self) -> LossDifference | None:
        """The loss of warm-started searches minus that of the others; None if there are none."""
        warm, units = collect_losses(self.losses.filter(values=WARM_STARTED), self.used)
        shared = [number for number in warm if number in self.compared_losses]
        if not shared or units != self.compared_units:
            return None
        losses = {2 * number: self.compared_losses[number] for number in shared}
        losses |= {2 * number + 1: warm[number] for number in shared}
        weights = {2 * number: -1 / len(shared) for number in shared}
        weights |= {2 * number + 1: 1 / len(shared) for number in shared}
        return compare_losses(losses, weights)

    def _compare_with(self, values: str) -> LossDifference | None:
        version = self.recommended
        rows = self.losses.filter(values=values)
        if version is None:
            return None
        if values != BASELINE:
            rows = rows.filter(version=version.number)
        # Without a version, the baseline counts as version 0.
        rows = rows.with_columns(pl.col("version").fill_null(0), pl.col("seed").fill_null(0))
        other, units = collect_losses(rows, self.used)
        if not other or units != self.compared_units:
            return None
        losses = {1: self.compared_losses[version.number], 0: next(iter(other.values()))}
        return compare_losses(losses, {1: 1.0, 0: -1.0})

    def summarise(self) -> pl.DataFrame:
        """Summarise each version in a row.

        `mean`, `lowest` and `highest` are over the runs that versions are compared on, of the mean
        loss of all searches; `best_search` and `worst_search` are the means over the runs of single
        searches; `identifiable` and `without_effect` count parameters.
        """
        rows = []
        for version in self.versions:
            fitted = self.searches.filter(version=version.number, values=FITTED)
            rows.append(
                {
                    "version": version.number,
                    "name": version.name,
                    **version.labels,
                    "parameters": len(self.parameters[version.number]),
                    "before": self._get_loss(version.number, BEFORE),
                    "training": fitted["training_loss"].mean(),
                    **self._summarise_losses(version.number),
                    "spec_sheet": self._get_loss(version.number, SPEC_SHEET),
                    "warm_started": self._get_loss(version.number, WARM_STARTED),
                    **self._count_parameters(version.number),
                    "run_s": self.times.filter(version=version.number)["run_s"].mean(),
                }
            )
        return pl.DataFrame(rows, infer_schema_length=None)

    def _get_loss(self, version: int, values: str) -> Any:
        chosen = self.losses.filter(version=version, values=values, used=self.used)
        means = collect_losses(chosen, self.used)[0] if chosen.height else {}
        return float(means[version].mean()) if version in means else None

    def _summarise_losses(self, version: int) -> dict[str, float | None]:
        names = ("mean", "lowest", "highest", "best_search", "worst_search")
        losses = self.compared_losses.get(version)
        if losses is None:
            return dict.fromkeys(names)
        by_run, by_search = losses.mean(axis=0), losses.mean(axis=1)
        figures = (by_run.mean(), by_run.min(), by_run.max(), by_search.min(), by_search.max())
        return dict(zip(names, map(float, figures), strict=True))

    def _count_parameters(self, version: int) -> dict[str, int | None]:
        rows = self.identifiability.filter(version=version)
        known = rows["identifiable"].drop_nulls()
        return {
            "identifiable": int(known.sum()) if known.len() else None,
            "without_effect": int((~rows["effect"]).sum()) if rows.height else None,
        }

    def list_without_effect(self) -> dict[str, list[int]]:
        """List the parameters that change nothing, each with the versions in which it does not."""
        found: dict[str, list[int]] = {}
        for row in self.identifiability.filter(~pl.col("effect")).iter_rows(named=True):
            found.setdefault(row["parameter"], []).append(row["version"])
        return found

    @property
    def verdict(self) -> tuple[str, ...]:
        """The verdict, in sentences."""
        from twinloop.calibration.detail.text import describe_verdict

        return tuple(describe_verdict(self))

    # --- storage ---------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return everything except the tables as plain data; equal on any machine."""
        return {
            "twinloop": __version__,
            "factors": [
                {"path": each.path, "name": each.name, "levels": dict(each.levels)}
                for each in self.factors
            ],
            "versions": [
                {
                    "number": version.number,
                    "name": version.name,
                    "labels": dict(version.labels),
                    "parameters": list(self.parameters[version.number]),
                    "skipped": list(self.skipped[version.number]),
                    "sentences": list(self.sentences.get(version.number, ())),
                }
                for version in self.versions
            ],
            "settings": dict(self.settings),
            "runs": [dict(run) for run in self.runs],
            "ideal": None if self.ideal is None else dict(self.ideal),
            "baseline": None if self.baseline is None else dict(self.baseline),
            "notes": list(self.notes),
        }

    def compute_results(self) -> dict[str, Any]:
        """Compute the comparison as plain data: differences, best, recommended, verdict."""
        recommended, best = self.recommended, self.best
        return {
            "compared_on": self.used,
            "level_differences": [each.to_dict() for each in self.level_differences],
            "best": None if best is None else best.name,
            "differences_from_best": [
                {"version": self.get_version(number).name, **each.to_dict()}
                for number, each in self.differences_from_best.items()
            ],
            "recommended": None if recommended is None else recommended.name,
            **{
                name: None if difference is None else difference.to_dict()
                for name, difference in (
                    ("difference_from_baseline", self.difference_from_baseline),
                    ("difference_from_spec_sheet", self.difference_from_spec_sheet),
                    ("warm_start_difference", self.warm_start_difference),
                )
            },
            "verdict": list(self.verdict),
        }

    def save(self, folder: str | Path) -> Path:
        """Write the study to a folder: a table per file, as Parquet and CSV, and `detail.json`."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        tables = {name: getattr(self, name) for name in TABLES} | {"versions": self.summarise()}
        for name, table in tables.items():
            # The times of the summary would differ on another machine.
            table = table.drop("run_s") if name == "versions" else table
            with write_atomically(folder / f"{name}.csv") as stream:
                table.write_csv(stream)
            if name in TABLES:
                with write_atomically(folder / f"{name}.parquet") as stream:
                    table.write_parquet(stream)
        document = self.to_dict() | {"results": self.compute_results()}
        with write_atomically(folder / MANIFEST) as stream:
            text = json.dumps(to_json_values(document), indent=1, allow_nan=False, default=str)
            stream.write(text.encode())
        return folder

    @classmethod
    def load(cls, folder: str | Path) -> DetailStudy:
        """Read a stored study."""
        folder = Path(folder)
        path = folder / MANIFEST
        if not path.is_file():
            raise InputError(
                "no study of the level of detail is stored there, or it is not finished",
                kind="not-a-result",
                file=folder,
            )
        stored = read_stored_json(path, _StoredStudy)
        factors = tuple(DetailFactor(each.path, each.name, each.levels) for each in stored.factors)
        try:
            versions = tuple(_restore_version(each, factors) for each in stored.versions)
        except KeyError as error:
            raise InputError(
                f"cannot be read: {error} is no level", kind="damaged-file", file=path
            ) from None
        return cls(
            factors=factors,
            versions=versions,
            parameters={each.number: tuple(each.parameters) for each in stored.versions},
            skipped={each.number: tuple(each.skipped) for each in stored.versions},
            sentences={each.number: tuple(each.sentences) for each in stored.versions},
            settings=stored.settings,
            runs=tuple(stored.runs),
            ideal=stored.ideal,
            baseline=stored.baseline,
            notes=tuple(stored.notes),
            folder=folder,
            **{name: read_table(folder, name) for name in TABLES},
        )

    # --- display ---------------------------------------------------------------------------------

    def __str__(self) -> str:
        from twinloop.calibration.detail.text import format_study

        return format_study(self)

    def __repr__(self) -> str:
        names = ", ".join(factor.name for factor in self.factors)
        return (
            f"<DetailStudy: {len(self.versions)} versions of {names}, "
            f"{self.searches.filter(values=FITTED).height} searches>"
        )


class _StoredFactor(StoredJson):
    path: str
    name: str
    levels: dict[str, Any]


class _StoredVersion(StoredJson):
    number: int
    name: str
    labels: dict[str, str]
    parameters: list[str]
    skipped: list[str]
    sentences: list[str]


class _StoredStudy(StoredJson):
    """The content of `detail.json`."""

    model_config = pydantic.ConfigDict(extra="ignore", strict=True)

    factors: list[_StoredFactor]
    versions: list[_StoredVersion]
    settings: dict[str, Any]
    runs: list[dict[str, Any]]
    ideal: dict[str, Any] | None
    baseline: dict[str, Any] | None
    notes: list[str]


def _restore_version(stored: _StoredVersion, factors: Sequence[DetailFactor]) -> Version:
    changes = {each.path: each.levels[stored.labels[each.path]] for each in factors}
    return Version(stored.number, stored.name, stored.labels, changes)
