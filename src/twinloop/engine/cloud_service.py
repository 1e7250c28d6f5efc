"""The service of a cloud on a running simulation: information, instances, allocations, hosts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import polars as pl

from twinloop.description.errors import InputError
from twinloop.engine.arguments import (
    require_count,
    require_name,
    require_number,
    require_positive,
)
from twinloop.engine.node_changes import NodeChange
from twinloop.engine.refusals import explain_refusals
from twinloop.engine.rental_tables import STATES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from twinloop._core import ClusterRun
    from twinloop.engine.compiled_scenario import CompiledScenario
    from twinloop.platform.clouds import Cloud

_INSTANCE: Final = re.compile(r"instance-([1-9][0-9]{0,9})")
#: Instances of one request; more of them are more requests.
_MOST_TOGETHER: Final = 100_000


class CloudUse(NamedTuple):
    """What a cloud has and uses at one time."""

    #: Hosts, and those that run.
    hosts: int
    running_hosts: int
    #: Instances that are rented, in any state, and those that wait for a host.
    instances: int
    queued: int
    #: Cores of all hosts, of those that run, and of these the free and the allocated ones.
    cores: float
    running_cores: float
    free_cores: float
    allocated_cores: float


class CloudService:
    """The interface of a cloud to its users and its operator, at the present time of a simulation.

    It is made by `Simulation.cloud`. Requests take effect at the present time; what they cause,
    such as the transfer of an image, happens as the simulation advances. Instances that are
    requested here are machines for the policy of the scenario, as others are.

    >>> from twinloop.engine import Simulation
    >>> from twinloop.scenario import Scenario
    >>> sim = Simulation(Scenario(policy="manual", platform={
    ...     "clusters": [{"hosts": [{"cores": 4, "count": 2}]}],
    ...     "clouds": [{"name": "east", "images": [{"name": "base", "boot": {"delay": "5s"}}]}]},
    ...     workload={"tasks": [{"id": "a", "cores": 2, "run_time": 60}]}))
    >>> east = sim.cloud("east")
    >>> east.request(cores=2)
    'instance-1'
    >>> sim.run()["start"].to_list()
    [5.0]
    >>> east.describe("instance-1").state, east.use.free_cores
    ('running', 6.0)
    >>> east.terminate("instance-1")
    """

    #: The module that users import it from, shown in errors and representations.
    __module__ = "twinloop.engine"

    def __init__(
        self, compiled: CompiledScenario, run: ClusterRun, name: str, changes: list[NodeChange]
    ) -> None:
        clouds = compiled.machines.platform.clouds
        names = [each.name for each in clouds]
        self._compiled = compiled
        self._run = run
        self._changes = changes
        run.present_instances()  # refused while a policy decides, as other uses are
        self._number = _find_index(name, names, "cloud")
        self._cloud: Cloud = clouds[self._number]

    # --- information -----------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The name of the cloud."""
        return self._cloud.name

    @property
    def controllers(self) -> dict[str, str | None]:
        """The names of the controllers of the cloud, by their roles."""
        chosen = self._cloud.controllers
        moves = chosen.consolidation
        return {
            "placement": chosen.placement.name,
            "machines": chosen.machines.name,
            "consolidation": None if moves is None else moves.name,
        }

    @property
    def use(self) -> CloudUse:
        """The hosts, cores, instances and queued requests of the cloud now."""
        now = self._run.cloud_hosts(self._number)
        running = now["running"] != 0
        return CloudUse(
            hosts=len(running),
            running_hosts=int(running.sum()),
            instances=int((self._run.present_instances()["cloud"] == self._number).sum()),
            queued=now["queued"],
            cores=float(now["cores"].sum()),
            running_cores=float(now["cores"][running].sum()),
            free_cores=float(now["free_cores"][running].sum()),
            allocated_cores=float((now["cores"] - now["free_cores"])[running].sum()),
        )

    @property
    def hosts(self) -> pl.DataFrame:
        """A row per host: cores and memory, those that are free, instances, whether it runs."""
        now = self._run.cloud_hosts(self._number)
        names = pl.Series(self._compiled.names.machines, dtype=pl.String)
        columns = ("cores", "memory", "free_cores", "free_memory", "instances")
        return pl.DataFrame(
            {
                "host": names.gather(now["machine"]),
                **{name: now[name] for name in columns},
                "running": now["running"] != 0,
            }
        )

    @property
    def instances(self) -> pl.DataFrame:
        """A row per instance that is rented from the cloud now."""
        return self._list_instances().drop("machine")

    def describe(self, instance: str) -> Instance:
        """Return what is known of an instance now: its state, host, size and times."""
        row = self._find_instance(instance)
        return Instance(**{name: row[name] for name in Instance._fields})

    def ask(self, instance: str) -> None:
        """Ask the controller for the state of an instance; see `answers`.

        With `messages` of the cloud, question and answer travel over the network, and the answer is
        the state when the question arrives; otherwise it is there at once.
        """
        named = _INSTANCE.fullmatch(require_name(instance, "instance"))
        try:
            self._run.describe_instance(self._number, int(named[1]) - 1 if named else -1)
        except IndexError:
            raise InputError(
                f"there is no instance {instance!r}", kind="unknown-reference"
            ) from None

    @property
    def answers(self) -> pl.DataFrame:
        """The answers to `ask` that have arrived, with the times of question, answer, arrival."""
        log = self._run.descriptions()
        return pl.DataFrame(
            {
                "instance": pl.Series(
                    [f"instance-{number + 1}" for number in log["rental"]], dtype=pl.String
                ),
                "state": pl.Series(STATES, dtype=pl.String).gather(log["state"].astype(np.int64)),
                "asked": log["asked"],
                "answered": log["answered"],
                "received": log["received"],
            }
        )

    def _list_instances(self) -> pl.DataFrame:
        now = self._run.present_instances()
        hosts = pl.Series([*self._compiled.names.machines, None], dtype=pl.String)
        users = pl.Series([*self._compiled.names.users, None], dtype=pl.String)
        view = self._run.view()
        frame = pl.DataFrame(
            {
                "machine": now["machine"],
                "instance": pl.Series(
                    [f"instance-{number + 1}" for number in now["rental"]], dtype=pl.String
                ),
                "state": pl.Series(STATES, dtype=pl.String).gather(now["state"].astype(np.int64)),
                "since": now["since"],
                "host": hosts.gather(now["host"] % hosts.len()),
                "cores": now["cores"],
                "memory": now["memory"],
                "type": pl.Series([each.name for each in self._cloud.types])
                .gather(np.minimum(now["type"], len(self._cloud.types) - 1).astype(np.int64)),
                "image": pl.Series([each.name for each in self._cloud.images])
                .gather(np.minimum(now["image"], len(self._cloud.images) - 1).astype(np.int64)),
                "user": users.gather(now["user"].astype(np.int64) % users.len()),
                "requested": now["requested"],
                "ready": pl.Series(now["ready"]).fill_nan(None),
                "tasks": view.task_counts[now["machine"]].astype(np.int64),
            }
        )  # fmt: skip
        return frame.filter(pl.Series(now["cloud"] == self._number))

    def _find_instance(self, name: str) -> dict[str, Any]:
        require_name(name, "instance")
        rows = self._list_instances().filter(instance=name)
        if rows.is_empty():
            raise InputError(
                f"cloud '{self.name}' has no instance {name!r} now",
                kind="unknown-reference",
                remedy="see `instances`",
            )
        return rows.row(0, named=True)

    # --- instances -------------------------------------------------------------------------------

    def request(
        self,
        *,
        cores: float | None = None,
        memory: float | None = None,
        type: str | None = None,
        image: str | None = None,
        user: str | None = None,
        bid: float | None = None,
    ) -> str:
        """Request an instance and return its name.

        Args:
            cores: Its cores; by default those of its type.
            memory: Its memory (bytes); by default that of its type, or none.
            type: The name of its type; by default the first one of the cloud.
            image: The name of its image; by default the first one of the cloud.
            user: A user of the workload, to whom it is accounted.
            bid: The highest spot price of a unit at which it runs; by default it is not rented at
                spot prices.
        """
        return self._rent(cores, memory, type, image, user, bid=bid)[1]

    def request_together(
        self,
        count: int,
        *,
        cores: float | None = None,
        memory: float | None = None,
        type: str | None = None,
        image: str | None = None,
        user: str | None = None,
        bid: float | None = None,
    ) -> list[str]:
        """Request several equal instances, which start together.

        The policies of `placement` that search hosts by filters, such as first-fit, place all of
        them at once or none. Others place one by one, and an instance holds its host until all
        have one. If one is refused, all are, also if empty hosts have no room for all of them.
        """
        count = require_count(count, "count")
        if count > _MOST_TOGETHER:
            raise InputError(
                f"must be at most {_MOST_TOGETHER}, not {count}",
                kind="out-of-range",
                field="count",
                remedy="make several requests",
            )
        numbers = self._resolve_rental(cores, memory, type, image, user)
        with explain_refusals(f"cloud '{self.name}'", "cannot rent these instances"):
            first = self._run.rent_together(count, self._number, *numbers, _read_bid(bid))
        return [f"instance-{rental + 1}" for rental in range(first, first + count)]

    def allocate(
        self,
        *,
        cores: float,
        memory: float = 0.0,
        validity: float = 1.0,
        strict: bool = True,
        image: str | None = None,
        user: str | None = None,
    ) -> str:
        """Allocate cores and memory on a host without a start; return the name of the instance.

        The allocation expires `validity` seconds after it has got its host, unless it is used.

        Args:
            cores: Cores of the allocation.
            memory: Memory of the allocation (bytes).
            validity: Time after which it expires (s).
            strict: False: if no host has as many free cores now, the allocation has those of the
                host with the most: it is under-provisioned, see its `cores`.
            image: The name of the image of the instance that uses it.
            user: A user of the workload, to whom it is accounted.
        """
        validity = require_positive(validity, "validity")
        given = require_positive(cores, "cores")
        if not strict:
            now = self._run.cloud_hosts(self._number)
            free = now["free_cores"][(now["running"] != 0) & (now["free_memory"] >= memory)]
            if free.size and 0 < free.max() < given:
                given = float(free.max())
        return self._rent(given, memory, None, image, user, validity)[1]

    def use_allocation(self, instance: str) -> None:
        """Start the instance of an allocation, which then does not expire."""
        self._order(instance, "cannot be used", "use_allocation")

    def terminate(self, instance: str, *, violent: bool = False) -> None:
        """End an instance, or cancel its request or allocation, in any state.

        Args:
            instance: Its name.
            violent: Whether its tasks are interrupted, as by a failure; otherwise it must have
                none.
        """
        self._order(instance, "cannot end", "terminate", violent)

    def suspend(self, instance: str) -> None:
        """Stop a running instance, save its memory to a store, and give back its host."""
        self._order(instance, "cannot be suspended", "suspend")

    def resume(self, instance: str) -> None:
        """Continue an instance that was suspended or shut down, on a host that placement selects.

        The tasks of a suspended instance go on where they were; one that was shut down boots.
        """
        self._order(instance, "cannot be resumed", "resume")

    def reboot(self, instance: str) -> None:
        """Boot a running instance again; its tasks are interrupted as by a failure."""
        self._order(instance, "cannot be booted again", "reboot")

    def shut_down(self, instance: str) -> None:
        """Stop a running instance; it keeps its disk, and its tasks are interrupted."""
        self._order(instance, "cannot be shut down", "shut_down")

    def resize(self, instance: str, cores: float) -> None:
        """Give a running instance another number of cores of its host; its tasks go on."""
        cores = require_positive(cores, f"instance {instance!r}: cores")
        self._order(instance, "cannot get another size", "resize", cores)

    def migrate(self, instance: str, *, host: str | None = None, cloud: str | None = None) -> None:
        """Move a running instance to another host of the cloud, or to another cloud.

        In another cloud, which must have a type and an image of the same names, its placement
        selects the host. The instance is suspended, with its disk, and resumed there.
        """
        if (host is None) == (cloud is None):
            raise InputError(
                "give either `host` or `cloud`", kind="conflicting-fields", field="migrate"
            )
        if host is not None:
            self._order(instance, f"cannot move to {host!r}", "migrate", self._find_host(host))
            return
        row = self._find_instance(instance)
        clouds = self._compiled.machines.platform.clouds
        number = _find_index(cloud, [each.name for each in clouds], "cloud")
        if number == self._number:
            raise InputError(
                f"cannot move to cloud {cloud!r}: it is there",
                kind="invalid-operation",
                field=f"instance {instance!r}",
                remedy="give the `host` to move it within its cloud",
            )
        there = clouds[number]
        type_ = _find_index(row["type"], [each.name for each in there.types], "type")
        image = _find_index(row["image"], [each.name for each in there.images], "image")
        with explain_refusals(f"instance {instance!r}", f"cannot move to cloud {cloud!r}"):
            self._run.leave_cloud(row["machine"], number, type_, image)

    def _order(self, instance: str, what: str, method: str, *arguments: Any) -> None:
        machine = self._find_instance(instance)["machine"]
        with explain_refusals(f"instance {instance!r}", what):
            getattr(self._run, method)(machine, *arguments)

    def _rent(
        self,
        cores: float | None,
        memory: float | None,
        type: str | None,
        image: str | None,
        user: str | None,
        validity: float = float("nan"),
        bid: float | None = None,
    ) -> tuple[int, str]:
        numbers = self._resolve_rental(cores, memory, type, image, user)
        with explain_refusals(f"cloud '{self.name}'", "cannot rent an instance"):
            machine, rental = self._run.rent(self._number, *numbers, validity, _read_bid(bid))
        return machine, f"instance-{rental + 1}"

    def _resolve_rental(
        self,
        cores: float | None,
        memory: float | None,
        type: str | None,
        image: str | None,
        user: str | None,
    ) -> tuple[int, int, float, float, int]:
        """Return numbers of type and image, cores, memory (bytes), and number of the user."""
        number = _find_index(type, [each.name for each in self._cloud.types], "type")
        kind = self._cloud.types[number]
        if cores is None:
            cores = kind.cores
        if cores is None:
            raise InputError(
                f"must be given, because type '{kind.name}' has no size of its own",
                kind="missing-field",
                field="cores",
            )
        size = require_positive(cores, "cores")
        bytes_ = require_number(memory if memory is not None else kind.memory or 0.0, "memory")
        chosen = _find_index(image, [each.name for each in self._cloud.images], "image")
        users = list(self._compiled.names.users)
        owner = -1 if user is None else _find_index(user, users, "user")
        return number, chosen, size, bytes_, owner

    # --- hosts -----------------------------------------------------------------------------------

    def register_host(self, machine: str) -> None:
        """Add a machine of a cluster that belongs to no cloud, and has no tasks, to the cloud."""
        require_name(machine, "machine")
        with explain_refusals(f"machine {machine!r}", "cannot be registered"):
            self._run.register_host(self._find_host(machine), self._number)
        self._changes.append(NodeChange(self._run.now, machine, {"cloud": self.name}))

    def deregister_host(self, machine: str, *, violent: bool = False) -> None:
        """Remove a host from the cloud; it can be registered again, here or in another cloud.

        Args:
            machine: Its name.
            violent: Whether its instances are lost with their tasks; otherwise it must have none.
        """
        require_name(machine, "machine")
        if machine not in self.hosts["host"].to_list():
            raise InputError(
                f"is not a host of cloud '{self.name}'",
                kind="invalid-operation",
                field=f"machine {machine!r}",
            )
        with explain_refusals(f"machine {machine!r}", "cannot be deregistered"):
            self._run.deregister_host(self._find_host(machine), violent)
        self._changes.append(NodeChange(self._run.now, machine, {"cloud": None}))

    def _find_host(self, name: str) -> int:
        return _find_index(name, self._compiled.names.machines, "machine")

    def __repr__(self) -> str:
        use = self.use
        return (
            f"<CloudService {self.name}: {use.instances:,} instances, {use.queued:,} queued, "
            f"{use.free_cores:g} of {use.running_cores:g} cores free>"
        )


class Instance(NamedTuple):
    """An instance of a cloud at one time."""

    instance: str
    #: Its state, as in the table `instance_states`, and since when (s).
    state: str
    since: float
    #: The host; None while it has none.
    host: str | None
    cores: float
    memory: float
    type: str
    image: str
    user: str | None
    requested: float
    #: The end of its first boot (s); None before.
    ready: float | None
    #: The number of its tasks.
    tasks: int


# The module that users import them from, shown in representations.
for _kind in (CloudUse, Instance):
    _kind.__module__ = "twinloop.engine"


def _read_bid(bid: float | None) -> float:
    """Return the native value of a bid, which is not a number without one."""
    return float("nan") if bid is None else require_number(bid, "bid")


def _find_index(name: str | None, names: Sequence[str], what: str) -> int:
    if name is None:
        return 0
    if name not in names:
        known = ", ".join(list(names)[:10])
        raise InputError(
            f"there is no {what} {name!r}", kind="unknown-reference", remedy=f"one of: {known}"
        )
    return list(names).index(name)
