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
    const double cores = row.moldable ? scheduler.tasks().law(task).speedup(row.request.cores)
                                      : row.request.cores;
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
