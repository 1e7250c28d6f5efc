"""A scenario compiled to native columns, so that its files are read once for many runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from threading import Lock
from types import SimpleNamespace
from typing import Any, Final, Self, TypeVar

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
from twinloop.engine import workload_columns
from twinloop.engine.admission import Admission
from twinloop.engine.model_values import ModelValues
from twinloop.engine.platform_columns import MachineTable
from twinloop.engine.policy_errors import PolicyErrors
from twinloop.engine.run_outputs import SORTED_OUTPUTS, TASK_OUTPUTS, RunOutputs
from twinloop.engine.workload_cache import LoadedWorkload
from twinloop.policy import AnyPolicy, BuiltInPolicy
from twinloop.scenario import Scenario
from twinloop.scenario.failures import compute_failure_intervals
from twinloop.scenario.model import INSTANT_GROUPS, MODEL_VALUES
from twinloop.trace import Trace
from twinloop.trace.trace import format_count
from twinloop.workload import Workload
from twinloop.workload.cleaning_notes import note
from twinloop.workload.fragments import find_rows

_Result = TypeVar("_Result")
_CAPACITY: Final = MODEL_VALUES.index("effective_capacity")
#: Maximum number of cached variants of a compiled scenario that admit other tasks.
_MAX_VARIANTS: Final = 4
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
        #: The scheduling policy.
        self.policy: AnyPolicy = scenario.policy.resolve(allow_code=allow_code)
        #: The loaded workload.
        self.loaded = (
            workload if isinstance(workload, LoadedWorkload) else LoadedWorkload(scenario, workload)
        )
        #: The replayed trace; None if the scenario has a Workload.
        self.trace = self.loaded.trace
        #: The workload.
        self.workload = self.loaded.workload
        self.arrays = self.loaded.arrays
        self.cleaned: tuple[Cleaning, ...] = self.workload.cleaned
        self._load_cache: tuple[float, bytes, LoadProfile] | None = None
        self._variants: dict[bytes, CompiledScenario] = {}
        self._failure_lock = Lock()
        self._compile()

    def _compile(self) -> None:
        scenario, arrays = self.scenario, self.arrays
        platform = scenario.effective_platform()
        native = (
            self.policy.native_settings(scenario.seed)
            if isinstance(self.policy, BuiltInPolicy)
            else {}
        )
        speeds = scenario.host_speeds(self.workload.reference_mhz)
        self.machines = MachineTable.from_platform(
            platform, speeds, by_name=self.policy.name == "fifo"
        )
        queues = workload_columns.list_queue_names(arrays, platform)
        kinds, contention = _build_contention_columns(scenario, arrays.kind.names)
        self._values = ModelValues.from_scenario(scenario, platform, kinds)
        filters: Any = native.get("filters", ())
        clocks = any(name == "capacity" for name, _ in filters)
        self.names = SimpleNamespace(
            tasks=arrays.ids,
            machines=tuple(self.machines.nodes["node"]),
            users=arrays.user.names,
            groups=arrays.group.names,
            queues=queues,
            kinds=kinds,
            resources=arrays.resources,
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
        self._native = NativePolicy(native) if native else self.policy
        self._admission = Admission(
            lambda c: self.native_scenario.find_impossible(self._native, c) != 0
        )
        #: Mask of the tasks that can never run.
        self.rejected = self._find_rejected(task_columns["queue"])
        self.native_scenario.set_rejected(self.rejected)
        self._note_names(task_columns["queue"])
        self._note_clocks()
        self._set_sessions()
        self.cleaned = tuple(each for each in self.cleaned if each.count)
        drawn = scenario.failures is not None and scenario.failures.trace is None
        self._set_outages(self._estimate_horizon(self.values()) if drawn else np.inf)

    def _find_rejected(self, queue: Any) -> Any:
        """Find the tasks that can never run because of queue limits, size or a rejected parent."""
        arrays, platform = self.arrays, self.machines.platform
        over = workload_columns.find_over_limits(arrays, platform, queue, self.requested) != 0
        large = self._admission.find_too_large(self.scenario.model.effective_capacity)
        mask = over | large
        after = workload_columns.add_descendants(arrays, mask)
        for what, rows in (
            ("tasks rejected: they request more than their queue allows", over),
            ("tasks rejected: they fit on no machine that they may use", large & ~over),
            ("tasks rejected: a task that they depend on was rejected", after & ~mask),
        ):
            self.cleaned += (note("noticed", what, arrays.ids.filter(pl.Series(rows))),)
        return after.astype(np.uint8)

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
        capacity, own = float(row[_CAPACITY]), self.scenario.model.effective_capacity
        if capacity == own:
            return self
        large = self._admission.find_too_large(capacity)
        if (large == self._admission.find_too_large(own)).all():
            return self
        key = large.tobytes()
        variant = self._variants.pop(key, None)
        if variant is None:
            variant = copy(self)
            model = self.scenario.model.replace(effective_capacity=capacity)
            variant.scenario = self.scenario.replace(model=model)
            variant.cleaned = self.workload.cleaned
            variant._variants, variant._load_cache = {}, None
            variant._compile()
        self._variants[key] = variant
        while len(self._variants) > _MAX_VARIANTS:
            self._variants.pop(next(iter(self._variants)), None)
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
            "further": self._values.further,
            "fixed_demand": model.demand == "fixed",
            "no_delay": model.sharing == "no-delay",
            "kill": model.kill_at_requested_time,
            "after_failure": failures.on_failure if failures else "restart",
            "after_preemption": "resume" if resumes else "restart",
            "checkpoint_interval": (failures and failures.checkpoint_interval) or np.inf,
            "checkpoint_cost": failures.checkpoint_cost if failures else 0.0,
            "max_attempts": (failures and failures.max_attempts) or 2**32 - 1,
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
        by_kind = values[self._values.columns("service_factor")]
        speed_factor, service_factor = values[:2]  # the first two of MODEL_VALUES
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
        (r or a).

        >>> from twinloop.engine import CompiledScenario
        >>> from twinloop.scenario import Scenario
        >>> ready = CompiledScenario(Scenario(platform="1x4", policy="fcfs", workload={
        ...     "tasks": [{"id": "a", "run_time": 5, "kind": "cache"}]},
        ...     model={"contention": {"linear": {"slope": 0.1}}}))
        >>> ready.value_names[7:]
        ('service_factors.cache', 'contention.linear.slope')
        >>> ready.run({"service_factors.cache": 2.0})["makespan_s"]
        10.0
        """
        return self._values.names

    def values(self, changed: Mapping[str, float] | Sequence[float] | None = None) -> Any:
        """Return the row of model values of the scenario with some values changed.

        The names are `value_names`; a row of `MODEL_VALUES` alone leaves the others unchanged.
        """
        return self._values.make_row(changed)

    def scenario_from_values(self, values: Mapping[str, float] | Sequence[float]) -> Scenario:
        """Return the scenario with these model values; power values become overrides.

        >>> from twinloop.engine import CompiledScenario
        >>> from twinloop.scenario import Scenario
        >>> ready = CompiledScenario(Scenario(platform="2x16", policy="fcfs", workload={
        ...     "generate": {"name": "poisson", "parameters": {"tasks": 100}}}))
        >>> ready.scenario_from_values({"speed_factor": 2.0}).model.speed_factor
        2.0
        """
        return self._values.apply(self.values(values), self.scenario)

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
        row = self.values(values)
        return ClusterRun(
            self._compile_admitted(row).native_scenario,
            self._native,
            row,
            placements=placements,
            use=use,
            decisions=decisions,
            usage_step=np.inf if usage_step is None else usage_step,
            usage_rows=usage_rows,
            seed=self.scenario.seed,
        )

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
        run = self.start(values, placements=placements, use=use)
        while self.advance(run, run.run_slice):
            pass
        return run

    def advance(self, run: ClusterRun, method: Callable[[], _Result]) -> _Result:
        """Call a method that advances a run; repeat the call while the run needs more failures."""
        while True:
            with PolicyErrors(self.policy, run):
                result = method()
            if not run.needs_failures:
                return result
            self.extend_failures(run.next_time())
            run.extend_failures(self.native_scenario)

    def with_machine(self, name: str, cores: float, memory: float, like: int | None) -> Self:
        """Return a copy that names one more machine; its runs start without this machine."""
        other = copy(self)
        other.machines = self.machines.with_machine(name, cores, memory, like)
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
        return Dispatcher(self.native_scenario, self._native, self.scenario.seed)

    def source(self) -> NativeSource:
        """Create the submission source without a simulation, for a real execution.

        >>> from twinloop.engine import CompiledScenario
        >>> from twinloop.scenario import Scenario
        >>> users = CompiledScenario(Scenario(platform="2x16", policy="fcfs", workload={
        ...     "generate": {"name": "bursts", "parameters": {"bursts": 1, "size": 3}}})).source()
        >>> users.next_time, users.pop_due(now=1.0), users.next_time
        (0.0, [0, 1], 2.0)
        """
        return NativeSource(self.native_scenario)

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
                names to columns; or a mapping per run, as for `run`.
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
        available = (*KPI_NAMES, *SORTED_OUTPUTS, *TASK_OUTPUTS)
        for name in outputs:
            if name not in available:
                raise InputError(
                    f"{name!r} is not an output",
                    kind="unknown-name",
                    field="outputs",
                    remedy=f"one of: {', '.join(available)}",
                )
        rows = self._values.make_rows(matrix)
        if threads is not None and threads < 1:
            raise InputError(
                f"must be at least 1, not {threads}", kind="out-of-range", field="threads"
            )
        task_output_names = [name for name in outputs if name not in KPI_NAMES]
        shape = (len(rows), len(self.arrays))
        figures = np.empty((len(rows), len(KPI_NAMES)))
        task_outputs = {name: np.empty(shape) for name in task_output_names}
        wanted_figures = figures if len(task_output_names) < len(outputs) else None
        _, first_rows, groups = np.unique(
            rows[:, _CAPACITY], return_index=True, return_inverse=True
        )
        by_admission: dict[CompiledScenario, list[int]] = {}
        for group_index, row in enumerate(first_rows):
            by_admission.setdefault(self._compile_admitted(rows[row]), []).append(group_index)
        for compiled, group_indices in by_admission.items():
            rows_of_variant = np.flatnonzero(np.isin(groups, group_indices))
            compiled._run_rows(
                rows, rows_of_variant, wanted_figures, task_outputs, threads or os.cpu_count() or 1
            )
        return RunOutputs.from_native(outputs, figures, task_outputs)

    def _run_rows(
        self,
        rows: NDArray[np.float64],
        selected: NDArray[np.intp],
        figures: NDArray[np.float64] | None,
        task_outputs: Mapping[str, NDArray[np.float64]],
        threads: int,
    ) -> None:
        """Run these rows, which admit the same tasks, and fill in their outputs."""
        if self.horizon < np.inf:
            max_horizon = max(self._estimate_horizon(self.values(rows[row])) for row in selected)
            with self._failure_lock:
                if max_horizon > self.horizon:
                    self._set_outages(max_horizon)
        while len(selected):
            kpis, columns, unfinished = run_many(
                self.native_scenario,
                self._native,
                rows[selected],
                threads=threads,
                figures=figures is not None,
                columns=list(task_outputs),
            )
            if figures is not None:
                figures[selected] = kpis.reshape(len(selected), -1)
            for name, column in zip(task_outputs, columns, strict=True):
                task_outputs[name][selected] = column.reshape(len(selected), -1)
            selected = selected[~np.isnan(unfinished)]
            if len(selected):
                self.extend_failures(float(np.nanmax(unfinished)))

    def power_many(
        self,
        rows: ArrayLike,
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
                `power.`, in that order.
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
        matrix = self._values.make_power_rows(rows)
        own = self.values(values)
        cached = self._load_cache
        if cached is None or cached[:2] != (step, own.tobytes()):
            profile = self._run_to_end(own, use=True).loads(step)
            cached = self._load_cache = (step, own.tobytes(), profile)
        watts = cached[2].watts(
            self.native_scenario, matrix, threads=threads or os.cpu_count() or 1
        )
        return watts.reshape(len(matrix), cached[2].windows)

    def __repr__(self) -> str:
        count, machines = format_count(len(self.arrays), "task"), self.machines.nodes.height
        return f"<Compiled {self.policy.name}: {count} on {format_count(machines, 'machine')}>"


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
