"""Power that was measured: counters of the machine, files of other tools, and what they mean."""
