"""Working on logs as researchers do: windows, subsets, load scaling, trimming, merging.

Every operation makes a new Trace, keeps its tables consistent, counts what it left out as
`removed`, and records itself in the manifest.
"""

from twinloop.trace.edit.merging import merge
from twinloop.trace.edit.scale import scale_load
from twinloop.trace.edit.subsets import select, trim, window

__all__ = ["merge", "scale_load", "select", "trim", "window"]
