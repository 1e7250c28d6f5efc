#include "control/policies/filter_queue.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace twinloop {

namespace {

constexpr Room nothing_fits{never, never};
constexpr std::size_t nowhere = ~std::size_t{0};

}  // namespace

void FilterQueue::clear() {
    for (const TaskId task : tasks_)
        if (task != no_task) places_.edit(task) = nowhere;
    tasks_.clear();
    std::ranges::fill(least_, nothing_fits);
    count_ = 0;
}

std::size_t FilterQueue::append(TaskId task, const Room& demand, std::size_t mark) {
    const std::size_t given_up = tasks_.size() == width_ ? sweep(mark) : 0;
    if (task >= places_.size()) places_.resize(std::max<std::size_t>(task + 1, 64), nowhere);
    places_.edit(task) = tasks_.size();
    tasks_.push_back(task);
    write(places_[task], demand);
    ++count_;
    return given_up;
}

void FilterQueue::remove(TaskId task) {
    if (task >= places_.size() || places_[task] == nowhere) return;
    const std::size_t at = std::exchange(places_.edit(task), nowhere);
    tasks_[at] = no_task;
    write(at, nothing_fits);
    --count_;
}

void FilterQueue::write(std::size_t at, const Room& demand) {
    std::size_t node = width_ + at;
    least_[node] = demand;
    while (node > 1) {
        node /= 2;
        const Room& left = least_[2 * node];
        const Room& right = least_[2 * node + 1];
        const Room least{std::min(left.cores, right.cores), std::min(left.memory, right.memory)};
        if (least_[node] == least) return;
        least_[node] = least;
    }
}

std::size_t FilterQueue::first(std::size_t from, const Room& room) const {
    if (from >= tasks_.size()) return end();
    // An empty place demands an infinite amount; no room is that large.
    const double largest = std::numeric_limits<double>::max();
    const Room finite{std::min(room.cores, largest), std::min(room.memory, largest)};
    std::size_t node = width_ + from;
    while (true) {
        if (within(node, finite)) {
            if (node >= width_) return node - width_;
            node *= 2;
            continue;
        }
        // To the next subtree on the right, if there is one.
        while (node % 2 == 1) node /= 2;
        if (node == 0) return end();
        ++node;
    }
}

// Removes the empty places and makes room for as many tasks again. Returns how many empty places
// were before `mark`.
std::size_t FilterQueue::sweep(std::size_t mark) {
    const std::size_t width = std::bit_ceil(std::max<std::size_t>(64, 2 * count_));
    std::vector<Room> least(2 * width, nothing_fits);
    std::vector<TaskId> tasks;
    tasks.reserve(width);
    std::size_t kept = 0;
    for (std::size_t at = 0; at < tasks_.size(); ++at) {
        const TaskId task = tasks_[at];
        if (task == no_task) continue;
        if (at < mark) ++kept;
        places_.edit(task) = tasks.size();
        least[width + tasks.size()] = least_[width_ + at];
        tasks.push_back(task);
    }
    const std::size_t given_up = std::min(mark, tasks_.size()) - kept;
    for (std::size_t node = width; node-- > 1;)
        least[node] = {std::min(least[2 * node].cores, least[2 * node + 1].cores),
                       std::min(least[2 * node].memory, least[2 * node + 1].memory)};
    tasks_ = std::move(tasks);
    least_ = std::move(least);
    width_ = width;
    return given_up;
}

}  // namespace twinloop
