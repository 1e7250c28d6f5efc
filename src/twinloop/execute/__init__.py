"""Reality: scenarios run with real processes on real CPUs, and what they did, recorded.

>>> from twinloop.execute import execute
>>> from twinloop.scenario import Scenario
>>> scenario = Scenario(platform="1x1", policy="fcfs", workload={"tasks": [
...     {"id": "hello", "command": ["echo", "hello"], "run_time": 0.01}]})
>>> execute(scenario)
<Trace of 1 task, ...>
"""

import sys
from types import ModuleType
from typing import Any

from twinloop.execute.attach import attach
from twinloop.execute.machine import Machine
from twinloop.execute.recorder import Recorder
from twinloop.execute.retell import Retold, retell
from twinloop.execute.run import Interrupted, execute
from twinloop.execute.watching import Moment
from twinloop.trace import Trace

__all__ = [
    "Interrupted",
    "Machine",
    "Moment",
    "Recorder",
    "Retold",
    "attach",
    "execute",
    "retell",
]


class _Package(ModuleType):
    """The package is called like the function that it is for, so `twinloop.execute` is both."""

    def __call__(self, *args: Any, **options: Any) -> Trace:
        return execute(*args, **options)


sys.modules[__name__].__class__ = _Package
