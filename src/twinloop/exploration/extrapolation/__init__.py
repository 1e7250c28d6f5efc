"""Extrapolation: configurations that depend on values the calibration data do not determine."""
