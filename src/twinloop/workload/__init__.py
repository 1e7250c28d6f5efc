"""What is to run and who submits it: tasks with their demand, and sources."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
