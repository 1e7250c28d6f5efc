"""Plain words for what the data tells of each parameter."""

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

#: What may stay the same while two numbers move.
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
    """What the analysis found, before it is put in words."""

    space: Space
    best: Floats
    centre: Floats
    profiles: Sequence[Profile]
    #: None: unknown, since the analysis is unfinished.
    identifiable: Sequence[bool | None]
    groups: Sequence[tuple[int, ...]]
    effects: NDArray[np.bool_]
    masks: Sequence[MaskingParameter | None]
    weak: Floats
    #: Whether groups and masks were searched to the end.
    searched: bool = True
    #: Whether the profiles start from a minimum.
    minimal: bool = True

    def value(self, axis: int, position: float) -> Any:
        """What a position means."""
        return self.space.parameters[axis].decode(float(position))

    def group(self, axis: int) -> tuple[int, ...]:
        """The group that a parameter is in; empty if in none."""
        return next((group for group in self.groups if axis in group), ())

    def levels(self, axis: int) -> list[str] | None:
        """The acceptable values of what is no number."""
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
                # What was fitted by another measure than squares is acceptable all the same.
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
    told: IdentifiabilityAnalysis, hints: Sequence[Hint], facts: Mapping[str, Any]
) -> tuple[list[str], list[str]]:
    """Why each parameter is told or not, and sentences on those that are not."""
    names = told.space.names
    whys, sentences = [], []
    for group in told.groups:
        members = [names[axis] for axis in group]
        stays = _stays(told, group)
        help_ = suggest_data(members, hints)
        sentences.append(
            f"{join_names(members)} compensate "
            f"{'each other' if len(group) == 2 else 'one another'} in this data"
            + (f": {stays}" if stays else "")
            + ((f"; {help_}" if stays else f": {help_}") if help_ else "")
            + "."
        )
    for axis, name in enumerate(names):
        why = _why(told, axis, explain_no_effect(name, hints, facts))
        if told.identifiable[axis] is False and not told.group(axis):
            help_ = suggest_data([name], hints)
            sentences.append(f"{name}: {why}" + (f" ({help_})" if help_ else "") + ".")
        end = _at_end(told, axis)
        if end:
            sentences.append(
                f"{name} lies at the {end} end of its range, {_show(told, axis)}: "
                "better values may lie beyond it."
            )
            why = f"{why}; at the {end} end of its range"
        whys.append(why)
    return whys, sentences


def _why(told: IdentifiabilityAnalysis, axis: int, because: str) -> str:
    found = told.profiles[axis]
    low, high = (told.value(axis, place) for place in (found.low, found.high))
    levels = told.levels(axis)
    if told.identifiable[axis] is None and not told.minimal:
        return "unknown: the calibration is not at a minimum"
    if told.identifiable[axis] is None:
        return "unknown: too few evaluations to follow it to the end"
    if told.identifiable[axis]:
        return "the data tells it"
    if not told.effects[axis]:
        mask = told.masks[axis]
        if because:
            return f"not identifiable, {because}"
        if mask is None and not told.searched:
            return "not identifiable, it has no effect where the other values are"
        if mask is None:
            return "not identifiable, it has no effect in this data"
        return (
            f"not identifiable, it has no effect unless {told.space.names[mask.other]} is "
            f"{_beyond(told, mask)}"
        )
    if group := told.group(axis):
        others = [told.space.names[other] for other in group if other != axis]
        return f"not identifiable, {join_names(others)} can make up for it"
    if levels is not None:
        return f"not identifiable, {join_names(levels)} do equally well"
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


def _beyond(told: IdentifiabilityAnalysis, mask: MaskingParameter) -> str:
    value = told.value(mask.other, mask.threshold)
    if not _is_number(value):
        return str(value)
    return f"{'above' if mask.above else 'below'} about {value:.3g}"


def _stays(told: IdentifiabilityAnalysis, group: tuple[int, ...]) -> str:
    """What stays the same while the parameters of a group move."""
    longest = max(group, key=lambda axis: told.profiles[axis].width)
    columns = told.space.decode(told.profiles[longest].points)
    values = [np.asarray(columns[told.space.names[axis]]) for axis in group]
    if any(each.dtype.kind not in "if" for each in values) or len(values[0]) < 3:
        return ""
    if len(group) > 2:
        ratios = [_wobble(values[0] / each, values[0]) for each in values[1:] if (each != 0).all()]
        still = len(ratios) == len(group) - 1 and max(ratios) < 0.04
        if still:
            return "only their ratios are told, not their common scale"
        return _combinations(told, group)
    first, second = values
    found = {}
    with np.errstate(divide="ignore", invalid="ignore"):
        for text, invariant in _INVARIANTS.items():
            kept = invariant(first.astype(np.float64), second.astype(np.float64))
            found[text] = (_wobble(kept, first) + _wobble(kept, second), kept)
    text, (wobble, kept) = min(found.items(), key=lambda item: item[1][0])
    if wobble < 0.04:
        return f"{text} stays near {np.median(kept):.3g}"
    together = float(np.sum((first - first.mean()) * (second - second.mean()))) > 0
    return f"one goes {'up' if together else 'down'} as the other goes up"


def _combinations(told: IdentifiabilityAnalysis, group: tuple[int, ...]) -> str:
    """How many combinations of a group are told, by the slopes at the calibration."""
    loose = int((abs(told.weak[:, list(group)]) > 0.1).any(axis=1).sum())
    if not 0 < loose < len(group):
        return ""
    rest = len(group) - loose
    told_of = "1 combination is" if rest == 1 else f"{rest} combinations are"
    return f"of these {len(group)} only {told_of} told"


def _wobble(kept: Floats, moved: Floats) -> float:
    """How much something changes, relative to its size, for a change of what moved."""
    if not np.isfinite(kept).all():
        return np.inf
    own = np.ptp(kept) / max(abs(np.median(kept)), 1e-300)
    return float(own / max(np.ptp(moved) / max(abs(np.median(moved)), 1e-300), 1e-12))


def _at_end(told: IdentifiabilityAnalysis, axis: int) -> str:
    if is_enumerable(told.space.parameters[axis]) or not told.effects[axis]:
        return ""
    place = float(told.best[axis])
    if place < 1e-3 and told.value(axis, 0.0) == 0.0:
        return ""  # nothing at all is a good answer, and no end of a range
    return "lower" if place < 1e-3 else "upper" if place > 1 - 1e-3 else ""


def _show(told: IdentifiabilityAnalysis, axis: int) -> str:
    return f"{told.value(axis, told.best[axis]):.4g}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)
