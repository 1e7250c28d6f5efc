"""How far a twin can be trusted: aligned metrics, criteria, verdicts.

    from twinloop.fidelity import Criteria, assess

    verdict = assess(real, twin)                    # PASS, FAIL or not assessable, as a table
    assess(real, twin, criteria="criteria.yaml")    # what is demanded, declared beforehand
    assess(real, twin, repeats=[again, once_more])  # beside what reality itself would score
    floor = Floor.of([real, again, once_more])      # the same, once for the twins of all three
    assess(real, twin, floor=floor)

Both sides are Traces, and nothing here asks where they came from.
"""

from typing import TYPE_CHECKING

from twinloop._deferred import defer_imports

if TYPE_CHECKING:
    from twinloop.fidelity.alignment import Alignment, fit_alignment
    from twinloop.fidelity.assessment import assess
    from twinloop.fidelity.criteria import Criteria
    from twinloop.fidelity.errors import Errors
    from twinloop.fidelity.noise_floor import Floor
    from twinloop.fidelity.verdict import Finding, Status, Verdict

__all__ = [
    "Alignment",
    "Criteria",
    "Errors",
    "Finding",
    "Floor",
    "Status",
    "Verdict",
    "assess",
    "fit_alignment",
]

defer_imports(__name__)
