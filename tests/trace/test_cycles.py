"""Cycles of dependencies, against the definition."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from twinloop.trace.dependency_cycles import find_blocked_tasks


@given(edges=st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=16))
def test_a_task_that_depends_on_a_cycle_is_blocked(edges: list[tuple[int, int]]) -> None:
    above: dict[int, set[int]] = {task: set() for task in range(8)}
    for parent, child in edges:
        above[child].add(parent)
    reach = {task: set(of) for task, of in above.items()}
    for _ in range(8):
        reach = {task: of.union(*(reach[parent] for parent in of)) for task, of in reach.items()}
    round_and_round = {task for task in reach if task in reach[task]}
    parents, children = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    rows, cycle = find_blocked_tasks(parents, children, 8)
    assert rows.tolist() == [t for t in reach if t in round_and_round or reach[t] & round_and_round]
    assert bool(cycle) == bool(round_and_round)
    if cycle:
        assert cycle[0] == cycle[-1]
        assert len(set(cycle)) == len(cycle) - 1
        assert all(parent in above[task] for task, parent in pairwise(cycle))


def test_a_long_cycle_is_found() -> None:
    count = 200_000
    tasks = np.arange(count)
    rows, cycle = find_blocked_tasks((tasks + 1) % count, tasks, count)
    assert rows.tolist() == tasks.tolist()
    assert cycle == [*range(count), 0]
