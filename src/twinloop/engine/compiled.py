"""A scenario compiled to columns: read once, run many times."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from twinloop._core import KPI_NAMES, ClusterRun, Dispatcher, NativePolicy, Problem, run_many
from twinloop.engine import tasks
from twinloop.engine.machines import Machines
from twinloop.engine.many import Many
from twinloop.policy import AnyPolicy, BuiltIn
from twinloop.scenario import Scenario
from twinloop.scenario.failures import failure_intervals
from twinloop.scenario.model import MODEL_VALUES
from twinloop.trace import Cleaning, Trace
from twinloop.trace.errors import InputError
from twinloop.trace.trace import counted
from twinloop.workload import Workload
from twinloop.workload.fragments import rows_of


class Compiled:
    """A scenario as columns of the core. A run costs no more than the simulation itself.

    >>> from twinloop.scenario import Scenario
    >>> ready = Compiled(Scenario(platform="2x16", policy="fcfs", workload={
    ...     "generate": {"name": "poisson", "parameters": {"tasks": 100}}}))
    >>> ready
    <Compiled fcfs: 100 tasks on 2 machines>
    >>> ready.run()["completed"], ready.run({"speed_factor": 2.0})["completed"]
    (100.0, 100.0)
    """

    def __init__(self, scenario: Scenario, *, allow_code: bool = False) -> None:
        #: The scenario it was made of.
        self.scenario = scenario
        #: The policy that decides.
        self.policy: AnyPolicy = scenario.policy.resolve(allow_code=allow_code)
        given = scenario.workload.resolve(scenario.seed)
        #: The trace that is replayed; None if the scenario was given a Workload.
        self.trace = given if isinstance(given, Trace) else None
        #: What is to run.
        self.workload = _workload(given, scenario)
        self.arrays = self.workload.to_arrays()
        self.cleaned: tuple[Cleaning, ...] = self.workload.cleaned
        self._compile()

    def _compile(self) -> None:
        scenario, arrays = self.scenario, self.arrays
        platform = scenario.effective_platform()
        native = self.policy.native(scenario.seed) if isinstance(self.policy, BuiltIn) else {}
        self.machines = Machines.of(
            platform, self.workload.reference_mhz, by_name=self.policy.name == "fifo"
        )
        queues = tasks.queue_names(arrays, platform)
        kinds, contention = _contention(scenario, arrays.kind.names)
        resources = tuple(dict.fromkeys([*arrays.resources]))
        clocks = any(name == "capacity" for name, _ in _pairs(native.get("filters", ())))
        self.names = SimpleNamespace(
            tasks=arrays.ids,
            machines=tuple(self.machines.nodes["node"]),
            users=arrays.user.names,
            groups=arrays.group.names,
            queues=queues,
            kinds=kinds,
            resources=resources,
        )
        told = tasks.columns(self.workload, arrays, platform, queues, kinds, clocks=clocks)
        self.problem = Problem(
            self.machines.columns(resources, arrays.user.names, queues),
            told,
            self._options(contention, native),
            self.names,
        )
        self._native = NativePolicy(native) if native else self.policy
        over = tasks.over_limits(arrays, platform, told["queue"])
        #: Which tasks can never run here.
        self.rejected = np.asarray(self.problem.impossible(self._native) | over, dtype=np.uint8)
        self.problem.set_rejected(self.rejected)
        if scenario.source.sessions is not None:
            self._set_sessions()
        self.downs = self._downs()
        rows = rows_of(self.machines.nodes["node"], self.downs["node"])
        self.problem.set_downs(
            rows,
            self.downs["start"].to_numpy(),
            self.downs["end"].fill_null(np.inf).to_numpy(),
        )

    def _options(self, contention: dict[str, Any], native: Mapping[str, Any]) -> dict[str, Any]:
        model, failures = self.scenario.model, self.scenario.failures
        resumes = native.get("preempt") == "resume"
        return {
            "contention": contention,
            "fixed_demand": model.demand == "fixed",
            "no_delay": model.sharing == "no-delay",
            "kill": model.kill_at_requested_time,
            "after_failure": failures.then if failures else "restart",
            "after_preemption": "resume" if resumes else "restart",
            "checkpoint_interval": (failures and failures.checkpoint_interval) or np.inf,
            "checkpoint_cost": failures.checkpoint_cost if failures else 0.0,
        }

    def _set_sessions(self) -> None:
        users = self.scenario.source.sessions
        if users is None:
            return
        kept = np.flatnonzero(self.rejected == 0)
        graphs = users.graphs(Workload(tasks=self.workload.tasks[kept]))
        self.cleaned += tuple(graphs.cleaned)
        self.problem.set_sessions(tasks.session_columns(graphs, kept[graphs.partition.jobs]))

    def _downs(self) -> pl.DataFrame:
        """The periods in which machines are not there: node, start, end, state."""
        platform, failures = self.machines.platform, self.scenario.failures
        parts = [
            pl.DataFrame({"node": platform.select(each.hosts)}).with_columns(
                start=pl.lit(each.start), end=pl.lit(each.end), state=pl.lit("maintenance")
            )
            for each in platform.maintenance
        ]
        if failures is not None:
            found = failure_intervals(
                failures, self.names.machines, self._horizon(), self.scenario.seed
            )
            parts.append(found.select("node", "start", "end", state=pl.lit("down")))
        schema = {"node": pl.String, "start": pl.Float64, "end": pl.Float64, "state": pl.String}
        return pl.concat([pl.DataFrame(schema=schema), *parts])

    def _horizon(self) -> float:
        """A time at which everything should long be over."""
        arrays = self.arrays
        if not len(arrays):
            return 0.0
        busy = float((arrays.requested_time * arrays.cores).sum())
        longest = float(arrays.requested_time.max())
        span = float(arrays.submit.max())
        return 2.0 * (span + 10.0 * longest + 4.0 * busy / self.machines.platform.total_cores)

    # --- running ---------------------------------------------------------------------------------

    def values(self, changed: Mapping[str, float] | Sequence[float] | None = None) -> Any:
        """The numbers of the model, with these in place of its own, as the core takes them."""
        if changed is None or isinstance(changed, Mapping):
            unknown = [name for name in changed or () if name not in MODEL_VALUES]
            if unknown:
                raise InputError(
                    f"{unknown[0]!r} is no number of a model",
                    field="values",
                    remedy=f"one of: {', '.join(MODEL_VALUES)}",
                )
            own = dict(zip(MODEL_VALUES, self.scenario.model.values(), strict=True))
            return np.array(list({**own, **(changed or {})}.values()), dtype=np.float64)
        return np.ascontiguousarray(changed, dtype=np.float64)

    def start(
        self,
        values: Mapping[str, float] | Sequence[float] | None = None,
        *,
        placements: bool = False,
        use: bool = False,
        decisions: bool = False,
    ) -> ClusterRun:
        """A run of the core, at its begin."""
        return ClusterRun(
            self.problem,
            self._native,
            self.values(values),
            placements=placements,
            use=use,
            decisions=decisions,
            seed=self.scenario.seed,
        )

    def run(self, values: Mapping[str, float] | Sequence[float] | None = None) -> dict[str, float]:
        """One run with these values of the model, to its end: its figures by name.

        The names and definitions are those of `twinloop.metrics`.
        """
        run = self.start(values)
        while run.run_on():
            pass
        figures: dict[str, float] = run.kpis()
        return figures

    def dispatcher(self) -> Dispatcher:
        """The policy at a desk without a simulator: for whoever runs these tasks for real.

        >>> from twinloop.scenario import Scenario
        >>> ready = Compiled(Scenario(platform="2x16", policy="fcfs", workload={
        ...     "generate": {"name": "poisson", "parameters": {"tasks": 3}}}))
        >>> desk = ready.dispatcher()
        >>> desk.submit(0, now=0.0)
        >>> [(kind, task) for kind, task, _ in desk.decide(now=0.0)]
        [('place', 0)]
        """
        return Dispatcher(self.problem, self._native, self.scenario.seed)

    def run_many(
        self,
        matrix: ArrayLike,
        *,
        outputs: Sequence[str] = ("makespan_s", "wait_mean_s"),
        threads: int | None = None,
    ) -> Many:
        """A run for each row of values, on native threads; the same whatever their number.

        Args:
            matrix: A row per run, the columns being `MODEL_VALUES`.
            outputs: Figures by name; `starts` and `ends`, times in order of size.
            threads: How many; by default as many as there are cores.

        >>> from twinloop.scenario import Scenario
        >>> ready = Compiled(Scenario(platform="2x16", policy="fcfs", workload={
        ...     "generate": {"name": "poisson", "parameters": {"tasks": 100}}}))
        >>> many = ready.run_many([ready.values(), ready.values({"speed_factor": 2.0})],
        ...                       outputs=["makespan_s", "ends"])
        >>> many["makespan_s"].shape, many["ends"].shape
        ((2,), (2, 100))
        """
        known = (*KPI_NAMES, "starts", "ends")
        for name in outputs:
            if name not in known:
                raise InputError(
                    f"{name!r} is no output", field="outputs", remedy=f"one of: {', '.join(known)}"
                )
        rows = np.ascontiguousarray(matrix, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != len(MODEL_VALUES):
            raise InputError(
                f"must have a row per run and {len(MODEL_VALUES)} columns, not {rows.shape}",
                field="matrix",
                remedy=f"the columns are {', '.join(MODEL_VALUES)}",
            )
        times = "starts" in outputs or "ends" in outputs
        found = run_many(
            self.problem,
            self._native,
            rows,
            threads=threads or os.cpu_count() or 1,
            times=times,
        )
        return Many.of(outputs, rows.shape[0], found)

    def __repr__(self) -> str:
        count, machines = counted(len(self.arrays), "task"), self.machines.nodes.height
        return f"<Compiled {self.policy.name}: {count} on {counted(machines, 'machine')}>"


def _workload(given: Trace | Workload, scenario: Scenario) -> Workload:
    if isinstance(given, Workload):
        return given
    clocks = [host.mhz for _, host in scenario.platform.hosts() if host.mhz]
    reference = given.manifest.reference_mhz or (max(clocks) if clocks else None)
    missing = scenario.workload.missing
    return Workload.from_trace(given, missing=missing, reference_mhz=reference)


def _pairs(value: Any) -> Sequence[tuple[str, float]]:
    return list(value)


def _contention(
    scenario: Scenario, names: tuple[str, ...]
) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The kinds of tasks by number, and the rule that they follow; number 0 has no name."""
    rule = scenario.model.contention
    kinds = ("", *names)
    told: dict[str, Any] = {
        "kind": "none",
        "slope": 0.0,
        "loads": [],
        "inflations": [],
        "pressures": [0.0] * len(kinds),
        "sensitivities": [0.0] * len(kinds),
    }
    if rule.linear is not None:
        told |= {"kind": "linear", "slope": rule.linear.slope}
    elif rule.table is not None:
        told |= {
            "kind": "table",
            "loads": [load for load, _ in rule.table],
            "inflations": [inflation for _, inflation in rule.table],
        }
    elif rule.kinds is not None:
        known = [rule.kinds.get(name) for name in kinds]
        told |= {
            "kind": "kinds",
            "pressures": [kind.pressure if kind else 0.0 for kind in known],
            "sensitivities": [kind.sensitivity if kind else 0.0 for kind in known],
        }
    return kinds, told
