// What a scheduler of workflows knows about tasks before they run: declared work, the longest paths
// of it, and the bytes of their files.
#pragma once

#include <cstdint>
#include <vector>

#include "control/scheduler_state.hpp"

namespace twinloop {

// The declared run time of a task on its requested cores (s): requested, or else recorded.
[[nodiscard]] double declared_time(const SchedulerState& scheduler, TaskId task);
// The declared work of a task, in core-seconds of a reference core.
[[nodiscard]] double declared_work(const SchedulerState& scheduler, TaskId task);
// The bytes of the files that a task reads, and of those that it writes.
[[nodiscard]] double input_bytes(const SchedulerState& scheduler, TaskId task);
[[nodiscard]] double output_bytes(const SchedulerState& scheduler, TaskId task);

// The place of the id of a task among all ids; tasks that were added in the run come after them.
[[nodiscard]] std::uint64_t rank_of(const WorkflowTables& tables, TaskId task);
// Whether only cores are asked for.
[[nodiscard]] bool needs_only_cores(const Needs& needs);
// Whether an empty machine has room for the requested cores, or for that number, and for the rest.
[[nodiscard]] bool fits_some_machine(const SchedulerState& scheduler, TaskId task);
[[nodiscard]] bool fits_some_machine(const SchedulerState& scheduler, TaskId task, double cores);

// All tasks, parents before their children.
[[nodiscard]] std::vector<TaskId> topological_order(const Tasks& tasks);
// By task: its declared work, and the largest bottom level of its children.
[[nodiscard]] std::vector<double> bottom_levels(const SchedulerState& scheduler);

}  // namespace twinloop
