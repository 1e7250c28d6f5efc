"""All rules of the quality gate, in the order of its audit."""

from __future__ import annotations

from typing import Final

from twinloop.trace.quality import coverage, order, plausibility, references, values
from twinloop.trace.quality.rule import Rule

RULES: Final[tuple[Rule, ...]] = (
    values.readable,
    values.has_tasks,
    values.complete,
    values.finite,
    values.not_negative,
    values.known_words,
    values.unique_names,
    values.placed,
    order.lifecycle_order,
    order.samples_in_order,
    order.windows_positive,
    order.windows_disjoint,
    references.placements_of_tasks,
    references.samples_of_tasks,
    references.known_parents,
    references.acyclic,
    references.known_files,
    references.known_nodes,
    references.pids_apart,
    coverage.sampled,
    coverage.samples_within,
    coverage.samples_reach_ends,
    plausibility.cpu_possible,
    plausibility.memory_possible,
    values.times_known,
    coverage.too_short_to_sample,
    coverage.samples_cover,
    order.gaps_in_samples,
    coverage.usage_of_every_task,
    coverage.run_time_matches_usage,
    order.run_time_matches_execution,
    order.after_zero,
    references.parents_first,
    plausibility.cpu_exact,
    plausibility.overcommit,
    plausibility.fits_no_node,
    plausibility.runnable,
    values.requested_cores_positive,
    plausibility.within_requested_time,
    plausibility.zero_length,
)
