#include "work/task_table.hpp"

#include <algorithm>

namespace twinloop {

TaskId TaskTable::add(const Task& given, std::span<const double> amounts,
                      std::span<const Fragment> fragments, std::span<const TaskId> children) {
    const auto id = static_cast<TaskId>(rows_.size());
    Task& task = rows_.emplace_back(given);
    task.first_fragment = static_cast<std::uint32_t>(fragments_.size());
    task.fragments = static_cast<std::uint32_t>(fragments.size());
    task.first_child = static_cast<std::uint32_t>(children_.size());
    task.children = static_cast<std::uint32_t>(children.size());
    if (fragments.empty()) {
        task.length = task.work > 0 ? task.work / task.limit : 0.0;
    } else {
        task.length = 0.0;
        for (const Fragment& each : fragments) task.length += each.duration;
    }
    amounts_.insert(amounts_.end(), amounts.begin(), amounts.end());
    fragments_.insert(fragments_.end(), fragments.begin(), fragments.end());
    children_.insert(children_.end(), children.begin(), children.end());
    const Request& request = task.request;
    extent_.memory = extent_.memory || request.memory > 0;
    extent_.amounts =
        extent_.amounts || std::ranges::any_of(amounts, [](double each) { return each > 0; });
    extent_.nodes = extent_.nodes || request.nodes > 0;
    extent_.nodes_beyond_one =
        extent_.nodes_beyond_one || (request.nodes > 0 && !is_node_per_core(request));
    extent_.parents = extent_.parents || task.parents > 0;
    extent_.mhz = std::max(extent_.mhz, request.mhz);
    return id;
}

}  // namespace twinloop
