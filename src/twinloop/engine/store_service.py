"""The service of a data store of a running simulation: files, space, and transfers on request."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from twinloop.description.errors import InputError
from twinloop.engine.arguments import require_number
from twinloop.engine.network_columns import KINDS
from twinloop.engine.refusals import explain_refusals

if TYPE_CHECKING:
    from twinloop.engine.simulation import Simulation
    from twinloop.engine.store_directory import StoreDirectory

_STATES: Final = ("waiting", "latency", "active", "done", "cancelled")


class StoreTransfer:
    """A transfer that was requested of a store; see `StoreService`."""

    #: The module that users import it from, shown in errors and representations.
    __module__ = "twinloop.engine"

    def __init__(self, directory: StoreDirectory, number: int) -> None:
        self._directory = directory
        self._number = number

    @property
    def name(self) -> str:
        """Its name; transfers are numbered in the order of the requests."""
        return f"transfer-{self._number + 1}"

    @property
    def kind(self) -> str:
        """The request: put, get, duplicate or move."""
        return KINDS[self._figures["kind"]]

    @property
    def file(self) -> str:
        """The name of the file."""
        return self._directory.name_file(self._figures["file"])

    @property
    def state(self) -> str:
        """Its state: waiting (for a stream), latency, active, done or cancelled."""
        return _STATES[self._figures["phase"]]

    @property
    def bytes(self) -> float:
        """The size of the file (bytes)."""
        size: float = self._figures["bytes"]
        return size

    @property
    def moved(self) -> float:
        """The bytes that have been moved."""
        moved: float = self._figures["moved"]
        return moved

    @property
    def start(self) -> float:
        """The time of the request (s)."""
        start: float = self._figures["start"]
        return start

    @property
    def end(self) -> float | None:
        """The time of its end (s); None while it is in progress."""
        end: float = self._figures["end"]
        return None if math.isnan(end) else end

    def cancel(self) -> None:
        """Cancel it: space, stream and bandwidth come back at once. No effect after its end."""
        self._directory.run.cancel_request(self._number)

    @property
    def _figures(self) -> dict[str, Any]:
        return self._directory.run.request_figures(self._number)

    def __repr__(self) -> str:
        return f"<StoreTransfer {self.name}: {self.kind} {self.file!r}, {self.state}>"


class StoreService:
    """A data store of a running simulation, by `Simulation.store`.

    Registration takes no time. Transfers share ports, links and stores with those of tasks and
    instances. A file has one size under one name; a file that is in the target already is not
    transferred again and takes no space.

    >>> from twinloop.engine import Simulation
    >>> from twinloop.scenario import Scenario
    >>> sim = Simulation(Scenario(policy="fcfs", workload={"tasks": [
    ...     {"id": "a", "run_time": 1}]}, platform={
    ...     "clusters": [{"hosts": [{"names": ["front"], "cores": 1, "ports": "100 MB/s"}]}],
    ...     "stores": [{"name": "disk", "capacity": "1 GB"}], "network": {"latency": 1}}))
    >>> disk = sim.store("disk")
    >>> disk.register("old", 600e6)
    >>> put = disk.put("new", 300e6, source="front")
    >>> disk.used, disk.promised, disk.free, put.state
    (600000000.0, 300000000.0, 100000000.0, 'latency')
    >>> _ = sim.run()
    >>> put.state, put.end, disk.files["file"].to_list()
    ('done', 4.0, ['old', 'new'])
    """

    #: The module that users import it from, shown in errors and representations.
    __module__ = "twinloop.engine"

    def __init__(self, simulation: Simulation, directory: StoreDirectory, name: str) -> None:
        self._simulation = simulation
        self._directory = directory
        self._name = name
        self._find()

    # --- information -----------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Its name; that of the host, for the store of a host."""
        return self._name

    @property
    def capacity(self) -> float | None:
        """Its capacity (bytes); None: unlimited."""
        return _limit(self._figures["capacity"])

    @property
    def used(self) -> float:
        """The bytes of its files."""
        used: float = self._figures["used"]
        return used

    @property
    def promised(self) -> float:
        """The bytes that transfers in progress have reserved in it."""
        promised: float = self._figures["promised"]
        return promised

    @property
    def free(self) -> float | None:
        """The bytes that are neither used nor promised; None: unlimited."""
        figures = self._figures
        return _limit(figures["capacity"] - figures["used"] - figures["promised"])

    @property
    def read_bandwidth(self) -> float | None:
        """The bandwidth of all reads (bytes/s); None: unlimited."""
        return _limit(self._figures["read"])

    @property
    def write_bandwidth(self) -> float | None:
        """The bandwidth of all writes (bytes/s); None: unlimited."""
        return _limit(self._figures["write"])

    @property
    def read_rate(self) -> float:
        """The present rate of all reads (bytes/s)."""
        rate: float = self._figures["reading"]
        return rate

    @property
    def write_rate(self) -> float:
        """The present rate of all writes (bytes/s)."""
        rate: float = self._figures["writing"]
        return rate

    @property
    def streams(self) -> int | None:
        """The number of transfers that it serves at once; None: unlimited."""
        streams: int = self._figures["streams"]
        return None if streams < 0 else streams

    @property
    def streams_in_use(self) -> int:
        """The number of transfers that it serves now, of any kind."""
        active: int = self._figures["active"]
        return active

    @property
    def waiting(self) -> int:
        """The number of transfers that wait for a stream of it."""
        waiting: int = self._figures["waiting"]
        return waiting

    @property
    def files(self) -> pl.DataFrame:
        """Its files: name and size (bytes), in the order in which they became known to the run."""
        numbers, sizes = self._directory.run.store_files(self._find())
        names = self._directory.name_files(numbers.astype(np.int64))
        return pl.DataFrame({"file": names, "bytes": sizes}).cast({"bytes": pl.Float64})

    def has(self, file: str) -> bool:
        """Return whether the file is in the store."""
        store = self._find()
        return any(
            self._directory.run.has_file(store, each) for each in self._directory.find_files(file)
        )

    @property
    def transfers(self) -> list[StoreTransfer]:
        """The requested transfers in progress from it or to it, in the order of the requests.

        Those of tasks and instances are not listed; `streams_in_use` and `waiting` count them.
        """
        run, store = self._directory.run, self._find()
        ends = [(each, run.request_figures(each)) for each in run.open_requests()]
        return [
            StoreTransfer(self._directory, number)
            for number, figures in ends
            if store in (figures["source"], figures["target"])
        ]

    # --- files -----------------------------------------------------------------------------------

    def register(self, file: str, size: float) -> None:
        """Register a file, as if it had always been in the store; this takes no time.

        Args:
            file: Its name: a new one, or that of a file of the workload or an image.
            size: Its size (bytes).
        """
        number = self._name_file(file, size)
        with explain_refusals(f"store {self._name!r}", f"cannot register {file!r}"):
            self._directory.run.register_file(self._find(), number, float(size))

    def deregister(self, file: str) -> None:
        """Remove a file from the store at once; transfers that have begun to read it go on."""
        self._remove(file, reading=True)

    def delete(self, file: str) -> None:
        """Delete a file; it is refused while a transfer reads the file."""
        self._remove(file, reading=False)

    def _remove(self, file: str, *, reading: bool) -> None:
        number = self._find_file(file)
        with explain_refusals(f"store {self._name!r}", f"cannot delete {file!r}"):
            self._directory.run.remove_file(self._find(), number, reading)

    # --- transfers -------------------------------------------------------------------------------

    def put(self, file: str, size: float, *, source: str) -> StoreTransfer:
        """Transfer a file from a host into the store; its space is reserved from now on.

        Args:
            file: Its name.
            size: Its size (bytes).
            source: The host that sends it, or an instance, which stands for its present host.
        """
        machine = self._simulation._find_machine(source)
        number = self._name_file(file, size)
        return self._begin("put", file, number, float(size), target=self._find(), machine=machine)

    def get(self, file: str, *, target: str, keep: bool = False) -> StoreTransfer:
        """Transfer a file from the store to a host.

        Args:
            file: Its name.
            target: The host that receives it, or an instance, which stands for its present host.
            keep: Whether it is kept in the store of the host.
        """
        number, store = self._find_file(file), self._find()
        machine = self._simulation._find_machine(target)
        local = -1
        if keep:
            host = int(self._directory.run.hosts()[machine])
            names = self._simulation._compiled.names.machines
            local = self._directory.find_store(target if host < 0 else names[host])
        size = self._directory.run.file_size(number) or 0.0
        return self._begin("get", file, number, size, source=store, target=local, machine=machine)

    def duplicate(self, file: str, *, to: str) -> StoreTransfer:
        """Copy a file to another store; if it is there already, this takes no time and no space."""
        return self._copy("duplicate", file, to)

    def move(self, file: str, *, to: str) -> StoreTransfer:
        """Copy a file to another store; this one loses it when the transfer ends."""
        return self._copy("move", file, to)

    def _copy(self, kind: str, file: str, to: str) -> StoreTransfer:
        number, source = self._find_file(file), self._find()
        target = self._directory.find_store(to)
        size = self._directory.run.file_size(number) or 0.0
        return self._begin(kind, file, number, size, source=source, target=target)

    def _begin(
        self,
        kind: str,
        file: str,
        number: int,
        size: float,
        *,
        source: int = -1,
        target: int = -1,
        machine: int = -1,
    ) -> StoreTransfer:
        with explain_refusals(f"store {self._name!r}", f"cannot {kind} {file!r}"):
            request = self._directory.run.begin_request(
                KINDS.index(kind), number, source, target, machine, size
            )
        return StoreTransfer(self._directory, request)

    # --- names -----------------------------------------------------------------------------------

    def _find(self) -> int:
        return self._directory.find_store(self._name)

    def _find_file(self, file: str) -> int:
        store = self._find()
        for number in self._directory.find_files(file):
            if self._directory.run.has_file(store, number):
                return number
        raise InputError(
            f"there is no file {file!r} in it",
            kind="unknown-reference",
            field=f"store {self._name!r}",
            remedy="see `files`",
        )

    def _name_file(self, file: str, size: float) -> int:
        """Return the number of a file, which may be new, and check its size."""
        self._find()
        field = f"file {file!r}: size"
        if not 0 <= require_number(size, field) < math.inf:
            raise InputError(
                f"must be finite and not negative, not {size:g}", kind="out-of-range", field=field
            )
        found = self._directory.find_files(file)
        run = self._directory.run
        number: int = found[0] if found else run.name_file(file)
        known = run.file_size(number)
        if known is not None and known != size:
            raise InputError(
                f"is {size:.15g} bytes, and the file has {known:.15g} bytes elsewhere",
                kind="inconsistent-values",
                field=field,
                remedy="give another file another name",
            )
        return number

    @property
    def _figures(self) -> dict[str, Any]:
        return self._directory.run.store_figures(self._find())

    def __repr__(self) -> str:
        return f"<StoreService {self._name}: {self.used:,g} bytes used>"


def _limit(value: float) -> float | None:
    return value if value < math.inf else None
