"""Cross-validation: models of boots and run times for an execution, fitted to other executions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal

from pydantic import Field, field_validator

from twinloop.calibration import fit_prediction_errors
from twinloop.calibration.boot_fitting import collect_boots, fit_boots
from twinloop.description.address import suggest_name
from twinloop.description.description import Description
from twinloop.description.errors import InputError
from twinloop.description.quantities import Seconds
from twinloop.trace import Trace

#: What can be fitted to other executions.
BOOTS: Final = "boots"
RUN_TIMES: Final = "run_times"
_MODELS: Final = (BOOTS, RUN_TIMES)
#: The label in which the repetitions of a configuration differ.
REPETITION: Final = "repetition"

#: Models as the parts of a scenario: `boot`, `shortage`, `prediction_errors`.
Models = Mapping[str, Any]


class CrossValidation(Description):
    """How models are fitted to other executions, and how often an execution is simulated.

    Models are fitted to the other executions with the same labels, as long as there are enough of
    them. Executions that differ in the label `repetition` alone have one configuration; by default
    they are never fitted to one another.

    >>> CrossValidation().runs
    19
    """

    runs: int = Field(
        19,
        ge=2,
        le=10_000,
        description="simulations of each execution, with other random boots and run times; with "
        "fewer than 19 there are no intervals",
    )
    hold_out: Literal["configuration", "execution"] = Field(
        "configuration",
        description="what models are not fitted to: all repetitions of the simulated execution, "
        "or this execution alone",
    )
    boots: tuple[str, ...] = Field(
        ("cloud", "cloud_version"),
        description="labels of executions with the same boots; if too few executions have them, "
        "the last label is left out, then the one before",
    )
    run_times: tuple[str, ...] = Field(
        ("application", "cloud", "cloud_version", "storage"),
        description="labels of executions with the same errors of predicted run times",
    )
    least: int = Field(
        5,
        ge=1,
        description="least number of configurations with the same labels to fit to: repetitions of "
        "one do not show how much others differ",
    )
    unit: Seconds = Field(
        3600.0, gt=0, description="unit of billing, after which instances can end (s)"
    )

    @field_validator("boots", "run_times", mode="before")
    @classmethod
    def _wrap_single_labels(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value


def resolve_models(given: str | Iterable[str]) -> tuple[str, ...]:
    """Return the models to fit, in a fixed order.

    >>> resolve_models(["run_times", "boots"]), resolve_models("boots")
    (('boots', 'run_times'), ('boots',))
    """
    names = (given,) if isinstance(given, str) else tuple(given)
    for index, name in enumerate(names):
        if name not in _MODELS:
            raise InputError(
                f"unknown model '{name}'",
                kind="not-a-choice",
                field="fit" if isinstance(given, str) else f"fit[{index}]",
                remedy=suggest_name(name, _MODELS) or ", ".join(_MODELS),
            )
    if not names:
        raise InputError(
            "names no model", kind="missing-field", field="fit", remedy=", ".join(_MODELS)
        )
    return tuple(name for name in _MODELS if name in names)


class CrossFitter:
    """Fits models to the other executions of each execution; equal fits are made once."""

    def __init__(
        self,
        labels: Sequence[Mapping[str, str]],
        traces: Sequence[Trace | None],
        options: CrossValidation,
    ) -> None:
        """Take the labels and the traces of all executions; None: it could not be read."""
        self._labels = labels
        self._traces = traces
        self._options = options
        self._configurations = [
            frozenset((k, v) for k, v in each.items() if k != REPETITION) for each in labels
        ]
        self._fits: dict[tuple[str, tuple[int, ...]], Models] = {}

    def fit(self, number: int, models: Sequence[str]) -> Models:
        """Fit models for an execution to the other ones."""
        parts: dict[str, Any] = {}
        for model in models:
            others = self._select_others(number, getattr(self._options, model))
            key = (model, others)
            if key not in self._fits:
                self._fits[key] = _FITS[model](
                    [self._read(each) for each in others], self._options.unit
                )
            parts |= self._fits[key]
        return parts

    def _read(self, number: int) -> Trace:
        trace = self._traces[number]
        assert trace is not None
        return trace

    def _select_others(self, number: int, labels: tuple[str, ...]) -> tuple[int, ...]:
        """Select the executions of other configurations with the same labels."""
        own = self._configurations[number]
        keeps_repetitions = not own or self._options.hold_out == "execution"
        others = [
            each
            for each, configuration in enumerate(self._configurations)
            if each != number
            and (keeps_repetitions or configuration != own)
            and self._traces[each] is not None
        ]
        for count in range(len(labels), 0, -1):
            same = [i for i in others if self._agree(number, i, labels[:count])]
            if self._count_configurations(same) >= self._options.least:
                return tuple(same)
        if not others:
            raise InputError(
                "there is no other execution to fit models to",
                kind="too-few-values",
                field="factors.fit",
                remedy="add executions that differ in more than the label `repetition`",
            )
        return tuple(others)

    def _count_configurations(self, numbers: Iterable[int]) -> int:
        """Count the different configurations; executions without labels are one each."""
        return len({self._configurations[each] or each for each in numbers})

    def _agree(self, one: int, other: int, labels: Iterable[str]) -> bool:
        return all(self._labels[one].get(k) == self._labels[other].get(k) for k in labels)


def _fit_boots(traces: Sequence[Trace], unit: float) -> Models:
    records = collect_boots(traces)
    if not records.has_booted.any():
        raise InputError(
            "no other execution recorded a boot",
            kind="missing-field",
            field="factors.fit",
            remedy="remove boots",
        )
    found = fit_boots(records, len(traces), unit)
    shortage = None if found.shortage is None else found.shortage.to_dict()
    return {"boot": found.boot.to_dict(), "shortage": shortage}


def _fit_run_times(traces: Sequence[Trace], _: float) -> Models:
    errors = fit_prediction_errors(traces)
    if errors is None:
        raise InputError(
            "no other execution has tasks with a predicted and a measured time",
            kind="missing-field",
            field="factors.fit",
            remedy="remove run_times",
        )
    return {"prediction_errors": errors.to_dict()}


_FITS: Final[Mapping[str, Callable[[Sequence[Trace], float], Models]]] = {
    BOOTS: _fit_boots,
    RUN_TIMES: _fit_run_times,
}
