#include "work/task_table.hpp"

#include <algorithm>

namespace twinloop {
namespace {

double constant_length(const Task& task) { return task.work > 0 ? task.work / task.limit : 0.0; }

}  // namespace

TaskId TaskTable::add(const Task& given, std::span<const double> amounts,
                      std::span<const Fragment> fragments, std::span<const TaskId> children) {
    const auto id = static_cast<TaskId>(rows_.size());
    Task& task = rows_.emplace_back(given);
    task.first_fragment = static_cast<std::uint32_t>(fragments_.size());
    task.fragments = static_cast<std::uint32_t>(fragments.size());
    task.first_child = static_cast<std::uint32_t>(children_.size());
    task.children = static_cast<std::uint32_t>(children.size());
    if (fragments.empty()) {
        task.length = constant_length(task);
    } else {
        task.length = 0.0;
        for (const Fragment& each : fragments) task.length += each.duration;
    }
    amounts_.insert(amounts_.end(), amounts.begin(), amounts.end());
    fragments_.insert(fragments_.end(), fragments.begin(), fragments.end());
    children_.insert(children_.end(), children.begin(), children.end());
    extent_.include(task, amounts);
    return id;
}

void TaskTable::Extent::include(const Task& task, std::span<const double> given) {
    const Request& request = task.request;
    memory = memory || request.memory > 0;
    amounts = amounts || std::ranges::any_of(given, [](double each) { return each > 0; });
    nodes = nodes || request.nodes > 0;
    nodes_beyond_one = nodes_beyond_one || (request.nodes > 0 && !is_node_per_core(request));
    parents = parents || task.parents > 0;
    mhz = std::max(mhz, request.mhz);
}

void AddedTasks::add(const Task& given, std::span<const double> amounts, std::string_view name) {
    Task task = given;
    task.fragments = task.children = 0;
    task.length = constant_length(task);
    rows_.push_back(task);
    if (resources_ > 0) {
        amounts_.resize(place_of_amounts(rows_.size() - 1));
        for (const double each : amounts) amounts_.push_back(each);
    }
    for (const char each : name) letters_.push_back(each);
    name_ends_.push_back(letters_.size());
    extent_.include(task, amounts);
}

std::string AddedTasks::name(std::size_t row) const {
    std::string name;
    const std::size_t first = row == 0 ? 0 : name_ends_[row - 1];
    name.reserve(name_ends_[row] - first);
    for (std::size_t at = first; at < name_ends_[row]; ++at) name.push_back(letters_[at]);
    return name;
}

}  // namespace twinloop
