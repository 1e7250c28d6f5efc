from .attachment import attach
from .decision_replay import Retold, retell
from .local_machine import Machine
from .run import Interrupted, execute
from .run_progress import Moment
from .usage_recorder import Recorder

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
