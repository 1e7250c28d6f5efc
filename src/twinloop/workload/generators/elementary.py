"""Logarithm, exponential and gamma function, computed with basic arithmetic only.

The `log` and `exp` of the libraries of two machines may differ in the last bit, and generated logs
would differ with them. IEEE 754 defines the result of every operation used here exactly, so the
results are the same everywhere, within a few units in the last place of the true value.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

# ln 2 as a sum: the first part has 21 zero bits at its end, so a multiple of it is exact.
_LN2_HIGH: Final = float.fromhex("0x1.62e42fee00000p-1")
_LN2_LOW: Final = float.fromhex("0x1.a39ef35793c76p-33")
_SQRT_HALF: Final = 0.7071067811865476
_HALF_LN_2PI: Final = 0.9189385332046727

# 2/21, 2/19, ... 2/3 of the series 2 artanh(s) = 2 (s + s^3/3 + s^5/5 + ...).
_LOG_SERIES: Final = tuple(2.0 / odd for odd in range(21, 1, -2))
# 1/13!, 1/12!, ... 1/2!, 1, 1 of the series of exp.
_EXP_SERIES: Final = (
    tuple(1.0 / float(factorial) for factorial in (6227020800, 479001600, 39916800, 3628800))
    + tuple(1.0 / float(factorial) for factorial in (362880, 40320, 5040, 720, 120, 24, 6, 2))
    + (1.0, 1.0)
)
# Stirling's series of log gamma: B(2k) / (2k (2k - 1)), highest first.
_STIRLING_SERIES: Final = (
    -3617.0 / 122400.0,
    1.0 / 156.0,
    -691.0 / 360360.0,
    1.0 / 1188.0,
    -1.0 / 1680.0,
    1.0 / 1260.0,
    -1.0 / 360.0,
    1.0 / 12.0,
)
_STIRLING_FROM: Final = 12.0


def log(x: npt.ArrayLike) -> Floats:
    """The natural logarithm of positive numbers.

    >>> log([1.0, 2.0]).tolist()
    [0.0, 0.6931471805599453]
    """
    mantissa, exponent = np.frexp(np.asarray(x, dtype=np.float64))
    small = mantissa < _SQRT_HALF
    mantissa = np.where(small, mantissa + mantissa, mantissa)
    power = exponent - small
    ratio = (mantissa - 1.0) / (mantissa + 1.0)
    square = ratio * ratio
    tail = _horner(_LOG_SERIES, square) * square * ratio + power * _LN2_LOW
    return np.asarray(power * _LN2_HIGH + (2.0 * ratio + tail))


def exp(x: npt.ArrayLike) -> Floats:
    """The exponential of numbers between -700 and 700.

    >>> exp([0.0, 1.0]).round(12).tolist()
    [1.0, 2.718281828459]
    """
    exponent = np.asarray(x, dtype=np.float64)
    power = np.rint(exponent / (_LN2_HIGH + _LN2_LOW))
    rest = (exponent - power * _LN2_HIGH) - power * _LN2_LOW
    return np.asarray(np.ldexp(_horner(_EXP_SERIES, rest), power.astype(np.int32)))


def log_gamma(a: float) -> float:
    """The logarithm of the gamma function at `a` > 0.

    >>> round(log_gamma(5.0), 9)  # ln 4!
    3.17805383
    """
    product = 1.0
    while a < _STIRLING_FROM:
        product *= a
        a += 1.0
    series = 0.0
    for factor in _STIRLING_SERIES:
        series = series / (a * a) + factor
    return (a - 0.5) * _evaluate(log, a) - a + _HALF_LN_2PI + series / a - _evaluate(log, product)


def gamma_cdf(x: npt.ArrayLike, shape: float, scale: float = 1.0) -> Floats:
    """The probability that a gamma variate is at most `x`, for 0 < x < (shape + 500) scales.

    >>> gamma_cdf([3.0], 1.0).round(9).tolist()  # 1 - exp(-3)
    [0.950212932]
    """
    ratio = np.asarray(x, dtype=np.float64) / scale
    term = np.full_like(ratio, 1.0 / shape)
    total = term.copy()
    divisor = shape
    while np.any(term > total * 1e-17):
        divisor += 1.0
        term *= ratio / divisor
        total += term
    return np.minimum(1.0, total * exp(shape * log(ratio) - ratio - log_gamma(shape)))


def _horner(series: tuple[float, ...], x: Floats) -> Floats:
    total = np.full_like(x, series[0])
    for factor in series[1:]:
        total *= x
        total += factor
    return total


def _evaluate(function: Any, x: float) -> float:
    return float(function(x))
