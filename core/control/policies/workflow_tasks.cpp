#include "control/policies/workflow_tasks.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "work/file_table.hpp"

namespace twinloop {
namespace {

double bytes_of(const FileTable& table, std::span<const FileId> files) {
    double bytes = 0.0;
    for (const FileId file : files) bytes += table.files[file].bytes;
    return bytes;
}

}  // namespace

double declared_time(const SchedulerState& scheduler, TaskId task) {
    const Task& row = scheduler.tasks()[task];
    return std::isnan(row.request.time) ? row.length : row.request.time;
}

double declared_work(const SchedulerState& scheduler, TaskId task) {
    const Task& row = scheduler.tasks()[task];
    const double cores =
        row.moldable ? scheduler.tasks().law(task).speedup(row.request.cores) : row.request.cores;
    return declared_time(scheduler, task) * row.speed * cores;
}

double input_bytes(const SchedulerState& scheduler, TaskId task) {
    const FileTable* const table = scheduler.data().files;
    return table == nullptr ? 0.0 : bytes_of(*table, table->read_by(task));
}

double output_bytes(const SchedulerState& scheduler, TaskId task) {
    const FileTable* const table = scheduler.data().files;
    return table == nullptr ? 0.0 : bytes_of(*table, table->written_by(task));
}

std::uint64_t rank_of(const WorkflowTables& tables, TaskId task) {
    return task < tables.ranks.size() ? tables.ranks[task] : task;
}

bool needs_only_cores(const Needs& needs) {
    return needs.memory <= 0 &&
           std::ranges::all_of(needs.amounts, [](double each) { return each <= 0; });
}

bool fits_some_machine(const SchedulerState& scheduler, TaskId task) {
    return fits_some_machine(scheduler, task, scheduler.request(task).cores);
}

bool fits_some_machine(const SchedulerState& scheduler, TaskId task, double cores) {
    const Needs needs = scheduler.needs(task);
    if (needs.nodes > 1) return false;
    for (MachineId m = 0; m < scheduler.machines().size(); ++m)
        // In the far future, after the end of all windows.
        if (scheduler.empty_space().holds(m, cores, needs.memory, needs.amounts) &&
            scheduler.allowed(task, m, never, scheduler.planned_time(task)))
            return true;
    return false;
}

std::vector<TaskId> topological_order(const Tasks& tasks) {
    std::vector<std::uint32_t> missing(tasks.size(), 0);
    for (TaskId task = 0; task < tasks.size(); ++task)
        tasks.each_child(task, [&](TaskId child) { ++missing[child]; });
    std::vector<TaskId> order;
    order.reserve(tasks.size());
    for (TaskId task = 0; task < tasks.size(); ++task)
        if (missing[task] == 0) order.push_back(task);
    for (std::size_t at = 0; at < order.size(); ++at)
        tasks.each_child(order[at], [&](TaskId child) {
            if (--missing[child] == 0) order.push_back(child);
        });
    return order;
}

std::vector<double> bottom_levels(const SchedulerState& scheduler) {
    const Tasks& tasks = scheduler.tasks();
    std::vector<double> levels(tasks.size(), 0.0);
    const std::vector<TaskId> order = topological_order(tasks);
    for (auto at = order.rbegin(); at != order.rend(); ++at) {
        double longest = 0.0;
        tasks.each_child(*at, [&](TaskId child) { longest = std::max(longest, levels[child]); });
        levels[*at] = declared_work(scheduler, *at) + longest;
    }
    return levels;
}

}  // namespace twinloop
