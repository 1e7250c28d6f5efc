// The limits of queues on the number of running tasks. Tasks beyond the limits are held, and
// released in the order in which they were held.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "control/access.hpp"
#include "kernel/shared_rows.hpp"
#include "work/request.hpp"

namespace twinloop {

class QueueLimits {
  public:
    QueueLimits() = default;
    explicit QueueLimits(const std::vector<QueueRule>& rules);

    // Whether any queue has a limit.
    [[nodiscard]] bool active() const { return active_; }

    // Counts the task if the limits allow it, otherwise holds it and returns false. A waiting task
    // counts as a running one, so that the limits hold for every order of the controller.
    bool admit(TaskId task, const Request& request);
    // Counts a task without a check.
    void add(const Request& request) { count(request, 1); }
    void remove(const Request& request) { count(request, -1); }
    // The place of a held task in the order of all of them.
    [[nodiscard]] std::uint64_t held_since(TaskId task) const {
        return task < held_.size() ? held_[task].since : 0;
    }
    // Removes a held task.
    void withdraw(TaskId task, const Request& request);
    // After a task with this request has left: the next held task that may go, which is counted
    // from now on; `no_task` if there is none. `request_of(task)` returns a request.
    template <class RequestOf>
    TaskId release(const Request& request, RequestOf&& request_of) {
        if (!applies(request)) return no_task;
        const Queue& queue = queues_[static_cast<std::size_t>(request.queue)];
        if (queue.running >= queue.max_running || queue.next.empty()) return no_task;
        const TaskId task = queue.next.begin()->second;
        withdraw(task, request_of(task));
        count(request_of(task), 1);
        return task;
    }

  private:
    struct Held {
        TaskId before = no_task;
        TaskId next = no_task;
        std::uint64_t since = 0;  // counts up with every held task
    };
    // The tasks of one user in a queue.
    struct Line {
        std::uint32_t running = 0;
        TaskId first = no_task;  // of the held tasks, in order
        TaskId last = no_task;
        std::uint64_t offered = 0;  // `since` of its task in `Queue::next`; 0: none
    };
    struct Queue {
        std::uint32_t max_running = ~0U;
        std::uint32_t max_running_per_user = ~0U;
        std::uint32_t running = 0;
        std::vector<Line> lines;  // by user, from -1 on
        // The first held task of each user below the limit per user, by `since`.
        std::map<std::uint64_t, TaskId> next;
    };

    [[nodiscard]] bool applies(const Request& request) const {
        return request.queue >= 0 && static_cast<std::size_t>(request.queue) < queues_.size();
    }
    [[nodiscard]] Line& line(const Request& request);
    void count(const Request& request, std::int32_t by);
    void hold(TaskId task, const Request& request);
    void offer(const Request& request);

    bool active_ = false;
    std::vector<Queue> queues_;
    SharedRows<Held> held_;  // by task
    std::uint64_t next_hold_ = 1;
};

}  // namespace twinloop
