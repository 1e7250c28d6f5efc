"""Interface of a calibration as the report reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import polars as pl

if TYPE_CHECKING:
    from twinloop.fidelity.verdict import Verdict


class IdentifiabilityResult(Protocol):
    """Identifiability of the fitted values: how well the data determine each of them."""

    @property
    def sentences(self) -> Sequence[str]:
        """The findings, in sentences."""

    @property
    def table(self) -> pl.DataFrame:
        """A row per parameter: parameter, value, low, high, identifiable, why.

        A categorical parameter has acceptable `levels` instead of the bounds `low` and `high`.
        """


class CalibrationResult(Protocol):
    """A finished calibration: any object with these attributes.

    >>> from types import SimpleNamespace
    >>> fit = SimpleNamespace(values={"speed": 1.07}, defaults={"speed": 1.0},
    ...     history=pl.DataFrame(), confidence_region=None, identifiability=None)
    >>> from twinloop.report.figures.calibration import plot_calibration
    >>> plot_calibration(fit)
    {}
    """

    @property
    def values(self) -> Mapping[str, Any]:
        """The fitted value of each parameter."""

    @property
    def defaults(self) -> Mapping[str, Any]:
        """The value of each parameter before the calibration."""

    @property
    def loss(self) -> float:
        """The loss of the fitted values on the training runs."""

    @property
    def loss_before(self) -> float:
        """The loss of the values before the calibration."""

    @property
    def loss_name(self) -> str:
        """The name of the loss that was minimised."""

    @property
    def floor(self) -> float | None:
        """The noise floor: the loss between repetitions of the real runs; None: no repetition."""

    @property
    def optimiser(self) -> str:
        """The name of the optimiser."""

    @property
    def runs(self) -> Sequence[Mapping[str, Any]]:
        """The training and hold-out runs.

        Each run has its `name` and whether it was `used` for training or validation. Runs of the
        built-in simulator also have their `mode` and the columns that were `injected`.
        """

    @property
    def validation_loss(self) -> float | None:
        """The loss on the hold-out runs; None: no run was held out."""

    @property
    def history(self) -> pl.DataFrame:
        """A row per evaluation: evaluation, loss, best, failed, and a column per parameter.

        A falling evaluation number marks the start of another search, with other parameters and
        another loss.
        """

    @property
    def confidence_region(self) -> pl.DataFrame | None:
        """Evaluated points around the fit: a column per parameter, and loss."""

    @property
    def identifiability(self) -> IdentifiabilityResult | None:
        """How well the data determine the values; None: it was not analysed."""

    @property
    def recipe(self) -> Sequence[str]:
        """The changed values and their reasons, in sentences."""

    @property
    def before(self) -> Sequence[tuple[str, Verdict]]:
        """Name and verdict of each run with the values before the calibration."""

    @property
    def after(self) -> Sequence[tuple[str, Verdict]]:
        """Name and verdict of each run with the fitted values."""

    @property
    def warnings(self) -> Sequence[str]:
        """Warnings about the calibration, in sentences."""
