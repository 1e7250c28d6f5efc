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
        """The value at a position."""
        return self.space.parameters[axis].decode(float(position))

    def group(self, axis: int) -> tuple[int, ...]:
        """The group of a parameter; empty if it has none."""
        return next((group for group in self.groups if axis in group), ())

    def levels(self, axis: int) -> list[str] | None:
        """The acceptable values of a parameter that is not a number."""
        if _is_number(self.value(axis, self.best[axis])):
            return None
        found = [str(self.value(axis, each)) for each in self.profiles[axis].points[:, axis]]
        return list(dict.fromkeys(found))

    def table(self, whys: Sequence[str]) -> pl.DataFrame:
        """A row per parameter."""
        rows = []
        for axis, name in enumerate(self.space.names):
            found, levels = self.profiles[axis], self.levels(axis)
            row: dict[str, Any] = {"parameter": name, "why": whys[axis]}
            ends = found.unfinished if self.minimal else (True, True)
            if not any(ends):
                row |= {"share": found.width, "levels": levels}
            if levels is None:
                best = float(self.best[axis])
                # The best point by a loss other than squares is acceptable, too.
                low, high = min(found.low, best), max(found.high, best)
                places = {"value": best, "low": low, "high": high}
                for end, unfinished in zip(("low", "high"), ends, strict=True):
                    if unfinished:
                        places.pop(end)
                row |= {key: float(self.value(axis, place)) for key, place in places.items()}
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
        stays = _stays(analysis, group)
        help_ = suggest_data(members, hints)
        sentences.append(
            f"{join_names(members)} compensate "
            f"{'each other' if len(group) == 2 else 'one another'} in this data"
            + (f": {stays}" if stays else "")
            + ((f"; {help_}" if stays else f": {help_}") if help_ else "")
            + "."
        )
    for axis, name in enumerate(names):
        why = _why(analysis, axis, explain_no_effect(name, hints, facts))
        if analysis.identifiable[axis] is False and not analysis.group(axis):
            help_ = suggest_data([name], hints)
            sentences.append(f"{name}: {why}" + (f" ({help_})" if help_ else "") + ".")
        end = _at_end(analysis, axis)
        if end:
            sentences.append(
                f"{name} is at the {end} end of its range, {_show(analysis, axis)}: "
                "better values may be beyond it."
            )
            why = f"{why}; at the {end} end of its range"
        whys.append(why)
    return whys, sentences


def _why(analysis: IdentifiabilityAnalysis, axis: int, because: str) -> str:
    found = analysis.profiles[axis]
    low, high = (analysis.value(axis, place) for place in (found.low, found.high))
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
            f"{_beyond(analysis, mask)}"
        )
    if group := analysis.group(axis):
        others = [analysis.space.names[other] for other in group if other != axis]
        return f"not identifiable, compensated by {join_names(others)}"
    if levels is not None:
        return f"not identifiable, {join_names(levels)} fit equally well"
    if found.spent:
        return f"known only roughly, at least {low:.4g} to {high:.4g} is acceptable"
    if not any(found.closed):
        text = "its whole range changes the outputs by less than their noise"
        return f"not identifiable, {because or text}"
    if not found.closed[1]:
        return f"only known to be above {low:.4g}"
    if not found.closed[0]:
        return f"only known to be below {high:.4g}"
    return f"known only roughly, between {low:.4g} and {high:.4g}"


def _beyond(analysis: IdentifiabilityAnalysis, mask: MaskingParameter) -> str:
    value = analysis.value(mask.other, mask.threshold)
    if not _is_number(value):
        return str(value)
    return f"{'above' if mask.above else 'below'} about {value:.3g}"


def _stays(analysis: IdentifiabilityAnalysis, group: tuple[int, ...]) -> str:
    """Describe what is invariant while the parameters of a group move."""
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
        still = len(ratios) == len(group) - 1 and max(ratios) < 0.04
        if still:
            return "only their ratios are identifiable, not their common scale"
        return _combinations(analysis, group)
    first, second = values
    found = {}
    with np.errstate(divide="ignore", invalid="ignore"):
        for text, invariant in _INVARIANTS.items():
            kept = invariant(first.astype(np.float64), second.astype(np.float64))
            found[text] = (_relative_change(kept, first) + _relative_change(kept, second), kept)
    text, (wobble, kept) = min(found.items(), key=lambda item: item[1][0])
    if wobble < 0.04:
        return f"{text} stays near {np.median(kept):.3g}"
    together = float(np.sum((first - first.mean()) * (second - second.mean()))) > 0
    return f"one goes {'up' if together else 'down'} as the other goes up"


def _combinations(analysis: IdentifiabilityAnalysis, group: tuple[int, ...]) -> str:
    """Describe how many combinations of a group are identifiable, by the local sensitivity."""
    loose = int((abs(analysis.weak[:, list(group)]) > 0.1).any(axis=1).sum())
    if not 0 < loose < len(group):
        return ""
    rest = len(group) - loose
    return f"only {rest} of {len(group)} combinations {'is' if rest == 1 else 'are'} identifiable"


def _relative_change(kept: Floats, moved: Floats) -> float:
    """The relative change of a quantity over the relative change of a parameter."""
    if not np.isfinite(kept).all():
        return np.inf
    own = np.ptp(kept) / max(abs(np.median(kept)), 1e-300)
    return float(own / max(np.ptp(moved) / max(abs(np.median(moved)), 1e-300), 1e-12))


def _at_end(analysis: IdentifiabilityAnalysis, axis: int) -> str:
    if is_enumerable(analysis.space.parameters[axis]) or not analysis.effects[axis]:
        return ""
    place = float(analysis.best[axis])
    if place < 1e-3 and analysis.value(axis, 0.0) == 0.0:
        return ""  # 0 is a natural limit, not the end of a range
    return "lower" if place < 1e-3 else "upper" if place > 1 - 1e-3 else ""


def _show(analysis: IdentifiabilityAnalysis, axis: int) -> str:
    return f"{analysis.value(axis, analysis.best[axis]):.4g}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)
