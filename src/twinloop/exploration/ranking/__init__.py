"""Rankings of configurations, their uncertainty, and the comparison of two rankings."""
