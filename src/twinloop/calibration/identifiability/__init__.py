"""Identifiability: parameters that the data determine, and parameters that they do not.

from twinloop.calibration.identifiability import analyse_identifiability

found = analyse_identifiability(objective, best)
print(found)               # sentences on parameters that are not identifiable
found.table                # a confidence interval for each parameter
found.groups               # parameters that compensate each other
"""

from twinloop.calibration.identifiability.advice import HINTS, Hint
from twinloop.calibration.identifiability.analysis import analyse_identifiability
from twinloop.calibration.identifiability.result import Identifiability

__all__ = ["HINTS", "Hint", "Identifiability", "analyse_identifiability"]
