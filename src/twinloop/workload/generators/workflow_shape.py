"""The shape of a workflow: types of tasks, classes of equivalent tasks, groups of classes.

Two tasks are equivalent if they have the same type, and so have all tasks above and below them,
disregarding how many there are: each task of the class "filter" has a parent of the class "split"
and a child of the class "map". WfCommons finds repeated patterns in the same way (see `Recipe`).
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import polars as pl

from twinloop.description import InputError
from twinloop.trace.dependency_cycles import find_blocked_tasks
from twinloop.trace.dependency_graph import compute_levels, list_dependencies

#: Limit of the tasks for which descendants are stored as bits, one for each pair of tasks.
_MAX_PAIRED: Final = 20_000

# The number at the end of a name (sort_12, sort_ID000012), or its tag (sort (sample 12)).
_NUMBER: Final = re.compile(r"(?<=.)(?:[ ._-]*(?:ID)?[0-9]+|\s*\([^()]*\))$", re.DOTALL)


@dataclass(frozen=True)
class Shape:
    """The tasks of a workflow as rows, with their classes.

    >>> tasks = pl.DataFrame({"id": ["s", "w1", "w2", "e"],
    ...     "parents": [[], ["s"], ["s"], ["w1", "w2"]]})
    >>> shape = Shape.of(tasks)
    >>> shape.types, shape.classes, shape.members, shape.depth
    (['s', 'w', 'w', 'e'], [0, 1, 1, 2], [[0], [1, 2], [3]], 3)
    """

    types: list[str]
    parents: list[list[int]]
    children: list[list[int]]
    levels: list[int]
    #: The class of each task; classes are numbered by level.
    classes: list[int]
    #: The tasks of each class, in an order in which the tasks of a branch are neighbours.
    members: list[list[int]]
    #: Classes of the same size whose tasks correspond one to one: chains, and pairs of fork and
    #: join. They are scaled together.
    groups: list[list[int]]

    @property
    def depth(self) -> int:
        """The number of levels."""
        return max(self.levels, default=-1) + 1

    @classmethod
    def of(cls, tasks: pl.DataFrame) -> Shape:
        """Analyse tasks with the columns `id`, `parents` and, optionally, `name`."""
        count = tasks.height
        graph = list_dependencies(tasks)
        _, cycle = find_blocked_tasks(graph.parents, graph.children, count)
        if cycle:
            names = " -> ".join(tasks["id"][row] for row in cycle[:10])
            raise InputError(f"the tasks wait for each other: {names}", kind="dependency-cycle")
        parents: list[list[int]] = [[] for _ in range(count)]
        children: list[list[int]] = [[] for _ in range(count)]
        for parent, child in zip(graph.parents.tolist(), graph.children.tolist(), strict=True):
            parents[child].append(parent)
            children[parent].append(child)
        levels = compute_levels(graph.parents, graph.children, count).tolist()
        types = find_types(tasks)
        classes = _find_classes(types, parents, children, levels)
        members: list[list[int]] = [[] for _ in range(max(classes, default=-1) + 1)]
        for row in _order_by_branch(parents, children, levels, classes):
            members[classes[row]].append(row)
        finder = _GroupFinder(parents, children, classes, members)
        finder.join_neighbours()
        finder.join_forks_and_joins(levels)
        return cls(types, parents, children, levels, classes, *finder.finish())


def find_types(tasks: pl.DataFrame) -> list[str]:
    """Find the type of each task: its name, or its id without the number at its end.

    Of the two, the one with fewer different values is used, because programs that log workflows
    put the type into the one or the other.

    >>> find_types(pl.DataFrame({"id": ["sort_ID0001", "sort_ID0002"], "name": ["sh a", "sh b"]}))
    ['sort', 'sort']
    """
    ids = [_NUMBER.sub("", name) for name in tasks["id"]]
    if "name" not in tasks.columns or tasks["name"].null_count():
        return ids
    names = tasks["name"].to_list()
    return names if len(set(names)) <= len(set(ids)) else ids


def _find_classes(
    types: Sequence[str],
    parents: Sequence[Sequence[int]],
    children: Sequence[Sequence[int]],
    levels: Sequence[int],
) -> list[int]:
    """Number the classes of equivalent tasks, by level and then by their first task."""
    numbers: dict[Hashable, int] = {}

    def intern(key: Hashable) -> int:
        return numbers.setdefault(key, len(numbers))

    by_level = sorted(range(len(types)), key=lambda row: (levels[row], row))
    above, below = [0] * len(types), [0] * len(types)
    for row in by_level:
        above[row] = intern((types[row], frozenset(above[parent] for parent in parents[row])))
    for row in reversed(by_level):
        below[row] = intern((types[row], frozenset(below[child] for child in children[row]), True))
    classes: dict[Hashable, int] = {}
    found = [0] * len(types)
    for row in by_level:
        found[row] = classes.setdefault((above[row], below[row]), len(classes))
    return found


def _order_by_branch(
    parents: Sequence[Sequence[int]],
    children: Sequence[Sequence[int]],
    levels: Sequence[int],
    classes: Sequence[int],
) -> list[int]:
    """Order the tasks by a depth-first search that does not pass through tasks without equals.

    These are the forks and joins of the whole workflow, so that the search finds one branch after
    the other.
    """
    sizes = [0] * (max(classes, default=-1) + 1)
    for number in classes:
        sizes[number] += 1
    order: list[int] = []
    visited = [False] * len(classes)
    for root in sorted(range(len(classes)), key=lambda row: (levels[row], row)):
        pending = [root]
        while pending:
            row = pending.pop()
            if visited[row]:
                continue
            visited[row] = True
            order.append(row)
            if sizes[classes[row]] > 1:
                pending += reversed([*children[row], *parents[row]])
    return order


class _GroupFinder:
    """Finds classes of one size whose tasks correspond one to one, and which tasks correspond."""

    def __init__(
        self,
        parents: Sequence[Sequence[int]],
        children: Sequence[Sequence[int]],
        classes: Sequence[int],
        members: Sequence[Sequence[int]],
    ) -> None:
        self.parents, self.children = parents, children
        self.classes, self.members = classes, members
        self.group = list(range(len(members)))
        #: The first task, in the order of the branches, of those that correspond to each task.
        self.unit = list(range(len(classes)))
        self.position = [0] * len(classes)
        for tasks in members:
            for position, row in enumerate(tasks):
                self.position[row] = position

    def join_neighbours(self) -> None:
        """Join classes of parents and children, and of the single parents of the same child."""
        for number, tasks in enumerate(self.members):
            if len(tasks) == 1:
                continue
            for other in {self.classes[row] for row in self.parents[tasks[0]]}:
                pairs = [
                    (parent, row)
                    for row in tasks
                    for parent in self.parents[row]
                    if self.classes[parent] == other
                ]
                self._join(other, number, pairs)
        for tasks in self.members:
            single = [self._find_single_parents(row) for row in tasks]
            for one, other in pairwise(sorted(set(single[0]).intersection(*single))):
                self._join(one, other, {(found[one], found[other]) for found in single})

    def _find_single_parents(self, row: int) -> dict[int, int]:
        """Find the classes of which a task has exactly one parent, and this parent."""
        found: dict[int, list[int]] = {}
        for parent in self.parents[row]:
            found.setdefault(self.classes[parent], []).append(parent)
        return {number: rows[0] for number, rows in found.items() if len(rows) == 1}

    def join_forks_and_joins(self, levels: Sequence[int]) -> None:
        """Join the class of a fork with that of the join below it."""
        if len(levels) > _MAX_PAIRED:
            return
        below = [0] * len(self.classes)  # the descendants of each task, as bits
        for row in sorted(range(len(levels)), key=lambda each: -levels[each]):
            for child in self.children[row]:
                below[row] |= below[child] | (1 << child)
        masks = [sum(1 << row for row in tasks) for tasks in self.members]
        several = [number for number, tasks in enumerate(self.members) if len(tasks) > 1]
        for upper in several:
            for lower in several:
                if upper == lower or len(self.members[upper]) != len(self.members[lower]):
                    continue
                reached = [below[row] & masks[lower] for row in self.members[upper]]
                if all(bits and not bits & (bits - 1) for bits in reached):
                    pairs = zip(self.members[upper], reached, strict=True)
                    self._join(upper, lower, [(row, bits.bit_length() - 1) for row, bits in pairs])

    def _join(self, one: int, other: int, pairs: Iterable[tuple[int, int]]) -> None:
        """Join two classes if the pairs of their tasks are a one-to-one correspondence."""
        pairs = list(pairs)
        size = len(self.members[one])
        if size == 1 or size != len(self.members[other]) or len(pairs) != size:
            return
        if len({first for first, _ in pairs}) < size or len({row for _, row in pairs}) < size:
            return
        if self._find(self.group, one) == self._find(self.group, other):
            return
        self.group[self._find(self.group, other)] = self._find(self.group, one)
        for first, second in pairs:
            self.unit[self._find(self.unit, second)] = self._find(self.unit, first)

    def _find(self, links: list[int], node: int) -> int:
        while links[node] != node:
            links[node] = links[links[node]]
            node = links[node]
        return node

    def finish(self) -> tuple[list[list[int]], list[list[int]]]:
        """Return the members of the classes, corresponding ones in one order, and the groups."""
        groups: dict[int, list[int]] = {}
        for number in range(len(self.members)):
            groups.setdefault(self._find(self.group, number), []).append(number)
        members = [list(tasks) for tasks in self.members]
        for numbers in groups.values():
            rank = {
                self._find(self.unit, row): position
                for position, row in enumerate(self.members[numbers[0]])
            }
            for number in numbers:
                members[number].sort(key=lambda row: rank[self._find(self.unit, row)])
        return members, list(groups.values())
