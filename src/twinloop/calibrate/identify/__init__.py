"""Identifiability: which parameters the data cannot tell apart, and what it cannot see at all.

from twinloop.calibrate.identify import identify

told = identify(objective, best)
print(told)                # in plain words
told.table                 # an acceptable interval for each parameter
told.groups                # those that compensate each other
"""

from twinloop.calibrate.identify.advice import HINTS, Hint
from twinloop.calibrate.identify.analysis import identify
from twinloop.calibrate.identify.result import Identifiability

__all__ = ["HINTS", "Hint", "Identifiability", "identify"]
