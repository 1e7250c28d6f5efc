"""Cases: a scenario, and the real runs of it that a twin is to be like."""

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

#: How many scenarios with values that only a new compilation can take are kept compiled.
_KEPT: Final = 16


@dataclass(frozen=True, repr=False)
class Case:
    """A scenario, and the real runs of it.

    >>> from twinloop.engine import simulate
    >>> scenario = Scenario(platform="2x2", policy="fcfs", workload={"generate": {
    ...     "name": "poisson", "parameters": {"tasks": 5}}})
    >>> Case.of([simulate(scenario)], name="made up")
    <Case made up: predict, 1 run of 5 tasks>
    """

    name: str
    scenario: Scenario
    compiled: CompiledScenario
    traces: tuple[Trace, ...]
    reals: tuple[RunColumns, ...]
    #: Windows of the power that is compared (s); None: no power is.
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
        """The case of these runs of one scenario: the given one, else that of their manifest.

        Args:
            traces: The runs.
            name: What messages call them.
            scenario: What was run, if the manifests do not say.
            names: The values that are going to be moved.
            allow_code: Whether a policy named as `module:Class` may be imported and run.
            power_step: Windows of the power that is to be compared (s).
        """
        scenario = declare_values(scenario or read_declared_scenario(traces[0], name), names)
        compiled = CompiledScenario(scenario, allow_code=allow_code)
        if not isinstance(compiled.policy, BuiltInPolicy):
            raise InputError(
                f"the policy of {name} is written in Python: too slow to be simulated thousands "
                "of times",
                field="policy",
                remedy="calibrate with runs under a built-in policy; the Model serves any",
            )
        ids, machines = tuple(compiled.names.tasks), compiled.names.machines
        # The windows of the twin begin with its first submission.
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
        # To a worker, which compiles it anew; the runs themselves are only looked at here.
        return _sent, (self.name, self.scenario, self.reals, self.power_step, self.allow_code)

    @property
    def part(self) -> NDArray[np.bool_] | None:
        """Which tasks the runs have, where they are parts of the scenario; None: all of them."""
        known = ~np.isnan(self.reals[0].submit)
        return None if known.all() else known

    @property
    def mode(self) -> str:
        """`predict` if nothing of the runs goes into the twin, else `replay`."""
        return "replay" if self.compiled.injected else "predict"

    def runs(
        self,
        count: int,
        values: Mapping[str, Any],
        needs: Collection[str],
        threads: int | None = None,
    ) -> RunBatch:
        """So many runs of the twin, with these values (one for each run, by name)."""
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
        known = self._others.pop(key, None)  # whole steps: threads of a worker may share the case
        if known is None:
            known = CompiledScenario(set_values(self.scenario, chosen), allow_code=self.allow_code)
        self._others[key] = known
        for oldest in list(self._others)[:-_KEPT]:
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
            # Of the tasks that the runs have: the twin always runs the whole scenario.
            last = found["task_end"][:, part].max(axis=1)
            found["makespan_s"] = last - found["task_submit"][:, part].min(axis=1)
        if "power" in needs:
            found["power"] = self._power(compiled, rows, threads)
        return found

    def _power(self, compiled: CompiledScenario, rows: _Floats, threads: int | None) -> _Floats:
        """The power over time of every run; power models are tried on one schedule at a time."""
        step = self.power_step
        if step is None:
            raise InputError(
                f"the runs of {self.name} have no measured power to compare with", field="loss"
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
            # With the same power each time, a schedule that was simulated before is known again.
            schedule = np.where(electric, own, rows[row])
            found = compiled.power_many(models, step, values=schedule, threads=threads)
            watts[same, : found.shape[1]] = found[:, :windows]
        return watts

    def __repr__(self) -> str:
        runs = "1 run" if len(self.reals) == 1 else f"{len(self.reals)} runs"
        return escape_name(
            f"<Case {self.name}: {self.mode}, {runs} of {len(self.compiled.arrays)} tasks>"
        )


def _sent(
    name: str,
    scenario: Scenario,
    reals: tuple[RunColumns, ...],
    power_step: float | None,
    allow_code: bool,
) -> Case:
    compiled = CompiledScenario(scenario, allow_code=allow_code)
    return Case(name, scenario, compiled, (), reals, power_step, allow_code)


def make_value_rows(compiled: CompiledScenario, count: int, values: Mapping[str, Any]) -> _Floats:
    """Rows of values of the model as a compiled scenario takes them, those named set."""
    rows = np.tile(compiled.values(), (count, 1))
    for name, column in values.items():
        try:
            rows[:, compiled.value_names.index(name)] = column
        except ValueError:
            raise InputError(
                f"the scenario has no value '{name}'",
                field="parameters",
                remedy=f"one of: {', '.join(compiled.value_names)}",
            ) from None
    return rows


def read_declared_scenario(trace: Trace, name: str = "the run") -> Scenario:
    """The scenario that a run was made from, as it was declared beforehand.

    >>> from twinloop.engine import simulate
    >>> scenario = Scenario(platform="2x2", policy="fcfs", workload={"generate": {
    ...     "name": "poisson", "parameters": {"tasks": 5}}})
    >>> read_declared_scenario(simulate(scenario)).policy.name
    'fcfs'
    """
    kept = trace.manifest.scenario
    if kept is None:
        raise InputError(
            f"{name} keeps no scenario in its manifest, so it is not known what to simulate",
            field="scenario",
            remedy="give one: --scenario scenario.yaml, or scenario=",
        )
    if "object" in kept["workload"] and trace.workload is None:
        raise InputError(
            f"the workload of {name} was an object in memory, and is not kept with its trace",
            field="workload",
            remedy="give the scenario again: --scenario scenario.yaml, or scenario=",
        )
    if "object" in kept["policy"]:
        raise InputError(
            f"the policy of {name} was an object in memory ({kept['policy']['object']}): a trace "
            "keeps no code",
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
    """Runs by their scenarios: those of one scenario are repetitions of each other.

    Args:
        traces: Real runs.
        names: What messages call them.
        scenario: What was run, if the manifests do not say.
        values: Values that are known already, by name.
        moved: The names of the values that are going to be moved.
        latencies: Runs whose measured latencies, on average, go into the model; one that is known
            or going to be moved does not.
        allow_code: Whether a policy named as `module:Class` may be imported and run.
        power_step: Windows of the power that is to be compared (s).
    """
    called = list(names) if names is not None else [f"run {i + 1}" for i in range(len(traces))]
    groups: dict[str, list[int]] = {}
    for i, trace in enumerate(traces):
        kept = {} if scenario is not None else dict(trace.manifest.scenario or {"alone": i})
        kept.pop("name", None)  # what it is called does not change what is run
        groups.setdefault(json.dumps(kept, sort_keys=True, default=str), []).append(i)
    mean = {k: s for k, s in average_latencies(latencies).items() if k not in moved}
    found = []
    for members in groups.values():
        name = ", ".join(called[i] for i in members)
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
    """The latencies that runs measured, on average over those that did."""
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
