"""The file that describes the calibration of an external simulator."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from twinloop.calibration.black_box.experiment import Experiment
from twinloop.calibration.parameters.defaults import make_space
from twinloop.calibration.parameters.space import Space
from twinloop.campaign import Command
from twinloop.description import Description
from twinloop.description.quantities import Name


class BlackBoxCalibration(Description):
    """An external simulator, its experiments, and the parameters to fit.

    >>> BlackBoxCalibration(
    ...     black_box={"command": ["sim", "{speed}"]}, experiments=[{"truth": {"time": 2.0}}],
    ...     parameters={"speed": {"linear": [1, 5]}}).space.names
    ('speed',)
    """

    black_box: Command = Field(description="the program")
    experiments: tuple[Experiment, ...] = Field(
        min_length=1, description="inputs and measured figures"
    )
    parameters: dict[Name, Any] | None = Field(
        None, description="parameters to fit with their ranges, unless given in a separate file"
    )

    @property
    def space(self) -> Space | None:
        """The parameters to fit; None: the description has none."""
        return None if self.parameters is None else make_space(self.parameters)
