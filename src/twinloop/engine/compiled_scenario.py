"""A scenario compiled to native columns, so that its files are read once for many runs."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property
from itertools import chain
from threading import Lock
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from twinloop._core import (
    KPI_NAMES,
    ClusterRun,
    Dispatcher,
    LoadProfile,
    NativePolicy,
    NativeScenario,
    NativeSource,
    run_many,
)
from twinloop.description import Cleaning
from twinloop.description.errors import InputError
from twinloop.engine import network_columns, workload_columns
from twinloop.engine.admission import Admission
from twinloop.engine.foreign_errors import ForeignErrors
from twinloop.engine.model_values import ModelValues, ValueRows
from twinloop.engine.platform_columns import MachineTable
from twinloop.engine.run_outputs import SORTED_OUTPUTS, TASK_OUTPUTS, RunOutputs
from twinloop.engine.workflow_tables import add_workflow_tables
from twinloop.engine.workload_cache import LoadedWorkload
from twinloop.policy import CLIENTS, BuiltInPolicy
from twinloop.scenario import Scenario
from twinloop.scenario.failures import compute_failure_intervals
from twinloop.scenario.model import INSTANT_GROUPS
from twinloop.scenario.model_values import set_model_values
from twinloop.trace import Trace
from twinloop.trace.trace import format_count
from twinloop.workload import Workload
from twinloop.workload.cleaning_notes import note
from twinloop.workload.fragments import find_rows

if TYPE_CHECKING:
    from twinloop.engine.path_values import PathValue
    from twinloop.engine.run_source import RunSource
    from twinloop.policy import AnyPolicy

_Result = TypeVar("_Result")
#: Maximum numbers of cached variants of a compiled scenario: those that admit other tasks, and
#: those with other numbers of the platform.
_MAX_VARIANTS: Final = 4
_MAX_OVERRIDDEN: Final = 16
#: A time (s) later than every recorded failure.
_ALL_TIME: Final = 1e300


class CompiledScenario:
    """A scenario as native columns, so that a run costs only the simulation.

    >>> from twinloop.engine import CompiledScenario
    >>> from twinloop.scenario import Scenario
    >>> ready = CompiledScenario(Scenario(platform="2x16", policy="fcfs", workload={
    ...     "generate": {"name": "poisson", "parameters": {"tasks": 100}}}))
    >>> ready
    <Compiled fcfs: 100 tasks on 2 machines>
    >>> ready.run()["completed"], ready.run({"speed_factor": 2.0})["completed"]
    (100.0, 100.0)
    """

    #: The module that users import it from, shown in errors and representations.
    __module__ = "twinloop.engine"

    def __init__(
        self,
        scenario: Scenario,
        *,
        allow_code: bool = False,
        workload: Trace | Workload | LoadedWorkload | None = None,
    ) -> None:
        """Compile a scenario; `workload` replaces its workload if that has already been read."""
        #: The scenario.
        self.scenario = scenario
        self._allow_code = allow_code
        #: The scheduling policy.
        self.policy: AnyPolicy = scenario.policy.resolve(allow_code=allow_code)
        #: The controllers that act after the policy.
        self.controllers: tuple[AnyPolicy, ...] = tuple(
            each.resolve(allow_code=allow_code) for each in scenario.controllers
        )
        #: The source of submissions, if it is written in Python; None: a built-in one.
        self.python_source = scenario.source.resolve(allow_code=allow_code)
        #: The controllers of each cloud: placement, machines, consolidation.
        self.providers: tuple[tuple[AnyPolicy, ...], ...] = ()
        #: The machines that were added in a run, with what a state needs to add them again.
        self.added_machines: tuple[tuple[str, dict[str, Any] | None], ...] = ()
        #: The loaded workload.
        self.loaded = (
            workload if isinstance(workload, LoadedWorkload) else LoadedWorkload(scenario, workload)
        )
        #: The replayed trace; None if the scenario has a Workload.
        self.trace = self.loaded.trace
        #: The workload.
        self.workload = self.loaded.workload
        self.arrays = workload_columns.limit_deadlines(self.loaded.arrays, self.latest_end)
        #: What was assumed and left out, in the files of the platform and the workload too.
        self.cleaned: tuple[Cleaning, ...] = self._read_notes()
        #: The policies before this one, in copies of runs that changed it: name and last time (s).
        self.earlier_policies: tuple[dict[str, Any], ...] = ()
        self._hash: str | None = None
        self._load_cache: tuple[tuple[Any, ...], LoadProfile] | None = None
        self._variants: dict[bytes, CompiledScenario] = {}
        self._overridden: dict[tuple[tuple[str, float], ...], CompiledScenario] = {}
        self._failure_lock = Lock()
        self._compile()

    def _compile(self) -> None:
        scenario, arrays = self.scenario, self.arrays
        platform = scenario.effective_platform()
        native = self._native_settings()
        if platform.clouds or self.policy.name in CLIENTS:
            from twinloop.engine import cloud_columns

            self.providers = cloud_columns.make_providers(platform, allow_code=self._allow_code)
            try:
                native = cloud_columns.resolve_client(self.policy, platform, self.providers, native)
                native = cloud_columns.inject_boots(self.policy, self.workload, native)
            except InputError as error:
                first, *path = (error.field or "").split(".")
                if first == "policy":
                    scenario.policy.locate(error, *path)
                raise
        speeds = scenario.host_speeds(self.workload.reference_mhz)
        self.machines = MachineTable.from_platform(
            platform, speeds, by_name=self.policy.name == "fifo"
        )
        queues = workload_columns.list_queue_names(arrays, platform)
        kinds, contention = _build_contention_columns(scenario, arrays.kind.names)
        clocks = _uses_clocks(native)
        self._values = ModelValues(
            scenario,
            platform,
            kinds,
            reference_mhz=self.workload.reference_mhz,
            has_clocks=clocks,
        )
        self.names = SimpleNamespace(
            tasks=arrays.ids,
            machines=tuple(self.machines.nodes["node"]),
            users=arrays.user.names,
            groups=arrays.group.names,
            queues=queues,
            kinds=kinds,
            resources=arrays.resources,
            clouds=platform.clouds,
        )
        task_columns = workload_columns.build_task_columns(
            self.workload, arrays, platform, queues, kinds, clocks=clocks
        )
        self.requested = self.loaded.requested
        # A replay plans with the recorded plan, unless tasks are killed at their requested time.
        kills = scenario.model.kill_at_requested_time
        task_columns["requested_time"] = self.requested if kills else self.loaded.planned
        self.native_scenario = NativeScenario(
            self.machines.build_columns(arrays.resources, arrays.user.names, queues),
            task_columns,
            self._build_options(contention, native, kinds),
            self.names,
        )
        native = add_workflow_tables(native, self.machines, arrays.ids)
        policy = NativePolicy(native) if native else self.policy
        # Several controllers are a list, in the order of their calls.
        self._native: Any = policy
        controllers = [each for each in self.controllers if each.name != "always-on"]
        if controllers:
            self._native = [policy, *(_make_native(each, self) for each in controllers)]
        if platform.clouds:
            files = self.workload.files["file"].n_unique()
            self.native_scenario.set_clouds(
                cloud_columns.build_cloud_columns(
                    self.machines,
                    self.providers,
                    self.names.users,
                    first_file=files,
                    seed=scenario.seed,
                    epoch_ms=self.epoch_ms,
                    boot_times=_list_boot_times(self.workload.boots["boot_time"]),
                )
            )
        self._admission = Admission(
            lambda c: self.native_scenario.find_impossible(self._native, c) != 0
        )
        #: Mask of the tasks that can never run.
        self.rejected = self._find_rejected(task_columns["queue"])
        self.native_scenario.set_rejected(self.rejected)
        self._note_names(task_columns["queue"])
        self._note_clocks()
        if self.controllers or self.providers:
            from twinloop.engine.switching_notes import note_free_switching

            self.cleaned += tuple(note_free_switching(platform, self.controllers, self.providers))
        self._set_network()
        self._set_sessions()
        self.cleaned = tuple(each for each in self.cleaned if each.count)
        drawn = scenario.failures is not None and scenario.failures.trace is None
        self._set_outages(self._estimate_horizon(self.values()) if drawn else np.inf)

    def _set_network(self) -> None:
        """Set the network and the files, if the platform has stores and the tasks have files."""
        if self.workload.task_files.is_empty() and not self.machines.platform.clouds:
            return
        columns, notes = network_columns.build_network_columns(
            self.machines, self.workload, self.arrays.ids, self.scenario.model.detail
        )
        self.cleaned += notes
        if columns is not None:
            self.native_scenario.set_network(columns)

    def _find_rejected(self, queue: Any) -> Any:
        """Find the tasks that can never run because of queue limits, size or a rejected parent."""
        arrays, platform = self.arrays, self.machines.platform
        over = workload_columns.find_over_limits(arrays, platform, queue, self.requested) != 0
        large = self._admission.find_too_large(self.scenario.model.effective_capacity)
        mask = over | large
        after = workload_columns.add_descendants(arrays, mask)
        misfit = "they fit on no machine that they may use"
        if platform.clouds:
            from twinloop.engine import cloud_columns

            misfit = cloud_columns.describe_misfit(self.policy, platform) or misfit
        for what, rows in (
            ("tasks rejected: they request more than their queue allows", over),
            (f"tasks rejected: {misfit}", large & ~over),
            ("tasks rejected: a task that they depend on was rejected", after & ~mask),
        ):
            self.cleaned += (note("noticed", what, arrays.ids.filter(pl.Series(rows))),)
        return after.astype(np.uint8)

    def _read_notes(self) -> tuple[Cleaning, ...]:
        return (*self.scenario.platform.notes, *self.workload.cleaned)

    def _note_names(self, queue: Any) -> None:
        """Add notes on queues and users that do not exist in the platform or the workload."""
        platform, arrays = self.machines.platform, self.arrays
        if platform.queues:
            is_unknown = pl.Series(queue >= len(platform.queues))
            what = "tasks of a queue that the platform does not have: no limits apply to them"
            self.cleaned += (note("noticed", what, arrays.ids.filter(is_unknown)),)
        absent_users = [
            name for each in platform.reservations for name in each.users
            if name not in arrays.user.names
        ]  # fmt: skip
        what = "users with a reservation who are not in the workload"
        self.cleaned += (note("noticed", what, pl.Series(absent_users, dtype=pl.String)),)

    def _note_clocks(self) -> None:
        """Add a note if hosts differ in clock and the workload has no reference clock."""
        hosts = [host for _, host in self.scenario.platform.hosts() if host.mhz and not host.speed]
        if self.workload.reference_mhz is None and len({host.mhz for host in hosts}) > 1:
            what = (
                "nodes of different clocks: each is assumed to be as fast as the nodes of the log, "
                "whose clock is not recorded"
            )
            self.cleaned += (note("assumed", what, count=sum(host.count for host in hosts)),)

    def _compile_admitted(self, row: NDArray[np.float64]) -> CompiledScenario:
        """Return the scenario compiled for the tasks admitted with these model values.

        The effective capacity determines which tasks are too large; these are also removed from
        the sessions of their users.
        """
        capacity = float(row[self._values.index("effective_capacity")])
        own = self.scenario.model.effective_capacity
        if capacity == own:
            return self
        large = self._admission.find_too_large(capacity)
        if (large == self._admission.find_too_large(own)).all():
            return self
        key = large.tobytes()
        variant = self._variants.pop(key, None)
        if variant is None:
            variant = self._compile_variant({"effective_capacity": capacity})
        _store_variant(self._variants, key, variant, _MAX_VARIANTS)
        return variant

    def _compile_overridden(self, numbers: Mapping[str, float]) -> CompiledScenario:
        """Return the scenario compiled with other numbers of the platform, by path."""
        key = tuple(sorted(numbers.items()))
        variant = self._overridden.pop(key, None)
        if variant is None:
            variant = self._compile_variant(numbers)
        _store_variant(self._overridden, key, variant, _MAX_OVERRIDDEN)
        return variant

    def _compile_variant(self, values: Mapping[str, float]) -> CompiledScenario:
        """Compile the scenario with other values and the same workload."""
        variant = copy(self)
        variant.scenario = set_model_values(self.scenario, values)
        variant.cleaned = self._read_notes()
        variant._variants, variant._overridden, variant._load_cache = {}, {}, None
        variant._compile()
        return variant

    def _set_outages(self, horizon: float) -> None:
        downs = self._find_outages(horizon)
        rows = find_rows(self.machines.nodes["node"], downs["node"])
        ends = downs["end"].fill_null(np.inf).to_numpy()
        self.native_scenario.set_outages(rows, downs["start"].to_numpy(), ends, horizon)
        #: Outages of machines: node, start, end, state.
        self.outages = downs
        #: Time up to which failures are known (s); infinite if all are.
        self.horizon = horizon

    def extend_failures(self, time: float) -> None:
        """Generate failures beyond this time.

        Known failures stay the same, so that a run does not depend on when they are generated.
        """
        with self._failure_lock:
            if time >= self.horizon:
                self._set_outages(max(1.0, 2.0 * time))

    def _build_options(
        self, contention: dict[str, Any], native: Mapping[str, Any], kinds: tuple[str, ...]
    ) -> dict[str, Any]:
        model, failures = self.scenario.model, self.scenario.failures
        resumes = native.get("preempt") == "resume"
        return {
            "contention": contention,
            "service_factors": [model.service_factors.get(kind, 1.0) for kind in kinds],
            "columns": self._values.native_columns,
            "fixed_demand": model.demand == "fixed",
            "no_delay": model.sharing == "no-delay",
            "kill": model.kill_at_requested_time,
            "after_failure": failures.on_failure if failures else "restart",
            "after_preemption": "resume" if resumes else "restart",
            "checkpoint_interval": (failures and failures.checkpoint_interval) or np.inf,
            "checkpoint_cost": failures.checkpoint_cost if failures else 0.0,
            "max_attempts": (failures and failures.max_attempts) or 2**32 - 1,
            "managed": model.detail.is_managed(model.submission),
            "decide_events": model.decide == "event",
            "instant_order": [model.instant_order.index(each) for each in INSTANT_GROUPS],
        }

    def _set_sessions(self) -> None:
        users = self.scenario.source.sessions
        if users is None:
            return
        kept = np.flatnonzero(self.rejected == 0)
        lengths = pl.Series(self.workload.durations()).fill_nan(None)
        jobs = self.workload.tasks.with_columns(pl.coalesce("run_time", lengths).alias("run_time"))
        graphs = users.graphs(Workload(tasks=jobs[kept]))
        self.cleaned += tuple(graphs.cleaned)
        columns = workload_columns.build_session_columns(graphs, kept[graphs.partition.jobs])
        for name in ("delays", "think_times", "starts"):
            columns[name] = columns[name] * self.scenario.time_scale
        self.native_scenario.set_sessions(columns)

    def _find_outages(self, horizon: float) -> pl.DataFrame:
        platform, failures = self.machines.platform, self.scenario.failures
        parts = [
            pl.DataFrame({"node": platform.select(each.hosts)}).with_columns(
                start=pl.lit(each.start), end=pl.lit(each.end), state=pl.lit("maintenance")
            )
            for each in platform.maintenance
        ]
        if failures is not None:
            # Overlapping failures depend on later records, so a log is read completely.
            until = min(horizon, _ALL_TIME)
            intervals = compute_failure_intervals(
                failures, self.names.machines, until, self.scenario.seed
            )
            parts.append(intervals.select("node", "start", "end", state=pl.lit("down")))
        schema = {"node": pl.String, "start": pl.Float64, "end": pl.Float64, "state": pl.String}
        return pl.concat([pl.DataFrame(schema=schema), *parts])

    def _estimate_horizon(self, values: Any) -> float:
        """Estimate a time by which all tasks have ended with these model values."""
        arrays = self.arrays
        if not len(arrays):
            return 0.0
        busy = float((arrays.requested_time * arrays.cores).sum())
        longest = float(arrays.requested_time.max())
        by_kind = values[self._values.columns("service_factors.<kind>")]
        speed_factor = values[self._values.index("speed_factor")]
        service_factor = values[self._values.index("service_factor")]
        service = service_factor * max(1.0, by_kind.max(initial=1.0))
        slower = max(1.0, service) / min(1.0, speed_factor * float(self.machines.speed.min()))
        length = longest + busy / self.machines.platform.total_cores
        return max(0.0, float(arrays.submit.max() + 4.0 * slower * length))

    @property
    def epoch_ms(self) -> int | None:
        """Unix time of t = 0 in milliseconds, of the scenario or else of its workload.

        None if neither has a date.
        """
        if self.scenario.epoch_ms is not None:
            return self.scenario.epoch_ms
        return self.workload.epoch_ms if self.trace is None else self.trace.manifest.epoch_ms

    @property
    def injected(self) -> tuple[str, ...]:
        """The quantities that a replay takes from the recorded run; empty for a prediction.

        A generated log is not the record of a run.

        >>> from twinloop.engine import CompiledScenario
        >>> from twinloop.scenario import Scenario
        >>> CompiledScenario(Scenario(platform="2x16", policy="fcfs", workload={
        ...     "generate": {"name": "poisson", "parameters": {"tasks": 100}}})).injected
        ()
        """
        trace, model = self.trace, self.scenario.model
        is_generated = trace is not None and trace.manifest.kind == "generated"
        quantities = () if is_generated else self.workload.injected
        has_latency = trace is not None and "latency" in trace.manifest.facts
        if has_latency and (model.dispatch_latency or model.release_latency):
            return (*quantities, "latencies")
        return quantities

    # --- running ---------------------------------------------------------------------------------

    @property
    def value_names(self) -> tuple[str, ...]:
        """The names of the model values of a run, in the order of a row.

        First `MODEL_VALUES`; then, as far as the scenario has them, `service_factors.<kind>`,
        `contention.linear.slope`, `contention.table[<i>]` (its inflation),
        `contention.kinds.<kind>.pressure` and `.sensitivity`; and, if all hosts have the same power
        model, `power.idle` (also the power of a constant one), `power.max` and `power.parameter`
        (r or a). Runs also take any number of the platform by its path, such as
        `platform.clusters[0].hosts[0].mhz`, which is not listed here.

        >>> from twinloop.engine import CompiledScenario
        >>> from twinloop.scenario import Scenario
        >>> ready = CompiledScenario(Scenario(platform="1x4", policy="fcfs", workload={
        ...     "tasks": [{"id": "a", "run_time": 5, "kind": "cache"}]},
        ...     model={"contention": {"linear": {"slope": 0.1}}}))
        >>> [name for name in ready.value_names if "." in name]
        ['service_factors.cache', 'contention.linear.slope']
        >>> ready.run({"service_factors.cache": 2.0})["makespan_s"]
        10.0
        >>> ready.run({"platform.clusters[0].hosts[0].speed": 2.0})["makespan_s"]
        2.5
        """
        return self._values.names

    def values(self, changed: Mapping[str, float] | Sequence[float] | None = None) -> Any:
        """Return the row of model values of the scenario with some values changed.

        The names are `value_names`; a row of `MODEL_VALUES` alone leaves the others unchanged.
        """
        return self._values.make_row(changed)

    def is_value(self, name: str) -> bool:
        """Whether runs take a value of this name: one of `value_names`, or a path of a number.

        >>> from twinloop.engine import CompiledScenario
        >>> from twinloop.scenario import Scenario
        >>> ready = CompiledScenario(Scenario(platform="2x16", policy="fcfs", workload={
        ...     "generate": {"name": "poisson", "parameters": {"tasks": 5}}}))
        >>> ready.is_value("platform.clusters[0].hosts[0].cores"), ready.is_value("policy.name")
        (True, False)
        """
        return self._values.is_value(name)

    def acts_natively(self, name: str) -> bool:
        """Whether a run with another value of this name needs no new compilation.

        False also for a name that is not a value of runs.

        >>> from twinloop.engine import CompiledScenario
        >>> from twinloop.scenario import Scenario
        >>> ready = CompiledScenario(Scenario(platform="2x16@2GHz", policy="fcfs", workload={
        ...     "generate": {"name": "poisson", "parameters": {"tasks": 5}}}))
        >>> host = "platform.clusters[0].hosts[0]"
        >>> ready.acts_natively(f"{host}.mhz"), ready.acts_natively(f"{host}.cores")
        (True, False)
        """
        return self.is_value(name) and not self._values.divide({name: 0.0})[1]

    def changes_schedule(self, name: str) -> bool:
        """Whether the times of a run depend on the value of this name; power does not."""
        return self._values.changes_schedule(name)

    def list_power_names(self) -> list[str]:
        """List the values of power models by name: those that all hosts share, else their paths."""
        if self._values.power_names:
            return list(self._values.power_names)
        return [
            name for name in self._values.paths.list_native() if not self.changes_schedule(name)
        ]

    def own_value(self, name: str) -> float | None:
        """Return the value of the scenario by name; None for a number that is not set.

        >>> from twinloop.engine import CompiledScenario
        >>> from twinloop.scenario import Scenario
        >>> ready = CompiledScenario(Scenario(platform="2x16@2GHz", policy="fcfs", workload={
        ...     "generate": {"name": "poisson", "parameters": {"tasks": 5}}}))
        >>> ready.own_value("platform.clusters[0].hosts[0].mhz")
        2000.0
        """
        return self._values.get_own(name)

    def scenario_from_values(self, values: Mapping[str, float] | Sequence[float]) -> Scenario:
        """Return the scenario with these values; power and paths become overrides.

        >>> from twinloop.engine import CompiledScenario
        >>> from twinloop.scenario import Scenario
        >>> ready = CompiledScenario(Scenario(platform="2x16", policy="fcfs", workload={
        ...     "generate": {"name": "poisson", "parameters": {"tasks": 100}}}))
        >>> ready.scenario_from_values({"speed_factor": 2.0}).model.speed_factor
        2.0
        """
        return self._values.apply(values, self.scenario)

    def _select_variant(
        self, values: Mapping[str, float] | Sequence[float] | None
    ) -> tuple[CompiledScenario, Mapping[str, float] | Sequence[float] | None]:
        """Return the variant for values that need a compilation, and the other values."""
        if values is None or not isinstance(values, Mapping):
            return self, values
        native, overridden = self._values.divide(values)
        if not overridden:
            return self, values
        return self._compile_overridden(_check_numbers(overridden)), native

    def _make_row(self, values: Mapping[str, float] | Sequence[float] | None) -> ValueRows:
        if not isinstance(values, Mapping):
            return ValueRows(self.values(values))
        rows = self._values.fill({k: [v] for k, v in values.items()}, 1, "values")
        return ValueRows(rows.matrix.ravel(), rows.columns)

    def start(
        self,
        values: Mapping[str, float] | Sequence[float] | None = None,
        *,
        placements: bool = False,
        use: bool = False,
        decisions: bool = False,
        usage_step: float | None = None,
        usage_rows: float = np.inf,
    ) -> ClusterRun:
        """Create a native run at its start; each option enables the recording of a table."""
        compiled, others = self._select_variant(values)
        if compiled is not self:
            raise InputError(
                "numbers of the platform that do not act natively need a compilation",
                kind="not-applicable",
                field="values",
                remedy="compile scenario_from_values(values)",
            )
        row, columns, admitted = self._values.own, None, self
        if others is not None:
            row, columns = self._make_row(others)
            admitted = self._compile_admitted(row)
        return ClusterRun(
            admitted.native_scenario,
            self._native,
            row,
            columns,
            placements=placements,
            use=use,
            decisions=decisions,
            usage_step=np.inf if usage_step is None else usage_step,
            usage_rows=usage_rows,
            seed=self.scenario.seed,
            source=admitted.start_source(),
        )

    def with_policy(
        self,
        policy: str | Mapping[str, Any] | AnyPolicy,
        *,
        until: float,
        allow_code: bool = False,
    ) -> CompiledScenario:
        """Return the scenario with another policy, for a copy of a run that has reached `until`.

        The tasks that the policy of this scenario rejects stay rejected.
        """
        other = copy(self)
        other.scenario = self.scenario.replace(policy=policy)
        other.policy = other.scenario.policy.resolve(allow_code=allow_code)
        other._variants, other._overridden, other._load_cache = {}, {}, None
        other._hash = None
        other.earlier_policies += ({"policy": self.policy.name, "until": until},)
        before, after = self._native_settings(), other._native_settings()
        other._native = _make_native(other.policy, other)
        if self.controllers:
            other._native = [other._native, *self._native[1:]]
        in_order = list(self.names.machines) == sorted(self.names.machines)
        if _uses_clocks(before) != _uses_clocks(after):
            why = "one of the two policies compares the clocks of tasks and machines"
        elif (self.policy.name == "fifo") != (other.policy.name == "fifo") and not in_order:
            why = "'fifo' has the machines in the order of their names"
        else:
            return other
        raise InputError(
            f"a simulation with {self.policy.name!r} cannot change to {other.policy.name!r}: {why}",
            kind="invalid-operation",
            field="policy",
            remedy="start a simulation with this policy",
        )

    def copy_run(self, run: ClusterRun, *, changes_policy: bool, history: bool) -> ClusterRun:
        """Copy a run of this scenario, or of one with another policy."""
        try:
            return run.copy(
                self._native if changes_policy else None,
                seed=self.scenario.seed,
                resumes=self._native_settings().get("preempt") == "resume",
                history=history,
            )
        except ValueError as error:
            if isinstance(error, InputError) or "share machines" not in str(error):
                raise
            raise InputError(
                f"{self.policy.name!r} {error}",
                kind="invalid-operation",
                field="policy",
                remedy="start a simulation with this policy",
            ) from None

    def scenario_hash(self) -> str:
        """Return a hash of the scenario with its inputs: that of the same scenario is the same."""
        if self._hash is None:
            # Needed by states of runs only.
            from twinloop.scenario.identity import values_to_hash

            values = values_to_hash(self.scenario.to_manifest())
            text = json.dumps(values, sort_keys=True, default=str)
            self._hash = hashlib.sha256(text.encode()).hexdigest()
        return self._hash

    @property
    def latest_end(self) -> float:
        """The time at which the policy wants all tasks to have ended (s); infinite: it has none."""
        return self.policy.latest_end if isinstance(self.policy, BuiltInPolicy) else np.inf

    def _native_settings(self) -> dict[str, Any]:
        """Return the settings of a built-in policy; empty for a policy in Python."""
        if not isinstance(self.policy, BuiltInPolicy):
            return {}
        return self.policy.native_settings(self.scenario.seed)

    def run(self, values: Mapping[str, float] | Sequence[float] | None = None) -> dict[str, float]:
        """Run to the end with these model values and return the KPIs by name.

        Names and definitions are those of `twinloop.metrics`.
        """
        return self._run_to_end(values).kpis()

    def run_to_end(self) -> ClusterRun:
        """Run to the end with the recordings that a trace needs; see `trace_from_run`."""
        return self._run_to_end(None, placements=True, use=self.machines.has_power_models)

    def _run_to_end(
        self,
        values: Mapping[str, float] | Sequence[float] | None,
        *,
        placements: bool = False,
        use: bool = False,
    ) -> ClusterRun:
        compiled, others = self._select_variant(values)
        run = compiled.start(others, placements=placements, use=use)
        while compiled.advance(run, run.run_slice):
            pass
        return run

    def advance(self, run: ClusterRun, method: Callable[[], _Result]) -> _Result:
        """Call a method that advances a run; repeat the call while the run needs more failures."""
        while True:
            with ForeignErrors(self, run):
                result = method()
            if not run.needs_failures:
                return result
            self.extend_failures(run.next_time())
            run.extend_failures(self.native_scenario)

    def with_machines(
        self, machines: MachineTable, name: str, description: dict[str, Any] | None = None
    ) -> Self:
        """Return a copy that names one more machine; its runs start without this machine.

        Args:
            machines: The table with this machine.
            name: Its name.
            description: What a state needs to add it to another run.
        """
        other = copy(self)
        other.machines = machines
        other.added_machines = (*self.added_machines, (name, description))
        other.names = SimpleNamespace(
            **{**vars(self.names), "machines": (*self.names.machines, name)}
        )
        return other

    def dispatcher(self) -> Dispatcher:
        """Create a dispatcher: the policy without a simulation, for a real execution.

        >>> from twinloop.engine import CompiledScenario
        >>> from twinloop.scenario import Scenario
        >>> ready = CompiledScenario(Scenario(platform="2x16", policy="fcfs", workload={
        ...     "generate": {"name": "poisson", "parameters": {"tasks": 3}}}))
        >>> dispatcher = ready.dispatcher()
        >>> dispatcher.submit(0, now=0.0)
        >>> [(kind, task) for kind, task, _ in dispatcher.decide(now=0.0)]
        [('place', 0)]
        """
        policy = self._native[0] if self.controllers else self._native
        return Dispatcher(self.native_scenario, policy, self.scenario.seed)

    @cached_property
    def task_ids(self) -> list[str]:
        """The IDs of the tasks of the workload."""
        return self.arrays.ids.to_list()

    @cached_property
    def task_rows(self) -> dict[str, int]:
        """The row of each task of the workload by its ID."""
        return {name: row for row, name in enumerate(self.task_ids)}

    @property
    def is_native(self) -> bool:
        """Whether policy, controllers and source are built in, so that runs need no Python code."""
        policies = (self.policy, *self.controllers, *chain.from_iterable(self.providers))
        is_built_in = all(isinstance(each, BuiltInPolicy) for each in policies)
        return is_built_in and self.python_source is None

    def start_source(self) -> RunSource | None:
        """Start the state of the source in one run; None if it is not written in Python."""
        if self.python_source is None:
            return None
        # Not needed for built-in sources.
        from twinloop.engine.run_source import RunSource

        return RunSource(self, self.python_source)

    def source(self, state: RunSource | None = None) -> NativeSource:
        """Create the submission source without a simulation, for a real execution.

        `state`: as given by `start_source`; by default a new one.

        >>> from twinloop.engine import CompiledScenario
        >>> from twinloop.scenario import Scenario
        >>> users = CompiledScenario(Scenario(platform="2x16", policy="fcfs", workload={
        ...     "generate": {"name": "bursts", "parameters": {"bursts": 1, "size": 3}}})).source()
        >>> users.next_time, users.pop_due(now=1.0), users.next_time
        (0.0, [0, 1], 2.0)
        """
        return NativeSource(self.native_scenario, state or self.start_source())

    def run_many(
        self,
        matrix: ArrayLike | Mapping[str, ArrayLike] | Sequence[Mapping[str, float]],
        *,
        outputs: Sequence[str] = ("makespan_s", "wait_mean_s"),
        threads: int | None = None,
    ) -> RunOutputs:
        """Run once for each row of model values, on native threads.

        The results do not depend on the number of threads.

        Args:
            matrix: A row per run with the columns `value_names` or `MODEL_VALUES`; or a mapping of
                names to columns; or a mapping per run, as for `run`. Names may be paths.
            outputs: Names of KPIs; `starts` and `ends`, the sorted times of the tasks; and, in the
                order of `names.tasks`, `task_submit`, `task_ready`, `task_start` (first attempt),
                `task_end`, `task_run_time` (last attempt), `task_cpu` and `task_machine` (index of
                the first machine in `names.machines`). The columns of tasks are NaN, and
                `task_machine` is -1, for tasks that did not complete.
            threads: Number of threads; by default the number of cores.

        >>> from twinloop.engine import CompiledScenario
        >>> from twinloop.scenario import Scenario
        >>> ready = CompiledScenario(Scenario(platform="2x16", policy="fcfs", workload={
        ...     "generate": {"name": "poisson", "parameters": {"tasks": 100}}}))
        >>> many = ready.run_many([ready.values(), ready.values({"speed_factor": 2.0})],
        ...                       outputs=["makespan_s", "ends"])
        >>> many["makespan_s"].shape, many["ends"].shape
        ((2,), (2, 100))
        """
        if self.python_source is not None:
            raise TypeError(
                "a source in Python cannot run on native threads: use a built-in source"
            )
        available = (*KPI_NAMES, *SORTED_OUTPUTS, *TASK_OUTPUTS)
        for name in outputs:
            if name not in available:
                raise InputError(
                    f"{name!r} is not an output",
                    kind="unknown-name",
                    field="outputs",
                    remedy=f"one of: {', '.join(available)}",
                )
        if threads is not None and threads < 1:
            raise InputError(
                f"must be at least 1, not {threads}", kind="out-of-range", field="threads"
            )
        parts = list(self._divide_rows(matrix))
        count = sum(len(where) for _, _, where in parts)
        task_output_names = [name for name in outputs if name not in KPI_NAMES]
        figures = np.empty((count, len(KPI_NAMES)))
        task_outputs = {name: np.empty((count, len(self.arrays))) for name in task_output_names}
        wanted_figures = figures if len(task_output_names) < len(outputs) else None
        for compiled, rows, where in parts:
            compiled._run_rows(
                rows, where, wanted_figures, task_outputs, threads or os.cpu_count() or 1
            )
        return RunOutputs.from_native(outputs, figures, task_outputs)

    def _divide_rows(
        self, given: ArrayLike | Mapping[str, ArrayLike] | Sequence[Mapping[str, float]]
    ) -> Iterator[tuple[CompiledScenario, ValueRows, NDArray[np.intp]]]:
        """Divide rows by the variant that runs them: the variant, its rows, and their places."""
        for where, values in self._values.group_rows(given):
            if not isinstance(values, dict):
                yield from self._divide_by_admission(ValueRows(values), where)
                continue
            native, overridden = self._values.divide(values)
            if not overridden:
                rows = self._values.fill(native, len(where), "matrix")
                yield from self._divide_by_admission(rows, where)
                continue
            columns = np.column_stack([column for _, column in overridden.values()])
            numbers, which = np.unique(columns, axis=0, return_inverse=True)
            for index, each in enumerate(numbers.tolist()):
                paths = (path for path, _ in overridden.values())
                chosen = dict(zip(overridden, zip(paths, each, strict=True), strict=True))
                variant = self._compile_overridden(_check_numbers(chosen))
                same = np.flatnonzero(which.ravel() == index)
                part = {name: column[same] for name, column in native.items()}
                rows = variant._values.fill(part, len(same), "matrix")
                yield from variant._divide_by_admission(rows, where[same])

    def _divide_by_admission(
        self, rows: ValueRows, where: NDArray[np.intp]
    ) -> Iterator[tuple[CompiledScenario, ValueRows, NDArray[np.intp]]]:
        """Divide rows by the tasks that they admit."""
        capacities = rows.matrix[:, self._values.index("effective_capacity")]
        _, first_rows, groups = np.unique(capacities, return_index=True, return_inverse=True)
        by_admission: dict[CompiledScenario, list[int]] = {}
        for group_index, row in enumerate(first_rows):
            compiled = self._compile_admitted(rows.matrix[row])
            by_admission.setdefault(compiled, []).append(group_index)
        for compiled, group_indices in by_admission.items():
            if len(by_admission) == 1:
                yield compiled, rows, where
            else:
                selected = np.flatnonzero(np.isin(groups, group_indices))
                yield compiled, ValueRows(rows.matrix[selected], rows.columns), where[selected]

    def _run_rows(
        self,
        rows: ValueRows,
        where: NDArray[np.intp],
        figures: NDArray[np.float64] | None,
        task_outputs: Mapping[str, NDArray[np.float64]],
        threads: int,
    ) -> None:
        """Run these rows, which admit the same tasks, and fill in their outputs."""
        matrix = rows.matrix
        if self.horizon < np.inf:
            max_horizon = max(self._estimate_horizon(row) for row in matrix)
            with self._failure_lock:
                if max_horizon > self.horizon:
                    self._set_outages(max_horizon)
        while len(where):
            kpis, columns, unfinished = run_many(
                self.native_scenario,
                self._native,
                matrix,
                rows.columns,
                threads=threads,
                figures=figures is not None,
                columns=list(task_outputs),
            )
            if figures is not None:
                figures[where] = kpis.reshape(len(where), -1)
            for name, column in zip(task_outputs, columns, strict=True):
                task_outputs[name][where] = column.reshape(len(where), -1)
            is_unfinished = ~np.isnan(unfinished)
            matrix, where = matrix[is_unfinished], where[is_unfinished]
            if len(where):
                self.extend_failures(float(np.nanmax(unfinished)))

    def power_many(
        self,
        rows: ArrayLike | Mapping[str, ArrayLike],
        step: float,
        *,
        values: Mapping[str, float] | Sequence[float] | None = None,
        threads: int | None = None,
    ) -> NDArray[np.float64]:
        """Compute the power of all machines under many power models from one run.

        The schedule does not depend on power, so the scenario is simulated once for all rows, and
        not again for the same step and values.

        Args:
            rows: A power model per row, with those columns of `value_names` that begin with
                `power.`, in that order; or a mapping of names to columns, which may be paths of
                power models.
            step: Length of the windows (s), which start as in the `power` table of `simulate`.
            values: Model values of the run, as for `run`.
            threads: Number of threads; by default the number of cores.

        Returns:
            The mean watts in each window, with a row for each power model.

        >>> from twinloop.engine import CompiledScenario
        >>> from twinloop.scenario import Scenario
        >>> linear = {"model": "linear", "idle": "100 W", "max": "200 W"}
        >>> ready = CompiledScenario(Scenario(
        ...     policy="fcfs", workload={"tasks": [{"id": "a", "cores": 1, "run_time": 20}]},
        ...     platform={"clusters": [{"hosts": [{"cores": 2, "power": linear}]}]}))
        >>> ready.power_many([[100, 200], [50, 150]], 10).tolist()
        [[150.0, 150.0], [100.0, 100.0]]
        """
        if not 0 < step < np.inf:
            raise InputError(
                f"must be a positive time, not {step}", kind="out-of-range", field="step"
            )
        if values is not None and not isinstance(values, Mapping):
            values = dict(zip(self.value_names, self.values(values).tolist(), strict=True))
        schedule, overridden = self._values.divide(values or {})
        if overridden:
            variant = self._compile_overridden(_check_numbers(overridden))
            return variant.power_many(rows, step, values=schedule, threads=threads)
        columns, count = self._read_power(rows)
        own = self._values.fill({k: [v] for k, v in schedule.items()}, 1, "values")
        # Loads by group of hosts only if their power models differ.
        by_group = not self._values.power_names or any(
            name not in self.value_names and not self.changes_schedule(name)
            for name in (*columns, *schedule)
        )
        key = (step, by_group, own.matrix.tobytes(), *schedule)
        cached = self._load_cache
        if cached is None or cached[0] != key:
            profile = self._run_to_end(schedule, use=True).loads(step, by_group)
            cached = self._load_cache = (key, profile)
        fixed = {k: np.full(count, v) for k, v in schedule.items() if k not in columns}
        matrix = self._values.fill(fixed | columns, count, "rows")
        watts = cached[1].watts(
            self.native_scenario,
            matrix.matrix,
            matrix.columns,
            threads=threads or os.cpu_count() or 1,
        )
        return watts.reshape(count, cached[1].windows)

    def _read_power(
        self, rows: ArrayLike | Mapping[str, ArrayLike]
    ) -> tuple[dict[str, NDArray[np.float64]], int]:
        """Read power models: a column per value by name, and the number of rows."""
        if isinstance(rows, Mapping) and self.machines.has_power_models:
            ((where, columns),) = self._values.group_rows(rows)
            for name in columns:
                if self.is_value(name) and self.changes_schedule(name):
                    raise InputError(
                        f"{name} is not a value of a power model",
                        kind="not-applicable",
                        field="rows",
                        remedy="give it in values",
                    )
            return dict(columns), len(where)
        names = self._values.power_names
        if not names or isinstance(rows, Mapping):
            raise InputError(
                "the hosts do not share one power model, or it is a table",
                kind="not-applicable",
                field="power",
                remedy="give all hosts the same power model, other than a table, or give paths "
                "such as platform.clusters[0].hosts[0].power.idle",
            )
        powers = np.asarray(rows, dtype=np.float64)
        if powers.ndim != 2 or powers.shape[1] != len(names):
            raise InputError(
                f"must have a row per power model and {len(names)} columns, not {powers.shape}",
                kind="wrong-count",
                field="rows",
                remedy=f"the columns are {', '.join(names)}",
            )
        return {name: powers[:, place] for place, name in enumerate(names)}, len(powers)

    def __repr__(self) -> str:
        count, machines = format_count(len(self.arrays), "task"), self.machines.nodes.height
        return f"<Compiled {self.policy.name}: {count} on {format_count(machines, 'machine')}>"


def _store_variant(
    cache: dict[Any, CompiledScenario], key: Any, variant: CompiledScenario, limit: int
) -> None:
    """Store the most recently used variant last, and drop the oldest ones."""
    cache[key] = variant
    while len(cache) > limit:
        cache.pop(next(iter(cache)), None)


def _check_numbers(numbers: Mapping[str, tuple[PathValue, Any]]) -> dict[str, float]:
    """Return numbers of the platform by path, within their bounds."""
    checked = {}
    for name, (path, value) in numbers.items():
        number = float(value)
        if not path.number.type.contains(number):
            raise InputError(
                f"{name} {path.number.type.describe_violation(number)}",
                kind="out-of-range",
                field="values",
            )
        checked[name] = number
    return checked


def _list_boot_times(boots: pl.Series) -> NDArray[np.float64]:
    """List the recorded boot times, NaN where unknown; empty if all are."""
    known = boots if boots.count() else boots.clear()
    return known.fill_null(np.nan).to_numpy()


def _make_native(policy: AnyPolicy, compiled: CompiledScenario) -> Any:
    """Return the native form of a built-in policy; one written in Python is used as it is."""
    if isinstance(policy, BuiltInPolicy):
        settings = policy.native_settings(compiled.scenario.seed)
        return NativePolicy(add_workflow_tables(settings, compiled.machines, compiled.arrays.ids))
    return policy


def _uses_clocks(settings: Mapping[str, Any]) -> bool:
    """Return whether a policy has the filter that compares clocks."""
    return any(name == "capacity" for name, _ in settings.get("filters", ()))


def _build_contention_columns(
    scenario: Scenario, names: tuple[str, ...]
) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Return the kinds of tasks by index (0 has no name) and the native contention rule."""
    rule = scenario.model.contention
    extra = (*(rule.kinds or {}), *scenario.model.service_factors)
    kinds = tuple(dict.fromkeys(("", *names, *extra)))
    columns: dict[str, Any] = {
        "kind": "none",
        "slope": 0.0,
        "loads": [],
        "inflations": [],
        "pressures": [0.0] * len(kinds),
        "sensitivities": [0.0] * len(kinds),
        "within_core": rule.within == "core",
    }
    if rule.linear is not None:
        columns |= {"kind": "linear", "slope": rule.linear.slope}
    elif rule.table is not None:
        columns |= {
            "kind": "table",
            "loads": [load for load, _ in rule.table],
            "inflations": [inflation for _, inflation in rule.table],
        }
    elif rule.kinds is not None:
        given = [rule.kinds.get(name) for name in kinds]
        columns |= {
            "kind": "kinds",
            "pressures": [kind.pressure if kind else 0.0 for kind in given],
            "sensitivities": [kind.sensitivity if kind else 0.0 for kind in given],
        }
    return kinds, columns
