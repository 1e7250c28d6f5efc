"""Dependencies between tasks: do they go round in a circle?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def cycle(parents: Mapping[str, Sequence[str]]) -> list[str]:
    """A circle of tasks that wait for each other, its first task named again at its end.

    Empty if there is none. Parents that are no task are passed over.

    >>> cycle({"a": [], "b": ["a"], "c": ["b", "a"]})
    []
    >>> cycle({"a": ["c"], "b": ["a"], "c": ["b"]})
    ['a', 'c', 'b', 'a']
    """
    waiting = {task: len({p for p in named if p in parents}) for task, named in parents.items()}
    children: dict[str, list[str]] = {task: [] for task in parents}
    for task, named in parents.items():
        for parent in {p for p in named if p in parents}:
            children[parent].append(task)
    free = [task for task, count in waiting.items() if count == 0]
    while free:
        for child in children[free.pop()]:
            waiting[child] -= 1
            if waiting[child] == 0:
                free.append(child)
    held = [task for task, count in waiting.items() if count > 0]
    if not held:
        return []
    # Every task that is held waits for one that is held: going back long enough ends in a circle.
    path = [held[0]]
    place = {held[0]: 0}
    while True:
        task = next(p for p in parents[path[-1]] if waiting.get(p, 0) > 0)
        if task in place:
            return [*path[place[task] :], task]
        place[task] = len(path)
        path.append(task)
