"""Policies of workflows: by hand, against plain twins, and as real schedulers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import twinloop as tl
from tests.examples import examples
from tests.policy.workflow_twins import ListTwin, list_placements, workflows
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
