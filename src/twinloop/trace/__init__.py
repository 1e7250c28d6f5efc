"""Traces of real and simulated runs: tables, manifest, formats, quality gate, editing."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
