from .alignment import Alignment, fit_alignment
from .assessment import assess
from .criteria import Criteria
from .errors import Errors
from .noise_floor import NoiseFloor
from .verdict import Finding, Status, Verdict

__all__ = [
    "Alignment",
    "Criteria",
    "Errors",
    "Finding",
    "NoiseFloor",
    "Status",
    "Verdict",
    "assess",
    "fit_alignment",
]
