"""How far a twin can be trusted: aligned metrics, criteria, verdicts.

    from twinloop.fidelity import Criteria, assess

    verdict = assess(real, twin)                    # PASS, FAIL or not assessable, as a table
    assess(real, twin, criteria="criteria.yaml")    # what is demanded, declared beforehand
    assess(real, twin, repeats=[again, once_more])  # beside what reality itself would score

Both sides are Traces, and nothing here asks where they came from.
"""

from twinloop.fidelity.alignment import Alignment, fit_alignment
from twinloop.fidelity.assessment import assess
from twinloop.fidelity.criteria import Criteria
from twinloop.fidelity.errors import Errors
from twinloop.fidelity.verdict import Finding, Status, Verdict

__all__ = [
    "Alignment",
    "Criteria",
    "Errors",
    "Finding",
    "Status",
    "Verdict",
    "assess",
    "fit_alignment",
]
