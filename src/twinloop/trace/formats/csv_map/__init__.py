"""Reader of tables in text (CSV, TSV...) with a map of their columns."""

from twinloop.trace.formats.csv_map.reader import FORMAT, read

__all__ = ["FORMAT", "read"]
