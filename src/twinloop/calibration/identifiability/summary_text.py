"""Sentences on the identifiability of each parameter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twinloop.calibration.identifiability.advice import (
    Hint,
    explain_no_effect,
    join_names,
    suggest_data,
)
from twinloop.calibration.identifiability.masking import MaskingParameter
from twinloop.calibration.identifiability.profile import Profile, is_enumerable
from twinloop.calibration.identifiability.result import make_table
from twinloop.calibration.parameters.space import Space

Floats = NDArray[np.float64]

#: Functions of two parameters that may be invariant.
_INVARIANTS: Final[dict[str, Callable[[Floats, Floats], Floats]]] = {
    "their product": lambda a, b: a * b,
    "their ratio": lambda a, b: a / b,
    "their sum": lambda a, b: a + b,
    "their difference": lambda a, b: a - b,
    "the sum of their reciprocals": lambda a, b: 1 / a + 1 / b,
    "the smaller of them": np.minimum,
    "the larger of them": np.maximum,
}


@dataclass(frozen=True, eq=False)
class IdentifiabilityAnalysis:
    """The results of the analysis from which table and sentences are made."""

    space: Space
    best: Floats
    centre: Floats
    profiles: Sequence[Profile]
    #: None: unknown, because the analysis is unfinished.
    identifiable: Sequence[bool | None]
    groups: Sequence[tuple[int, ...]]
    effects: NDArray[np.bool_]
    masks: Sequence[MaskingParameter | None]
    weak: Floats
    #: Whether the search for groups and masks is complete.
    searched: bool = True
    #: Whether the profiles start from a minimum.
    minimal: bool = True

    def value(self, axis: int, position: float) -> Any:
        """Return the value at a position."""
        return self.space.parameters[axis].decode(float(position))

    def group(self, axis: int) -> tuple[int, ...]:
        """Return the group of a parameter; empty if it has none."""
        return next((group for group in self.groups if axis in group), ())

    def levels(self, axis: int) -> list[str] | None:
        """Return the acceptable values of a parameter that is not a number."""
        if _is_number(self.value(axis, self.best[axis])):
            return None
        found = [str(self.value(axis, each)) for each in self.profiles[axis].points[:, axis]]
        return list(dict.fromkeys(found))

    def table(self, whys: Sequence[str]) -> pl.DataFrame:
        """Make the table with a row per parameter."""
        rows = []
        for axis, name in enumerate(self.space.names):
            profile, levels = self.profiles[axis], self.levels(axis)
            row: dict[str, Any] = {"parameter": name, "why": whys[axis]}
            ends = profile.unfinished if self.minimal else (True, True)
            if not any(ends):
                row |= {"share": profile.width, "levels": levels}
            if levels is None:
                best = float(self.best[axis])
                # The best point by a loss other than squares is acceptable, too.
                low, high = min(profile.low, best), max(profile.high, best)
                positions = {"value": best, "low": low, "high": high}
                for end, unfinished in zip(("low", "high"), ends, strict=True):
                    if unfinished:
                        positions.pop(end)
                row |= {
                    key: float(self.value(axis, position)) for key, position in positions.items()
                }
            row["identifiable"] = self.identifiable[axis]
            rows.append(row)
        return make_table(rows)


def describe_analysis(
    analysis: IdentifiabilityAnalysis, hints: Sequence[Hint], facts: Mapping[str, Any]
) -> tuple[list[str], list[str]]:
    """Give the reason of each verdict, and sentences on parameters that are not identifiable."""
    names = analysis.space.names
    whys, sentences = [], []
    for group in analysis.groups:
        members = [names[axis] for axis in group]
        invariant = _describe_invariant(analysis, group)
        advice = suggest_data(members, hints)
        sentences.append(
            f"{join_names(members)} compensate "
            f"{'each other' if len(group) == 2 else 'one another'} in this data"
            + (f": {invariant}" if invariant else "")
            + ((f"; {advice}" if invariant else f": {advice}") if advice else "")
            + "."
        )
    for axis, name in enumerate(names):
        why = _explain(analysis, axis, explain_no_effect(name, hints, facts))
        if analysis.identifiable[axis] is False and not analysis.group(axis):
            advice = suggest_data([name], hints)
            sentences.append(f"{name}: {why}" + (f" ({advice})" if advice else "") + ".")
        end = _find_range_end(analysis, axis)
        if end:
            sentences.append(
                f"{name} is at the {end} end of its range, {_format_best(analysis, axis)}: "
                "better values may be beyond it."
            )
            why = f"{why}; at the {end} end of its range"
        whys.append(why)
    return whys, sentences


def _explain(analysis: IdentifiabilityAnalysis, axis: int, because: str) -> str:
    profile = analysis.profiles[axis]
    low, high = (analysis.value(axis, position) for position in (profile.low, profile.high))
    levels = analysis.levels(axis)
    if analysis.identifiable[axis] is None and not analysis.minimal:
        return "unknown: the calibration is not at a minimum"
    if analysis.identifiable[axis] is None:
        return "unknown: too few evaluations to complete its profile"
    if analysis.identifiable[axis]:
        return "determined by the data"
    if not analysis.effects[axis]:
        mask = analysis.masks[axis]
        if because:
            return f"not identifiable, {because}"
        if mask is None and not analysis.searched:
            return "not identifiable, it has no effect at the other values"
        if mask is None:
            return "not identifiable, it has no effect in this data"
        return (
            f"not identifiable, it has no effect unless {analysis.space.names[mask.other]} is "
            f"{_describe_threshold(analysis, mask)}"
        )
    if group := analysis.group(axis):
        others = [analysis.space.names[other] for other in group if other != axis]
        return f"not identifiable, compensated by {join_names(others)}"
    if levels is not None:
        return f"not identifiable, {join_names(levels)} fit equally well"
    if profile.spent:
        return f"known only roughly, at least {low:.4g} to {high:.4g} is acceptable"
    if not any(profile.closed):
        text = "its whole range changes the outputs by less than their noise"
        return f"not identifiable, {because or text}"
    if not profile.closed[1]:
        return f"only known to be above {low:.4g}"
    if not profile.closed[0]:
        return f"only known to be below {high:.4g}"
    return f"known only roughly, between {low:.4g} and {high:.4g}"


def _describe_threshold(analysis: IdentifiabilityAnalysis, mask: MaskingParameter) -> str:
    value = analysis.value(mask.other, mask.threshold)
    if not _is_number(value):
        return str(value)
    return f"{'above' if mask.above else 'below'} about {value:.3g}"


def _describe_invariant(analysis: IdentifiabilityAnalysis, group: tuple[int, ...]) -> str:
    """Describe the quantity that is invariant along the profile of a group; empty if unknown."""
    longest = max(group, key=lambda axis: analysis.profiles[axis].width)
    columns = analysis.space.decode(analysis.profiles[longest].points)
    values = [np.asarray(columns[analysis.space.names[axis]]) for axis in group]
    if any(each.dtype.kind not in "if" for each in values) or len(values[0]) < 3:
        return ""
    if len(group) > 2:
        ratios = [
            _relative_change(values[0] / each, values[0])
            for each in values[1:]
            if (each != 0).all()
        ]
        ratios_constant = len(ratios) == len(group) - 1 and max(ratios) < 0.04
        if ratios_constant:
            return "only their ratios are identifiable, not their common scale"
        return _count_combinations(analysis, group)
    first, second = values
    changes = {}
    with np.errstate(divide="ignore", invalid="ignore"):
        for text, invariant in _INVARIANTS.items():
            invariant_values = invariant(first.astype(np.float64), second.astype(np.float64))
            changes[text] = (
                _relative_change(invariant_values, first)
                + _relative_change(invariant_values, second),
                invariant_values,
            )
    text, (change, invariant_values) = min(changes.items(), key=lambda item: item[1][0])
    if change < 0.04:
        return f"{text} stays near {np.median(invariant_values):.3g}"
    together = float(np.sum((first - first.mean()) * (second - second.mean()))) > 0
    return f"one goes {'up' if together else 'down'} as the other goes up"


def _count_combinations(analysis: IdentifiabilityAnalysis, group: tuple[int, ...]) -> str:
    """Describe how many combinations of a group are identifiable, by the local sensitivity."""
    weak_count = int((abs(analysis.weak[:, list(group)]) > 0.1).any(axis=1).sum())
    if not 0 < weak_count < len(group):
        return ""
    identifiable_count = len(group) - weak_count
    verb = "is" if identifiable_count == 1 else "are"
    return f"only {identifiable_count} of {len(group)} combinations {verb} identifiable"


def _relative_change(quantity: Floats, parameter: Floats) -> float:
    """Compute the relative change of a quantity over the relative change of a parameter."""
    if not np.isfinite(quantity).all():
        return np.inf
    own_change = np.ptp(quantity) / max(abs(np.median(quantity)), 1e-300)
    return float(
        own_change / max(np.ptp(parameter) / max(abs(np.median(parameter)), 1e-300), 1e-12)
    )


def _find_range_end(analysis: IdentifiabilityAnalysis, axis: int) -> str:
    if is_enumerable(analysis.space.parameters[axis]) or not analysis.effects[axis]:
        return ""
    position = float(analysis.best[axis])
    if position < 1e-3 and analysis.value(axis, 0.0) == 0.0:
        return ""  # 0 is a natural limit, not the end of a range
    return "lower" if position < 1e-3 else "upper" if position > 1 - 1e-3 else ""


def _format_best(analysis: IdentifiabilityAnalysis, axis: int) -> str:
    return f"{analysis.value(axis, analysis.best[axis]):.4g}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)
