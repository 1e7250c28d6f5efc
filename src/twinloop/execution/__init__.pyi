from .attachment import attach
from .decision_replay import DecisionReplay, replay_decisions
from .local_machine import LocalMachine
from .run import Interrupted, execute
from .run_progress import RunProgress
from .usage_recorder import UsageRecorder

__all__ = [
    "DecisionReplay",
    "Interrupted",
    "LocalMachine",
    "RunProgress",
    "UsageRecorder",
    "attach",
    "execute",
    "replay_decisions",
]
