"""Detection of scenarios whose runs depend on the random seed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twinloop.policy import AnyPolicy, BuiltInPolicy, resolve_policy
from twinloop.scenario.failures import Failures
from twinloop.scenario.scenario import Scenario
from twinloop.trace.formats import parquet


def is_random(scenario: Scenario, *, allow_code: bool = False) -> bool:
    """Whether the runs of a scenario may depend on the seed.

    They do if the workload is generated or has errors of predictions, or if failures, boots, a
    shortage of hosts or the policy are random. A policy or a source written in Python gets a random
    number generator, so it counts as random.

    >>> scenario = Scenario(platform="2x4", policy="easy", workload="log.swf")
    >>> is_random(scenario), is_random(scenario.replace(policy="random"))
    (False, True)
    """
    workload = scenario.workload
    if workload.is_generated or workload.prediction_errors is not None:
        return True
    if scenario.failures is not None and _are_random(scenario.failures):
        return True
    if scenario.source.name is not None:
        return True
    if any(cloud.is_random for cloud in scenario.platform.clouds):
        return True
    described = (scenario.policy, *scenario.controllers)
    if any(_is_random_policy(each.resolve(allow_code=allow_code)) for each in described):
        return True
    choices = [choice for cloud in scenario.platform.clouds for _, choice in cloud.controllers]
    return any(
        _is_random_policy(resolve_policy(each.name, each.options, allow_code=allow_code))
        for each in choices
        if each is not None
    )


def _is_random_policy(policy: AnyPolicy) -> bool:
    if not isinstance(policy, BuiltInPolicy):
        return True
    settings: dict[str, Any] = policy.native_settings()
    return bool(settings["pick"] == "random" or settings["subset"] > 1)


def _are_random(failures: Failures) -> bool:
    """Whether failures are random.

    A CSV file names the failed nodes, but a failure trace of OpenDC contains only their share. A
    file that cannot be read counts as random.
    """
    if failures.trace is None:
        return True
    try:
        with Path(failures.trace).open("rb") as stream:
            return stream.read(len(parquet.MAGIC)) == parquet.MAGIC
    except OSError:
        return True
