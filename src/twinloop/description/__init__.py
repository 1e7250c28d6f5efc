"""Descriptions: text with positions, quantities with units, problems by path, errors, atomic files.

The bottom package: it knows nothing of clusters, traces or scenarios."""
