"""Studies of the level of detail: versions of a scenario, each calibrated, and their comparison."""
