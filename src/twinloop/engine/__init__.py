"""Simulators: clusters from a scenario, and the discrete-event kernel below them."""

import lazy_loader

from twinloop.engine import kernel as kernel  # gives the native classes their public module

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
