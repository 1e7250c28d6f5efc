"""Reader of the workload tables of OpenDC: `tasks.parquet` and `fragments.parquet` in a folder."""

from twinloop.trace.formats.opendc.reader import FORMAT, KB, read
from twinloop.trace.formats.opendc.series import read_carbon, read_failures

__all__ = ["FORMAT", "KB", "read", "read_carbon", "read_failures"]
