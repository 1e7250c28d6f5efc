"""Assessment of a simulation against a real run: metrics, criteria, verdicts.

    from twinloop.fidelity import NoiseFloor, assess

    verdict = assess(real, twin)                    # PASS, FAIL or not assessable; prints a table
    assess(real, twin, criteria="criteria.yaml")    # criteria from a file
    assess(real, twin, repeats=[again, third])      # with the noise floor of repetitions
    floor = NoiseFloor.from_traces([real, again, third])  # computed once for several twins
    assess(real, twin, floor=floor)

Both runs are Traces, recorded or simulated.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
