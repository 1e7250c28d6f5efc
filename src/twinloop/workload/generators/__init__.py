"""Workload generators: synthetic logs from a seed.

>>> from twinloop.workload.generators import make_generator, list_generators
>>> list(list_generators())
['poisson', 'bursts', 'parallel-tasks', 'lublin', 'sessions', 'arrays', 'ffmpeg', 'burn',
 'chain', 'fork-join', 'recipe']
>>> make_generator("lublin", tasks=500).generate(seed=1)
<Trace of 500 tasks>
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
