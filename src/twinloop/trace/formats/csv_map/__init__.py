"""Any table in text (CSV, TSV...), given which of its columns means what."""

from twinloop.trace.formats.csv_map.reader import FORMAT, read

__all__ = ["FORMAT", "read"]
