"""Twinloop: a simulator of clusters and clouds that knows how far it can be trusted.

The event-level kernel is in `twinloop.engine`.
"""

__version__ = "0.1.0"
