"""Small studies, confirmations and loops for report pages, made by the functions of the package."""

from functools import cache
from types import SimpleNamespace
from typing import Any

import twinloop as tl
from twinloop.exploration.confirmation.result import Confirmation
from twinloop.exploration.ranking.candidate import Candidate
from twinloop.exploration.study.study import Study
from twinloop.scenario import Scenario


def make_scenario(policy: str = "fifo") -> Scenario:
    tasks = [{"id": f"t{i}", "run_time": 10, "cores": 1 + i % 3} for i in range(20)]
    return Scenario(platform="2x4", policy=policy, workload={"tasks": tasks})


@cache
def make_study(more: str = "") -> Study:
    """Two platforms, two policies, and overcommit for one policy more."""
    factors: dict[str, Any] = {
        "platform": ["2x4", "1x8"],
        "policy": ["fifo", "easy", "pack-ic"],
        "overcommit": {"levels": [1, 2], "when": {"policy": ["pack-ic"]}},
    }
    if more:
        factors[f"label {more}"] = {"field": "name", "levels": ["plain", more]}
    return tl.explore(make_scenario(), {"factors": factors, "seeds": 2})


#: Predicted times of three configurations, and their times in three repetitions (s).
PREDICTED = {"good": 8.0, "bad": 9.0, "even": 9.9, "base": 10.0}
TOOK = {
    "good": (8.1, 8.3, 8.2),
    "bad": (11.1, 11.4, 11.2),
    "even": (9.0, 11.0, 10.1),
    "base": (10.1, 10.2, 10.0),
}


def make_confirmation(names: dict[str, str] | None = None, **options: Any) -> Confirmation:
    """One recommendation of each verdict: holds, reversed, tie."""
    called = {name: name for name in PREDICTED} | (names or {})
    made = {
        name: Candidate(
            called[name], make_scenario(), {"makespan_s": value, "wait_p95_s": value / 2}
        )
        for name, value in PREDICTED.items()
    }
    rows = [
        {
            "candidate": called[name],
            "repetition": repetition + 1,
            "seconds": seconds[repetition],
            "makespan_s": seconds[repetition],
            "wait_p95_s": seconds[repetition] / 2,
        }
        for repetition in range(3)
        for name, seconds in TOOK.items()
    ]
    metrics = ["makespan_s", "wait_p95_s", "energy_per_task_j"]
    return Confirmation.of(
        [made[name] for name in ("good", "bad", "even")], made["base"], rows, metrics, **options
    )


@cache
def make_loop() -> Any:
    """A loop whose real run is simulated with a higher speed than the default."""
    plan = Scenario(
        platform="2x2",
        policy="fcfs",
        workload={"generate": {"name": "poisson", "parameters": {"tasks": 30}}},
    )
    real = tl.simulate(plan.replace(**{"model.speed_factor": 1.3}))
    twin = tl.simulate(plan)
    speed = {"speed_factor": {"linear": [0.5, 2]}}
    fit = tl.calibrate(real, scenario=plan, parameters=speed, budget=30, analysis=0, names=["day"])
    fitted = tl.simulate(fit.apply(plan))
    return SimpleNamespace(
        scenario=plan, real=real, probes=(twin,), probe_names=("probe of the cache",), twin=twin,
        before=tl.assess(real, twin), fit=fit, fitted_twin=fitted, after=tl.assess(real, fitted),
        unseen=None, study=make_study(), confirmation=make_confirmation(),
        lines=("First line.", "Take easy."), notes=("no energy was measured",),
    )  # fmt: skip
