"""The Trace: the record of one real or simulated run."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twinloop.description.cleaning import Cleaning
from twinloop.description.errors import InputError
from twinloop.description.plugins import load_component
from twinloop.trace import folder
from twinloop.trace.content_hash import hash_tables
from twinloop.trace.manifest import Edit, Manifest
from twinloop.trace.stored_workload import StorableWorkload, StoredWorkload
from twinloop.trace.tables import TABLES, conform_table, make_empty_table

#: Rows of the table `nodes`.
MachineRows = NDArray[np.uint16] | NDArray[np.uint32]

#: The fact of a manifest with the speed of a core of each node, in reference cores.
NODE_SPEEDS: Final = "node_speeds"

#: The fact of a manifest with the makespan (s) that a log states.
MAKESPAN: Final = "makespan"


class Trace:
    """The record of one run, real or simulated: tables, and a manifest with their origin.

    A Trace is immutable: every operation returns a new one. The tables are Polars frames with the
    columns and units of `TABLES`; a table that is not given is empty.

    >>> import polars as pl
    >>> trace = Trace(tasks=pl.DataFrame({"id": ["a", "b"], "submit": [0.0, 5.0]}))
    >>> trace
    <Trace of 2 tasks>
    >>> trace.tasks["submit"].sum()
    5.0
    """

    __slots__ = ("_hash", "_machine_rows", "_manifest", "_tables", "_timings", "_workload")

    def __init__(self, *, manifest: Manifest | None = None, **tables: pl.DataFrame) -> None:
        unknown = [name for name in tables if name not in TABLES]
        if unknown:
            raise InputError(
                f"a Trace has no table {', '.join(map(repr, unknown))}", kind="unknown-name"
            )
        self._tables = {
            name: conform_table(name, tables[name]) if name in tables else make_empty_table(name)
            for name in TABLES
        }
        self._manifest = manifest if manifest is not None else Manifest()
        self._timings: Mapping[str, float] = {}
        self._workload: StorableWorkload | None = None
        self._hash: str | None = None
        self._machine_rows: MachineRows | None = None

    # Frames can be changed in place, so each caller gets a copy, which shares the columns.
    @property
    def tasks(self) -> pl.DataFrame:
        """A row per task: user, requested resources, status."""
        return self._tables["tasks"].clone()

    @property
    def placements(self) -> pl.DataFrame:
        """A row per execution of a task on a machine."""
        return self._tables["placements"].clone()

    @property
    def usage(self) -> pl.DataFrame:
        """A row per sampling window of a task."""
        return self._tables["usage"].clone()

    @property
    def nodes(self) -> pl.DataFrame:
        """A row per node."""
        return self._tables["nodes"].clone()

    @property
    def node_states(self) -> pl.DataFrame:
        """A row per period that a node spent in a state."""
        return self._tables["node_states"].clone()

    @property
    def node_periods(self) -> pl.DataFrame:
        """A row per period between changes of a node: of its cores, of its cloud, its removal."""
        return self._tables["node_periods"].clone()

    @property
    def instances(self) -> pl.DataFrame:
        """A row per period that an instance spent on one host with one size, or per rental."""
        return self._tables["instances"].clone()

    @property
    def instance_states(self) -> pl.DataFrame:
        """A row per period that an instance spent in a state: of a rented one, in any state."""
        return self._tables["instance_states"].clone()

    @property
    def power(self) -> pl.DataFrame:
        """A row per window of measured or simulated power."""
        return self._tables["power"].clone()

    @property
    def decisions(self) -> pl.DataFrame:
        """A row per decision of the policy."""
        return self._tables["decisions"].clone()

    @property
    def transfers(self) -> pl.DataFrame:
        """Transfers of data between stores and nodes."""
        return self._tables["transfers"].clone()

    @property
    def files(self) -> pl.DataFrame:
        """A row per data file."""
        return self._tables["files"].clone()

    @property
    def task_files(self) -> pl.DataFrame:
        """A row per file that a task reads or writes."""
        return self._tables["task_files"].clone()

    @property
    def boots(self) -> pl.DataFrame:
        """A row per instance that was booted, in the order of the requests."""
        return self._tables["boots"].clone()

    @property
    def task_times(self) -> pl.DataFrame:
        """A row per task whose wall time was measured in parts."""
        return self._tables["task_times"].clone()

    @property
    def manifest(self) -> Manifest:
        """Origin of the trace, and the operations applied to it."""
        return self._manifest

    @property
    def timings(self) -> dict[str, float]:
        """Measured times of producing the trace (s), such as `wall_s` of a simulation.

        They differ between runs of the same scenario, so they are not in the manifest: no hash
        covers them, and traces that differ only in them are equal.
        """
        return dict(self._timings)

    @property
    def workload(self) -> StorableWorkload | None:
        """The Trace or Workload object of the scenario of this run; None if it had none in memory.

        `Scenario.from_trace` returns the scenario of the run with this workload.
        """
        return self._workload

    @property
    def tables(self) -> Mapping[str, pl.DataFrame]:
        """All tables by name."""
        return {name: frame.clone() for name, frame in self._tables.items()}

    @property
    def plot(self) -> Any:
        """Plotly figures of the trace: `trace.plot.gantt()`; see `twinloop.report.Plots`."""
        # The report package is a higher layer, so it is imported by name, when it is used.
        return load_component("trace-plots")(self)

    def replace(self, *, manifest: Manifest | None = None, **tables: pl.DataFrame) -> Trace:
        """Return a Trace with these tables, or this manifest, replaced."""
        trace = Trace(
            manifest=self._manifest if manifest is None else manifest, **{**self._tables, **tables}
        )
        if not tables.keys() & {"nodes", "placements"}:
            trace._machine_rows = self._machine_rows
        return trace.with_timings(self._timings).with_workload(self._workload)

    def with_timings(self, timings: Mapping[str, float]) -> Trace:
        """Return the same Trace with these `timings`."""
        trace = copy.copy(self)
        trace._timings = dict(timings)
        return trace

    def with_workload(self, workload: StorableWorkload | None) -> Trace:
        """Return the same Trace with the workload object of the scenario of its run.

        >>> Trace().with_workload(Trace()).workload
        <Trace of 0 tasks>
        """
        trace = copy.copy(self)
        trace._workload = workload
        return trace

    @property
    def machine_rows(self) -> MachineRows | None:
        """The row in `nodes` of the machine of each placement, if the simulator has given it.

        It saves a search for the names of the machines.
        """
        return self._machine_rows

    def with_machine_rows(self, rows: MachineRows) -> Trace:
        """Return the same Trace with the row in `nodes` of the machine of each placement."""
        trace = copy.copy(self)
        trace._machine_rows = rows
        return trace

    def with_manifest(
        self, *, cleaned: Iterable[Cleaning] = (), edit: Edit | None = None, **changes: Any
    ) -> Trace:
        """Return a Trace with a changed manifest: notes and an edit appended, fields replaced.

        Notes with a count of zero are omitted.
        """
        old = self._manifest
        changes["cleaned"] = old.cleaned + tuple(note for note in cleaned if note.count)
        changes["edits"] = old.edits + ((edit,) if edit else ())
        return self.replace(manifest=old.model_copy(update=changes))

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the trace as a folder of Parquet files and `manifest.json`.

        The folder is written atomically. With `overwrite`, an existing folder is replaced if it is
        a trace of the same kind without other files, and no process has it locked.

        >>> import tempfile, polars as pl
        >>> with tempfile.TemporaryDirectory() as temporary:
        ...     path = Trace(tasks=pl.DataFrame({"id": ["a"]})).save(temporary + "/run")
        ...     Trace.load(path)
        <Trace of 1 task>
        """
        return folder.save_folder(
            self._tables,
            self._manifest,
            Path(path),
            overwrite=overwrite,
            timings=self._timings,
            workload=self._workload,
        )

    @classmethod
    def load(cls, path: str | Path) -> Trace:
        """Read a folder that `save` wrote; an incomplete or damaged folder is an error."""
        tables, manifest, workload = folder.load_folder(Path(path))
        trace = cls(manifest=manifest, **tables).with_workload(workload)
        return trace.with_timings(folder.load_timings(Path(path)))

    def to_stored(self) -> StoredWorkload:
        """Convert to the stored workload of another run, without decisions and power.

        >>> Trace().to_stored().kind
        'Trace'
        """
        return StoredWorkload(
            "Trace", self._manifest.model_dump(mode="json"), self._select_workload_tables()
        )

    def content_hash(self) -> str:
        """Compute a hash of all data that affects a run with this trace as its workload.

        >>> Trace().content_hash() == Trace(manifest=Manifest(kind="recorded")).content_hash()
        False
        """
        if self._hash is None:
            facts = self._manifest.model_dump(include={"kind", "epoch_ms", "reference_mhz"})
            if NODE_SPEEDS in self._manifest.facts:  # they determine the work of its tasks
                facts[NODE_SPEEDS] = self._manifest.facts[NODE_SPEEDS]
            self._hash = hash_tables(self._select_workload_tables(), facts)
        return self._hash

    def _select_workload_tables(self) -> dict[str, pl.DataFrame]:
        """Select the tables that a run with this trace as its workload may use."""
        return {name: f for name, f in self._tables.items() if name not in ("decisions", "power")}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Trace):
            return NotImplemented
        return self._manifest == other._manifest and all(
            frame.equals(other._tables[name]) for name, frame in self._tables.items()
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        parts = [format_count(self._tables["tasks"].height, "task")]
        parts += [
            format_count(frame.height, f"row of {name}", f"rows of {name}")
            for name, frame in self._tables.items()
            if name != "tasks" and frame.height
        ]
        return f"<Trace of {', '.join(parts)}>"


def require_trace(value: object) -> Trace:
    """Return the value if it is a Trace; otherwise raise an error that names the remedy.

    >>> require_trace("log.swf")
    Traceback (most recent call last):
    twinloop.InputError: a Trace is needed, not a str (twinloop.read(...) makes one) [TL0220]
    """
    if not isinstance(value, Trace):
        kind = type(value).__name__
        raise InputError(
            f"a Trace is needed, not a {kind}",
            kind="wrong-argument",
            remedy="twinloop.read(...) makes one",
        )
    return value


def format_count(number: int, singular: str, plural: str | None = None) -> str:
    """Format a count with its noun.

    >>> format_count(1, "task"), format_count(28475, "task")
    ('1 task', '28,475 tasks')
    """
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"
