"""An analysis as plain data and back, and several as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from twinloop.calibrate.identify.result import Identifiability


def joined(found: Sequence[Identifiability]) -> Identifiability:
    """The analyses of searches for different values, as one."""
    if len(found) == 1:
        return found[0]
    noises = [each.noise for each in found if each.noise is not None]
    return Identifiability(
        table=pl.concat([each.table for each in found], how="diagonal_relaxed"),
        groups=tuple(group for each in found for group in each.groups),
        sentences=tuple(line for each in found for line in each.sentences),
        profiles=pl.concat([each.profiles for each in found], how="diagonal_relaxed"),
        noise=noises[0] if noises else None,
        evaluations=sum(each.evaluations for each in found),
        complete=all(each.complete for each in found),
    )


def as_data(found: Identifiability) -> dict[str, Any]:
    """All of it but the profiles, as plain data."""
    return {
        "table": found.table.to_dicts(),
        "groups": [list(group) for group in found.groups],
        "sentences": list(found.sentences),
        "noise": found.noise,
        "evaluations": found.evaluations,
        "complete": found.complete,
    }


def from_data(data: dict[str, Any]) -> Identifiability:
    """Back from plain data, without profiles."""
    return Identifiability(
        table=pl.DataFrame(data["table"], infer_schema_length=None),
        groups=tuple(tuple(group) for group in data["groups"]),
        sentences=tuple(data["sentences"]),
        profiles=pl.DataFrame(),
        noise=data["noise"],
        evaluations=data["evaluations"],
        complete=data["complete"],
    )
