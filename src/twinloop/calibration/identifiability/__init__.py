"""Identifiability: which parameters the data cannot tell apart, and what it cannot see at all.

from twinloop.calibration.identifiability import identify

told = identify(objective, best)
print(told)                # in plain words
told.table                 # an acceptable interval for each parameter
told.groups                # those that compensate each other
"""

from twinloop.calibration.identifiability.advice import HINTS, Hint
from twinloop.calibration.identifiability.analysis import analyse_identifiability
from twinloop.calibration.identifiability.result import Identifiability

__all__ = ["HINTS", "Hint", "Identifiability", "analyse_identifiability"]
