"""Study with two objectives, a conditional factor, and a strategy that completes fewer tasks."""

from functools import cache

import twinloop as tl
from twinloop.exploration.study.study import Study
from twinloop.report.pages.study import describe_recommendation, rank_configurations

CLOUD = {
    "name": "cloud",
    "clusters": ["hosts"],
    "types": [{"name": "small", "cores": 1}],
    "images": [{"name": "base", "boot": {"delay": 30}}],
    "billing": {"unit": "1h", "price": 5.25},
}


@cache
def make_rental_study() -> Study:
    """Six tasks of at most 45 minutes: on one instance, on six, or for the price of an hour."""
    tasks = [{"id": f"t{n}", "run_time": 1800 if n < 2 else 2700, "cores": 1} for n in range(6)]
    scenario = tl.Scenario(
        platform={
            "clusters": [{"name": "hosts", "hosts": [{"name": "h", "count": 9, "cores": 1}]}],
            "clouds": [CLOUD],
        },
        policy="one-instance",
        workload={"tasks": tasks},
    )
    strategies = {
        "one": "one-instance",
        "each": "one-per-task",
        "list": "list",
        "budget": {"name": "budget", "options": {"budget": 6}},
    }
    limit = {"field": "policy.options.instances", "levels": [2, 3], "when": {"strategy": ["list"]}}
    factors = {"strategy": {"field": "policy", "levels": strategies}, "limit": limit}
    return tl.explore(scenario, {"factors": factors})


def test_the_headline_has_all_objectives() -> None:
    study = make_rental_study()
    lines = describe_recommendation(study, rank_configurations(study))
    # Each of six instances is paid for one hour, the baseline for five: 4 h and a boot.
    assert lines[0].startswith("strategy each is predicted to be best by makespan: 45.5 min")
    assert lines[0].endswith("; bill 31.50, +20 %.")
    assert lines[-1] == (
        "It is best by makespan only, and one of the 2 configurations on the Pareto front of "
        "makespan and bill."
    )
