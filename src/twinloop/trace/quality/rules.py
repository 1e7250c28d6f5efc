"""All rules of the quality gate, in the order of its audit."""

from __future__ import annotations

from typing import Final

from twinloop.trace.quality import coverage, plausibility, references, time_order, values
from twinloop.trace.quality.rule import Rule

RULES: Final[tuple[Rule, ...]] = (
    Rule("readable", "error", values.check_readable),
    Rule("has-tasks", "error", values.check_has_tasks),
    Rule("complete", "error", values.check_complete),
    Rule("finite", "error", values.check_finite),
    Rule("not-negative", "error", values.check_not_negative),
    Rule("known-words", "error", values.check_known_words),
    Rule(
        "unique-names",
        "error",
        values.check_unique_names,
        fix="Of tasks that are the same in everything, executions too, one is kept.",
    ),
    Rule("placed", "error", values.check_placed),
    Rule(
        "lifecycle-order",
        "error",
        time_order.check_lifecycle_order,
        fix="Up to one sampling period: submission and end are moved to the start.",
    ),
    Rule(
        "samples-in-order",
        "error",
        time_order.check_samples_in_order,
        fix="Of samples of one time the last is kept; the others are sorted.",
    ),
    Rule("windows-positive", "error", time_order.check_windows_positive),
    Rule(
        "windows-disjoint",
        "error",
        time_order.check_windows_disjoint,
        fix="The window is shortened to begin there; its CPU time is kept.",
    ),
    Rule("placements-of-tasks", "error", references.check_placements_of_tasks),
    Rule(
        "samples-of-tasks",
        "error",
        references.check_samples_of_tasks,
        fix="A sample of no task is left out.",
    ),
    Rule("known-parents", "error", references.check_known_parents),
    Rule("acyclic", "error", references.check_acyclic),
    Rule("known-files", "error", references.check_known_files),
    Rule("known-nodes", "error", references.check_known_nodes),
    Rule("pids-apart", "error", references.check_pids_apart),
    Rule("sampled", "error", coverage.check_sampled),
    Rule("samples-within", "error", coverage.check_samples_within),
    Rule("samples-reach-ends", "error", coverage.check_samples_reach_ends),
    Rule("cpu-possible", "error", plausibility.check_cpu_possible),
    Rule("memory-possible", "error", plausibility.check_memory_possible),
    Rule("times-known", "warning", values.check_times_known),
    Rule("too-short-to-sample", "warning", coverage.check_too_short_to_sample),
    Rule("samples-cover", "warning", coverage.check_samples_cover),
    Rule("gaps-in-samples", "warning", time_order.check_gaps_in_samples),
    Rule("usage-of-every-task", "warning", coverage.check_usage_of_every_task),
    Rule("run-time-matches-usage", "warning", coverage.check_run_time_matches_usage),
    Rule("run-time-matches-execution", "warning", time_order.check_run_time_matches_execution),
    Rule("after-zero", "warning", time_order.check_after_zero),
    Rule("parents-first", "warning", references.check_parents_first),
    Rule("cpu-exact", "warning", plausibility.check_cpu_exact),
    Rule("overcommit", "warning", plausibility.check_overcommit),
    Rule("fits-no-node", "warning", plausibility.check_fits_no_node),
    Rule("runnable", "warning", plausibility.check_runnable),
    Rule("requested-cores-positive", "warning", values.check_requested_cores_positive),
    Rule("within-requested-time", "warning", plausibility.check_within_requested_time),
    Rule("zero-length", "warning", plausibility.check_zero_length),
)
