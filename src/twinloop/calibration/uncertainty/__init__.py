"""Uncertainty of a calibration: acceptable set, run effects, prediction intervals."""
