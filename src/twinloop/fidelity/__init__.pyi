from .alignment import Alignment, fit_alignment
from .assessment import assess
from .criteria import Criteria
from .errors import Errors
from .ideal_errors import IdealErrors, estimate_ideal_errors, group_repetitions
from .noise_floor import NoiseFloor
from .verdict import Finding, Status, Verdict

__all__ = [
    "Alignment",
    "Criteria",
    "Errors",
    "Finding",
    "IdealErrors",
    "NoiseFloor",
    "Status",
    "Verdict",
    "assess",
    "estimate_ideal_errors",
    "fit_alignment",
    "group_repetitions",
]
