"""Whether runs of a scenario differ from seed to seed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twinloop.policy import BuiltInPolicy
from twinloop.scenario.failures import Failures
from twinloop.scenario.scenario import Scenario
from twinloop.trace.formats import parquet


def is_random(scenario: Scenario, *, allow_code: bool = False) -> bool:
    """Whether the seed may change a run: in doubt, it may.

    A generated workload, failures that are drawn, and policies that draw depend on it. A policy
    of one's own is given a generator of random numbers, and may use it.

    >>> scenario = Scenario(platform="2x4", policy="easy", workload="log.swf")
    >>> is_random(scenario), is_random(scenario.replace(policy="random"))
    (False, True)
    """
    if scenario.workload.generate is not None:
        return True
    if scenario.failures is not None and _are_drawn(scenario.failures):
        return True
    policy = scenario.policy.resolve(allow_code=allow_code)
    if not isinstance(policy, BuiltInPolicy):
        return True
    settings: dict[str, Any] = policy.native_settings()
    return bool(settings["pick"] == "random" or settings["subset"] > 1)


def _are_drawn(failures: Failures) -> bool:
    """Whether nodes fail at random; a table names nodes and times, OpenDC's trace only a share."""
    if failures.trace is None:
        return True
    try:
        with Path(failures.trace).open("rb") as stream:
            return stream.read(len(parquet.MAGIC)) == parquet.MAGIC
    except OSError:
        return True
