"""Recorded times as the built-in source, and as a source in Python: the cost of its calls."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from measure import BenchmarkResult, ResultTable, side_by_side

from twinloop.engine import CompiledScenario
from twinloop.scenario import Scenario
from twinloop.workload import Source


class RecordedTimes(Source):
    """All tasks of one recorded time together."""

    def start(self, workload: Any, rng: Any) -> RecordedTimes:
        """Group the tasks by their times."""
        state = RecordedTimes()
        times = workload.submit.tolist()
        rows = sorted(range(len(times)), key=times.__getitem__)
        state.groups = [(t, list(g)) for t, g in groupby(rows, times.__getitem__)]
        state.next_group = -1
        return state

    def next(self, now: float, finished: Any) -> Any:
        """Return the next group; without ends, the last one has been submitted."""
        self.next_group += not finished
        return self.groups[self.next_group] if self.next_group < len(self.groups) else None


def run(quick: bool) -> BenchmarkResult:
    """Measure runs of a generated log under FCFS with both sources."""
    tasks = 2_000 if quick else 20_000
    scenario = Scenario(
        platform="100x1", policy="fcfs",
        workload={"generate": {"name": "lublin", "parameters": {"tasks": tasks, "machine": 100}}},
    )  # fmt: skip
    native = CompiledScenario(scenario)
    python = CompiledScenario(scenario.replace(source=RecordedTimes()))
    seconds, answers = side_by_side({"built-in": native.run, "in Python": python.run}, 3)
    table = ResultTable(
        "Recorded times as a built-in source and as a source in Python (FCFS)",
        {"source": "s", "tasks/s": ",.0f", "time / built-in": ".1f"},
    )
    for name, taken in seconds.items():
        table.rows.append([name, tasks / taken, taken / seconds["built-in"]])
    result = BenchmarkResult(tables=[table])
    # Unknown figures are NaN, which is not equal to itself.
    if repr(answers["built-in"]) != repr(answers["in Python"]):
        result.failures.append("sources: the two sources do not give the same run")
    return result
