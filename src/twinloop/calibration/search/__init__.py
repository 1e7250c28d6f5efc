"""The search of a calibration: optimiser, objective, budget and journal."""
