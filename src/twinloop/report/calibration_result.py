"""What a report needs to know of a calibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import polars as pl

if TYPE_CHECKING:
    from twinloop.fidelity.verdict import Verdict


class IdentifiabilityResult(Protocol):
    """How far the data say what the values are."""

    @property
    def sentences(self) -> Sequence[str]:
        """In plain words."""

    @property
    def table(self) -> pl.DataFrame:
        """A row per parameter: parameter, value, low, high, identifiable, why.

        One that is no number has acceptable `levels` in place of the ends `low` and `high`.
        """


class CalibrationResult(Protocol):
    """A calibration that has ended: any object that can be read like this.

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
        """The loss of the fitted values on what they were fitted to."""

    @property
    def loss_before(self) -> float:
        """The loss of the values before."""

    @property
    def loss_name(self) -> str:
        """What was made small."""

    @property
    def floor(self) -> float | None:
        """The loss between repetitions of the real runs; None: there are none."""

    @property
    def optimiser(self) -> str:
        """What searched."""

    @property
    def runs(self) -> Sequence[Mapping[str, Any]]:
        """What it was fitted to and tried on.

        Of each run its `name` and whether it was `used` for training or validation, and if the
        twin is of this project its `mode` and what was `injected`.
        """

    @property
    def validation_loss(self) -> float | None:
        """The loss on what was held out; None: nothing was."""

    @property
    def history(self) -> pl.DataFrame:
        """A row per evaluation: evaluation, loss, best, failed, and a column per parameter.

        Where the number of the evaluation falls, another search begins, of other values and with
        another loss.
        """

    @property
    def confidence_region(self) -> pl.DataFrame | None:
        """Points around the fit: a column per parameter, and loss."""

    @property
    def identifiability(self) -> IdentifiabilityResult | None:
        """How far the data say what the values are."""

    @property
    def recipe(self) -> Sequence[str]:
        """What moved and why, in plain sentences."""

    @property
    def before(self) -> Sequence[tuple[str, Verdict]]:
        """Name and verdict of each run with the values before."""

    @property
    def after(self) -> Sequence[tuple[str, Verdict]]:
        """Name and verdict of each run with the fitted values."""

    @property
    def warnings(self) -> Sequence[str]:
        """What a reader has to be warned of."""
