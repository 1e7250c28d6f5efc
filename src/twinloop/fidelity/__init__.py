"""How far a twin can be trusted: aligned metrics, criteria, verdicts.

    from twinloop.fidelity import Criteria, assess

    verdict = assess(real, twin)                    # PASS, FAIL or not assessable, as a table
    assess(real, twin, criteria="criteria.yaml")    # what is demanded, declared beforehand
    assess(real, twin, repeats=[again, once_more])  # beside what reality itself would score
    floor = NoiseFloor.from_traces([real, again, third])  # the same floor for several twins
    assess(real, twin, floor=floor)

Both sides are Traces, and nothing here asks where they came from.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
