"""A folder of runs and studies, served to a browser on this machine."""
