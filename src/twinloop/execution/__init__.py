"""Reality: scenarios run with real processes on real CPUs, and what they did, recorded.

>>> from twinloop.execution import execute
>>> from twinloop.scenario import Scenario
>>> scenario = Scenario(platform="1x1", policy="fcfs", workload={"tasks": [
...     {"id": "hello", "command": ["echo", "hello"], "run_time": 0.01}]})
>>> execute(scenario)
<Trace of 1 task, ...>
"""

from typing import TYPE_CHECKING

from twinloop._deferred import defer_imports

if TYPE_CHECKING:
    from twinloop.execution.attachment import attach
    from twinloop.execution.decision_replay import Retold, retell
    from twinloop.execution.local_machine import Machine
    from twinloop.execution.run import Interrupted, execute
    from twinloop.execution.run_progress import Moment
    from twinloop.execution.usage_recorder import Recorder

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
