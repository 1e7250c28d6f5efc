"""Policies of workflows: by hand, against plain twins, and as real schedulers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import twinloop as tl
from tests.examples import examples
from tests.policy.workflow_twins import CompletionTwin, ListTwin, list_placements, workflows
from twinloop._core import plan_static_list
from twinloop.policy import ListScheduling

LISTS = st.builds(
    ListScheduling,
    order=st.sampled_from(["bottom-level", "children", "data", "work"]),
    cluster=st.sampled_from(["fastest", "most-idle", "most-idle-speed", "most-data"]),
    cores=st.sampled_from([0.9, 0.5, 1.0, "max"]),
    cap=st.none() | st.integers(1, 4),
    ties=st.sampled_from(["last", "first"]),
    data=st.sampled_from(["input+output", "input"]),
)


@examples(40)
@given(workflows(), LISTS)
def test_list_scheduling_is_its_plain_twin(scenario, policy):
    native = list_placements(scenario.replace(policy=policy))
    assert native == list_placements(scenario.replace(policy=ListTwin(scenario, policy)))


@examples(30)
@given(workflows(laws=False), st.sampled_from(["min-min", "max-min"]))
def test_completion_times_are_those_of_the_plain_twin(scenario, name):
    twin = CompletionTwin(scenario, largest=name == "max-min")
    native = list_placements(scenario.replace(policy=name))
    assert native == list_placements(scenario.replace(policy=twin))


# --- static plans ---------------------------------------------------------------------------------

#: The computation costs and the edges of the example of Topcuoglu, Hariri and Wu (2002), Figures 2
#: and 3: ten tasks on three processors. With HEFT it takes 80, with CPOP 86.
COSTS = [
    [14, 16, 9], [13, 19, 18], [11, 13, 19], [13, 8, 17], [12, 13, 10],
    [13, 16, 9], [7, 15, 11], [5, 11, 14], [18, 12, 20], [21, 7, 16],
]  # fmt: skip
EDGES = [
    (1, 2, 18), (1, 3, 12), (1, 4, 9), (1, 5, 11), (1, 6, 14), (2, 8, 19), (2, 9, 16), (3, 7, 23),
    (4, 8, 27), (4, 9, 23), (5, 9, 13), (6, 8, 15), (7, 10, 17), (8, 10, 11), (9, 10, 13),
]  # fmt: skip


@pytest.mark.parametrize(("method", "makespan"), [("heft", 80.0), ("cpop", 86.0)])
def test_published_example(method, makespan):
    edges = [(parent - 1, child - 1, float(cost)) for parent, child, cost in EDGES]
    plan = plan_static_list(method, COSTS, edges, [1, 1, 1], [1] * 10)
    assert max(end for _, _, end in plan) == makespan
    for parent, child, cost in edges:
        (before, _, end), (after, start, _) = plan[parent], plan[child]
        assert start >= end + (cost if before != after else 0.0)
