"""Any table in text (CSV, TSV...), given which of its columns means what."""

from twinloop.trace.formats.csv_map.reading import FORMAT, read

__all__ = ["FORMAT", "read"]
