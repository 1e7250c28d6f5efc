"""Real execution: scenarios run as processes on this machine, and are recorded.

>>> from twinloop.execution import execute
>>> from twinloop.scenario import Scenario
>>> scenario = Scenario(platform="1x1", policy="fcfs", workload={"tasks": [
...     {"id": "hello", "command": ["echo", "hello"], "run_time": 0.01}]})
>>> execute(scenario)
<Trace of 1 task, ...>
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
