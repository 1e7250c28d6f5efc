"""All rules of the quality gate, in the order of its audit.

The condition of each rule, in one sentence, is in `twinloop.description.codes`.
"""

from __future__ import annotations

from typing import Final

from twinloop.trace.quality import (
    coverage,
    instance_lives,
    plausibility,
    references,
    time_order,
    values,
)
from twinloop.trace.quality.rule import Rule

RULES: Final[tuple[Rule, ...]] = (
    Rule("readable", values.check_readable),
    Rule("has-tasks", values.check_has_tasks),
    Rule("complete", values.check_complete),
    Rule("finite", values.check_finite),
    Rule("not-negative", values.check_not_negative),
    Rule("known-words", values.check_known_words),
    Rule("unique-names", values.check_unique_names),
    Rule("placed", values.check_placed),
    Rule("lifecycle-order", time_order.check_lifecycle_order),
    Rule("samples-in-order", time_order.check_samples_in_order),
    Rule("windows-positive", time_order.check_windows_positive),
    Rule("windows-disjoint", time_order.check_windows_disjoint),
    Rule("placements-of-tasks", references.check_placements_of_tasks),
    Rule("samples-of-tasks", references.check_samples_of_tasks),
    Rule("known-parents", references.check_known_parents),
    Rule("acyclic", references.check_acyclic),
    Rule("known-files", references.check_known_files),
    Rule("known-nodes", references.check_known_nodes),
    Rule("pids-apart", references.check_pids_apart),
    Rule("sampled", coverage.check_sampled),
    Rule("samples-within", coverage.check_samples_within),
    Rule("samples-reach-ends", coverage.check_samples_reach_ends),
    Rule("cpu-possible", plausibility.check_cpu_possible),
    Rule("memory-possible", plausibility.check_memory_possible),
    Rule("times-known", values.check_times_known),
    Rule("too-short-to-sample", coverage.check_too_short_to_sample),
    Rule("samples-cover", coverage.check_samples_cover),
    Rule("gaps-in-samples", time_order.check_gaps_in_samples),
    Rule("usage-of-every-task", coverage.check_usage_of_every_task),
    Rule("run-time-matches-usage", coverage.check_run_time_matches_usage),
    Rule("run-time-matches-execution", time_order.check_run_time_matches_execution),
    Rule("after-zero", time_order.check_after_zero),
    Rule("parents-first", references.check_parents_first),
    Rule("cpu-exact", plausibility.check_cpu_exact),
    Rule("overcommit", plausibility.check_overcommit),
    Rule("fits-no-node", plausibility.check_fits_no_node),
    Rule("runnable", plausibility.check_runnable),
    Rule("requested-cores-positive", values.check_requested_cores_positive),
    Rule("within-requested-time", plausibility.check_within_requested_time),
    Rule("zero-length", plausibility.check_zero_length),
    Rule("instance-periods", instance_lives.check_instance_periods),
    Rule("instance-states-within", instance_lives.check_instance_states_within),
    Rule("instance-fits-host", instance_lives.check_instance_fits_host),
)
