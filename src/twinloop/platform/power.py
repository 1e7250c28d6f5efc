"""Power models: the watts of a host at a utilisation between 0 and 1.

The formulas are those of OpenDC's models of the same names; `mse` comes from Fan, Weber and
Barroso, "Power provisioning for a warehouse-sized computer" (2007).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from twinloop.description.description import Description
from twinloop.description.errors import InputError
from twinloop.description.problems import ProblemCollector
from twinloop.description.quantities import (
    Flag,
    NotNegative,
    Positive,
    Share,
    Watts,
    number_to_text,
)

# What adding up the shares of many tasks may leave beyond 1.
_ROUNDING = 1e-9

_Floats = NDArray[np.float64]


class PowerModel(Description):
    """How many watts a host draws at a utilisation between 0 and 1."""

    def watts(self, utilisation: ArrayLike) -> _Floats:
        """The power in watts at each utilisation.

        >>> Linear(idle=25, max="174 W").watts([0, 0.5, 1])
        array([ 25. ,  99.5, 174. ])
        """
        u = np.asarray(utilisation, dtype=np.float64)
        outside = ~((u >= -_ROUNDING) & (u <= 1 + _ROUNDING))
        if outside.any():
            value = float(u[outside].flat[0]) if u.ndim else float(u)
            raise InputError(
                f"must lie between 0 and 1, not {number_to_text(value)}", field="utilisation"
            )
        return self._curve(np.clip(u, 0.0, 1.0))

    def _curve(self, u: _Floats) -> _Floats:
        raise NotImplementedError

    # The name of the model is a default of its class, but what tells it from the others.
    @model_serializer(mode="wrap")
    def _with_name(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {"model": getattr(self, "model", None), **handler(self)}


class Constant(PowerModel):
    """The same power at any utilisation.

    >>> Constant(power="1 kW").watts([0, 1])
    array([1000., 1000.])
    """

    model: Literal["constant"] = Field("constant", description="name of the model")
    power: Watts = Field(description="power at any utilisation (W)")

    def _curve(self, u: _Floats) -> _Floats:
        return np.full_like(u, self.power)


class _Scaled(PowerModel):
    """idle + (max - idle) * shape(u)"""

    idle: Watts = Field(description="power at utilisation 0 (W)")
    max: Watts = Field(description="power at utilisation 1 (W)")

    @model_validator(mode="after")
    def _ordered(self) -> _Scaled:
        findings = ProblemCollector()
        if self.max < self.idle:
            findings.add(
                ("max",), f"must not be below the idle power, {number_to_text(self.idle)} W"
            )
        findings.check()
        return self

    def _curve(self, u: _Floats) -> _Floats:
        return self.idle + (self.max - self.idle) * self._shape(u)

    def _shape(self, u: _Floats) -> _Floats:
        raise NotImplementedError


class Linear(_Scaled):
    """idle + (max - idle) u

    >>> Linear(idle=100, max=200).watts([0, 0.25])
    array([100., 125.])
    """

    model: Literal["linear"] = Field("linear", description="name of the model")

    def _shape(self, u: _Floats) -> _Floats:
        return u


class Sqrt(_Scaled):
    """idle + (max - idle) u^0.5

    >>> Sqrt(idle=100, max=200).watts([0, 0.25])
    array([100., 150.])
    """

    model: Literal["sqrt"] = Field("sqrt", description="name of the model")

    def _shape(self, u: _Floats) -> _Floats:
        return np.sqrt(u)


class Square(_Scaled):
    """idle + (max - idle) u^2

    >>> Square(idle=100, max=200).watts([0, 0.5])
    array([100., 125.])
    """

    model: Literal["square"] = Field("square", description="name of the model")

    def _shape(self, u: _Floats) -> _Floats:
        return u**2


class Cubic(_Scaled):
    """idle + (max - idle) u^3

    >>> Cubic(idle=100, max=200).watts([0, 0.5])
    array([100. , 112.5])
    """

    model: Literal["cubic"] = Field("cubic", description="name of the model")

    def _shape(self, u: _Floats) -> _Floats:
        return u**3


class Mse(_Scaled):
    """idle + (max - idle) (2u - u^r)

    It meets idle at 0 and max at 1. For r above 2 it lies above max just before 1, for r below 1
    under idle just after 0: that is what the formula says.

    >>> Mse(idle=100, max=200, r=2).watts([0, 0.5, 1])
    array([100., 175., 200.])
    """

    model: Literal["mse"] = Field("mse", description="name of the model")
    r: Positive = Field(1.0, description="exponent that fits the curve to a machine")

    def _shape(self, u: _Floats) -> _Floats:
        return 2 * u - u**self.r


class Asymptotic(_Scaled):
    """idle + (max - idle)/2 (1 + u - exp(-u/a)), with u^3 for u under DVFS

    At u = 0 it is idle for every a, a = 0 (the limit) included. At 1 it stays under max by
    (max - idle)/2 exp(-1/a).

    >>> Asymptotic(idle=100, max=200, a=0.3).watts(0).item()
    100.0
    """

    model: Literal["asymptotic"] = Field("asymptotic", description="name of the model")
    a: NotNegative = Field(description="utilisation from which on the curve is close to linear")
    dvfs: Flag = Field(False, description="the clock follows the load: u^3 takes the place of u")

    def _shape(self, u: _Floats) -> _Floats:
        v = u**3 if self.dvfs else u
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            decay = np.where(v > 0, np.exp(-v / self.a) if self.a else 0.0, 1.0)
        return (1 + v - decay) / 2


class Table(PowerModel):
    """Measured points, with straight lines between them.

    >>> Table(points=[(0, "50 W"), (0.5, "120 W"), (1, "200 W")]).watts([0.25, 0.75])
    array([ 85., 160.])
    """

    model: Literal["table"] = Field("table", description="name of the model")
    points: tuple[tuple[Share, Watts], ...] = Field(
        min_length=2, description="pairs of utilisation and power (W), from 0 to 1"
    )

    @model_validator(mode="after")
    def _from_0_to_1(self) -> Table:
        findings = ProblemCollector()
        levels = [level for level, _ in self.points]
        if levels[0] != 0:
            findings.add(("points", 0), "must be the power at utilisation 0")
        if levels[-1] != 1:
            findings.add(("points", len(levels) - 1), "must be the power at utilisation 1")
        for i in range(1, len(levels)):
            if levels[i] <= levels[i - 1]:
                findings.add(("points", i), "must have a higher utilisation than the one before")
        findings.check()
        return self

    def _curve(self, u: _Floats) -> _Floats:
        levels, watts = np.array(self.points).T
        return np.asarray(np.interp(u, levels, watts))


#: Any power model; `model` says which.
AnyPowerModel = Annotated[
    Constant | Linear | Sqrt | Square | Cubic | Mse | Asymptotic | Table,
    Field(discriminator="model"),
]
