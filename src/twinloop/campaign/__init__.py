"""Parallel evaluation on threads, processes or Dask: bounded, in order, resumable.

>>> from twinloop.campaign import coordinator
>>> with coordinator("threads", workers=2) as workers:
...     [outcome.value for outcome in workers.map(abs, range(-3, 1))]
[3, 2, 1, 0]
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
