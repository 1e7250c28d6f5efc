"""Reality: scenarios run with real processes on real CPUs, and what they did, recorded.

>>> from twinloop.execute import execute
>>> from twinloop.scenario import Scenario
>>> scenario = Scenario(platform="1x1", policy="fcfs", workload={"tasks": [
...     {"id": "hello", "command": ["echo", "hello"], "run_time": 0.01}]})
>>> execute(scenario)
<Trace of 1 task, ...>
"""

from typing import TYPE_CHECKING

from twinloop._deferred import defer_imports

if TYPE_CHECKING:
    from twinloop.execute.attach import attach
    from twinloop.execute.machine import Machine
    from twinloop.execute.recorder import Recorder
    from twinloop.execute.retell import Retold, retell
    from twinloop.execute.run import Interrupted, execute
    from twinloop.execute.watching import Moment

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

defer_imports(__name__)
