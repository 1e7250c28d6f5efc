"""Uncertainty of a calibration: confidence region, posterior, run effects, predictions."""
