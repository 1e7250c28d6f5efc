#include "work/task_table.hpp"

#include <algorithm>
#include <utility>

namespace twinloop {
namespace {

double constant_length(const Task& task) { return task.work > 0 ? task.work / task.limit : 0.0; }

// Texts that are stored one after the other, with their ends.
void append(std::string_view text, SharedRows<char>& letters, SharedRows<std::size_t>& ends) {
    for (const char each : text) letters.push_back(each);
    ends.push_back(letters.size());
}

std::string text_at(std::size_t row, const SharedRows<char>& letters,
                    const SharedRows<std::size_t>& ends) {
    std::string text;
    const std::size_t first = row == 0 ? 0 : ends[row - 1];
    text.reserve(ends[row] - first);
    for (std::size_t at = first; at < ends[row]; ++at) text.push_back(letters[at]);
    return text;
}

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

void TaskTable::set_law(TaskId task, SpeedupLaw law) {
    law_of_.resize(rows_.size(), 0);
    law_of_[task] = static_cast<std::uint32_t>(laws_.size());
    laws_.push_back(std::move(law));
    rows_[task].moldable = true;
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

void AddedChildren::add(TaskId parent, TaskId child) {
    const auto edge = static_cast<std::uint32_t>(edges_.size());
    edges_.push_back({parent, child, none});
    ends_.resize(std::max<std::size_t>(ends_.size(), std::size_t{parent} + 1));
    Ends& mine = ends_.edit(parent);
    if (mine.first == none) mine.first = edge;
    else edges_.edit(mine.last).next = edge;
    mine.last = edge;
}

void AddedTasks::add(const Task& given, std::span<const double> amounts, std::string_view name,
                     std::string_view command) {
    Task task = given;
    task.fragments = task.children = 0;
    task.length = constant_length(task);
    rows_.push_back(task);
    if (resources_ > 0) {
        amounts_.resize(place_of_amounts(rows_.size() - 1));
        for (const double each : amounts) amounts_.push_back(each);
    }
    append(name, letters_, name_ends_);
    if (!command.empty()) {
        command_ends_.resize(rows_.size() - 1, commands_.size());
        append(command, commands_, command_ends_);
    }
    extent_.include(task, amounts);
}

std::string AddedTasks::name(std::size_t row) const { return text_at(row, letters_, name_ends_); }

std::string AddedTasks::command(std::size_t row) const {
    return row < command_ends_.size() ? text_at(row, commands_, command_ends_) : std::string();
}

std::size_t AddedTasks::find(const std::string& name) const {
    for (std::size_t row = index_.rows.size(); row < size(); ++row)
        index_.rows.emplace(this->name(row), row);
    const auto found = index_.rows.find(name);
    return found == index_.rows.end() ? size() : found->second;
}

}  // namespace twinloop
