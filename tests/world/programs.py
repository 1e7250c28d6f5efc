"""Random programs of orders and changes, which run in the simulator and in the slow world."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import polars as pl
from hypothesis import strategies as st

import twinloop as tl
from tests.world.slow_world import Machine, Network, SlowWorld, States, Task
from twinloop.engine import Simulation
from twinloop.policy import Decision, Kill, Place, Policy, Preempt, SetState, View, Wake
from twinloop.workload import Workload

OVERCOMMIT = 3
#: The end of every program. A task that is never placed keeps the world open until then.
HORIZON = Fraction(600)
#: The states of Table 1 of DISSECT-CF, shorter: watts of each state, durations of transitions (s).
STATES = States(Fraction(10), (Fraction(400), Fraction(20)), (Fraction(300), Fraction(6)))
#: Bandwidths in bytes per second.
NETWORK = Network(read=Fraction(6), write=Fraction(4), port=Fraction(5), latency=Fraction(1, 2))


@dataclass(frozen=True)
class Command:
    """An order of the policy, or a change from outside."""

    time: Fraction
    kind: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class Program:
    cores: tuple[int, ...]  # of each machine
    tasks: tuple[tuple[Fraction, int, Fraction], ...]  # submission, cores, work
    commands: tuple[Command, ...]
    has_states: bool = False
    #: The bytes that each task reads and writes; empty: there is no network.
    files: tuple[tuple[int, int], ...] = ()


ORDERS = ("place", "preempt", "kill", "set_state")


@dataclass
class Script(Policy):
    """Gives orders at fixed times; some of them cannot be carried out."""

    commands: tuple[Command, ...]
    tasks: dict[str, int]
    given: int = 0

    overcommit = float(OVERCOMMIT)

    def start(self, view: View, rng: Any) -> Script:
        return self.copy()

    def copy(self) -> Script:
        return Script(self.commands, self.tasks, self.given)

    def state(self) -> int:
        return self.given

    def set_state(self, given: int) -> None:
        self.given = given

    def failed(self, decision: Decision, reason: str) -> None:
        """Accept the refusal: the table of decisions has the orders that were carried out."""

    def decide(self, view: View) -> Iterable[Decision]:
        while self.given < len(self.commands):
            command = self.commands[self.given]
            if float(command.time) > view.now:
                yield Wake(float(command.time))
                return
            self.given += 1
            yield from self._decisions(command, view)

    def _decisions(self, command: Command, view: View) -> Iterable[Decision]:
        first, *rest = command.names
        if command.kind in ("preempt", "kill"):
            yield (Preempt if command.kind == "preempt" else Kill)(self.tasks[first])
            return
        # An instance that could not be added does not exist, and only instances can be suspended.
        names = {view.machine_name(machine): machine for machine in range(view.machines)}
        machine = names.get(rest[0] if command.kind == "place" else first)
        if machine is None or (rest[0] == "suspended" and view.host(machine) is None):
            return
        yield (
            Place(self.tasks[first], machine)
            if command.kind == "place"
            else SetState(machine, rest[0])
        )


# --- in the slow world ----------------------------------------------------------------------------


def run_slowly(program: Program) -> SlowWorld:
    machines = {
        f"m{i}": Machine(
            f"m{i}",
            Fraction(cores),
            idle=Fraction(100),
            full=Fraction(300),
            states=STATES if program.has_states else None,
        )
        for i, cores in enumerate(program.cores)
    }
    tasks = {
        f"t{i}": Task(f"t{i}", submit, Fraction(cores), work)
        for i, (submit, cores, work) in enumerate(program.tasks)
    }
    for task, (reads, writes) in zip(tasks.values(), program.files, strict=False):
        task.reads, task.writes = Fraction(reads), Fraction(writes)
    world = SlowWorld(machines, tasks, Fraction(OVERCOMMIT), NETWORK)
    for command in program.commands:
        world.advance(command.time)
        if command.kind in ORDERS:
            world.order(command.kind, *command.names)
        else:
            world.change(command.kind, *command.names)
    world.advance(HORIZON)
    return world


# --- in the simulator -----------------------------------------------------------------------------


def make_scenario(program: Program) -> tl.Scenario:
    power = {"model": "linear", "idle": 100.0, "max": 300.0}
    states = {
        "off": {"power": float(STATES.off)},
        "switching-on": dict(
            zip(("power", "duration"), map(float, STATES.switching_on), strict=True)
        ),
        "switching-off": dict(
            zip(("power", "duration"), map(float, STATES.switching_off), strict=True)
        ),
    }
    parts = {"power": power, **({"states": states} if program.has_states else {})}
    if program.files:
        parts["ports"] = f"{NETWORK.port} B/s"
    hosts = [{"names": [f"m{i}"], "cores": cores, **parts} for i, cores in enumerate(program.cores)]
    submits, cores, works = zip(*program.tasks, (0, 1, 1), strict=True)
    workload = Workload(
        tasks=pl.DataFrame(
            {
                "id": [*(f"t{i}" for i in range(len(program.tasks))), "keeper"],
                "submit": [float(each) for each in submits],
                "cores": [float(each) for each in cores],
                "work": [float(each) for each in works],
                "limit": [float(each) for each in cores],
            }
        ),
        **make_files(program),
    )
    orders = tuple(each for each in program.commands if each.kind in ORDERS)
    script = Script(orders, {f"t{i}": i for i in range(len(program.tasks))})
    return tl.Scenario(
        platform={"clusters": [{"hosts": hosts}], **(STORES if program.files else {})},
        workload=workload,
        policy=script,
    )


STORES = {
    "stores": [{"name": "s", "read": f"{NETWORK.read} B/s", "write": f"{NETWORK.write} B/s"}],
    "network": {"latency": f"{float(NETWORK.latency)} s"},
}


def make_files(program: Program) -> dict[str, pl.DataFrame]:
    """Make the tables of the files that tasks read and write."""
    uses = [
        (f"t{i}", f"{access} {i}", float(size), access)
        for i, sizes in enumerate(program.files)
        for access, size in zip(("read", "write"), sizes, strict=True)
        if size > 0
    ]
    frame = pl.DataFrame(
        uses,
        schema={"task": pl.String, "file": pl.String, "size": pl.Float64, "access": pl.String},
        orient="row",
    )
    if frame.is_empty():
        return {}
    return {
        "files": frame.select("file", "size"),
        "task_files": frame.select("task", "file", "access"),
    }


def change(sim: Simulation, command: Command) -> bool:
    """Make a change from outside; return whether it was possible."""
    first, *rest = command.names
    try:
        if command.kind == "add":
            sim.add_machine(first, cores=float(rest[0]), like="m0")
        elif command.kind == "add_instance":
            sim.add_instance(first, host=rest[0], cores=float(rest[1]), overcommit=True)
        elif command.kind == "move":
            sim.move_instance(first, rest[0], overcommit=True)
        elif command.kind == "resize":
            sim.set_cores(first, float(rest[0]), overcommit=True)
        elif command.kind == "remove":
            sim.remove_machine(first)
        else:
            (sim.fail if command.kind == "fail" else sim.restore)(first)
    except tl.InputError:
        return False
    return True


def run_in_simulator(
    program: Program,
    *,
    copy_at: Fraction | None = None,
    copy: Callable[[Simulation], Simulation] = Simulation.copy,
) -> list[Simulation]:
    """Run the program; with `copy_at`, a copy made at that time runs it to its end as well."""
    sims = [Simulation(make_scenario(program))]
    changes = [each for each in program.commands if each.kind not in ORDERS]
    ends = [*(each.time for each in changes), HORIZON]
    for command, time in zip([*changes, None], ends, strict=True):
        if copy_at is not None and copy_at < time and len(sims) == 1:
            sims[0].run_until(float(copy_at))
            sims.append(copy(sims[0]))
        for sim in sims:
            sim.run_until(float(time))
            if command is not None:
                change(sim, command)
    return sims


# --- random programs ------------------------------------------------------------------------------

_WORK = st.integers(1, 400).map(lambda n: Fraction(n, 4))


@st.composite
def programs(
    draw: st.DrawFn, kinds: tuple[str, ...], *, has_states: bool = False, has_files: bool = False
) -> Program:
    """Draw a program whose commands are of these kinds.

    No command comes at the time of another event, apart from placements at a submission: the order
    of simultaneous events is the subject of other tests.
    """
    cores = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    tasks = tuple(
        (Fraction(draw(st.integers(0, 20))), draw(st.integers(1, min(3, sum(cores)))), draw(_WORK))
        for _ in range(draw(st.integers(1, 7)))
    )
    names = [f"m{i}" for i in range(len(cores))]
    time, commands = Fraction(0), []
    for number in range(draw(st.integers(1, 25))):
        time += Fraction(draw(st.integers(0, 80)), 4) + Fraction(1, 9973 + 2 * number)
        kind = draw(st.sampled_from(kinds))
        rest: tuple[str, ...] = ()
        first = draw(st.sampled_from(names))
        if kind == "resize" and not first.startswith("v"):
            kind = "place"  # the size of hosts is the subject of other tests
        if kind == "place":
            rest, first = (first,), f"t{draw(st.integers(0, len(tasks) - 1))}"
        elif kind in ("preempt", "kill"):
            first = f"t{draw(st.integers(0, len(tasks) - 1))}"
        elif kind == "set_state":
            states = ("on", "off", "suspended") if first.startswith("v") else ("on", "off")
            rest = (draw(st.sampled_from(states)),)
        elif kind == "move":
            rest = (draw(st.sampled_from(names)),)
        elif kind == "resize":
            rest = (str(draw(st.integers(1, 4))),)
        elif kind in ("add", "add_instance"):
            size = str(draw(st.integers(1, 4)))
            rest = (size,) if kind == "add" else (first, size)
            first = f"{'n' if kind == 'add' else 'v'}{number}"
            names.append(first)
        commands.append(Command(time, kind, (first, *rest)))
    sizes = st.tuples(st.integers(0, 200), st.integers(0, 200))
    files = tuple(draw(sizes) for _ in tasks) if has_files else ()
    return Program(cores, tasks, tuple(commands), has_states, files)
