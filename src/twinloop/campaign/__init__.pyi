from .coordinators import Coordinator, coordinator
from .external_simulator import BlackBox, BlackBoxError, Command, Function, black_box
from .journal import Journal
from .outcome import Outcome

__all__ = [
    "BlackBox",
    "BlackBoxError",
    "Command",
    "Coordinator",
    "Function",
    "Journal",
    "Outcome",
    "black_box",
    "coordinator",
]
