"""Figures, report pages and texts about runs, assessments, calibrations and studies."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
