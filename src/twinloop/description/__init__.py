"""Descriptions: text with positions, quantities with units, problems by path, errors, atomic files.

This is the lowest package: it defines nothing about clusters, traces or scenarios.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
