"""Run a scenario in the simulator."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

from twinloop.description.errors import InputError
from twinloop.engine.compiled_scenario import CompiledScenario
from twinloop.engine.run_trace import trace_from_run
from twinloop.engine.table_size import MAX_ROWS, check_estimates, check_rows
from twinloop.engine.usage_table import find_sampling_period
from twinloop.scenario import Scenario
from twinloop.trace import Trace


def simulate(
    scenario: Scenario | CompiledScenario,
    *,
    power_step: float | None = None,
    power_per_node: bool = False,
    usage_step: float | None = None,
    decisions: bool = False,
    most_rows: float = MAX_ROWS,
    allow_code: bool = False,
    progress: Callable[[int, float], None] | None = None,
) -> Trace:
    """Run a scenario in the simulator and return its Trace.

    Args:
        scenario: The scenario, or a compiled scenario.
        power_step: Length of the windows of the `power` table (s); by default a thousandth of the
            run. The power of a window is its exact mean, independent of the length.
        power_per_node: Also record the power of each node.
        usage_step: Length of the windows of the `usage` table (s), which begin with each execution
            of a task; infinite for no table. By default the sampling period of the replayed
            recording, if there is one. The CPU time of a window is exact, independent of the
            length.
        decisions: Also record the table of decisions.
        most_rows: Maximum number of rows of `usage` and of `power`, each; infinite for no limit.
            A run that needs more raises an error, if possible before it starts.
        allow_code: Whether a policy given as `module:Class` may be imported and run.
        progress: Called periodically with the number of events and the simulated time (s).

    >>> from twinloop.engine import simulate
    >>> from twinloop.scenario import Scenario
    >>> scenario = Scenario(platform="2x8", policy="easy", workload={
    ...     "generate": {"name": "lublin", "parameters": {"tasks": 50, "machine": 16}}})
    >>> trace = simulate(scenario)
    >>> trace.tasks["status"].unique().to_list()
    ['completed']
    """
    compiled = scenario if isinstance(scenario, CompiledScenario) else None
    if compiled is None:
        if not isinstance(scenario, Scenario):
            kind = type(scenario).__name__
            raise InputError(
                f"simulate takes a Scenario, not a {kind}",
                kind="wrong-argument",
                remedy="load one with twinloop.load(...)",
            )
        compiled = CompiledScenario(scenario, allow_code=allow_code)
    if power_step is not None and not (0 < power_step < float("inf")):
        raise InputError(
            f"must be a positive time, not {power_step}", kind="out-of-range", field="power_step"
        )
    if usage_step is not None and not usage_step > 0:
        raise InputError(
            f"must be a positive time, not {usage_step}", kind="out-of-range", field="usage_step"
        )
    if usage_step is None:
        usage_step = find_sampling_period(compiled)
    check_estimates(
        compiled,
        usage_step=usage_step,
        power_step=power_step,
        power_per_node=power_per_node,
        max_rows=most_rows,
    )
    began = perf_counter()
    run = compiled.start(
        placements=True,
        use=compiled.machines.has_power_models,
        decisions=decisions,
        usage_step=usage_step,
        usage_rows=most_rows,
    )
    while compiled.advance(run, run.run_slice):
        if progress is not None:
            progress(run.events, run.now)
    if run.is_usage_full:
        check_rows("usage", most_rows + 1, most_rows)
    wall = perf_counter() - began
    return trace_from_run(
        compiled, run, wall=wall, step=power_step, per_node=power_per_node, most_rows=most_rows
    )
