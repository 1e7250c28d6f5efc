"""Scheduling policies: the interface, the built-in policies and the registry of plug-ins."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
