"""Cases: a scenario with its real runs, the unit that a calibration compares."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from twinloop.calibration.parameters.values import declare_values, is_power_value, set_values
from twinloop.calibration.run_columns import RunBatch, RunColumns, select_outputs
from twinloop.description.errors import InputError
from twinloop.description.safe_text import escape_name
from twinloop.engine import CompiledScenario
from twinloop.policy import BuiltInPolicy
from twinloop.scenario import Scenario
from twinloop.scenario.replay import with_measured_latencies
from twinloop.trace import Trace

_Floats = NDArray[np.float64]

#: The maximum number of compiled scenarios in the cache, for values that need a compilation.
_CACHE_SIZE: Final = 16
#: The model values of which recorded runs have measurements.
LATENCIES: Final = ("dispatch_latency", "release_latency")


@dataclass(frozen=True, repr=False)
class Case:
    """A scenario with its real runs.

    >>> from twinloop.engine import simulate
    >>> scenario = Scenario(platform="2x2", policy="fcfs", workload={"generate": {
    ...     "name": "poisson", "parameters": {"tasks": 5}}})
    >>> Case.of([simulate(scenario)], name="example")
    <Case example: predict, 1 run of 5 tasks>
    """

    name: str
    scenario: Scenario
    compiled: CompiledScenario
    traces: tuple[Trace, ...]
    reals: tuple[RunColumns, ...]
    #: The length of the windows in which power is compared (s); None: power is not compared.
    power_step: float | None = None
    allow_code: bool = False
    _recompiled: dict[str, CompiledScenario] = field(default_factory=dict, compare=False)

    @classmethod
    def of(
        cls,
        traces: Sequence[Trace],
        *,
        name: str = "run",
        scenario: Scenario | None = None,
        names: Collection[str] = (),
        allow_code: bool = False,
        power_step: float | None = None,
    ) -> Case:
        """Make the case of runs of one scenario: the given one, else that of their manifest.

        Args:
            traces: The runs.
            name: The name in messages.
            scenario: The scenario of the runs, if their manifests contain none.
            names: The values to be fitted.
            allow_code: Whether a policy named as `module:Class` may be imported and run.
            power_step: The length of the windows in which power is compared (s).
        """
        scenario = declare_values(scenario or read_declared_scenario(traces[0], name), names)
        compiled = CompiledScenario(scenario, allow_code=allow_code)
        if not isinstance(compiled.policy, BuiltInPolicy):
            raise InputError(
                f"the policy of {name} is written in Python: too slow for thousands of simulations",
                kind="not-applicable",
                field="policy",
                remedy="calibrate with runs under a built-in policy; the Model fits any policy",
            )
        if compiled.python_source is not None:
            raise InputError(
                f"the source of {name} is written in Python: too slow for thousands of simulations",
                kind="not-applicable",
                field="source",
                remedy="calibrate with runs of a built-in source; the Model fits any source",
            )
        ids, machines = tuple(compiled.names.tasks), compiled.names.machines
        # The power windows of the twin begin with its first submission.
        begin = compiled.start().start_time if power_step is not None else 0.0
        reals = tuple(
            RunColumns.of(
                trace,
                tasks=ids,
                machines=machines,
                power_step=power_step,
                power_begin=begin,
                name=name,
            )
            for trace in traces
        )
        return cls(name, scenario, compiled, tuple(traces), reals, power_step, allow_code)

    def __reduce__(self) -> tuple[Any, ...]:
        # A worker process compiles the scenario again, and does not need the traces.
        return _restore, (self.name, self.scenario, self.reals, self.power_step, self.allow_code)

    @property
    def part(self) -> NDArray[np.bool_] | None:
        """A mask of the tasks of the scenario that are in the runs; None if all of them are."""
        in_runs = ~np.isnan(self.reals[0].submit)
        return None if in_runs.all() else in_runs

    @property
    def mode(self) -> str:
        """`predict` if no measured figure goes into the twin, else `replay`."""
        return "replay" if self.compiled.injected else "predict"

    def runs(
        self,
        count: int,
        values: Mapping[str, Any],
        needs: Collection[str],
        threads: int | None = None,
    ) -> RunBatch:
        """Simulate the twin `count` times.

        Args:
            count: The number of runs.
            values: A column per name, with an entry per run.
            needs: The columns of a run that the loss needs.
            threads: The number of threads.
        """
        slow = [
            name
            for name, column in values.items()
            if not (self.compiled.is_value(name) and _is_numeric(column))
        ]
        if slow:
            parts = []
            for i in range(count):
                chosen = {name: _to_plain(values[name][i]) for name in slow}
                others = {name: values[name][i : i + 1] for name in values if name not in chosen}
                parts.append(self._simulate(self._get_compiled(chosen), 1, others, needs, threads))
            outputs = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        else:
            outputs = self._simulate(self.compiled, count, values, needs, threads)
        real = self.reals[0]
        return RunBatch.of(
            outputs, tasks=real.tasks, machines=real.machines, power_step=self.power_step
        )

    def _get_compiled(self, chosen: Mapping[str, Any]) -> CompiledScenario:
        key = json.dumps(chosen, sort_keys=True)
        compiled = self._recompiled.pop(key, None)  # atomic: threads of a worker may share the case
        if compiled is None:
            compiled = CompiledScenario(
                set_values(self.scenario, chosen), allow_code=self.allow_code
            )
        self._recompiled[key] = compiled
        for oldest in list(self._recompiled)[:-_CACHE_SIZE]:
            self._recompiled.pop(oldest, None)
        return compiled

    def _simulate(
        self,
        compiled: CompiledScenario,
        count: int,
        values: Mapping[str, Any],
        needs: Collection[str],
        threads: int | None,
    ) -> dict[str, _Floats]:
        rows = make_value_columns(compiled, count, values)
        outputs: dict[str, _Floats] = {}
        columns = set(needs) - {"power"}
        part = self.part if "makespan" in columns else None
        if part is not None:
            columns |= {"wait", "end"}
        if names := select_outputs(columns):
            outputs |= compiled.run_many(rows, outputs=names, threads=threads)
        if part is not None:
            # The twin runs the whole scenario, but only the tasks in the runs are compared.
            last = outputs["task_end"][:, part].max(axis=1)
            outputs["makespan_s"] = last - outputs["task_submit"][:, part].min(axis=1)
        if "power" in needs:
            outputs["power"] = self._simulate_power(compiled, count, rows, threads)
        return outputs

    def _simulate_power(
        self,
        compiled: CompiledScenario,
        count: int,
        values: Mapping[str, _Floats],
        threads: int | None,
    ) -> _Floats:
        """Compute the power of every run (W); runs with equal schedules are simulated once."""
        step = self.power_step
        if step is None:
            raise InputError(
                f"the runs of {self.name} have no measured power to compare with",
                kind="missing-data",
                field="loss",
            )
        windows = len(self.reals[0].power)
        watts = np.full((count, windows), np.nan)
        power = {name: column for name, column in values.items() if is_power_value(name)}
        if not power and compiled.machines.has_power_models:
            own = next(name for name in compiled.list_power_names())
            power = {own: np.full(count, compiled.own_value(own))}
        others = {name: column for name, column in values.items() if name not in power}
        schedules = np.column_stack([np.zeros(count), *others.values()])
        _, first, which = np.unique(schedules, axis=0, return_index=True, return_inverse=True)
        for s, row in enumerate(first):
            same = np.flatnonzero(which.ravel() == s)
            found = compiled.power_many(
                {name: column[same] for name, column in power.items()},
                step,
                values={name: float(column[row]) for name, column in others.items()},
                threads=threads,
            )
            watts[same, : found.shape[1]] = found[:, :windows]
        return watts

    def __repr__(self) -> str:
        runs = "1 run" if len(self.reals) == 1 else f"{len(self.reals)} runs"
        return escape_name(
            f"<Case {self.name}: {self.mode}, {runs} of {len(self.compiled.arrays)} tasks>"
        )


def _restore(
    name: str,
    scenario: Scenario,
    reals: tuple[RunColumns, ...],
    power_step: float | None,
    allow_code: bool,
) -> Case:
    compiled = CompiledScenario(scenario, allow_code=allow_code)
    return Case(name, scenario, compiled, (), reals, power_step, allow_code)


def make_value_columns(
    compiled: CompiledScenario, count: int, values: Mapping[str, Any]
) -> dict[str, _Floats]:
    """Make a column of values per name for a compiled scenario; at least one."""
    columns: dict[str, _Floats] = {}
    for name, column in values.items():
        if not compiled.is_value(name):
            raise InputError(
                f"'{name}' is not a value of the scenario",
                kind="unknown-name",
                field="parameters",
                remedy=f"one of: {', '.join(compiled.value_names)}, or a path such as "
                "platform.clusters[0].hosts[0].mhz",
            )
        columns[name] = np.broadcast_to(np.asarray(column, dtype=np.float64), count)
    first = compiled.value_names[0]
    return columns or {first: np.full(count, compiled.own_value(first))}


def _is_numeric(column: Any) -> bool:
    return np.asarray(column).dtype.kind in "fiu"


def read_declared_scenario(trace: Trace, name: str = "the run") -> Scenario:
    """Read the scenario of a run from its manifest, with the declared work of its tasks.

    >>> from twinloop.engine import simulate
    >>> scenario = Scenario(platform="2x2", policy="fcfs", workload={"generate": {
    ...     "name": "poisson", "parameters": {"tasks": 5}}})
    >>> read_declared_scenario(simulate(scenario)).policy.name
    'fcfs'
    """
    stored = trace.manifest.scenario
    if stored is None:
        raise InputError(
            f"the manifest of {name} contains no scenario to simulate",
            kind="missing-scenario",
            field="scenario",
            remedy="give one: --scenario scenario.yaml, or scenario=",
        )
    if "object" in stored["workload"] and trace.workload is None:
        raise InputError(
            f"the workload of {name} was an object in memory and is not stored with its trace",
            kind="not-stored",
            field="workload",
            remedy="give the scenario again: --scenario scenario.yaml, or scenario=",
        )
    if "object" in stored["policy"]:
        raise InputError(
            f"the policy of {name} was an object in memory ({stored['policy']['object']}): a trace "
            "stores no code",
            kind="not-stored",
            field="policy",
            remedy="name its class as module:Class in the scenario, or give the scenario again: "
            "--scenario scenario.yaml, or scenario=",
        )
    return Scenario.from_trace(trace)


def make_cases(
    traces: Sequence[Trace],
    *,
    names: Sequence[str] | None = None,
    scenario: Scenario | None = None,
    values: Mapping[str, Any] | None = None,
    fitted: Collection[str] = (),
    latencies: Sequence[Trace] = (),
    adapt: Callable[[Scenario], Scenario] | None = None,
    allow_code: bool = False,
    power_step: float | None = None,
) -> list[Case]:
    """Group runs by their scenarios; the runs of one scenario are repetitions.

    Args:
        traces: Real runs.
        names: The names in messages.
        scenario: The scenario of the runs, if their manifests contain none.
        values: Values that are fixed, by name.
        fitted: The names of the values to be fitted.
        latencies: Runs whose mean measured latencies go into the model, except latencies that are
            fixed or fitted.
        adapt: Changes the scenario of each case, before the values are set in it.
        allow_code: Whether a policy named as `module:Class` may be imported and run.
        power_step: The length of the windows in which power is compared (s).
    """
    labels = list(names) if names is not None else [f"run {i + 1}" for i in range(len(traces))]
    groups: dict[str, list[int]] = {}
    for i, trace in enumerate(traces):
        key = {} if scenario is not None else dict(trace.manifest.scenario or {"alone": i})
        key.pop("name", None)  # the name of a scenario does not change the run
        groups.setdefault(json.dumps(key, sort_keys=True, default=str), []).append(i)
    mean = {k: s for k, s in average_latencies(latencies).items() if k not in fitted}
    cases = []
    for members in groups.values():
        name = ", ".join(labels[i] for i in members)
        base = scenario or read_declared_scenario(traces[members[0]], name)
        if adapt is not None:
            base = adapt(base)
        cases.append(
            Case.of(
                [traces[i] for i in members],
                name=name,
                scenario=set_values(base, mean | dict(values or {})),
                names=fitted,
                allow_code=allow_code,
                power_step=power_step,
            )
        )
    return cases


def average_latencies(traces: Sequence[Trace]) -> dict[str, float]:
    """Average the measured latencies over the runs that recorded them."""
    latencies: dict[str, list[float]] = {}
    for trace in traces:
        if "latency" not in trace.manifest.facts:
            continue
        model = with_measured_latencies(trace)
        for name in LATENCIES:
            latencies.setdefault(name, []).append(getattr(model, name))
    return {name: float(np.mean(seconds)) for name, seconds in latencies.items()}


def _to_plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
