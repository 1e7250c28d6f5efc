"""Web server for a folder of runs and studies, for browsers on the same machine."""
