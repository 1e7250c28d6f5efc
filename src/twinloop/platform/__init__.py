"""Descriptions of where things run: hosts, clusters, queues, power; and the base of them all."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
