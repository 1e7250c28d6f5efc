"""A scenario compiled to columns: read once, run many times."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from threading import Lock
from types import SimpleNamespace
from typing import Any, Final, TypeVar

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
from twinloop.engine.policy_errors import attribute_error
from twinloop.engine.run_outputs import SORTED_OUTPUTS, TASK_OUTPUTS, RunOutputs
from twinloop.engine.workload_cache import LoadedWorkload
from twinloop.policy import AnyPolicy, BuiltInPolicy
from twinloop.scenario import Scenario
from twinloop.scenario.failures import compute_failure_intervals
from twinloop.scenario.model import MODEL_VALUES
from twinloop.trace import Trace
from twinloop.trace.trace import format_count
from twinloop.workload import Workload
from twinloop.workload.cleaning_notes import note
from twinloop.workload.fragments import find_rows

_Found = TypeVar("_Found")
_CAPACITY: Final = MODEL_VALUES.index("effective_capacity")
#: How many sets of admitted tasks are kept compiled beside the scenario's own.
_KEPT: Final = 4
#: Later than every recorded failure.
_ALL_TIME: Final = 1e300


class CompiledScenario:
    """A scenario as columns of the core. A run costs no more than the simulation itself.

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
        """Compile a scenario; `given` stands for its workload where that has been read already."""
        #: The scenario it was made of.
        self.scenario = scenario
        #: The policy that decides.
        self.policy: AnyPolicy = scenario.policy.resolve(allow_code=allow_code)
        #: What is to run, as it was read.
        self.loaded = (
            workload if isinstance(workload, LoadedWorkload) else LoadedWorkload(scenario, workload)
        )
        #: The trace that is replayed; None if the scenario was given a Workload.
        self.trace = self.loaded.trace
        #: What is to run.
        self.workload = self.loaded.workload
        self.arrays = self.loaded.arrays
        self.cleaned: tuple[Cleaning, ...] = self.workload.cleaned
        self._loads: tuple[float, bytes, LoadProfile] | None = None
        self._others: dict[bytes, CompiledScenario] = {}
        self._drawing = Lock()
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
        kinds, contention = _contention(scenario, arrays.kind.names)
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
        # A replay plans with what was planned with, unless that would kill somebody.
        kills = scenario.model.kill_at_requested_time
        task_columns["requested_time"] = self.requested if kills else self.loaded.planned
        self.native_scenario = NativeScenario(
            self.machines.columns(arrays.resources, arrays.user.names, queues),
            task_columns,
            self._options(contention, native, kinds),
            self.names,
        )
        self._native = NativePolicy(native) if native else self.policy
        self._admission = Admission(
            lambda c: self.native_scenario.find_impossible(self._native, c) != 0
        )
        #: Which tasks can never run here.
        self.rejected = self._find_rejected(task_columns["queue"])
        self.native_scenario.set_rejected(self.rejected)
        self._note_names(task_columns["queue"])
        self._note_clocks()
        self._set_sessions()
        self.cleaned = tuple(each for each in self.cleaned if each.count)
        drawn = scenario.failures is not None and scenario.failures.trace is None
        self._set_outages(self._horizon(self.values()) if drawn else np.inf)

    def _find_rejected(self, queue: Any) -> Any:
        """Tasks that can never run: by the limits of a queue, by size, or because of a parent."""
        arrays, platform = self.arrays, self.machines.platform
        over = workload_columns.find_over_limits(arrays, platform, queue, self.requested) != 0
        large = self._admission.find_too_large(self.scenario.model.effective_capacity)
        mask = over | large
        after = workload_columns.add_descendants(arrays, mask)
        for what, rows in (
            ("tasks rejected: they ask for more than their queue gives", over),
            ("tasks rejected: they fit on no machine that they may use", large & ~over),
            ("tasks rejected: a task that they depend on was", after & ~mask),
        ):
            self.cleaned += (note("noticed", what, arrays.ids.filter(pl.Series(rows))),)
        return after.astype(np.uint8)

    def _note_names(self, queue: Any) -> None:
        """Names that mean nothing to the platform are easily a slip."""
        platform, arrays = self.machines.platform, self.arrays
        if platform.queues:
            strange = pl.Series(queue >= len(platform.queues))
            what = "tasks of a queue that the platform does not have: no limits hold for them"
            self.cleaned += (note("noticed", what, arrays.ids.filter(strange)),)
        absent = [
            name for each in platform.reservations for name in each.users
            if name not in arrays.user.names
        ]  # fmt: skip
        what = "users with a reservation who are not in the workload"
        self.cleaned += (note("noticed", what, pl.Series(absent, dtype=pl.String)),)

    def _note_clocks(self) -> None:
        """Clocks that differ say nothing of how fast a host is if the workload has none."""
        known = [host for _, host in self.scenario.platform.hosts() if host.mhz and not host.speed]
        if self.workload.reference_mhz is None and len({host.mhz for host in known}) > 1:
            what = (
                "nodes of different clocks: each is taken for as fast as those of the log, which "
                "does not say its clock"
            )
            self.cleaned += (note("assumed", what, count=sum(host.count for host in known)),)

    def _compile_admitted(self, row: NDArray[np.float64]) -> CompiledScenario:
        """The scenario compiled with the tasks that a run with these values of the model admits.

        The effective capacity of a run says which tasks are too large; these also leave the
        sessions of their users.
        """
        capacity, own = float(row[_CAPACITY]), self.scenario.model.effective_capacity
        if capacity == own:
            return self
        large = self._admission.find_too_large(capacity)
        if (large == self._admission.find_too_large(own)).all():
            return self
        key = large.tobytes()
        other = self._others.pop(key, None)
        if other is None:
            other = copy(self)
            model = self.scenario.model.replace(effective_capacity=capacity)
            other.scenario = self.scenario.replace(model=model)
            other.cleaned, other._others, other._loads = self.workload.cleaned, {}, None
            other._compile()
        self._others[key] = other
        while len(self._others) > _KEPT:
            self._others.pop(next(iter(self._others)), None)
        return other

    def _set_outages(self, horizon: float) -> None:
        downs = self._find_outages(horizon)
        rows = find_rows(self.machines.nodes["node"], downs["node"])
        ends = downs["end"].fill_null(np.inf).to_numpy()
        self.native_scenario.set_outages(rows, downs["start"].to_numpy(), ends, horizon)
        #: The periods in which machines are not there: node, start, end, state.
        self.outages = downs
        #: The time up to which failures are known (s); infinite: all of them.
        self.horizon = horizon

    def extend_failures(self, time: float) -> None:
        """Draw failures to beyond this time.

        Those that are known stay, so that a run comes out as if all had been drawn at once.
        """
        with self._drawing:
            if time >= self.horizon:
                self._set_outages(max(1.0, 2.0 * time))

    def _options(
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
            # A longer record changes failures that overlap: it is read whole.
            until = min(horizon, _ALL_TIME)
            found = compute_failure_intervals(
                failures, self.names.machines, until, self.scenario.seed
            )
            parts.append(found.select("node", "start", "end", state=pl.lit("down")))
        schema = {"node": pl.String, "start": pl.Float64, "end": pl.Float64, "state": pl.String}
        return pl.concat([pl.DataFrame(schema=schema), *parts])

    def _horizon(self, values: Any) -> float:
        """A time at which everything should be over with these values of the model."""
        arrays = self.arrays
        if not len(arrays):
            return 0.0
        busy = float((arrays.requested_time * arrays.cores).sum())
        longest = float(arrays.requested_time.max())
        by_kind = values[self._values.columns("service_factor")]
        service = values[1] * max(1.0, by_kind.max(initial=1.0))
        slower = max(1.0, service) / min(1.0, values[0] * float(self.machines.speed.min()))
        length = longest + busy / self.machines.platform.total_cores
        return max(0.0, float(arrays.submit.max() + 4.0 * slower * length))

    @property
    def epoch_ms(self) -> int | None:
        """Unix time of t = 0 in milliseconds: the start of the scenario, else that of the log."""
        if self.scenario.epoch_ms is not None:
            return self.scenario.epoch_ms
        return self.workload.epoch_ms if self.trace is None else self.trace.manifest.epoch_ms

    @property
    def injected(self) -> tuple[str, ...]:
        """What a run of this takes from the run that it replays; nothing: it predicts one.

        A log that was made up is the record of no run.

        >>> from twinloop.engine import CompiledScenario
        >>> from twinloop.scenario import Scenario
        >>> CompiledScenario(Scenario(platform="2x16", policy="fcfs", workload={
        ...     "generate": {"name": "poisson", "parameters": {"tasks": 100}}})).injected
        ()
        """
        trace, model = self.trace, self.scenario.model
        made_up = trace is not None and trace.manifest.kind == "generated"
        found = () if made_up else self.workload.injected
        has_latency = trace is not None and "latency" in trace.manifest.facts
        if has_latency and (model.dispatch_latency or model.release_latency):
            return (*found, "latencies")
        return found

    # --- running ---------------------------------------------------------------------------------

    @property
    def value_names(self) -> tuple[str, ...]:
        """The numbers of the model that runs may differ in, in the order of a row of values.

        First `MODEL_VALUES`; then what the scenario has of these: `service_factors.<kind>`,
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
        """The numbers of the model, with these in place of its own, as the core takes them.

        The names are `value_names`; a row of `MODEL_VALUES` alone leaves the others as they are.
        """
        return self._values.make_row(changed)

    def scenario_from_values(self, values: Mapping[str, float] | Sequence[float]) -> Scenario:
        """The scenario with these values in its model; those of power are overrides.

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
        """A run of the core, at its begin; each of the options is something that it notes."""
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
        """One run with these values of the model, to its end: its figures by name.

        The names and definitions are those of `twinloop.metrics`.
        """
        return self._run_to_end(values).kpis()

    def run_to_end(self) -> ClusterRun:
        """One run to its end that noted what its trace is made of; see `as_trace`."""
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

    def advance(self, run: ClusterRun, go: Callable[[], _Found]) -> _Found:
        """Call a method that moves the clock of a run; draw more failures where it needs them."""
        while True:
            with attribute_error(self.policy, run):
                found = go()
            if not run.needs_failures:
                return found
            self.extend_failures(run.next_time())
            run.extend_failures(self.native_scenario)

    def dispatcher(self) -> Dispatcher:
        """The policy without a simulator, for an execution of these tasks for real.

        >>> from twinloop.engine import CompiledScenario
        >>> from twinloop.scenario import Scenario
        >>> ready = CompiledScenario(Scenario(platform="2x16", policy="fcfs", workload={
        ...     "generate": {"name": "poisson", "parameters": {"tasks": 3}}}))
        >>> desk = ready.dispatcher()
        >>> desk.submit(0, now=0.0)
        >>> [(kind, task) for kind, task, _ in desk.decide(now=0.0)]
        [('place', 0)]
        """
        return Dispatcher(self.native_scenario, self._native, self.scenario.seed)

    def source(self) -> NativeSource:
        """Who submits, without a simulator: for whoever runs these tasks for real.

        >>> from twinloop.engine import CompiledScenario
        >>> from twinloop.scenario import Scenario
        >>> users = CompiledScenario(Scenario(platform="2x16", policy="fcfs", workload={
        ...     "generate": {"name": "bursts", "parameters": {"bursts": 1, "size": 3}}})).source()
        >>> users.next_time, users.due(now=1.0), users.next_time
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
        """A run for each row of values, on native threads; the same whatever their number.

        Args:
            matrix: A row per run, the columns being `value_names` or `MODEL_VALUES` alone. Or a
                column for each name that differs, or a mapping such as `run` takes for each run.
            outputs: Figures by name; `starts` and `ends`, times of the tasks in order of size; and
                in the order of `names.tasks`, `task_submit`, `task_ready`, `task_start` (of the
                first attempt), `task_end`, `task_run_time` (of the last), `task_cpu` and
                `task_machine` (the place of its first one in `names.machines`), which are unknown
                for tasks that did not complete: NaN, or -1.
            threads: How many; by default as many as there are cores.

        >>> from twinloop.engine import CompiledScenario
        >>> from twinloop.scenario import Scenario
        >>> ready = CompiledScenario(Scenario(platform="2x16", policy="fcfs", workload={
        ...     "generate": {"name": "poisson", "parameters": {"tasks": 100}}}))
        >>> many = ready.run_many([ready.values(), ready.values({"speed_factor": 2.0})],
        ...                       outputs=["makespan_s", "ends"])
        >>> many["makespan_s"].shape, many["ends"].shape
        ((2,), (2, 100))
        """
        known = (*KPI_NAMES, *SORTED_OUTPUTS, *TASK_OUTPUTS)
        for name in outputs:
            if name not in known:
                raise InputError(
                    f"{name!r} is no output", field="outputs", remedy=f"one of: {', '.join(known)}"
                )
        rows = self._values.make_rows(matrix)
        if threads is not None and threads < 1:
            raise InputError(f"must be at least 1, not {threads}", field="threads")
        columns = [name for name in outputs if name not in KPI_NAMES]
        shape = (len(rows), len(self.arrays))
        figures = np.empty((len(rows), len(KPI_NAMES)))
        found = {name: np.empty(shape) for name in columns}
        wanted = figures if len(columns) < len(outputs) else None
        _, first, group = np.unique(rows[:, _CAPACITY], return_index=True, return_inverse=True)
        by_admission: dict[CompiledScenario, list[int]] = {}
        for number, place in enumerate(first):
            by_admission.setdefault(self._compile_admitted(rows[place]), []).append(number)
        for compiled, numbers in by_admission.items():
            places = np.flatnonzero(np.isin(group, numbers))
            compiled._run_rows(rows, places, wanted, found, threads or os.cpu_count() or 1)
        return RunOutputs.from_native(outputs, figures, found)

    def _run_rows(
        self,
        rows: NDArray[np.float64],
        places: NDArray[np.intp],
        figures: NDArray[np.float64] | None,
        found: Mapping[str, NDArray[np.float64]],
        threads: int,
    ) -> None:
        """Run these rows, all of which admit the same tasks, and fill in what they give."""
        if self.horizon < np.inf:
            longest = max(self._horizon(self.values(rows[place])) for place in places)
            with self._drawing:
                if longest > self.horizon:
                    self._set_outages(longest)
        while len(places):
            kpis, columns, unfinished = run_many(
                self.native_scenario,
                self._native,
                rows[places],
                threads=threads,
                figures=figures is not None,
                columns=list(found),
            )
            if figures is not None:
                figures[places] = kpis.reshape(len(places), -1)
            for name, column in zip(found, columns, strict=True):
                found[name][places] = column.reshape(len(places), -1)
            places = places[~np.isnan(unfinished)]
            if len(places):
                self.extend_failures(float(np.nanmax(unfinished)))

    def power_many(
        self,
        rows: ArrayLike,
        step: float,
        *,
        values: Mapping[str, float] | Sequence[float] | None = None,
        threads: int | None = None,
    ) -> NDArray[np.float64]:
        """The power of all machines under many power models, from one run.

        What tasks do does not depend on what it draws, so the scenario is simulated once (and not
        again, if it is called with the same step and values) whatever the number of rows.

        Args:
            rows: A power model per row, its columns being those of `value_names` that begin with
                `power.`, in that order.
            step: Length of the windows (s), which lie as those of the `power` table of `simulate`.
            values: Of the model that is run, as `run` takes them.
            threads: How many; by default as many as there are cores.

        Returns:
            The mean watts in each window, a row for each power model.

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
            raise InputError(f"must be a positive time, not {step}", field="step")
        matrix = self._values.make_power_rows(rows)
        own = self.values(values)
        known = self._loads
        if known is None or known[:2] != (step, own.tobytes()):
            profile = self._run_to_end(own, use=True).loads(step)
            known = self._loads = (step, own.tobytes(), profile)
        watts = known[2].watts(self.native_scenario, matrix, threads=threads or os.cpu_count() or 1)
        return watts.reshape(len(matrix), known[2].windows)

    def __repr__(self) -> str:
        count, machines = format_count(len(self.arrays), "task"), self.machines.nodes.height
        return f"<Compiled {self.policy.name}: {count} on {format_count(machines, 'machine')}>"


def _contention(
    scenario: Scenario, names: tuple[str, ...]
) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The kinds of tasks by number, and the rule that they follow; number 0 has no name."""
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
