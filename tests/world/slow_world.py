"""A slow, obvious world: everything is recomputed at every event, in exact fractions.

The rules of machines, instances, states, transfers and orders are written here once more, as
plainly as possible. Nothing is shared with the simulator but the names.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from tests.cluster.fluid import share

ZERO = Fraction(0)


@dataclass(frozen=True)
class States:
    """The watts of the states of a machine, and the durations of its transitions (s)."""

    off: Fraction
    switching_on: tuple[Fraction, Fraction]  # watts, duration
    switching_off: tuple[Fraction, Fraction]


@dataclass(eq=False)
class Machine:
    """A host, or an instance on a host."""

    name: str
    cores: Fraction
    idle: Fraction = ZERO
    full: Fraction = ZERO
    states: States | None = None
    host: Machine | None = None
    is_down: bool = False
    is_removed: bool = False
    state: str = "running"
    #: The end of the current transition.
    until: Fraction | None = None
    energy: Fraction = ZERO

    @property
    def is_open(self) -> bool:
        """Whether tasks can be placed here."""
        own = not self.is_down and not self.is_removed and self.state == "running"
        return own and (self.host is None or self.host.is_open)


@dataclass(eq=False)
class Transfer:
    """A file of a task on its way: first the latency, then a flow over links."""

    store: str  # its bandwidth: read or write
    port: str  # of the host: in or out
    latency: Fraction
    left: Fraction  # bytes


@dataclass(frozen=True)
class Network:
    """A store, the ports of all hosts, and the latency of every transfer (s)."""

    read: Fraction  # bytes per second
    write: Fraction
    port: Fraction
    latency: Fraction

    def capacity(self, link: str) -> Fraction:
        return {"read": self.read, "write": self.write}.get(link, self.port)


@dataclass(eq=False)
class Task:
    name: str
    submit: Fraction
    cores: Fraction
    work: Fraction
    #: The bytes that it reads before its work, and writes after it; 0: none.
    reads: Fraction = ZERO
    writes: Fraction = ZERO
    step: str = "compute"  # of a running task: read, compute or write
    transfer: Transfer | None = None
    phase: str = "future"  # then waiting and running, at last completed, killed or failed
    machine: Machine | None = None
    done: Fraction = ZERO
    start: Fraction | None = None
    end: Fraction | None = None
    attempts: int = 0
    energy: Fraction = ZERO


@dataclass
class SlowWorld:
    """Machines and tasks; orders return whether they were carried out."""

    machines: dict[str, Machine]
    tasks: dict[str, Task]
    #: Cores that may be allocated on a machine, as a multiple of the cores that it has.
    overcommit: Fraction
    network: Network | None = None
    now: Fraction = ZERO
    #: Time and kind of the orders that were carried out, as the table of decisions has them.
    carried_out: list[tuple[Fraction, str]] = field(default_factory=list)

    # --- sharing ---------------------------------------------------------------------------------

    def on(self, machine: Machine) -> list[Task]:
        return [t for t in self.tasks.values() if t.phase == "running" and t.machine is machine]

    def active_on(self, machine: Machine) -> list[Task]:
        """The tasks that the machine serves; those of a suspended instance wait on it."""
        return [t for t in self.on(machine) if t.step == "compute"] if machine.is_open else []

    def flows(self) -> dict[str, Fraction]:
        """The rate of each transfer, max-min fair over all its links."""
        flows = {
            task.name: (task.transfer.store, f"{task.transfer.port} of {self._host(task).name}")
            for task in self.tasks.values()
            if task.phase == "running"
            and task.transfer is not None
            and task.transfer.latency == 0
            and task.machine.is_open
        }
        left = {link: self.network.capacity(link) for links in flows.values() for link in links}
        rates: dict[str, Fraction] = {}
        while open_flows := {name: links for name, links in flows.items() if name not in rates}:
            users = {link: [n for n, links in open_flows.items() if link in links] for link in left}
            level, bottleneck = min((left[link] / len(u), link) for link, u in users.items() if u)
            for name in users[bottleneck]:
                rates[name] = level
                for link in flows[name]:
                    left[link] -= level
        return rates

    def instances(self, host: Machine) -> list[Machine]:
        return [m for m in self.machines.values() if m.host is host and not m.is_removed]

    def rates(self) -> dict[str, Fraction]:
        """The rate of each running task, by two levels of max-min sharing."""
        rates: dict[str, Fraction] = {}
        for host in self.machines.values():
            if host.host is None:
                rates |= self._share_host(host)
        return rates

    def _share_host(self, host: Machine) -> dict[str, Fraction]:
        """Divide a host among its tasks and instances, and each instance among its tasks."""
        members = {instance.name: instance for instance in self.instances(host)}
        demands = {task.name: task.cores for task in self.active_on(host)}
        weights = dict(demands)
        for name, instance in members.items():
            useful = sum((task.cores for task in self.active_on(instance)), ZERO)
            demands[name] = min(instance.cores, useful)
            weights[name] = instance.cores
        shares = share(demands, weights, host.cores)
        for name, instance in members.items():
            inner = {task.name: task.cores for task in self.active_on(instance)}
            shares |= share(inner, inner, shares.pop(name))
        return shares

    def power(self, machine: Machine, used: Fraction) -> Fraction:
        if machine.is_down or machine.is_removed or machine.host is not None:
            return ZERO
        if machine.state == "running":
            load = used / machine.cores if machine.cores else ZERO
            return machine.idle + (machine.full - machine.idle) * load
        if machine.states is None:
            return ZERO
        if machine.state == "off":
            return machine.states.off
        on = machine.state == "switching-on"
        return (machine.states.switching_on if on else machine.states.switching_off)[0]

    # --- time ------------------------------------------------------------------------------------

    def advance(self, until: Fraction) -> None:
        """Process all events up to and including that time."""
        while True:
            rates, flows = self.rates(), self.flows()
            moving = [t.transfer for t in self.tasks.values() if t.transfer is not None]
            times = [t.submit for t in self.tasks.values() if t.phase == "future"]
            times += [m.until for m in self.machines.values() if m.until is not None]
            times += [
                self.now + (self.tasks[name].work - self.tasks[name].done) / rate
                for name, rate in rates.items()
                if rate > 0
            ]
            times += [self.now + each.latency for each in moving if each.latency > 0]
            times += [
                self.now + self.tasks[name].transfer.left / rate for name, rate in flows.items()
            ]
            then = min([*(max(time, self.now) for time in times), until])
            self._pass(rates, then - self.now)
            for name, rate in flows.items():
                self.tasks[name].transfer.left -= rate * (then - self.now)
            for each in moving:
                each.latency = max(ZERO, each.latency - (then - self.now))
            self.now = then
            if not self._process_events() and then == until:
                return

    def _pass(self, rates: dict[str, Fraction], seconds: Fraction) -> None:
        for machine in self.machines.values():
            family = [machine, *self.instances(machine)]
            here = [task for each in family for task in self.active_on(each)]
            used = sum((rates[task.name] for task in here), ZERO)
            energy = self.power(machine, used) * seconds
            machine.energy += energy
            for task in here if machine.host is None and used > 0 else []:
                charged = energy * rates[task.name] / used
                task.energy += charged
                if task.machine is not machine:
                    task.machine.energy += charged
        for name, rate in rates.items():
            self.tasks[name].done += rate * seconds

    def _process_events(self) -> bool:
        happened = False
        for task in self.tasks.values():
            if task.phase == "running" and self._ends_step(task):
                self._next_step(task)
                happened = True
        for machine in self.machines.values():
            if machine.until is not None and machine.until <= self.now:
                machine.until = None
                machine.state = "running" if machine.state == "switching-on" else "off"
                happened = True
        for task in self.tasks.values():
            if task.phase == "future" and task.submit <= self.now:
                task.phase = "waiting"
                happened = True
        return happened

    def _ends_step(self, task: Task) -> bool:
        if task.transfer is None:
            return task.done >= task.work and task.machine.is_open
        return task.transfer.latency == 0 and task.transfer.left <= 0

    def _begin(self, task: Task) -> None:
        task.step, task.transfer = "read", None
        if task.reads > 0:
            task.transfer = Transfer("read", "in", self.network.latency, task.reads)
        else:
            task.step = "compute"

    def _next_step(self, task: Task) -> None:
        before, task.transfer = task.step, None
        if before == "read":
            task.step = "compute"
        elif before == "compute" and task.writes > 0:
            task.step = "write"
            task.transfer = Transfer("write", "out", self.network.latency, task.writes)
        else:
            task.phase, task.end = "completed", self.now

    def _host(self, task: Task) -> Machine:
        """The machine of a task, or the present host of its instance."""
        return task.machine.host or task.machine

    # --- orders ----------------------------------------------------------------------------------

    def order(self, kind: str, *names: str) -> None:
        """Carry out an order, or refuse it."""
        if getattr(self, f"_{kind}")(*names):
            shown = f"set-state {names[1]}" if kind == "set_state" else kind
            self.carried_out.append((self.now, shown))

    def free(self, machine: Machine) -> Fraction:
        taken = sum((task.cores for task in self.on(machine)), ZERO)
        leased = sum((each.cores for each in self.instances(machine)), ZERO)
        return machine.cores * self.overcommit - taken - leased

    def _place(self, task_name: str, machine_name: str) -> bool:
        task, machine = self.tasks[task_name], self.machines.get(machine_name)
        if machine is None:
            return False
        if task.phase != "waiting" or not machine.is_open or self.free(machine) < task.cores:
            return False
        task.phase, task.machine = "running", machine
        task.start = self.now if task.start is None else task.start
        task.attempts += 1
        self._begin(task)
        return True

    def _preempt(self, name: str) -> bool:
        return self.tasks[name].phase == "running" and self._interrupt(self.tasks[name])

    def _interrupt(self, task: Task) -> bool:
        task.phase, task.done, task.machine, task.transfer = "waiting", ZERO, None, None
        return True

    def _kill(self, name: str) -> bool:
        task = self.tasks[name]
        if task.phase not in ("waiting", "running"):
            return False
        task.phase, task.end, task.transfer = "killed", self.now, None
        return True

    def _set_state(self, name: str, state: str) -> bool:
        machine = self.machines.get(name)
        if machine is None:
            return False
        if machine.host is not None:
            return self._set_instance_state(machine, state)
        is_busy = bool(self.on(machine)) or bool(self.instances(machine))
        if machine.is_down or machine.is_removed or state == "suspended" or is_busy:
            return False
        toward = {"running": "running", "switching-on": "running"}.get(machine.state, "off")
        if toward == ("running" if state == "on" else "off"):
            return False  # it is there already, or on its way
        if machine.states is None:
            machine.state = "running" if state == "on" else "off"
            return True
        on, off = machine.states.switching_on, machine.states.switching_off
        this, other = (on, off) if state == "on" else (off, on)
        # A transition that is reversed takes the share of its duration that was done.
        undone = ZERO
        if machine.until is not None:
            undone = (machine.until - self.now) / other[1]
        machine.state = "switching-on" if state == "on" else "switching-off"
        machine.until = self.now + this[1] * (1 - undone)
        return True

    def _set_instance_state(self, instance: Machine, state: str) -> bool:
        """An instance changes at once; suspended, it keeps its tasks."""
        if instance.is_removed or instance.is_down or instance.host.is_down:
            return False
        target = "running" if state == "on" else state
        if target == instance.state or "running" not in (target, instance.state):
            return False
        if target == "off" and self.on(instance):
            return False
        instance.state = target
        return True

    # --- changes from outside --------------------------------------------------------------------

    def change(self, kind: str, name: str, *rest: str) -> bool:
        """Make a change from outside; return whether it is possible."""
        if kind == "add":
            model = self.machines["m0"]
            self.machines[name] = Machine(
                name, Fraction(rest[0]), model.idle, model.full, model.states
            )
            return True
        if kind == "add_instance":
            return self._add_instance(name, *rest)
        machine = self.machines.get(name)
        if machine is None or machine.is_removed:
            return False
        if kind == "move":
            return self._move(machine, rest[0])
        if kind == "resize":
            return self._resize(machine, Fraction(rest[0]))
        host_is_down = machine.host is not None and machine.host.is_down
        if kind != "remove" and (host_is_down or machine.is_down == (kind == "fail")):
            return False
        if kind == "restore":
            machine.is_down = False
            return True
        for each in [machine, *self.instances(machine)]:
            for task in self.on(each):
                self._interrupt(task)
            if each.state == "suspended":
                each.state = "off"  # what it kept is lost
            if kind == "remove":
                each.is_removed = True
        machine.is_down = kind == "fail"
        # A failure ends a transition: the machine is then where it was going.
        if machine.until is not None:
            machine.state = "running" if machine.state == "switching-on" else "off"
            machine.until = None
        return True

    def _add_instance(self, name: str, host_name: str, cores: str) -> bool:
        host = self.machines.get(host_name)
        if host is None or host.host is not None or not host.is_open:
            return False
        self.machines[name] = Machine(name, Fraction(cores), host=host)
        return True

    def _move(self, instance: Machine, host_name: str) -> bool:
        host = self.machines.get(host_name)
        if instance.host is None or host is None or host.host is not None or not host.is_open:
            return False
        if host is instance.host or not instance.host.is_open:
            return False
        instance.host = host
        return True

    def _resize(self, instance: Machine, cores: Fraction) -> bool:
        used = sum((task.cores for task in self.on(instance)), ZERO)
        if instance.host is None or cores < min(used, instance.cores):
            return False
        instance.cores = cores
        return True
