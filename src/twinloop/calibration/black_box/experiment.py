"""Experiments: the input of an external simulator and the figures that were measured."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from twinloop.description import Description
from twinloop.description.quantities import Name


class Experiment(Description):
    """The input of a simulator, and the figures that were measured for it.

    >>> Experiment(case={"cargo": 10}, truth={"time": 42.0}).truth
    {'time': 42.0}
    """

    case: dict[Name, Any] = Field({}, description="the input, available as {case.name}")
    truth: dict[Name, float | tuple[float, ...]] = Field(
        min_length=1, description="measured figures, under the names that the simulator uses"
    )
