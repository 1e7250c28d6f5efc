"""Scenarios: platform + workload + source + policy + model + seed, one object or one YAML file."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
