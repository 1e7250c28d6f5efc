#include "control/queue_limits.hpp"

namespace twinloop {

QueueLimits::QueueLimits(const std::vector<QueueRule>& rules) {
    for (const QueueRule& rule : rules) {
        queues_.push_back({rule.max_running, rule.max_running_per_user, 0, {}, {}});
        if (rule.max_running != ~0U || rule.max_running_per_user != ~0U) active_ = true;
    }
}

QueueLimits::Line& QueueLimits::line(const Request& request) {
    auto& lines = queues_[static_cast<std::size_t>(request.queue)].lines;
    const auto user = static_cast<std::uint32_t>(request.user + 1);
    if (user >= lines.size()) lines.resize(user + 1);
    return lines[user];
}

bool QueueLimits::admit(TaskId task, const Request& request) {
    if (!applies(request)) return true;
    const Queue& queue = queues_[static_cast<std::size_t>(request.queue)];
    if (queue.running < queue.max_running && line(request).running < queue.max_running_per_user) {
        count(request, 1);
        return true;
    }
    hold(task, request);
    return false;
}

void QueueLimits::count(const Request& request, std::int32_t by) {
    if (!applies(request)) return;
    queues_[static_cast<std::size_t>(request.queue)].running += static_cast<std::uint32_t>(by);
    line(request).running += static_cast<std::uint32_t>(by);
    offer(request);
}

// Updates the entry of this user among the tasks that may go next.
void QueueLimits::offer(const Request& request) {
    Queue& queue = queues_[static_cast<std::size_t>(request.queue)];
    Line& mine = line(request);
    const bool may = mine.first != no_task && mine.running < queue.max_running_per_user;
    const std::uint64_t since = may ? held_[mine.first].since : 0;
    if (since == mine.offered) return;
    if (mine.offered != 0) queue.next.erase(mine.offered);
    if (since != 0) queue.next.emplace(since, mine.first);
    mine.offered = since;
}

void QueueLimits::hold(TaskId task, const Request& request) {
    if (task >= held_.size()) held_.resize(task + 1);
    Line& mine = line(request);
    held_.edit(task) = {mine.last, no_task, next_hold_++};
    (mine.last == no_task ? mine.first : held_.edit(mine.last).next) = task;
    mine.last = task;
    offer(request);
}

void QueueLimits::withdraw(TaskId task, const Request& request) {
    Line& mine = line(request);
    const Held link = held_[task];
    (link.before == no_task ? mine.first : held_.edit(link.before).next) = link.next;
    (link.next == no_task ? mine.last : held_.edit(link.next).before) = link.before;
    offer(request);
}

}  // namespace twinloop
