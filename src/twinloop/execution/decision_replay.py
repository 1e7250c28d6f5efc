"""Replay of the events of a run to its policy, to compare the decisions."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from twinloop.engine import CompiledScenario
from twinloop.execution.new_tasks import make_row_from_columns
from twinloop.trace import Trace

#: One decision: time, kind, task and nodes.
DecisionRow = tuple[float, str, str | None, tuple[str | None, ...]]


class DecisionReplay(NamedTuple):
    """The decisions of a run, and the decisions of the policy for the same events.

    >>> DecisionReplay([], []).is_identical
    True
    """

    recorded: list[DecisionRow]
    replayed: list[DecisionRow]

    @property
    def is_identical(self) -> bool:
        """Whether the decisions are equal, in their order, times and nodes."""
        return self.recorded == self.replayed


def replay_decisions(trace: Trace, compiled: CompiledScenario) -> DecisionReplay:
    """Replay the events of a run to its policy, and collect the decisions.

    Args:
        trace: A real run; its decisions table contains the events, too.
        compiled: The compiled scenario of that run.

    >>> from twinloop.execution import execute
    >>> from twinloop.scenario import Scenario
    >>> scenario = Scenario(platform="1x1", policy="fcfs", workload={"tasks": [
    ...     {"id": "hello", "command": ["true"], "run_time": 0.01}]})
    >>> replay_decisions(execute(scenario), CompiledScenario(scenario)).is_identical
    True
    """
    dispatcher = compiled.dispatcher()
    ids = list(compiled.task_ids)
    for columns in trace.tasks.filter(~pl.col("id").is_in(ids)).iter_rows(named=True):
        dispatcher.add(make_row_from_columns(compiled, columns))
        ids.append(columns["id"])
    tasks = {name: index for index, name in enumerate(ids)}
    names = list(compiled.names.machines)
    machines = {name: index for index, name in enumerate(names)}
    submits = dict(trace.tasks.select("id", "submit").iter_rows())
    placed: set[int] = set()
    recorded: list[DecisionRow] = []
    replayed: list[DecisionRow] = []
    for t, kind, subject, target in _merge_placements(trace.decisions):
        task = None if subject is None else tasks[subject]
        if kind == "ask":
            for decision_kind, index, placement in dispatcher.decide(t):
                name = None if index is None else ids[index]
                nodes = tuple(names[machine] for machine, _ in placement) or (None,)
                replayed.append((t, _KINDS.get(decision_kind, decision_kind), name, nodes))
                if index is not None:
                    (placed.add if decision_kind == "place" else placed.discard)(index)
        elif kind == "ready" and task is not None:
            dispatcher.submit(task, t, submits.get(str(subject)))
        elif kind == "failed" and task is not None:
            dispatcher.reject_placement(task, t, target[0] or "")
            placed.discard(task)
        elif kind == "over" and task is not None:
            if task in placed:
                dispatcher.end(task, t)
                placed.discard(task)
            elif task in dispatcher.view.waiting:
                dispatcher.withdraw(task, t)
        elif kind in ("open", "close"):
            dispatcher.set_open(machines[str(target[0])], kind == "open", t)
        else:
            recorded.append((t, kind, subject, target))
    return DecisionReplay(recorded, replayed)


_KINDS = {"open": "set-state on", "close": "set-state off"}


def _merge_placements(decisions: pl.DataFrame) -> list[DecisionRow]:
    """Return the rows of the decisions table; the placement of a task on several nodes is one."""
    rows: list[DecisionRow] = []
    for t, kind, subject, target in decisions.select("t", "kind", "subject", "target").iter_rows():
        if rows and kind == "place" and rows[-1][:3] == (t, kind, subject):
            rows[-1] = (t, kind, subject, (*rows[-1][3], target))
        else:
            rows.append((t, kind, subject, (target,)))
    return rows
