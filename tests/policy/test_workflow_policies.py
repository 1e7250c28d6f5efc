"""Policies of workflows: by hand, against plain twins, and as real schedulers."""

import math

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import twinloop as tl
from tests.cluster.scenarios import cases
from tests.cluster.test_laws_equal import everything, finish, recorded
from tests.examples import examples
from tests.policy.workflow_twins import CompletionTwin, ListTwin, list_placements, workflows
from twinloop._core import plan_static_list
from twinloop.engine import CompiledScenario, Simulation
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


@examples(25)
@given(workflows(), LISTS)
def test_list_scheduling_is_its_plain_twin(scenario, policy):
    native = list_placements(scenario.replace(policy=policy))
    assert native == list_placements(scenario.replace(policy=ListTwin(scenario, policy)))


@examples(25)
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


@examples(20)
@given(workflows(laws=False, memory=False, files=False), st.sampled_from(["heft", "cpop"]))
def test_the_run_follows_its_plan(scenario, name):
    """Without files, and with the declared run times, tasks run when and where they are planned."""
    tasks = [task.model_copy(update={"submit": 0.0}) for task in scenario.workload.tasks]
    # In the order of the ids, which resolves ties.
    tasks.sort(key=lambda task: task.id)
    scenario = scenario.replace(**{"workload.tasks": tasks})
    hosts = [
        (f"{cluster.name}-{host.name}-{number + 1:03d}", int(host.cores), host.speed or 1.0)
        for cluster in scenario.platform.clusters
        for host in cluster.hosts
        for number in range(host.count)
    ]
    rows = {task.id: row for row, task in enumerate(tasks)}
    widths = [int(task.cores) for task in tasks]
    costs = [
        [task.run_time / speed if task.cores <= cores else math.inf for _, cores, speed in hosts]
        for task in tasks
    ]
    edges = [(rows[parent], rows[task.id], 0.0) for task in tasks for parent in task.parents]
    plan = plan_static_list(name, costs, edges, [cores for _, cores, _ in hosts], widths)
    expected = [
        (task.id, hosts[machine][0], float(task.cores), round(start, 6), round(end, 6))
        for task, (machine, start, end) in zip(tasks, plan, strict=True)
    ]
    assert list_placements(scenario.replace(policy=name)) == expected


@examples(15)
@given(
    workflows(),
    LISTS | st.sampled_from(["min-min", "max-min", "heft", "cpop"]),
    st.floats(0, 30),
)
def test_copies_and_saved_states_go_on_in_the_same_way(scenario, policy, time):
    origin = Simulation(scenario.replace(policy=policy))
    origin.run_until(max(time, origin.now))
    copy = origin.copy()
    later = Simulation(scenario.replace(policy=policy), state=origin.state)
    ends = [
        each.run().select("id", "status", pl.col("end").round(6)) for each in (origin, copy, later)
    ]
    assert ends[0].equals(ends[1])
    assert ends[0].equals(ends[2])
    assert set(ends[0]["status"]) == {"completed"}


# --- by hand --------------------------------------------------------------------------------------

#: a before b and c, d after b: the bottom levels are a 9, b 6, c 2, d 2; e stands alone with 7.
DIAMOND = [
    {"id": "a", "run_time": 3},
    {"id": "b", "run_time": 4, "parents": ["a"]},
    {"id": "c", "run_time": 2, "parents": ["a"]},
    {"id": "d", "run_time": 2, "parents": ["b"]},
    {"id": "e", "run_time": 7},
]


def starts(policy, tasks, platform="1x1", **options):
    scenario = tl.Scenario(platform=platform, workload={"tasks": tasks} | options, policy=policy)
    rows = tl.simulate(scenario).placements.select("task", "start").rows()
    return dict(rows)


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("bottom-level", {"a": 0, "e": 3, "b": 10, "c": 14, "d": 16}),
        ("work", {"e": 0, "a": 7, "b": 10, "c": 14, "d": 16}),
        ("children", {"a": 0, "b": 3, "c": 7, "d": 9, "e": 11}),
    ],
)
def test_orders_by_hand(order, expected):
    assert starts(ListScheduling(order=order), DIAMOND) == expected


def test_declared_times_count_not_true_ones():
    """b has the longer request and the shorter run."""
    tasks = [
        {"id": "a", "run_time": 9, "requested_time": 10},
        {"id": "b", "run_time": 1, "requested_time": 20},
    ]
    assert starts("list-scheduling", tasks) == {"b": 0, "a": 1}
    assert starts("heft", tasks)["b"] == 0
    assert starts("min-min", tasks) == {"a": 0, "b": 9}
    assert starts("max-min", tasks) == {"b": 0, "a": 1}


#: Two slow hosts of 4 cores, a fast one of 2 cores.
TWO = {
    "clusters": [
        {"name": "slow", "hosts": [{"count": 2, "cores": 4}]},
        {"name": "fast", "hosts": [{"cores": 2, "speed": 3.0}]},
    ]
}


@pytest.mark.parametrize(
    ("cluster", "machine"),
    [
        ("fastest", "fast-H01-001"),
        ("most-idle", "slow-H01-001"),
        ("most-idle-speed", "slow-H01-001"),
    ],
)
def test_clusters_by_hand(cluster, machine):
    """8 idle cores of speed 1, and 2 of speed 3: 8 against 6."""
    scenario = tl.Scenario(
        platform=TWO, workload={"tasks": DIAMOND[:1]}, policy=ListScheduling(cluster=cluster)
    )
    assert tl.simulate(scenario).placements["machine"].to_list() == [machine]


@pytest.mark.parametrize(
    ("options", "cores"),
    [
        ({"cores": "max"}, 4),
        ({"cores": "max", "cap": 3}, 3),
        ({"cores": 0.9}, 2),
        ({"cores": 0.75}, 4),
    ],
)
def test_cores_by_hand(options, cores):
    """With a = 0.9, the efficiency 1 / (0.1 n + 0.9) is 0.91, 0.83 and 0.77 on 2, 3 and 4 cores."""
    task = {"id": "a", "run_time": 3, "speedup": {"amdahl": 0.9}, "max_cores": 8}
    policy = ListScheduling(cluster="most-idle", **options)
    scenario = tl.Scenario(platform=TWO, workload={"tasks": [task]}, policy=policy)
    assert tl.simulate(scenario).placements["cores"].to_list() == [cores]


STORES = {
    "clusters": [
        {"name": "one", "hosts": [{"cores": 1}]},
        {"name": "two", "hosts": [{"cores": 1}]},
    ],
    "stores": [{"name": "s1", "cluster": "one"}, {"name": "s2", "cluster": "two"}],
}


@pytest.mark.parametrize(("big", "machine"), [("s1", "one-H01-001"), ("s2", "two-H01-001")])
def test_most_data_by_hand(big, machine):
    files = [
        {"name": "x", "size": 100, "store": big},
        {"name": "y", "size": 10, "store": "s2" if big == "s1" else "s1"},
    ]
    scenario = tl.Scenario(
        platform=STORES,
        workload={"files": files, "tasks": [{"id": "a", "run_time": 1, "reads": ["x", "y"]}]},
        policy=ListScheduling(cluster="most-data"),
    )
    assert tl.simulate(scenario).placements["machine"].to_list() == [machine]


@pytest.mark.parametrize("name", ["list-scheduling", "min-min", "max-min", "heft", "cpop"])
def test_tasks_without_work(name):
    assert starts(name, [{"id": each, "run_time": 0} for each in "abc"]) == dict.fromkeys("abc", 0)


def test_min_min_waits_for_the_machine_that_completes_first():
    """The second task ends at 6 + 6 on the fast host, at 18 on the slow one, which stays free."""
    platform = {"clusters": [{"hosts": [{"cores": 1, "speed": 3.0}, {"cores": 1}]}]}
    tasks = [{"id": name, "run_time": 18} for name in "ab"]
    assert starts("min-min", tasks, platform) == {"a": 0, "b": 6}


def test_min_min_places_a_task_where_its_data_is():
    """`first` takes the fast host, so `make` runs on the other one, and `use` after it.

    There it takes 9 s; on the fast host 10 s for 100 B at 10 B/s, and 8 s.
    """
    hosts = [
        {"names": [name], "cores": 1, "speed": speed, "ports": "10 B/s", "store": {"read": 1e9}}
        for name, speed in (("near", 1.0), ("far", 1.125))
    ]
    tasks = [
        {"id": "make", "run_time": 1, "writes": ["mesh"]},
        {"id": "use", "run_time": 9, "reads": ["mesh"], "parents": ["make"]},
        {"id": "first", "run_time": 0.5},
    ]
    scenario = tl.Scenario(
        platform={"clusters": [{"hosts": hosts}]},
        workload={"files": [{"name": "mesh", "size": 100, "store": "local"}], "tasks": tasks},
        policy="min-min",
    )
    placed = dict(tl.simulate(scenario).placements.select("task", "machine").rows())
    assert placed == {"first": "far", "make": "near", "use": "near"}


@pytest.mark.parametrize("name", ["list-scheduling", "min-min", "heft"])
def test_tasks_that_are_added_in_the_run(name):
    """A child is added to a task that waits: the task keeps its place, and both run."""
    options = {"order": "children"} if name == "list-scheduling" else {}
    sim = Simulation(
        tl.Scenario(
            platform="1x1",
            workload={
                "tasks": [{"id": "a", "run_time": 5}, {"id": "b", "run_time": 1, "submit": 2}]
            },
            policy={"name": name, "options": options},
        )
    )
    sim.run_until(1)
    sim.submit("x", cores=1, run_time=1)
    sim.run_until(3)
    sim.submit("y", cores=1, run_time=1, parents=["x"])
    assert dict(sim.run().select("id", "end").rows()) == {"a": 5.0, "b": 6.0, "x": 7.0, "y": 8.0}


def test_a_failed_task_does_not_hold_up_the_plan():
    """The task that is planned before `d` on its host never becomes ready."""
    tasks = [
        {"id": "a", "run_time": 5, "requested_time": 1},
        {"id": "b", "run_time": 9, "parents": ["a"]},
        {"id": "c", "run_time": 1, "submit": 2},
        {"id": "d", "run_time": 1, "submit": 3},
    ]
    scenario = tl.Scenario(
        platform="1x1",
        workload={"tasks": tasks},
        policy="heft",
        model={"kill_at_requested_time": True},
    )
    run = tl.simulate(scenario)
    status = dict(run.tasks.select("id", "status").rows())
    assert status == {"a": "killed", "b": "failed", "c": "completed", "d": "completed"}


#: The policies of workflows as they are drawn for the random cases of the simulator.
WORKFLOW = tuple(
    st.fixed_dictionaries({"name": st.just(name), "options": options})
    for name, options in (
        (
            "list-scheduling",
            st.fixed_dictionaries(
                {
                    "order": st.sampled_from(["bottom-level", "children", "data", "work"]),
                    "cluster": st.sampled_from(["fastest", "most-idle", "most-data"]),
                }
            ),
        ),
        *((name, st.just({})) for name in ("min-min", "max-min", "heft", "cpop")),
    )
)


@examples(25)
@given(cases(policies=WORKFLOW), st.floats(0, 12))
def test_random_cases_end_and_copies_agree(case, time):
    """Failures, kills, queues, windows, memory, sessions: nothing hangs, and nothing is refused."""
    compiled = CompiledScenario(case.scenario)
    whole, run = recorded(compiled), recorded(compiled)
    finish(whole)
    while run.next_time() <= time and run.step():
        pass
    copy = run.copy()
    for each in (run, copy):
        finish(each)
        assert everything(each) == everything(whole)
