"""Small results for the examples in docstrings."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from twinloop.exploration.confirmation.result import Confirmation


def make_confirmation() -> Confirmation:
    """Make a confirmation of one candidate and its baseline, with two repetitions.

    >>> make_confirmation()
    <Confirmation: easy against fifo: holds>
    """
    from twinloop.exploration.confirmation.result import Confirmation
    from twinloop.exploration.ranking.candidate import Candidate
    from twinloop.scenario import Scenario

    scenario = Scenario(platform="1x1", workload="log.swf", policy="easy")
    easy = Candidate("easy", scenario, {"makespan_s": 9.0})
    fifo = Candidate("fifo", scenario.replace(policy="fifo"), {"makespan_s": 10.0})
    results = [("easy", 1, 9.3), ("fifo", 1, 10.1), ("fifo", 2, 10.3), ("easy", 2, 9.4)]
    runs = [{"candidate": c, "repetition": r, "makespan_s": s} for c, r, s in results]
    return Confirmation.of([easy], fifo, runs, ["makespan_s"])
