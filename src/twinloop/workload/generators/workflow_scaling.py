"""Workflows of the shape of another one, with more or fewer tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from twinloop.workload.generators.workflow_shape import Shape


class Link(NamedTuple):
    """A dependency of a new task: a new task, and the parent in the instance that it stands for."""

    parent: int
    stands_for: int


@dataclass(frozen=True)
class ScaledWorkflow:
    """New tasks, each a copy of a task of the instance, in an order of levels.

    >>> import polars as pl
    >>> shape = Shape.of(pl.DataFrame({"id": ["s", "w1", "w2", "e"],
    ...     "parents": [[], ["s"], ["s"], ["w1", "w2"]]}))
    >>> scaled = scale_workflow(shape, count_copies(shape, 6))
    >>> scaled.originals, [[link.parent for link in links] for links in scaled.links]
    ([0, 1, 1, 2, 2, 3], [[], [0], [0], [0], [0], [1, 2, 3, 4]])
    """

    #: The task of the instance that each new task is a copy of.
    originals: list[int]
    #: Which copy of it: 0, 1...
    copies: list[int]
    links: list[list[Link]]


def count_copies(shape: Shape, count: int) -> list[int]:
    """Compute the number of tasks of each class in a workflow of about `count` tasks.

    Classes of one task keep one. The others share what is left in proportion to their sizes (by
    largest remainders), where the classes of a group have the same number. The sum is `count` if
    the sizes of the groups allow it, else the nearest that was found.

    >>> import polars as pl
    >>> shape = Shape.of(pl.DataFrame({"id": ["a1", "a2", "b1", "b2"],
    ...     "parents": [[], [], ["a1"], ["a2"]]}))
    >>> count_copies(shape, 7), count_copies(shape, 8)
    ([3, 3], [4, 4])
    """
    groups = [numbers for numbers in shape.groups if len(shape.members[numbers[0]]) > 1]
    sizes = [len(shape.members[numbers[0]]) for numbers in groups]
    weights = [len(numbers) for numbers in groups]
    fixed = len(shape.members) - sum(weights)
    total = sum(size * weight for size, weight in zip(sizes, weights, strict=True))
    wanted = max(0, count - fixed)
    # Exact arithmetic with whole numbers: size * wanted / total.
    chosen = [max(1, size * wanted // total) for size in sizes]

    def excess(group: int) -> int:
        """The distance of a group above its share, in units of 1 / total."""
        return chosen[group] * total - sizes[group] * wanted

    missing = wanted - sum(each * weight for each, weight in zip(chosen, weights, strict=True))
    while missing > 0:
        fitting = [group for group, weight in enumerate(weights) if weight <= missing]
        if not fitting:
            break
        group = min(fitting, key=excess)
        chosen[group] += 1
        missing -= weights[group]
    while missing < 0:
        fitting = [g for g, weight in enumerate(weights) if weight <= -missing and chosen[g] > 1]
        if not fitting:
            break
        group = max(fitting, key=excess)
        chosen[group] -= 1
        missing += weights[group]
    _exchange(chosen, weights, missing)
    copies = [1] * len(shape.members)
    for numbers, number in zip(groups, chosen, strict=True):
        for each in numbers:
            copies[each] = number
    return copies


def _exchange(chosen: list[int], weights: Sequence[int], missing: int) -> None:
    """Add a copy of one group, or remove one of another, if this comes nearer to the count."""
    best: tuple[int, int | None, int | None] = (abs(missing), None, None)
    for up in (None, *range(len(weights))):
        for down in (None, *(group for group, number in enumerate(chosen) if number > 1)):
            more = 0 if up is None else weights[up]
            less = 0 if down is None else weights[down]
            if abs(missing - more + less) < best[0]:
                best = (abs(missing - more + less), up, down)
    _, up, down = best
    if up is not None:
        chosen[up] += 1
    if down is not None:
        chosen[down] -= 1


class _Places:
    """The places of the copies of a class: which new tasks stand for which task."""

    def __init__(self, size: int, copies: int) -> None:
        self.size, self.copies = size, copies

    def find_original(self, place: int) -> int:
        """Find the task (by its position in its class) of which the task at a place is a copy."""
        if self.copies >= self.size:
            return ((place + 1) * self.size - 1) // self.copies
        return -(-place * self.size // self.copies)

    def find_places(self, position: int) -> range:
        """Find the places of the tasks that stand for a task: its copies, or a neighbour."""
        first = position * self.copies // self.size
        return range(first, max(first + 1, (position + 1) * self.copies // self.size))


def scale_workflow(shape: Shape, copies: Sequence[int]) -> ScaledWorkflow:
    """Make a workflow with these numbers of tasks of each class.

    A new task is a copy of a task t of the instance, and depends on copies of all parents of t. If
    both have several copies, these are assigned to each other in order, so that branches stay
    apart. Where t has only one parent of a class, so has each copy. If there are fewer tasks than
    in the instance, a task that is left out is replaced by its neighbour in its class.

    Tasks of a class have the same level, and parents and children of the same classes, so depth
    and types stay as they are.
    """
    return _Scaling(shape, copies).run()


class _Scaling:
    """The state of `scale_workflow`."""

    def __init__(self, shape: Shape, copies: Sequence[int]) -> None:
        self.shape = shape
        self.places = [
            _Places(len(tasks), number) for tasks, number in zip(shape.members, copies, strict=True)
        ]
        self.first = [0]
        for number in copies:
            self.first.append(self.first[-1] + number)
        self.position = {
            row: position for tasks in shape.members for position, row in enumerate(tasks)
        }
        self.class_of_new = [number for number, count in enumerate(copies) for _ in range(count)]
        self.originals = [
            shape.members[number][self.places[number].find_original(place)]
            for number, count in enumerate(copies)
            for place in range(count)
        ]
        self.copies = [
            task - self._find_new(original)[0] for task, original in enumerate(self.originals)
        ]
        self.links: list[list[Link]] = [[] for _ in self.originals]
        self.linked: set[tuple[int, int]] = set()
        #: The number of parents of each class of each task of the instance.
        self.parent_counts = [
            Counter(shape.classes[parent] for parent in parents) for parents in shape.parents
        ]
        #: The children of each new task, by their class.
        self.children: list[dict[int, list[int]]] = [{} for _ in self.originals]

    def run(self) -> ScaledWorkflow:
        for task in range(len(self.originals)):
            for parent in self.shape.parents[self.originals[task]]:
                self._link_parent(task, parent)
        for task in range(len(self.originals)):
            self._link_missing_children(task)
        return ScaledWorkflow(self.originals, self.copies, self.links)

    def _find_new(self, row: int) -> range:
        """Find the new tasks that stand for a task of the instance."""
        number = self.shape.classes[row]
        places = self.places[number].find_places(self.position[row])
        return range(self.first[number] + places.start, self.first[number] + places.stop)

    def _link_parent(self, task: int, parent: int) -> None:
        """Link a new task to copies of one parent of its original."""
        original = self.originals[task]
        mine, others = len(self._find_new(original)), self._find_new(parent)
        copy = self.copies[task]
        is_single = self.parent_counts[original][self.shape.classes[parent]] == 1
        if len(others) <= mine or is_single:
            chosen = [others[copy * len(others) // mine]]
        else:
            chosen = [
                each for place, each in enumerate(others) if place * mine // len(others) == copy
            ]
        for each in chosen:
            self._add(each, task, parent)

    def _add(self, parent: int, task: int, stands_for: int) -> None:
        if (parent, task) not in self.linked:
            self.linked.add((parent, task))
            self.children[parent].setdefault(self.class_of_new[task], []).append(task)
            self.links[task].append(Link(parent, stands_for))

    def _link_missing_children(self, task: int) -> None:
        """Link a new task to a child of each class in which its original has children."""
        original = self.originals[task]
        for child in self.shape.children[original]:
            number = self.shape.classes[child]
            if number in self.children[task]:
                continue
            is_single = self.parent_counts[child][self.shape.classes[original]] == 1
            if is_single and self._take_child(task, number):
                continue
            mine, others = len(self._find_new(original)), self._find_new(child)
            self._add(task, others[self.copies[task] * len(others) // mine], original)

    def _take_child(self, task: int, number: int) -> bool:
        """Take a child of a class from the nearest task of the same class that has several."""
        own = self.class_of_new[task]
        equals = range(self.first[own], self.first[own + 1])
        giving = [
            each for each in equals if each != task and len(self.children[each].get(number, ())) > 1
        ]
        if not giving:
            return False
        giver = min(giving, key=lambda each: (abs(each - task), each))
        child = self.children[giver][number].pop()
        links = self.links[child]
        at = next(place for place, link in enumerate(links) if link.parent == giver)
        links[at] = Link(task, links[at].stands_for)
        self.linked.discard((giver, child))
        self.linked.add((task, child))
        self.children[task][number] = [child]
        return True
