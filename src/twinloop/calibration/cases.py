"""Cases: a scenario with its real runs, the unit that a calibration compares."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from twinloop.calibration.parameters.values import declare_values, is_model_value, set_values
from twinloop.calibration.run_columns import RunBatch, RunColumns, select_outputs
from twinloop.description.errors import InputError
from twinloop.description.safe_text import escape_name
from twinloop.engine import CompiledScenario
from twinloop.policy import BuiltInPolicy
from twinloop.scenario import Scenario
from twinloop.scenario.replay import with_measured_latencies
from twinloop.trace import Trace

_Floats = NDArray[np.float64]

#: The number of compiled scenarios in the cache, for values that need a new compilation.
_CACHE_SIZE: Final = 16


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
    _others: dict[str, CompiledScenario] = field(default_factory=dict, compare=False)

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
        # A worker compiles the scenario itself and needs no traces.
        return _restore, (self.name, self.scenario, self.reals, self.power_step, self.allow_code)

    @property
    def part(self) -> NDArray[np.bool_] | None:
        """A mask of the tasks in the runs, if these are a part of the scenario; None: all tasks."""
        known = ~np.isnan(self.reals[0].submit)
        return None if known.all() else known

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
        """Simulate the twin `count` times; `values` has a column per name, an entry per run."""
        slow = [name for name in values if not is_model_value(name)]
        if slow:
            parts = []
            for i in range(count):
                chosen = {name: _plain(values[name][i]) for name in slow}
                one = {name: values[name][i : i + 1] for name in values if name not in chosen}
                parts.append(self._outputs(self._compiled(chosen), 1, one, needs, threads))
            found = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        else:
            found = self._outputs(self.compiled, count, values, needs, threads)
        real = self.reals[0]
        return RunBatch.of(
            found, tasks=real.tasks, machines=real.machines, power_step=self.power_step
        )

    def _compiled(self, chosen: Mapping[str, Any]) -> CompiledScenario:
        key = json.dumps(chosen, sort_keys=True)
        known = self._others.pop(key, None)  # atomic: threads of a worker may share the case
        if known is None:
            known = CompiledScenario(set_values(self.scenario, chosen), allow_code=self.allow_code)
        self._others[key] = known
        for oldest in list(self._others)[:-_CACHE_SIZE]:
            self._others.pop(oldest, None)
        return known

    def _outputs(
        self,
        compiled: CompiledScenario,
        count: int,
        values: Mapping[str, Any],
        needs: Collection[str],
        threads: int | None,
    ) -> dict[str, _Floats]:
        rows = make_value_rows(compiled, count, values)
        found: dict[str, _Floats] = {}
        wanted = set(needs) - {"power"}
        part = self.part if "makespan" in wanted else None
        if part is not None:
            wanted |= {"wait", "end"}
        if outputs := select_outputs(wanted):
            found |= compiled.run_many(rows, outputs=outputs, threads=threads)
        if part is not None:
            # The makespan of the tasks in the runs: the twin always runs the whole scenario.
            last = found["task_end"][:, part].max(axis=1)
            found["makespan_s"] = last - found["task_submit"][:, part].min(axis=1)
        if "power" in needs:
            found["power"] = self._power(compiled, rows, threads)
        return found

    def _power(self, compiled: CompiledScenario, rows: _Floats, threads: int | None) -> _Floats:
        """The power over time of every run; runs with equal schedules are simulated once."""
        step = self.power_step
        if step is None:
            raise InputError(
                f"the runs of {self.name} have no measured power to compare with",
                kind="missing-data",
                field="loss",
            )
        electric = np.array([name.startswith("power.") for name in compiled.value_names])
        windows = len(self.reals[0].power)
        watts = np.full((len(rows), windows), np.nan)
        _, first, which = np.unique(
            rows[:, ~electric], axis=0, return_index=True, return_inverse=True
        )
        own = compiled.values()
        for s, row in enumerate(first):
            same = np.flatnonzero(which.ravel() == s)
            models = rows[np.ix_(same, electric)]
            # With equal power values a schedule that was simulated before is found in the cache.
            schedule = np.where(electric, own, rows[row])
            found = compiled.power_many(models, step, values=schedule, threads=threads)
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


def make_value_rows(compiled: CompiledScenario, count: int, values: Mapping[str, Any]) -> _Floats:
    """Make rows of model values for a compiled scenario, with the named columns replaced."""
    rows = np.tile(compiled.values(), (count, 1))
    for name, column in values.items():
        try:
            rows[:, compiled.value_names.index(name)] = column
        except ValueError:
            raise InputError(
                f"'{name}' is not a value of the scenario",
                kind="unknown-name",
                field="parameters",
                remedy=f"one of: {', '.join(compiled.value_names)}",
            ) from None
    return rows


def read_declared_scenario(trace: Trace, name: str = "the run") -> Scenario:
    """Read the scenario of a run from its manifest, with the declared work.

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
    moved: Collection[str] = (),
    latencies: Sequence[Trace] = (),
    allow_code: bool = False,
    power_step: float | None = None,
) -> list[Case]:
    """Group runs by their scenarios; the runs of one scenario are repetitions.

    Args:
        traces: Real runs.
        names: The names in messages.
        scenario: The scenario of the runs, if their manifests contain none.
        values: Values that are fixed, by name.
        moved: The names of the values to be fitted.
        latencies: Runs whose mean measured latencies go into the model, except latencies that are
            fixed or fitted.
        allow_code: Whether a policy named as `module:Class` may be imported and run.
        power_step: The length of the windows in which power is compared (s).
    """
    labels = list(names) if names is not None else [f"run {i + 1}" for i in range(len(traces))]
    groups: dict[str, list[int]] = {}
    for i, trace in enumerate(traces):
        key = {} if scenario is not None else dict(trace.manifest.scenario or {"alone": i})
        key.pop("name", None)  # the name of a scenario does not change the run
        groups.setdefault(json.dumps(key, sort_keys=True, default=str), []).append(i)
    mean = {k: s for k, s in average_latencies(latencies).items() if k not in moved}
    found = []
    for members in groups.values():
        name = ", ".join(labels[i] for i in members)
        base = scenario or read_declared_scenario(traces[members[0]], name)
        found.append(
            Case.of(
                [traces[i] for i in members],
                name=name,
                scenario=set_values(base, mean | dict(values or {})),
                names=moved,
                allow_code=allow_code,
                power_step=power_step,
            )
        )
    return found


def average_latencies(traces: Sequence[Trace]) -> dict[str, float]:
    """Average the measured latencies over the runs that recorded them."""
    found: dict[str, list[float]] = {}
    for trace in traces:
        if "latency" not in trace.manifest.facts:
            continue
        model = with_measured_latencies(trace)
        for name in ("dispatch_latency", "release_latency"):
            found.setdefault(name, []).append(getattr(model, name))
    return {name: float(np.mean(seconds)) for name, seconds in found.items()}


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
