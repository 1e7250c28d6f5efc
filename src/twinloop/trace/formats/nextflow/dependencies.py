"""Dependencies between tasks, from the dependencies between their processes.

Nextflow does not record which task has written the input of which. Assumed are all dependencies
that the processes, the tags and the times of the tasks allow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from twinloop.description.errors import InputError
from twinloop.trace.formats.cleaning_counts import Tally

#: Limit of the number of dependencies, whose names must fit in memory.
_MAX_DEPENDENCIES: Final = 5_000_000


class TaskTimes(NamedTuple):
    """What is known of a task: its process and tag, its first submission and its end."""

    task: str
    process: str
    tag: str | None
    submit: float | None
    end: float | None


def assume_dependencies(
    tasks: Sequence[TaskTimes], parents: Mapping[str, Sequence[str]], tally: Tally
) -> list[list[str]]:
    """Return the parents of each task.

    A task depends on the tasks of each parent process with its tag or, if there are none, on all
    tasks of this process. A task that ended after the submission of another is no parent of it.

    >>> tasks = [TaskTimes("a x", "A", "x", 0, 5), TaskTimes("a y", "A", "y", 0, 9),
    ...     TaskTimes("b x", "B", "x", 5, 6), TaskTimes("c", "C", None, 9, 10)]
    >>> assume_dependencies(tasks, {"B": ["A"], "C": ["A", "B"]}, Tally())
    [[], [], ['a x'], ['a x', 'a y', 'b x']]
    """
    by_process: dict[str, list[TaskTimes]] = {}
    by_tag: dict[tuple[str, str], list[TaskTimes]] = {}
    for task in tasks:
        by_process.setdefault(task.process, []).append(task)
        if task.tag is not None:
            by_tag.setdefault((task.process, task.tag), []).append(task)
    found: list[list[str]] = []
    tagged = all_tasks = too_late = total = 0
    for task in tasks:
        names: list[str] = []
        for process in parents.get(task.process, ()):
            same = by_tag.get((process, task.tag), []) if task.tag is not None else []
            candidates = same or by_process.get(process, [])
            possible = [each.task for each in candidates if not _ends_after(each, task)]
            too_late += len(candidates) - len(possible)
            tagged += len(possible) if same else 0
            all_tasks += 0 if same else len(possible)
            names += possible
        total += len(names)
        if total > _MAX_DEPENDENCIES:
            raise InputError(
                f"the diagram gives more than {_MAX_DEPENDENCIES:,} dependencies between tasks",
                kind="too-large",
                field="dag",
            )
        found.append(names)
    tally.note(
        "assumed",
        "dependencies on tasks with the same tag, of processes with an edge in the diagram",
        count=tagged,
    )
    tally.note(
        "assumed",
        "dependencies on all tasks of a process with an edge in the diagram, without equal tags",
        count=all_tasks,
    )
    what = "dependencies of the diagram on tasks that ended after the submission, left out"
    tally.note("ignored", what, count=too_late)
    return found


def _ends_after(parent: TaskTimes, child: TaskTimes) -> bool:
    return parent.end is not None and child.submit is not None and parent.end > child.submit
