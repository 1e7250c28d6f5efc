"""Calibration: parameters, losses, optimisers, and what the data can tell."""
