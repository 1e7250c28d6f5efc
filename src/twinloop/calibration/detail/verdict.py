"""The verdict of a study: which levels pay, and which version to use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twinloop.calibration.detail.differences import LossDifference, compare_losses
from twinloop.calibration.detail.levels import DetailFactor, Version

_Floats = NDArray[np.float64]

#: From this number of workloads on, repetitions are averaged: they say nothing on other workloads.
MIN_WORKLOADS: Final = 4


@dataclass(frozen=True)
class LevelDifference:
    """The difference between two levels of a factor, over versions that are equal otherwise.

    `difference` is the loss with `level` minus that with `other`.
    """

    factor: str
    level: str
    other: str
    difference: LossDifference
    #: The smallest and the largest difference between two single versions.
    smallest: float
    largest: float
    #: The number of pairs of versions.
    pairs: int
    #: The difference with the other levels of the best version; None if there is no such pair.
    at_best: LossDifference | None

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values."""
        return {
            "factor": self.factor,
            "level": self.level,
            "other": self.other,
            **self.difference.to_dict(),
            "smallest": self.smallest,
            "largest": self.largest,
            "pairs": self.pairs,
            "at_best": None if self.at_best is None else self.at_best.to_dict(),
        }


def choose_unit(losses: pl.DataFrame) -> str:
    """Choose what the differences are paired by: `workload`, or `run` if there are few workloads.

    >>> choose_unit(pl.DataFrame({"workload": ["a", "a", "b"]}))
    'run'
    """
    return "workload" if losses["workload"].n_unique() >= MIN_WORKLOADS else "run"


def collect_losses(losses: pl.DataFrame, used: str) -> tuple[dict[int, _Floats], list[str]]:
    """Collect the losses of each version, a row per search and a column per run, and the runs.

    Runs are averaged by workload if there are at least `MIN_WORKLOADS`. Runs without a loss in any
    search of any version are left out, so that all versions have the same.

    Args:
        losses: A row per search and run: `version`, `seed`, `run`, `workload`, `used`, `loss`.
        used: `training` or `validation`.
    """
    chosen = losses.filter(used=used)
    unit = choose_unit(chosen)
    complete = (
        chosen.group_by(unit, maintain_order=True)
        .agg(pl.col("loss").is_finite().all())
        .filter("loss")[unit]
    )
    means = (
        chosen.filter(pl.col(unit).is_in(complete.implode()))
        .group_by("version", "seed", unit, maintain_order=True)
        .agg(pl.col("loss").mean())
    )
    units = complete.to_list()
    tables = {
        version: np.array(
            [
                [dict(rows.select(unit, "loss").rows())[each] for each in units]
                for _, rows in of_version.group_by("seed", maintain_order=True)
            ]
        )
        for (version,), of_version in means.group_by("version", maintain_order=True)
    }
    return tables, units


def compare_levels(
    factors: Sequence[DetailFactor], versions: Sequence[Version], losses: Mapping[int, _Floats]
) -> Iterator[LevelDifference]:
    """Compare each pair of levels of each factor."""
    known = {version.number: version for version in versions if version.number in losses}
    best = known[find_best(losses)] if known else None
    for factor in factors:
        pairs_of_levels = list(combinations(factor.levels, 2))
        for other, level in pairs_of_levels:
            pairs = [
                (a, b)
                for a in known.values()
                for b in known.values()
                if a.labels[factor.path] == level
                and b.labels[factor.path] == other
                and a.count_differences(b) == 1
            ]
            if not pairs:
                continue
            weights: dict[int, float] = {}
            for a, b in pairs:
                weights[a.number], weights[b.number] = 1 / len(pairs), -1 / len(pairs)
            single = [float(losses[a.number].mean() - losses[b.number].mean()) for a, b in pairs]
            at_best = [
                compare_losses(losses, {a.number: 1.0, b.number: -1.0}, len(pairs_of_levels))
                for a, b in pairs
                if best is not None and _is_beside(best, a, factor.path)
            ]
            yield LevelDifference(
                factor.name,
                level,
                other,
                compare_losses(losses, weights, len(pairs_of_levels)),
                min(single),
                max(single),
                len(pairs),
                at_best[0] if at_best else None,
            )


def _is_beside(best: Version, version: Version, path: str) -> bool:
    """Whether a version has the levels of the best one, apart from those of a factor."""
    return all(version.labels[each] == best.labels[each] for each in best.labels if each != path)


def find_best(losses: Mapping[int, _Floats]) -> int:
    """Find the version with the smallest mean loss, the first of equal ones.

    >>> find_best({1: np.array([[0.2]]), 2: np.array([[0.1]]), 3: np.array([[0.1]])})
    2
    """
    return min(losses, key=lambda version: float(losses[version].mean()))


def compare_with_best(losses: Mapping[int, _Floats]) -> dict[int, LossDifference]:
    """Compare each version with the best one; the best one is left out."""
    best = find_best(losses)
    others = [version for version in losses if version != best]
    return {
        version: compare_losses(losses, {version: 1.0, best: -1.0}, len(others))
        for version in others
    }


def recommend(
    losses: Mapping[int, _Floats], parameters: Mapping[int, int]
) -> tuple[int, list[int]]:
    """Recommend the version with the fewest parameters of those not distinguishable from the best.

    Args:
        losses: The losses of each version, a row per search.
        parameters: The number of parameters of each version.

    Returns:
        The recommended version, and all versions that are not distinguishable from the best.

    >>> equal = np.array([[0.1, 0.3], [0.1, 0.3]])
    >>> recommend({1: equal + 0.2, 2: equal, 3: equal}, {1: 1, 2: 3, 3: 2})
    (3, [2, 3])
    """
    best = find_best(losses)
    differences = compare_with_best(losses)
    equal = sorted(
        [best, *(version for version, each in differences.items() if each.verdict == "equal")]
    )
    chosen = min(equal, key=lambda each: (parameters[each], float(losses[each].mean()), each))
    return chosen, equal
