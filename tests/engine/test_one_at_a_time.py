"""A simulation is used by one thread at a time, and never from inside its own policy."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import twinloop as tl
from twinloop.engine import CompiledScenario, Environment, InUseError, Simulation
from twinloop.engine.new_rows import NewRow
from twinloop.policy import Place, Policy

#: Every way into a simulation. `submit` and the others that change it need no valid argument to be
#: refused.
ENTRIES: dict[str, Callable[[Simulation], object]] = {
    "now": lambda sim: sim.now,
    "next_time": lambda sim: sim.next_time,
    "events": lambda sim: sim.events,
    "step": lambda sim: sim.step(),
    "run_until": lambda sim: sim.run_until(1e6),
    "run": lambda sim: sim.run(),
    "view": lambda sim: sim.view,
    "tasks": lambda sim: sim.tasks,
    "waiting": lambda sim: sim.waiting,
    "running": lambda sim: sim.running,
    "machines": lambda sim: sim.machines,
    "kpis": lambda sim: sim.kpis(),
    "trace": lambda sim: sim.trace(),
    "transfers": lambda sim: sim.transfers,
    "instances": lambda sim: sim.instances,
    "state": lambda sim: sim.state,
    "copy": lambda sim: sim.copy(),
    "submit": lambda sim: sim.submit("more", cores=1, run_time=1.0),
    "set_cores": lambda sim: sim.set_cores("m0", 4.0),
    "set_state": lambda sim: sim.set_state("m0", "off"),
    "add_machine": lambda sim: sim.add_machine("m1", like="m0"),
    "remove_machine": lambda sim: sim.remove_machine("m0"),
    "add_instance": lambda sim: sim.add_instance("vm", host="m0", cores=1),
    "move_instance": lambda sim: sim.move_instance("m0", "m0"),
    "fail": lambda sim: sim.fail("m0"),
    "restore": lambda sim: sim.restore("m0"),
    "repr": lambda sim: repr(sim),
    "cloud": lambda sim: sim.cloud("east"),
    "poll": lambda sim: sim.poll(1.0, print),
    "notify": lambda sim: sim.notify(print),
    "store": lambda sim: sim.store("disk"),
    "stores": lambda sim: sim.stores,
    "find_file": lambda sim: sim.find_file("data"),
    "network_nodes": lambda sim: sim.network_nodes,
    "register_store": lambda sim: sim.register_store("disk"),
    "deregister_store": lambda sim: sim.deregister_store("disk"),
}
NEW = NewRow("new", 0.0, 1.0, 0.0, 1.0, 1.0, 1.0, 0, -1, -1, -1, 0.0, 0, math.inf, ())
#: The methods of the core's run that `Simulation` stands on, each with arguments of the right type.
NATIVE: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(
        ("next_time", "step", "run_slice", "copy", "view", "outcomes", "placements"), ()
    ),
    **dict.fromkeys(
        (
            "use",
            "decisions",
            "states",
            "usage",
            "kpis",
            "energy",
            "machine_states",
            "added_tasks",
            "forgotten",
            "saved_state",
        ),
        (),
    ),
    **dict.fromkeys(
        (
            "transfers",
            "stored_bytes",
            "store_use",
            "instances",
            "hosts",
            "share_machines",
            "rentals",
            "migrations",
            "rental_states",
            "present_instances",
            "messages",
            "descriptions",
            "take_notices",
            "named_stores",
            "new_files",
            "ended_requests",
            "open_requests",
            "node_use",
        ),
        (),
    ),
    **dict.fromkeys(
        (
            "cloud_hosts",
            "suspend",
            "resume",
            "reboot",
            "shut_down",
            "use_allocation",
            "terminate",
            "deregister_host",
            "store_figures",
            "store_files",
            "find_store_use",
            "deregister_store",
            "file_size",
            "cancel_request",
            "request_figures",
        ),
        (0,),
    ),
    **dict.fromkeys(
        ("migrate", "register_host", "describe_instance", "has_file", "resize"), (0, 0)
    ),
    "rent": (0, 0, 0, 1.0, 1.0),
    "leave_cloud": (0, 0, 0, 0),
    "rent_together": (2, 0, 0, 0, 1.0, 0.0),
    "watch": (True,),
    "run_until_notice": (1.0,),
    "find_new_file": ("data",),
    "name_file": ("data",),
    "register_file": (0, 0, 1.0),
    "remove_file": (0, 0, False),
    "begin_request": (0, 0, 0, 0, 0, 1.0),
    "register_store": ({},),
    "open_network": ({}, [], []),
    **dict.fromkeys(("run_until", "windows", "loads", "set_start_time"), (1.0,)),
    **dict.fromkeys(
        ("progress", "is_down", "is_removed", "fail", "restore", "restore_held_task"), (0,)
    ),
    "power": (1.0, True),
    "set_cores": (0, 1.0),
    "add_machine": (1.0,),
    "remove_machine": (0,),
    "add_instance": (0, 1.0),
    "move_instance": (0, 0),
    "resize_instance": (0, 1.0),
    "set_state": (0, "off"),
    "set_names": ("",),
    "submit": (NEW,),
    "restore_added": (NEW, False, True),
    "restore_task": (0, {"status": 0, "attempts": 0}),
    "restore_execution": (0, [(0, 1.0)], {}),
    "restore_machine": (0, {}),
    "restore_stores": ([],),
    "restore_submissions": (0, [], None),
    "set_restored_at": (0, 0.0),
    "restore_instance": (0, 1.0, 1.0),
    "restore_host": (0, 0),
    "restore_decisions": ({},),
    "restore_waiting_task": (0, 0.0),
    "restore_running_task": (0, [(0, 1.0)], 0.0),
}
PROPERTIES = (
    "now",
    "start_time",
    "events",
    "live_transfers",
    "added_by_source",
    "added_count",
    "has_python_policy",
    "has_history",
    "shared",
    "needs_failures",
    "is_usage_full",
    "state_names",
    "acting_controller",
    "acting_cloud",
    "has_network",
    "has_store_changes",
    "planned_files",
    "store_count",
)


class InOrder(Policy):
    """First come, first served, on the first machine; calls a function when it is asked."""

    def __init__(self, during: Callable[[Any], object]) -> None:
        self.during = during

    def decide(self, view):
        self.during(view)
        for task in view.waiting:
            if view.free(0) >= 1:
                yield Place(task, 0)


def scenario(policy: object, tasks: int = 3) -> tl.Scenario:
    return tl.Scenario(
        platform={"clusters": [{"hosts": [{"names": ["m0"], "cores": 4}]}]},
        workload={"tasks": [{"id": f"t{i}", "run_time": 5.0} for i in range(tasks)]},
        policy=policy,
    )


def core_entries(sim: Simulation) -> dict[str, Callable[[], object]]:
    """Every entry of the run behind a simulation."""
    run = sim._run
    public = {name for name in dir(type(run)) if not name.startswith("_")}
    assert public == {*NATIVE, *PROPERTIES, "extend_failures"}, "an entry not tested here"
    calls = {name: lambda n=name, a=given: getattr(run, n)(*a) for name, given in NATIVE.items()}
    reads = {name: lambda n=name: getattr(run, n) for name in PROPERTIES}
    return {
        **calls,
        **reads,
        "extend_failures": lambda: run.extend_failures(sim._compiled.native_scenario),
    }


def refusals(entries: dict[str, Callable[[], object]]) -> dict[str, str]:
    said = {}
    for name, call in entries.items():
        try:
            call()
        except InUseError as error:
            said[name] = str(error)
        else:
            said[name] = "was let in"
    return said


def all_entries(sim: Simulation) -> dict[str, Callable[[], object]]:
    public = {name for name in dir(Simulation) if not name.startswith("_")}
    assert public | {"repr"} == set(ENTRIES), "an entry not tested here"
    mine = {f"Simulation.{name}": lambda c=call: c(sim) for name, call in ENTRIES.items()}
    return {**mine, **core_entries(sim)}


def test_a_policy_cannot_use_its_own_simulation():
    found: list[dict[str, str]] = []
    sims: list[Simulation] = []
    policy = InOrder(lambda view: found.append(refusals(all_entries(sims[0]))))
    sims.append(Simulation(scenario(policy)))
    assert sims[0].run()["end"].to_list() == [5.0, 5.0, 5.0]
    assert found
    for said in found:
        wrong = {name: text for name, text in said.items() if "inside its own policy" not in text}
        assert not wrong


def test_use_from_inside_the_policy_raises_an_error():
    sims: list[Simulation] = []
    sims.append(Simulation(scenario(InOrder(lambda view: sims[0].run_until(100.0)))))
    with pytest.raises(InUseError, match="cannot be used from inside its own policy"):
        sims[0].run()
    # The refusal has left nothing held.
    assert sims[0].now == 0.0


def test_a_policy_may_use_another_simulation():
    inner = Simulation(scenario("fcfs"))
    ends: list[list[float]] = []
    policy = InOrder(lambda view: ends.append(inner.copy().run()["end"].to_list()))
    Simulation(scenario(policy)).run()
    compiled = CompiledScenario(scenario("easy"))
    nested = InOrder(lambda view: ends.append([compiled.run()["makespan_s"]] * 3))
    CompiledScenario(scenario(nested)).run()
    assert ends
    assert all(each == [5.0, 5.0, 5.0] for each in ends)


def test_other_threads_are_refused_while_a_policy_decides():
    inside, over = threading.Event(), threading.Event()
    views: list[Any] = []

    def stay(view):
        views.append(view)
        inside.set()
        over.wait()

    sim = Simulation(scenario(InOrder(stay)))
    looking = sim.view
    thread = threading.Thread(target=sim.run)
    thread.start()
    try:
        inside.wait()
        entries = all_entries(sim)
        for name, view in (("view before", looking), ("view of the policy", views[0])):
            entries[name] = lambda v=view: v.waiting
            entries[f"{name}, submit"] = lambda v=view: v.submit(0)
        said = refusals(entries)
    finally:
        over.set()
        thread.join()
    wrong = {name: text for name, text in said.items() if "one thread at a time" not in text}
    assert not wrong
    assert sim.tasks["end"].to_list() == [5.0, 5.0, 5.0]


def test_two_threads_on_one_native_run():
    """The interpreter lock is released in a native run: a second thread is rejected or waits."""
    compiled = CompiledScenario(
        tl.Scenario(
            platform="4x16",
            policy="easy",
            workload={"generate": {"name": "poisson", "parameters": {"tasks": 20_000}}},
        )
    )
    expected = Simulation(compiled).run()
    refused: set[str] = set()
    wanted = {"copy", "step", "kpis", "tasks", "view", "state"}
    for _ in range(500):  # once is enough, unless the machine gives this thread no turn
        sim = Simulation(compiled)
        view = sim.view
        thread = threading.Thread(target=sim.run)
        thread.start()
        while thread.is_alive() and refused != {*wanted, "view kept"}:
            calls = {name: partial(ENTRIES[name], sim) for name in wanted}
            said = refusals({**calls, "view kept": partial(getattr, view, "running")})
            refused |= {name for name, text in said.items() if "one thread at a time" in text}
        thread.join()
        assert sim.tasks.equals(expected)
        if refused == {*wanted, "view kept"}:
            break
    assert refused == {*wanted, "view kept"}


def test_compiled_runs_on_many_threads_at_once():
    """Runs are independent: threads may share a compiled scenario, including its failures."""
    made = scenario("fcfs", tasks=200)
    compiled = CompiledScenario(made.replace(failures={"mtbf": "20s", "mttr": "5s"}))
    rows = [compiled.values({"speed_factor": speed}) for speed in (0.2, 0.5, 1.0, 2.0)]
    expected = [compiled.run(row)["makespan_s"] for row in rows]
    again = CompiledScenario(made.replace(failures={"mtbf": "20s", "mttr": "5s"}))
    found: list[Any] = [None] * 8

    def work(place: int) -> None:
        if place % 2:
            found[place] = [again.run(row)["makespan_s"] for row in rows]
        else:
            many = again.run_many(rows, outputs=("makespan_s",), threads=2)
            found[place] = many["makespan_s"].tolist()

    threads = [threading.Thread(target=work, args=(place,)) for place in range(len(found))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * len(found)


def test_a_policy_cannot_use_its_own_dispatcher():
    found: list[dict[str, str]] = []
    dispatchers: list[Any] = []
    entries: dict[str, Callable[[Any], object]] = {
        "view": lambda dispatcher: dispatcher.view,
        "wake_time": lambda dispatcher: dispatcher.wake_time,
        "add": lambda dispatcher: dispatcher.add(NEW),
        "submit": lambda dispatcher: dispatcher.submit(1, 0.0),
        "end": lambda dispatcher: dispatcher.end(0, 0.0),
        "reject_placement": lambda dispatcher: dispatcher.reject_placement(0, 0.0),
        "withdraw": lambda dispatcher: dispatcher.withdraw(0, 0.0),
        "set_open": lambda dispatcher: dispatcher.set_open(0, False, 0.0),
        "decide": lambda dispatcher: dispatcher.decide(0.0),
    }
    bound = {name: lambda c=call: c(dispatchers[0]) for name, call in entries.items()}
    policy = InOrder(lambda view: found.append(refusals(bound)))
    dispatchers.append(CompiledScenario(scenario(policy)).dispatcher())
    assert set(entries) == {name for name in dir(type(dispatchers[0])) if not name.startswith("_")}
    dispatchers[0].submit(0, 0.0)
    assert [kind for kind, *_ in dispatchers[0].decide(0.0)] == ["place"]
    assert all("inside its own policy" in text for text in found[0].values())


def test_an_environment_is_run_by_one_thread_at_a_time():
    env = Environment()
    inside, over = threading.Event(), threading.Event()
    env.call_later(1, lambda: (inside.set(), over.wait()))
    thread = threading.Thread(target=env.run)
    thread.start()
    try:
        inside.wait()
        calls = {"run": env.run, "step": env.step, "peek": env.peek}
        calls |= {"jump": lambda: env.jump(5.0), "skip": lambda: env.skip(5.0)}
        said = refusals(calls)
    finally:
        over.set()
        thread.join()
    assert all("one thread at a time" in text for text in said.values()), said
    assert (env.now, env.step()) == (1.0, False)
