"""Studies: the runs of every combination of levels, their results, tables and storage."""
