"""Tasks that a source adds to a real run: their columns in the trace, and their command."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from twinloop.description.errors import TwinloopError
from twinloop.engine import CompiledScenario
from twinloop.engine.new_rows import NewRow, make_row
from twinloop.engine.run_tasks import read_command
from twinloop.workload import NewTask


def read_row(compiled: CompiledScenario, values: Mapping[str, Any]) -> NewRow:
    """Return the row of a task that the source submits; an error if there is nothing to run."""
    row = NewRow(
        **{
            **values,
            "amounts": tuple(values["amounts"]),
            "parents": tuple(values.get("parents", ())),
        }
    )
    if not read_command(row.command)["command"]:
        raise TwinloopError(
            f"the source {compiled.scenario.source.title} submits the new task {row.id!r}: a real "
            "execution has no command for it; give it one: NewTask(command=[...])"
        )
    return row


def describe_row(compiled: CompiledScenario, row: NewRow, ids: Sequence[str]) -> dict[str, Any]:
    """Return the columns of the task in the table of tasks, as values of JSON.

    Args:
        compiled: The compiled scenario.
        row: The row of the task.
        ids: The IDs of the tasks of the run, by row.
    """
    names = compiled.names
    is_requested = not math.isnan(row.requested_time)
    resources = [
        {"name": name, "amount": amount}
        for name, amount in zip(names.resources, row.amounts, strict=True)
        if amount
    ]
    return {
        "id": row.id,
        "user": _find_name(names.users, row.user),
        "group": _find_name(names.groups, row.group),
        "queue": _find_name(names.queues, row.queue),
        "kind": _find_name(names.kinds, row.kind),
        "submit_recorded": row.submit,
        "requested_cores": row.cores,
        "requested_nodes": row.nodes or None,
        "requested_memory": row.memory or None,
        "requested_time": row.requested_time if is_requested else None,
        "planned_time": None if is_requested else row.work / row.limit,
        "resources": resources or None,
        "deadline": row.deadline if row.deadline < math.inf else None,
        "parents": [ids[each] for each in row.parents if isinstance(each, int)] or None,
        **read_command(row.command),
    }


def make_row_from_columns(compiled: CompiledScenario, columns: Mapping[str, Any]) -> NewRow:
    """Return the row of a task from its columns in the trace, without parents and command."""
    task = NewTask(
        id=columns["id"],
        run_time=columns["planned_time"] or 0.0,
        cores=columns["requested_cores"],
        requested_time=columns["requested_time"],
        memory=columns["requested_memory"] or 0.0,
        nodes=columns["requested_nodes"] or 0,
        deadline=columns["deadline"],
        resources={each["name"]: each["amount"] for each in columns["resources"] or ()},
        **{name: columns[name] for name in ("user", "group", "queue", "kind")},
    )
    return make_row(compiled, task, columns["submit"])


def _find_name(names: Sequence[str], code: int) -> str | None:
    return names[code] or None if 0 <= code < len(names) else None
