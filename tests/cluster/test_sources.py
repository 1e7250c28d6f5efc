"""Sources in Python: the laws of their calls, and the built-in sources as slow, obvious twins."""

import math
from itertools import groupby, pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import twinloop as tl
from examples.source import Clients
from tests.cluster.scenarios import Case, Task
from tests.cluster.test_laws_equal import check_figures
from tests.examples import examples
from twinloop.description.errors import TwinloopError
from twinloop.engine import CompiledScenario, Simulation
from twinloop.scenario.replay import replay_scenario
from twinloop.workload import NewTask, Sessions, Source, Workload


class RigidTwin(Source):
    """Recorded times: all tasks of one time together."""

    def start(self, workload, rng):
        state = RigidTwin()
        rows = [row for row in range(len(workload)) if not workload.rejected[row]]
        rows.sort(key=lambda row: workload.submit[row])
        state.given = False
        state.groups = [(t, list(g)) for t, g in groupby(rows, lambda row: workload.submit[row])]
        return state

    def next(self, now, finished):
        if self.given and not finished:
            self.groups.pop(0)
        self.given = bool(self.groups)
        return self.groups[0] if self.groups else None


class SessionsTwin(Source):
    """Algorithm 1: every call looks at every session of every user."""

    def __init__(self, by: str, threshold: float) -> None:
        self.by, self.threshold = by, threshold

    def start(self, workload, rng):
        state = SessionsTwin(self.by, self.threshold)
        kept = np.flatnonzero(~workload.rejected)
        lengths = pl.Series(workload.durations).fill_nan(None)
        tasks = workload.workload.tasks.with_columns(
            pl.coalesce("run_time", lengths).alias("run_time")
        )
        graphs = Sessions(by=self.by, threshold=self.threshold).graphs(Workload(tasks=tasks[kept]))
        found = graphs.partition
        names = workload.ids.gather(kept[found.jobs]).to_list()
        rows = kept[found.jobs].tolist()
        state.jobs, state.start_times, state.waits_for = [], [], []
        for s, (first, end) in enumerate(pairwise(found.offsets.tolist())):
            delays = (found.submit[first:end] - found.start[s]).tolist()
            state.jobs.append(list(zip(rows[first:end], names[first:end], delays, strict=True)))
        for s, (first, end) in enumerate(pairwise(graphs.offsets.tolist())):
            before = graphs.predecessors[first:end].tolist()
            thinks = [float(found.start[s] - found.finish[b]) for b in before]
            state.waits_for.append(dict(zip(before, thinks, strict=True)))
            state.start_times.append(-math.inf if before else float(found.start[s]))
        state.unended = [{name for _, name, _ in jobs} for jobs in state.jobs]
        state.unsubmitted = {row for jobs in state.jobs for row, _, _ in jobs}
        state.given = []
        return state

    def next(self, now, finished):
        if not finished:
            self.unsubmitted -= set(self.given)
        for task, end, _ in finished:
            for s, unended in enumerate(self.unended):
                if task not in unended:
                    continue
                unended.remove(task)
                if unended:
                    continue
                for after, before in enumerate(self.waits_for):
                    if s in before:
                        start = end + before.pop(s)
                        self.start_times[after] = max(self.start_times[after], start)
        planned = [
            (self.start_times[s] + delay, row)
            for s, jobs in enumerate(self.jobs)
            if not self.waits_for[s]
            for row, _, delay in jobs
            if row in self.unsubmitted
        ]
        self.given = []
        if not planned:
            return None
        first = min(planned)[0]
        self.given = sorted(row for time, row in planned if time == first)
        return first, self.given


times = st.integers(0, 6).map(float)


@st.composite
def cases(draw):
    """Logs with ties, of up to three users, on one or two machines, with and without latencies."""
    rows = draw(st.lists(st.tuples(times, st.integers(1, 5), times, st.sampled_from("uvw")),
                         min_size=1, max_size=10))  # fmt: skip
    tasks = tuple(
        Task(submit, cores=float(cores), run_time=length, user=user)
        for submit, cores, length, user in sorted(rows)
    )
    model = draw(st.sampled_from([
        {}, {"service_factor": 2.0}, {"speed_factor": 3.0}, {"release_latency": 1.0},
        {"decide": "event"}, {"instant_order": ["submissions", "ends", "machines"]},
    ]))  # fmt: skip
    policy = draw(st.sampled_from(["fcfs", "easy", "first-fit"]))
    machines = ({"cores": 4.0},) * draw(st.integers(1, 2))
    return Case(machines, tasks, policy={"name": policy}, model=model)


def tables(scenario):
    trace = tl.simulate(scenario, decisions=True)
    # The figures of a run without completed tasks are NaN, which is not equal to itself.
    return trace.tasks, trace.placements, trace.decisions, repr(trace.manifest.facts["run"])


def assert_same(one, other):
    for mine, theirs in zip(tables(one), tables(other), strict=True):
        assert mine.equals(theirs) if isinstance(mine, pl.DataFrame) else mine == theirs


@examples(8)
@given(case=cases())
def test_recorded_times_in_python_give_the_same_bytes(case):
    assert_same(case.scenario, case.scenario.replace(source=RigidTwin()))


@examples(15)
@given(
    case=cases(),
    by=st.sampled_from(["arrival", "last", "max"]),
    threshold=st.integers(0, 3).map(float),
)
def test_sessions_in_python_give_the_same_bytes(case, by, threshold):
    native = case.but(source={"sessions": {"by": by, "threshold": threshold}}).scenario
    assert_same(native, native.replace(source=SessionsTwin(by, threshold)))


class Kept(list):
    """A list that copies of a source share."""

    def __deepcopy__(self, _memo):
        return self


class Scripted(Source):
    """Random answers: rows and new tasks, now, later or after the next end; notes all calls."""

    def __init__(self, most_new: int = 6, most_parents: int = 0) -> None:
        self.calls, self.answers = Kept(), Kept()
        self.most_new, self.most_parents = most_new, most_parents

    def start(self, workload, rng):
        state = Scripted(self.most_new, self.most_parents)
        state.calls, state.answers, state.ids = self.calls, self.answers, list(workload.ids)
        state.rng, state.rows, state.made, state.given = rng, list(range(len(workload))), 0, None
        state.is_asked = False
        return state

    def next(self, now, finished):
        self.calls.append((now, list(finished)))
        if self.given is not None and not finished:
            assert self.given[0] == now
            self.answers.append(self.given)
            self.rows = [row for row in self.rows if row not in self.given[1]]
            self.made += sum(isinstance(each, NewTask) for each in self.given[1])
        self.given = None
        if self.rng.random() < 0.2 and self.is_asked:
            return None
        self.is_asked = True
        tasks = [row for row in self.rows if self.rng.random() < 0.4]
        for number in range(self.made, min(self.made + int(self.rng.integers(3)), self.most_new)):
            size = float(self.rng.integers(1, 6))
            parents = self.pick_parents(number) if self.most_parents else ()
            tasks.append(
                NewTask(id=f"new{number}", run_time=float(number % 4), cores=size, parents=parents)
            )
        if not tasks:
            return None
        self.given = (now + float(self.rng.integers(3)), tasks)
        return self.given

    def pick_parents(self, number):
        known = [*self.ids, *(f"new{earlier}" for earlier in range(number))]
        count = int(self.rng.integers(self.most_parents + 1))
        return [known[int(self.rng.integers(len(known)))] for _ in range(count)]


@examples(15)
@given(case=cases(), seed=st.integers(0, 1000), fails=st.booleans())
def test_every_answer_is_submitted_once_and_every_end_reported_once(case, seed, fails):
    if fails:
        case = case.but(failures=((0, 2.0, 3.0),), then={"on_failure": "lost"})
    source = Scripted()
    scenario = case.but(seed=seed).scenario.replace(source=source)
    trace = tl.simulate(scenario)
    ids = trace.tasks["id"].to_list()
    outcome = {row["id"]: row for row in trace.tasks.iter_rows(named=True)}
    submitted = {}
    for time, tasks in source.answers:
        for task in tasks:
            name = task.id if isinstance(task, NewTask) else ids[task]
            assert name not in submitted
            submitted[name] = time
    never = {name for name in outcome if outcome[name]["status"] == "cancelled"}
    rejected = {name for name in outcome if outcome[name]["status"] == "rejected"}
    assert outcome.keys() - never - rejected == submitted.keys() - rejected
    for name, time in submitted.items():
        assert outcome[name]["submit"] == time
    ends = dict(trace.placements.group_by("task").agg(pl.max("end")).iter_rows())
    reported = {}
    for now, finished in source.calls:
        assert finished == sorted(finished, key=lambda each: (each.end, ids.index(each.task)))
        for task, end, status in finished:
            assert task in submitted
            assert task not in reported
            assert end <= now
            assert outcome[task]["status"] == status
            assert status == "rejected" or end == ends[task]
            reported[task] = now
    assert reported.keys() == submitted.keys()
    assert [now for now, _ in source.calls] == sorted(now for now, _ in source.calls)
    added = trace.manifest.facts["run"].get("added", {})
    assert sum(added.values()) == len(ids) - len(case.tasks)


@examples(15)
@given(case=cases(), seed=st.integers(0, 1000), at=times, pause=st.integers(1, 5))
def test_a_run_does_not_depend_on_how_it_is_advanced_or_copied(case, seed, at, pause):
    scenario = case.but(seed=seed).scenario.replace(source=Scripted(most_parents=seed % 3))
    compiled = CompiledScenario(scenario)
    whole, stepped, paused = (Simulation(compiled) for _ in range(3))
    expected = whole.run()
    while stepped.step():
        pass
    time = paused.now
    while time < at + 10:
        time += pause / 4
        paused.run_until(time)
    split = Simulation(compiled)
    split.run_until(max(at, split.now))
    twin = split.copy()
    for each in (stepped, paused, split, twin):
        assert each.run().equals(expected)
        assert repr(each.kpis()) == repr(whole.kpis())


@examples(6)
@given(case=cases(), seed=st.integers(0, 1000))
def test_the_trace_of_a_run_with_new_tasks_can_be_replayed(case, seed):
    case = case.but(model={}, seed=seed)
    # The dependencies of new tasks are those of the same tasks in a workload.
    sim = Simulation(case.scenario.replace(source=Scripted(most_parents=seed % 3)))
    sim.submit("outside", cores=1.0, run_time=2.0, at=sim.now + 1.0)
    sim.run()
    trace = sim.trace()
    assert trace.tasks["id"].to_list() == sim.tasks["id"].to_list()
    assert trace.tasks.filter(id="outside")["status"].to_list() == ["completed"]
    check_figures(sim.kpis(), trace)
    again = tl.simulate(replay_scenario(trace)).tasks
    ran = trace.tasks.filter(status="completed").select("id", "submit", "run_time")
    assert again.filter(status="completed").select(ran.columns).equals(ran)


def run(source, **changes):
    tasks = tuple(Task(float(i), run_time=5.0) for i in range(3))
    return tl.simulate(Case(({"cores": 4.0},), tasks, **changes).scenario.replace(source=source))


def test_clients_submit_their_next_task_when_one_ends():
    tasks = run(Clients(1, think_time=2.0)).tasks
    assert tasks["submit"].to_list() == [0.0, 7.0, 14.0]
    assert run(Clients(2)).tasks["submit"].to_list() == [0.0, 0.0, 5.0]


def test_a_later_answer_is_replaced_by_the_answer_after_an_end():
    class Patient(Source):
        def next(self, now, finished):
            if not hasattr(self, "first"):
                self.first = True
                return 0.0, [0]
            # Until task 0 ends, task 1 is planned for time 100.
            self.ended = getattr(self, "ended", False) or bool(finished)
            if self.ended and hasattr(self, "second"):
                return None
            if not self.ended:
                return 100.0, ["t1"]
            self.second = True
            return 6.0, ["t1"]

    found = run(Patient()).tasks.select("submit", "status").rows()
    assert found == [(0.0, "completed"), (6.0, "completed"), (2.0, "cancelled")]


def test_a_rejected_task_is_reported_when_it_is_submitted():
    calls = Kept()

    class AllAtOnce(Source):
        def next(self, now, finished):
            calls.append((now, list(finished)))
            return (2.0, [0, 1]) if len(calls) == 1 else None

    tasks = (Task(0.0, cores=9.0), Task(0.0, run_time=5.0))
    run = tl.simulate(Case(({"cores": 4.0},), tasks).scenario.replace(source=AllAtOnce()))
    expected = [(0.0, []), (2.0, []), (2.0, [("t0", 2.0, "rejected")])]
    assert calls == [*expected, (7.0, [("t1", 7.0, "completed")])]
    assert run.tasks["submit"].to_list() == [2.0, 2.0]


class Script(Source):
    """Answers with these submissions, one after the other, whatever ends."""

    def __init__(self, *answers):
        self.answers = list(answers)

    def next(self, now, finished):
        if not finished and hasattr(self, "is_asked"):
            self.answers.pop(0)
        self.is_asked = True
        return self.answers[0] if self.answers else None


def test_new_tasks_wait_for_their_parents():
    source = Script(
        (0.0, ["t0", NewTask(id="long", run_time=10.0), NewTask(id="b", run_time=2.0,
            parents=["t0"]), NewTask(id="c", run_time=1.0, parents=["b", "t0", "b"])]),
        (3.0, ["t1"]),
        (9.0, [NewTask(id="late", run_time=1.0, parents=["t0", "c", "long"]),
               NewTask(id="done", run_time=1.0, parents=["t0", "c"])]),
    )  # fmt: skip
    trace = run(source)
    starts = dict(trace.placements.select("task", "start").iter_rows())
    # t0 ends at 5, b at 7, c and t1 at 8, long at 10.
    assert starts == {"t0": 0, "long": 0, "t1": 3, "b": 5, "c": 7, "done": 9, "late": 10}
    ready = dict(trace.tasks.select("id", "ready").iter_rows())
    assert (ready["b"], ready["c"], ready["late"], ready["done"]) == (5.0, 7.0, 10.0, 9.0)
    parents = dict(trace.tasks.select("id", "parents").iter_rows())
    assert (parents["c"], parents["long"]) == (["b", "t0"], None)


def test_a_new_task_waits_until_the_scheduler_knows_of_the_end_of_its_parent():
    source = Script(
        (0.0, ["t0"]),
        (5.5, [NewTask(id="soon", run_time=1.0, parents=["t0"])]),
        (6.5, [NewTask(id="later", run_time=1.0, parents=["t0"])]),
    )
    found = run(source, model={"release_latency": 1.0}).placements
    assert dict(found.select("task", "start").iter_rows()) == {"t0": 0, "soon": 6, "later": 6.5}


@pytest.mark.parametrize("time", [0.0, 4.0])
def test_a_new_task_ends_with_a_parent_that_does_not_complete(time):
    tasks = (
        Task(0.0, run_time=9.0, requested=2.0), Task(0.0, cores=9.0), Task(0.0),
    )  # fmt: skip
    new = [
        NewTask(id="after killed", run_time=1.0, parents=["t0"]),
        NewTask(id="after failed", run_time=1.0, parents=["after killed"]),
        NewTask(id="after rejected", run_time=1.0, parents=["t0", "t1"]),
        NewTask(id="large", run_time=1.0, cores=5.0),
        NewTask(id="after large", run_time=1.0, parents=["large"]),
        NewTask(id="never", run_time=1.0, parents=["t2"]),
    ]
    case = Case(({"cores": 4.0},), tasks, model={"kill_at_requested_time": True})
    source = Script((0.0, ["t0"]), (time, new))
    found = tl.simulate(case.scenario.replace(source=source)).tasks
    assert dict(found.select("id", "status").iter_rows()) == {
        "t0": "killed", "t1": "rejected", "t2": "cancelled", "after killed": "failed",
        "after failed": "failed", "after rejected": "rejected", "large": "rejected",
        "after large": "rejected", "never": "failed",
    }  # fmt: skip


def test_an_unknown_parent_is_an_error():
    source = Script((2.0, [NewTask(id="n", run_time=1.0, parents=["x"])]))
    text = "the source .*Script, at t = 2 s: the task 'n' depends on 'x', which is no task"
    with pytest.raises(TwinloopError, match=text):
        run(source)


def test_copies_add_their_own_children():
    sim = Simulation(Case(({"cores": 4.0},), (Task(0.0, run_time=5.0),)).scenario)
    sim.submit("both", cores=1, run_time=1.0, parents=["t0"])
    sim.run_until(1.0)
    copy = sim.copy()
    for number in range(3):
        copy.submit(f"c{number}", cores=1, run_time=1.0, parents=["both", "t0"])
    sim.submit("s", cores=1, run_time=2.0, parents=["t0"])
    again = copy.copy()
    assert sim.run().select("id", "end").rows() == [("t0", 5.0), ("both", 6.0), ("s", 7.0)]
    ends = [("t0", 5.0), ("both", 6.0), ("c0", 7.0), ("c1", 7.0), ("c2", 7.0)]
    assert copy.run().select("id", "end").rows() == again.run().select("id", "end").rows() == ends
    with pytest.raises(tl.InputError, match="task 'x': parents: there is no task 's'"):
        copy.submit("x", cores=1, run_time=1.0, parents=["s"])


def test_the_command_of_a_new_task_is_in_the_trace():
    new = NewTask(id="n", run_time=1.0, command=["echo", "{id}"], environment={"A": "b"},
                  folder="/tmp")  # fmt: skip
    tasks = run(Script((0.0, [NewTask(id="m", run_time=1.0), new]))).tasks
    row = tasks.filter(id="n").row(0, named=True)
    assert (row["command"], row["folder"]) == (["echo", "{id}"], "/tmp")
    assert row["environment"] == [{"name": "A", "value": "b"}]
    assert tasks.filter(id="m")["command"].to_list() == [None]


def answering(answer):
    class Wrong(Source):
        def next(self, now, finished):
            return answer() if callable(answer) else answer

    return Wrong()


def fail():
    raise KeyError("gone")


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (5.0, r"`next` must return \(time, tasks\) or None, not 5.0"),
        ((0.0, 0), "the tasks of an answer must be a list, not 0"),
        ((0.0, "t0"), "must be a list, not 't0'"),
        ((math.nan, [0]), "must be finite, not nan"),
        ((0.0, [3]), "the workload has no task 3"),
        ((0.0, ["x"]), "the workload has no task 'x'"),
        ((0.0, [1.5]), "a task must be an index, an ID or a NewTask, not 1.5"),
        ((0.0, [0, "t0"]), "the task 't0' is submitted twice"),
        ((0.0, [0]), "the task 't0' is submitted twice"),
        ((0.0, [NewTask(id="t0", run_time=1.0)]), "is the ID of a task of the workload"),
        ((0.0, [NewTask(id="n", run_time=-1.0)]), "run_time: must be finite and not negative"),
        ((0.0, [NewTask(id="n", run_time=1.0, user="x")]), "'x' is not in the scenario"),
        ((0.0, [NewTask(id="n", run_time=1.0, parents=["n"])]), "'n': depends on itself"),
        (
            (0.0, [NewTask(id="n", run_time=1.0, parents=["m"]), NewTask(id="m", run_time=1.0)]),
            "'n' depends on 'm', which is submitted after it",
        ),
        ((0.0, [NewTask(id="n", run_time=1.0, parents="t0")]), "must be a list of IDs"),
        ((0.0, [NewTask(id="n", run_time=1.0, command="true")]), "must be a list of texts"),
        ((0.0, []), "answers for the same time again and again"),
        (fail, r"\(.*test_sources.py:\d+\), at t = 0 s: KeyError: 'gone'"),
    ],
)
def test_a_wrong_answer_is_an_error_that_names_the_source(answer, text):
    with pytest.raises(TwinloopError, match=f"the source tests.cluster.test_sources:Wrong.*{text}"):
        run(answering(answer))


def test_a_source_without_end_at_one_time_is_found():
    class Endless(Source):
        def next(self, now, finished):
            self.count = getattr(self, "count", 0) + 1
            return now, [NewTask(id=f"n{self.count}", run_time=0.0)]

    with pytest.raises(TwinloopError, match="Endless, at t = 0 s: answers for the same time"):
        run(Endless())


def test_machines_are_shared_when_a_new_task_needs_it():
    answers = iter([(0.0, [NewTask(id="n", run_time=1.0, cores=8.0)])])
    source = answering(lambda: next(answers, None))
    tasks = (Task(0.0),)
    case = Case(({"cores": 4.0}, {"cores": 16.0}), tasks, policy={"name": "first-fit"})
    trace = tl.simulate(case.scenario.replace(source=source))
    assert trace.placements.filter(task="n")["end"].to_list() == [1.0]
    assert trace.manifest.facts["run"]["shared"]


def test_a_state_that_cannot_be_copied_is_refused_by_name():
    class Generated(Source):
        def start(self, workload, rng):
            state = Generated()
            state.answers = ((float(row), [row]) for row in range(len(workload)))
            return state

        def next(self, now, finished):
            return next(self.answers, None)

    sim = Simulation(Case(({"cores": 4.0},), (Task(0.0), Task(0.0))).scenario.replace(
        source=Generated()))  # fmt: skip
    with pytest.raises(tl.InputError, match=r"the source .*:Generated cannot be copied"):
        sim.copy()


def test_a_source_in_python_needs_python():
    compiled = CompiledScenario(Case(({"cores": 4.0},), (Task(0.0),)).scenario.replace(
        source=Clients()))  # fmt: skip
    assert not compiled.is_native
    with pytest.raises(TypeError, match="a source in Python cannot run on native threads"):
        compiled.run_many([compiled.values()])
