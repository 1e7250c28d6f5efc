"""Operations on logs: time windows, subsets, load scaling, trimming, merging.

Every operation returns a new Trace with consistent tables, counts omitted rows as `removed`, and
is recorded in the manifest.
"""

from twinloop.trace.edit.merging import merge
from twinloop.trace.edit.scale import scale_load
from twinloop.trace.edit.subsets import select, trim, window

__all__ = ["merge", "scale_load", "select", "trim", "window"]
