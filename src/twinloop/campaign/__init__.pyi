from .coordinators import Coordinator, coordinator
from .external_simulator import (
    BlackBox,
    BlackBoxError,
    Command,
    Function,
    black_box,
)
from .journal import CampaignJournal
from .outcome import Outcome

__all__ = [
    "BlackBox",
    "BlackBoxError",
    "CampaignJournal",
    "Command",
    "Coordinator",
    "Function",
    "Outcome",
    "black_box",
    "coordinator",
]
