"""Stepwise simulation: advance, inspect, change and copy a run, or start it from a state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from twinloop._core import ClusterRun, View
from twinloop.description.errors import InputError
from twinloop.engine.arguments import require_name, require_number, require_positive
from twinloop.engine.cloud_service import CloudService
from twinloop.engine.compiled_scenario import CompiledScenario
from twinloop.engine.foreign_errors import ForeignErrors
from twinloop.engine.instance_table import build_instance_table
from twinloop.engine.machine_table import build_machine_table
from twinloop.engine.monitoring import Monitor, Notice
from twinloop.engine.network_columns import build_transfer_table
from twinloop.engine.new_rows import make_row
from twinloop.engine.node_changes import NodeChange
from twinloop.engine.platform_columns import MachineTable
from twinloop.engine.refusals import explain_refusals
from twinloop.engine.run_trace import remove_forgotten, status_names, trace_from_run
from twinloop.engine.simulation_state import SimulationState
from twinloop.engine.state_restore import restore_state
from twinloop.engine.store_directory import StoreDirectory
from twinloop.engine.store_service import StoreService
from twinloop.engine.store_tables import build_node_table, build_store_table
from twinloop.platform.network import SharedStore
from twinloop.policy import AnyPolicy
from twinloop.scenario import Scenario
from twinloop.trace import Trace
from twinloop.workload import NewTask


class Simulation:
    """A simulation of a scenario that the caller advances step by step.

    A simulation can be used by one thread at a time, and not from inside its own policy or
    source; other use raises `InUseError`. Copies are independent simulations.

    >>> from twinloop.engine import Simulation
    >>> from twinloop.scenario import Scenario
    >>> sim = Simulation(Scenario(platform="2x4", policy="fcfs", workload={
    ...     "generate": {"name": "bursts", "parameters": {"bursts": 1, "size": 3}}}))
    >>> sim.step()
    True
    >>> twin = sim.copy()
    >>> sim.run().equals(twin.run())
    True

    Args:
        scenario: The scenario, or a compiled scenario.
        state: State to start from, as given by `Simulation.state`; by default the run starts at
            the first submission.
        allow_code: Whether a policy given as `module:Class` may be imported and run.
    """

    #: The module that users import it from, shown in errors and representations.
    __module__ = "twinloop.engine"

    def __init__(
        self,
        scenario: Scenario | CompiledScenario,
        *,
        state: SimulationState | None = None,
        allow_code: bool = False,
    ) -> None:
        if not isinstance(scenario, CompiledScenario):
            scenario = CompiledScenario(scenario, allow_code=allow_code)
        self._compiled = scenario
        self._added_ids: set[str] = set()
        self._monitor: Monitor | None = None
        self._directory = StoreDirectory(self)
        self._changes: list[NodeChange] = []
        self._run: ClusterRun = scenario.start(
            placements=True, use=scenario.machines.has_power_models, decisions=True
        )
        if state is not None:
            self._compiled = restore_state(scenario, self._run, state)

    # --- time ------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """The current time (s)."""
        return self._run.now

    @property
    def next_time(self) -> float:
        """The time of the next event (s); infinite if there is none."""
        return self._run.next_time()

    @property
    def events(self) -> int:
        """The number of events so far."""
        return self._run.events

    def step(self) -> bool:
        """Process all events and decisions at the next time; return False if none is left."""
        if self._monitor is not None:
            return self._monitor.step()
        return self._compiled.advance(self._run, self._run.step)

    def run_until(self, time: float) -> None:
        """Run up to and including this time."""
        time = require_number(time, "time")
        if not self.now <= time < float("inf"):
            raise InputError(
                f"must be a finite time from {self.now} s on, not {time}",
                kind="time-in-past",
                field="time",
            )
        if self._monitor is not None:
            self._monitor.run_until(time)
            return
        self._compiled.advance(self._run, lambda: self._run.run_until(time))

    def run(self) -> pl.DataFrame:
        """Run to the end and return `tasks`."""
        if self._monitor is not None:
            self._monitor.run()
            return self.tasks
        while self._compiled.advance(self._run, self._run.run_slice):
            pass
        return self.tasks

    # --- inspection ------------------------------------------------------------------------------

    @property
    def view(self) -> View:
        """The state as passed to the policy: waiting and running tasks, free capacity."""
        return self._run.view()

    @property
    def transfers(self) -> pl.DataFrame:
        """The transfers of files that have ended; none if the platform has no stores."""
        return build_transfer_table(self._compiled, self._run)

    @property
    def stores(self) -> pl.DataFrame:
        """A row per data store: capacity (bytes; null: unlimited), used, promised, free, files."""
        return build_store_table(self._directory)

    def find_file(self, file: str) -> list[str]:
        """Return the names of the data stores that have a file."""
        return self._directory.find_stores_of(file)

    @property
    def network_nodes(self) -> pl.DataFrame:
        """A row per host and data store: bytes sent and received, rates (bytes/s), transfers.

        Transfers between a host and its own store pass no network and are not counted. The store
        of a host has no row of its own.
        """
        return build_node_table(self._directory, self._compiled.machines)

    @property
    def tasks(self) -> pl.DataFrame:
        """The status, times (s), energy (J) and attempts of each task; null if not known yet."""
        outcomes = self._run.outcomes()
        columns = ("submit", "ready", "start", "end", "energy")
        tasks = pl.DataFrame(
            {
                "id": self._ids(),
                "status": status_names(outcomes["status"]),
                **{name: pl.Series(outcomes[name]).fill_nan(None) for name in columns},
                "attempts": outcomes["attempts"],
            }
        )
        return remove_forgotten(tasks, self._run)

    @property
    def waiting(self) -> list[str]:
        """The IDs of the waiting tasks, in the order in which they became ready."""
        return self._ids().gather(self.view.waiting).to_list()

    @property
    def running(self) -> list[str]:
        """The IDs of the running tasks."""
        return self._ids().gather(sorted(self.view.running)).to_list()

    @property
    def machines(self) -> pl.DataFrame:
        """A row per machine: cores, free cores, tasks, whether it is up, state, energy (J), host.

        A machine that was removed keeps its row, in the state `removed`. An instance has a host;
        its energy, that of its tasks, is part of the energy of the host. The instances that are
        rented from clouds at present follow, in the state `rented`, without energy.
        """
        return build_machine_table(self._compiled.names.machines, self.view, self._run)

    @property
    def instances(self) -> pl.DataFrame:
        """A row per period that an instance spent on one host with one size."""
        return build_instance_table(self._compiled, self._run)

    def cloud(self, name: str) -> CloudService:
        """Return the service of a cloud: information, requests of instances, and its hosts.

        >>> from twinloop.engine import Simulation
        >>> from twinloop.scenario import Scenario
        >>> sim = Simulation(Scenario(policy="manual", workload={"tasks": [
        ...     {"id": "a", "run_time": 60}]}, platform={
        ...     "clusters": [{"hosts": [{"cores": 4}]}], "clouds": [{"name": "east"}]}))
        >>> east = sim.cloud("east")
        >>> east.request(cores=1), east.request(cores=2)
        ('instance-1', 'instance-2')
        >>> sim.run_until(1)
        >>> east.use.allocated_cores
        3.0
        """
        return CloudService(self._compiled, self._run, name, self._changes)

    def poll(self, interval: float, function: Callable[[float], object]) -> None:
        """Call a function with the time, after each interval (s) from now on, until the run ends.

        The function may read and change the simulation, but not advance it. Copies of the
        simulation are not polled.

        >>> from twinloop.engine import Simulation
        >>> from twinloop.scenario import Scenario
        >>> sim = Simulation(Scenario(platform="1x2", policy="fcfs", workload={"tasks": [
        ...     {"id": "a", "run_time": 25}, {"id": "b", "run_time": 15}]}))
        >>> sim.poll(10, lambda time: print(time, sim.running))
        >>> _ = sim.run()
        10.0 ['a', 'b']
        20.0 ['a']
        """
        self._use_monitor().poll(interval, function)

    def notify(
        self,
        function: Callable[[Notice], object],
        kinds: Iterable[str] = ("instance", "machine", "queue", "capacity"),
    ) -> None:
        """Call a function with each change of an instance, a machine or a cloud from now on.

        It is called after the instant of the change, in the order of the changes, and may change
        the simulation. An error that it raises is raised by the call that advances the simulation,
        which can be advanced further. Copies of the simulation have no observers. The kind `host`,
        the free cores of each host of a cloud, looks at all hosts after every change.

        >>> from twinloop.engine import Simulation
        >>> from twinloop.scenario import Scenario
        >>> sim = Simulation(Scenario(policy="one-per-task", workload={"tasks": [
        ...     {"id": "a", "run_time": 60}]}, platform={"clusters": [{"hosts": [{"cores": 4}]}],
        ...     "clouds": [{"name": "east", "images": [{"name": "base", "boot": {"delay": 5}}]}]}))
        >>> sim.notify(lambda notice: print(*notice), kinds=["instance"])
        >>> _ = sim.run()
        instance instance-1 0.0 queued
        instance instance-1 0.0 allocated
        instance instance-1 0.0 startup
        instance instance-1 5.0 running
        instance instance-1 65.0 destroyed
        """
        self._use_monitor().notify(function, kinds)

    def _use_monitor(self) -> Monitor:
        if self._monitor is None:
            self._monitor = Monitor(self._compiled, self._run)
        return self._monitor

    def kpis(self) -> dict[str, float]:
        """Return the KPIs so far, as defined by `twinloop.metrics`."""
        figures: dict[str, float] = self._run.kpis()
        return figures

    def trace(self) -> Trace:
        """Return the run so far as a Trace.

        Tasks that were added during the run are rows of its tables, after those of the workload;
        `facts["run"]["added"]` of its manifest has their number by origin.
        """
        return trace_from_run(self._compiled, self._run, changes=self._changes)

    @property
    def state(self) -> SimulationState:
        """The current state, from which a simulation of the same scenario can start."""
        return SimulationState.from_run(self._compiled, self._run)

    # --- changes ---------------------------------------------------------------------------------

    def copy(
        self,
        policy: str | Mapping[str, Any] | AnyPolicy | None = None,
        *,
        history: bool = True,
        allow_code: bool = False,
    ) -> Simulation:
        """Return an independent copy, which gives the same results.

        The copy shares what is recorded so far, so its cost depends on the tasks that wait or run.
        The run state of a policy written in Python is copied by its method `copy()`, else by
        `copy.deepcopy`.

        Args:
            policy: Another policy, which decides from now on: a name, a description or an object.
            history: Whether the copy includes the run so far. Without it, tables and figures of
                the copy begin now and cover the tasks that have not ended.
            allow_code: Whether a policy given as `module:Class` may be imported and run.

        >>> from twinloop.engine import Simulation
        >>> from twinloop.scenario import Scenario
        >>> tasks = [{"id": "long", "cores": 4, "run_time": 90},
        ...          {"id": "short", "cores": 4, "run_time": 10}]
        >>> sim = Simulation(Scenario(platform="1x4", policy="fcfs", workload={"tasks": [
        ...     {"id": "first", "cores": 4, "run_time": 60}, *tasks]}))
        >>> sim.run_until(30)
        >>> {name: sim.copy(name).run()["end"].to_list() for name in ("fcfs", "sjf")}
        {'fcfs': [60.0, 150.0, 160.0], 'sjf': [60.0, 160.0, 70.0]}
        """
        other = object.__new__(Simulation)
        other._compiled = self._compiled
        other._added_ids = set()
        other._monitor = None
        other._directory = StoreDirectory(other)
        other._changes = self._changes.copy()
        if policy is not None:
            other._compiled = self._compiled.with_policy(
                policy, until=self.now, allow_code=allow_code
            )
        with ForeignErrors(other._compiled, self._run):
            other._run = other._compiled.copy_run(
                self._run, changes_policy=policy is not None, history=history
            )
        return other

    def submit(
        self,
        id: str,
        *,
        cores: float,
        run_time: float,
        at: float | None = None,
        requested_time: float | None = None,
        memory: float = 0.0,
        nodes: int = 0,
        user: str | None = None,
        queue: str | None = None,
        resources: Mapping[str, float] | None = None,
        parents: Sequence[str] = (),
    ) -> None:
        """Submit a task that is not in the workload, now or at a later time.

        It waits for its `parents`, tasks of the workload or tasks that were added before.

        >>> from twinloop.engine import Simulation
        >>> from twinloop.scenario import Scenario
        >>> sim = Simulation(Scenario(platform="1x4", policy="fcfs", workload={
        ...     "generate": {"name": "bursts", "parameters": {"bursts": 1, "size": 1}}}))
        >>> sim.submit("mine", cores=1, run_time=60.0, at=10.0)
        >>> sim.run().filter(id="mine")["end"].to_list()
        [70.0]
        """
        time = self.now if at is None else require_number(at, f"task {id!r}: at")
        if time < self.now:
            raise InputError(
                f"{time} s is in the past: the current time is {self.now} s",
                kind="time-in-past",
                field=f"task {id!r}: at",
            )
        if id in self._compiled.task_rows or id in self._find_added_ids():
            raise InputError(
                "is already the ID of another task", kind="duplicate-name", field=f"task {id!r}"
            )
        task = NewTask(
            id=id, run_time=run_time, cores=cores, requested_time=requested_time, memory=memory,
            nodes=nodes, user=user, queue=queue, resources=dict(resources or {}), parents=parents,
        )  # fmt: skip
        row = make_row(self._compiled, task, time)
        for parent in row.parents:
            if isinstance(parent, str) and parent not in self._find_added_ids():
                raise InputError(
                    f"there is no task {parent!r}",
                    kind="unknown-reference",
                    field=f"task {id!r}: parents",
                )
        self._run.submit(row)
        self._added_ids.add(id)

    def set_cores(self, machine: str, cores: float, *, overcommit: bool = False) -> None:
        """Set the number of cores of a machine or instance; its running tasks continue.

        Args:
            machine: Its name.
            cores: Its cores from now on.
            overcommit: Whether an instance may have more cores than are free on its host.
        """
        cores = require_number(cores, f"machine {machine!r}: cores")
        if not 0 <= cores < float("inf"):
            raise InputError(
                f"must be finite and not negative, not {cores:g}",
                kind="out-of-range",
                field=f"machine {machine!r}: cores",
            )
        index, view = self._find_machine(machine), self.view
        if index in self._compiled.machines.instances:
            with explain_refusals(f"machine {machine!r}", "cannot get another size"):
                self._run.resize_instance(index, cores, overcommit)
            return
        used = float(view.capacity[index] - view.free_cores[index])
        capacity = cores * self._compiled.scenario.model.effective_capacity
        if not self._run.is_down(index) and capacity < min(used, view.capacity[index]) - 1e-9:
            raise InputError(
                f"tasks and instances use {used:g} cores of it",
                kind="invalid-operation",
                field=f"machine {machine!r}",
                remedy="wait for their end, or call `fail`",
            )
        self._run.set_cores(index, cores)
        self._changes.append(NodeChange(self.now, machine, {"cores": cores}))

    def set_state(self, machine: str, state: str) -> None:
        """Order a state of a machine: on, off, or another state of its host.

        >>> from twinloop.engine import Simulation
        >>> from twinloop.scenario import Scenario
        >>> sim = Simulation(Scenario(platform="2x4", policy="fcfs", workload={
        ...     "tasks": [{"id": "a", "run_time": 60}]}))
        >>> sim.set_state("C01-H01-001", "off")
        >>> sim.machines["state"].to_list()
        ['off', 'running']
        """
        index = self._find_machine(machine)
        require_name(state, f"machine {machine!r}: state")
        with explain_refusals(f"machine {machine!r}", f"cannot change to {state!r}"):
            self._run.set_state(index, state)

    def add_machine(
        self,
        name: str,
        *,
        cores: float | None = None,
        memory: float | None = None,
        speed: float | None = None,
        like: str | None = None,
    ) -> None:
        """Add a machine, on which tasks may be placed from now on.

        Args:
            name: Its name, which no other machine has had.
            cores: Its cores; by default those of `like`.
            memory: Its memory (bytes); by default that of `like`, or else without a limit.
            speed: Reference core-seconds that a core completes per second; by default that of
                `like`, or else 1.
            like: A host with the same power model, states and other resources; the new machine
                has ports, links and a local store of its own, equal to those of this host.

        >>> from twinloop.engine import Simulation
        >>> from twinloop.scenario import Scenario
        >>> sim = Simulation(Scenario(platform="1x1", policy="fcfs", workload={
        ...     "tasks": [{"id": "a", "run_time": 60}, {"id": "b", "run_time": 60}]}))
        >>> sim.add_machine("new", like="C01-H01-001")
        >>> sim.run()["end"].to_list(), sim.machines["machine"].to_list()
        ([60.0, 60.0], ['C01-H01-001', 'new'])
        """
        self._refuse_in_clouds("add_machine")
        self._check_new_name(name)
        model = None if like is None else self._find_machine(like, may_be_removed=True)
        if cores is None and model is None:
            raise InputError(
                "must be given for a machine that is not like another one",
                kind="missing-field",
                field=f"machine {name!r}: cores",
            )
        machines = self._compiled.machines
        if model in machines.instances:
            raise InputError(
                f"{like!r} is an instance",
                kind="invalid-operation",
                field=f"machine {name!r}: like",
                remedy="name a host, or call `add_instance`",
            )
        given: dict[str, float] = {"cores": 0.0, "memory": np.inf, "speed": 1.0}
        if model is not None:
            row = machines.nodes.row(model, named=True)
            given = {"cores": row["cores"], "memory": row["memory"] or np.inf,
                     "speed": float(machines.speed[model])}  # fmt: skip
        for field, value in {"cores": cores, "memory": memory, "speed": speed}.items():
            if value is not None:
                path = f"machine {name!r}: {field}"
                given[field] = require_positive(value, path, finite=field != "memory")
        amounts = [0.0] * len(self._compiled.names.resources)
        if model is not None:
            resources = {each["name"]: each["amount"] for each in row["resources"] or ()}
            amounts = [resources.get(each, 0.0) for each in self._compiled.names.resources]
        self._run.add_machine(**given, amounts=amounts, like=model)
        self._changes.append(NodeChange(self.now, name, adds=True))
        description = {**given, "amounts": amounts, "like": like}
        self._rename(machines.with_machine(name, **given, like=model), name, description)

    def add_instance(
        self,
        name: str,
        *,
        host: str,
        cores: float,
        memory: float | None = None,
        overcommit: bool = False,
    ) -> None:
        """Add an instance: a machine whose capacity is a lease on a host.

        It takes its cores and its memory from the host. Its tasks share what the host gives it: at
        most its size, and at most what they can use.

        Args:
            name: Its name, which no other machine has had.
            host: The machine that it is on.
            cores: Its cores.
            memory: Its memory (bytes); may be left out if the memory of the host is not limited.
            overcommit: Whether it may have more cores than are free on the host.

        >>> from twinloop.engine import Simulation
        >>> from twinloop.scenario import Scenario
        >>> sim = Simulation(Scenario(platform="1x4", policy="fcfs", workload={
        ...     "tasks": [{"id": "a", "run_time": 60}, {"id": "b", "run_time": 60}]}))
        >>> sim.add_instance("vm", host="C01-H01-001", cores=3)
        >>> sim.machines.select("machine", "cores", "free_cores", "host").rows()
        [('C01-H01-001', 4.0, 1.0, None), ('vm', 3.0, 3.0, 'C01-H01-001')]
        """
        self._refuse_in_clouds("add_instance")
        self._check_new_name(name)
        path = f"machine {name!r}"
        cores = require_positive(cores, f"{path}: cores")
        limit = np.inf
        if memory is not None:
            limit = require_positive(memory, f"{path}: memory", finite=False)
        index = self._find_machine(host)
        with explain_refusals(f"machine {name!r}", f"cannot be on {host!r}"):
            self._run.add_instance(index, cores, limit, overcommit)
        self._rename(self._compiled.machines.with_instance(name, cores, limit, index), name)

    def move_instance(self, instance: str, host: str, *, overcommit: bool = False) -> None:
        """Move an instance to another host, at once; its tasks continue there.

        On a host of another speed, tasks continue with the work that is left.
        """
        index, target = self._find_machine(instance), self._find_machine(host)
        with explain_refusals(f"machine {instance!r}", f"cannot move to {host!r}"):
            self._run.move_instance(index, target, overcommit)

    def remove_machine(self, machine: str) -> None:
        """Remove a machine or instance for good; its tasks are interrupted as by a failure.

        The instances of a machine are removed with it.
        """
        index = self._find_machine(machine)
        self._run.remove_machine(index)
        if index not in self._compiled.machines.instances:
            self._changes.append(NodeChange(self.now, machine, removes=True))

    def fail(self, machine: str) -> None:
        """Fail a machine; its tasks are interrupted as set in `failures` of the scenario.

        Its instances fail and come back with it.
        """
        index = self._find_machine(machine)
        if self._run.is_down(index):
            raise InputError(
                "is already down", kind="invalid-operation", field=f"machine {machine!r}"
            )
        self._run.fail(index)

    def restore(self, machine: str) -> None:
        """Restore a machine that is down."""
        index = self._find_machine(machine)
        if not self._run.is_down(index):
            raise InputError("is not down", kind="invalid-operation", field=f"machine {machine!r}")
        with explain_refusals(f"machine {machine!r}", "cannot be restored"):
            self._run.restore(index)

    def store(self, name: str) -> StoreService:
        """Return the service of a data store: of the platform, of a host, or a registered one.

        Args:
            name: Its name; that of the host, for the store of a host.

        >>> from twinloop.engine import Simulation
        >>> from twinloop.scenario import Scenario
        >>> sim = Simulation(Scenario(policy="fcfs", workload={"tasks": [
        ...     {"id": "a", "run_time": 1}]}, platform={
        ...     "clusters": [{"hosts": [{"names": ["n1"], "cores": 1, "ports": "10 MB/s"}]}],
        ...     "stores": [{"name": "disk"}]}))
        >>> sim.store("disk").register("data", 50e6)
        >>> get = sim.store("disk").get("data", target="n1")
        >>> _ = sim.run()
        >>> get.end
        5.0
        """
        return StoreService(self, self._directory, name)

    def register_store(
        self,
        name: str,
        *,
        like: str | None = None,
        capacity: float | str | None = None,
        read: float | str | None = None,
        write: float | str | None = None,
        streams: int | None = None,
        ports: float | str | Mapping[str, Any] | None = None,
    ) -> None:
        """Register a data store without files; this takes no time.

        A store that was deregistered is registered again under its name.

        Args:
            name: Its name, which no machine, switch or other store has.
            like: A store whose capacity, bandwidths and streams it has, except those given here;
                its node has ports and links of its own, equal to those of this store.
            capacity: Its capacity (bytes, or a text such as `1 TB`); by default unlimited.
            read: The bandwidth of all reads; by default unlimited.
            write: The bandwidth of all writes; by default unlimited.
            streams: The number of transfers at once; by default unlimited.
            ports: The ports of its node; by default unlimited. A network with links needs `like`.
        """
        require_name(name, "name")
        given = {"capacity": capacity, "read": read, "write": write, "streams": streams,
                 "ports": ports}  # fmt: skip
        store = SharedStore.from_dict(
            {"name": name} | {key: value for key, value in given.items() if value is not None}
        )
        self._directory.register_store(store, like)

    def deregister_store(self, name: str, *, violent: bool = False) -> None:
        """Deregister a data store, with its files.

        It is refused if there are transfers from it or to it, images of a cloud in it, or files of
        tasks that have not ended, unless it is violent: its transfers are then cancelled. Tasks
        that need it fail, and instances are refused, as without a route.
        """
        store = self._directory.find_store(name)
        use = self._run.find_store_use(store)
        if use is not None and not violent:
            raise InputError(
                f"cannot be deregistered: {use}",
                kind="invalid-operation",
                field=f"store {name!r}",
                remedy="wait, or give `violent=True`: tasks and instances that need it then fail",
            )
        self._run.deregister_store(store)

    def _refuse_in_clouds(self, method: str) -> None:
        if self._compiled.machines.platform.clouds:
            raise InputError(
                f"{method}: machines cannot be added to a scenario with clouds during a run; "
                "describe them in its platform",
                kind="invalid-operation",
            )

    def _check_new_name(self, name: str) -> None:
        require_name(name, "name")
        used = self._compiled.machines.find_use_of_name(name)
        if used is None and name in (each for _, each in self._run.named_stores()):
            used = "a data store"
        if used is not None:
            raise InputError(
                f"is already the name of {used}", kind="duplicate-name", field=f"machine {name!r}"
            )

    def _rename(
        self, machines: MachineTable, name: str, description: dict[str, Any] | None = None
    ) -> None:
        """Give a machine that was added its name."""
        self._compiled = self._compiled.with_machines(machines, name, description)
        self._run.set_names(self._compiled.names)
        if self._monitor is not None:
            self._monitor.compiled = self._compiled

    def _find_machine(self, name: str, *, may_be_removed: bool = False) -> int:
        names: tuple[str, ...] = self._compiled.names.machines
        if name not in names:
            raise InputError(
                f"there is no machine {name!r}", kind="unknown-reference", remedy="see `machines`"
            )
        index = names.index(name)
        if self._run.is_removed(index) and not may_be_removed:
            raise InputError("was removed", kind="invalid-operation", field=f"machine {name!r}")
        return index

    def _find_added_ids(self) -> set[str]:
        """Return the IDs of the tasks that were added; a copy, or a source, has others."""
        if len(self._added_ids) != self._run.added_count:
            self._added_ids = set(self._run.added_tasks()["id"])
        return self._added_ids

    def _ids(self) -> pl.Series:
        ids = self._compiled.arrays.ids
        added = pl.Series("id", self._run.added_tasks()["id"], dtype=pl.String)
        return pl.concat([ids.rename("id"), added]) if len(added) else ids

    def __repr__(self) -> str:
        view = self.view
        return (
            f"<Simulation of {self._compiled.policy.name} at {self.now:,g} s: "
            f"{len(view.waiting):,} waiting, {len(view.running):,} running>"
        )
