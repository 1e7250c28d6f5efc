"""Calibration of an external simulator: a command or a Python function."""
