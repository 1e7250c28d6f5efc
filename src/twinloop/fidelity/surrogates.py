"""Surrogate series: unrelated to a given series, with the same spectrum."""

from __future__ import annotations

import numpy as np

from twinloop.metrics.weighted_intervals import Floats


def randomise_phases(values: Floats, rng: np.random.Generator) -> Floats:
    """Create a surrogate series with the same spectrum and random phases.

    NaN values are replaced by the mean for the transform, and are NaN in the result. Source:
    Theiler et al., "Testing for nonlinearity in time series: the method of surrogate data",
    Physica D 58 (1992).

    >>> values = np.sin(np.arange(64) / 5.0)
    >>> other = randomise_phases(values, np.random.default_rng(1))
    >>> bool(np.isclose(values.std(), other.std())), bool(np.allclose(values, other))
    (True, False)
    """
    unknown = np.isnan(values)
    known = values[~unknown]
    if not known.size:
        return values
    mean = float(known.mean())
    spectrum = np.fft.rfft(np.where(unknown, 0.0, values - mean))
    phases = rng.uniform(0.0, 2 * np.pi, spectrum.size)
    # The mean, and the highest frequency of an even number of values, are real: they have no phase.
    phases[0] = 0.0
    if values.size % 2 == 0:
        phases[-1] = 0.0
    surrogate = np.fft.irfft(np.abs(spectrum) * np.exp(1j * phases), values.size) + mean
    result: Floats = np.where(unknown, np.nan, surrogate)
    return result
