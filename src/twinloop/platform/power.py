"""Power models: the power of a host as a function of its utilisation.

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

# Tolerance of a utilisation: the rounding error of a sum of many shares.
_ROUNDING = 1e-9

_Floats = NDArray[np.float64]


class PowerModel(Description):
    """Base class of the power models: the power of a host at a utilisation from 0 to 1."""

    def watts(self, utilisation: ArrayLike) -> _Floats:
        """Compute the power (W) at each utilisation from 0 to 1.

        >>> Linear(idle=25, max="174 W").watts([0, 0.5, 1])
        array([ 25. ,  99.5, 174. ])
        """
        u = np.asarray(utilisation, dtype=np.float64)
        outside = ~((u >= -_ROUNDING) & (u <= 1 + _ROUNDING))
        if outside.any():
            value = float(u[outside].flat[0]) if u.ndim else float(u)
            raise InputError(
                f"must be between 0 and 1, not {number_to_text(value)}",
                kind="out-of-range",
                field="utilisation",
            )
        return self._curve(np.clip(u, 0.0, 1.0))

    def _curve(self, u: _Floats) -> _Floats:
        raise NotImplementedError

    # `model` is the discriminator: it is written even though it is the default of its class.
    @model_serializer(mode="wrap")
    def _write_model(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {"model": getattr(self, "model", None), **handler(self)}


class Constant(PowerModel):
    """Constant power at any utilisation.

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
    def _check_order(self) -> _Scaled:
        findings = ProblemCollector()
        if self.max < self.idle:
            findings.add(
                ("max",),
                f"must not be below the idle power, {number_to_text(self.idle)} W",
                kind="out-of-range",
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

    The power is idle at 0 and max at 1. Close to these ends the curve leaves the range: for r > 2
    it exceeds max just below u = 1, for r < 1 it is below idle just above u = 0.

    >>> Mse(idle=100, max=200, r=2).watts([0, 0.5, 1])
    array([100., 175., 200.])
    """

    model: Literal["mse"] = Field("mse", description="name of the model")
    r: Positive = Field(1.0, description="exponent of the curve, fitted to a machine")

    def _shape(self, u: _Floats) -> _Floats:
        return 2 * u - u**self.r


class Asymptotic(_Scaled):
    """idle + (max - idle)/2 (1 + u - exp(-u/a)), with u^3 for u under DVFS

    At u = 0 the power is idle for every a, including the limit a = 0. At u = 1 it is below max by
    (max - idle)/2 exp(-1/a).

    >>> Asymptotic(idle=100, max=200, a=0.3).watts(0).item()
    100.0
    """

    model: Literal["asymptotic"] = Field("asymptotic", description="name of the model")
    a: NotNegative = Field(description="utilisation above which the curve is almost linear")
    dvfs: Flag = Field(
        False, description="dynamic voltage and frequency scaling: u^3 in place of u"
    )

    def _shape(self, u: _Floats) -> _Floats:
        v = u**3 if self.dvfs else u
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            decay = np.where(v > 0, np.exp(-v / self.a) if self.a else 0.0, 1.0)
        return (1 + v - decay) / 2


class Table(PowerModel):
    """Measured points with linear interpolation.

    >>> Table(points=[(0, "50 W"), (0.5, "120 W"), (1, "200 W")]).watts([0.25, 0.75])
    array([ 85., 160.])
    """

    model: Literal["table"] = Field("table", description="name of the model")
    points: tuple[tuple[Share, Watts], ...] = Field(
        min_length=2, description="pairs of utilisation and power (W), from 0 to 1"
    )

    @model_validator(mode="after")
    def _check_points(self) -> Table:
        findings = ProblemCollector()
        levels = [level for level, _ in self.points]
        if levels[0] != 0:
            findings.add(("points", 0), "must be the power at utilisation 0", kind="out-of-range")
        if levels[-1] != 1:
            findings.add(
                ("points", len(levels) - 1),
                "must be the power at utilisation 1",
                kind="out-of-range",
            )
        for i in range(1, len(levels)):
            if levels[i] <= levels[i - 1]:
                findings.add(
                    ("points", i),
                    "must have a higher utilisation than the point before",
                    kind="wrong-order",
                )
        findings.check()
        return self

    def _curve(self, u: _Floats) -> _Floats:
        levels, watts = np.array(self.points).T
        return np.asarray(np.interp(u, levels, watts))


#: Any power model; the discriminator is `model`.
AnyPowerModel = Annotated[
    Constant | Linear | Sqrt | Square | Cubic | Mse | Asymptotic | Table,
    Field(discriminator="model"),
]
