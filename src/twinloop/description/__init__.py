"""Descriptions: text with positions, quantities with units, problems by path, errors, atomic files.

The bottom package: it has no notion of clusters, traces or scenarios.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
