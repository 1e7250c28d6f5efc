// Waiting tasks in the order of arrival, searched by their demands: after a task has ended, the
// first task for which its machines have room is found without a look at all waiting tasks.
#pragma once

#include <cstddef>
#include <vector>

#include "control/policies/host_index.hpp"
#include "control/scheduler_state.hpp"
#include "kernel/shared_rows.hpp"

namespace twinloop {

class FilterQueue {
  public:
    // Places in the queue; the order is that of arrival.
    [[nodiscard]] std::size_t end() const { return tasks_.size(); }
    [[nodiscard]] TaskId task(std::size_t at) const { return tasks_[at]; }

    void clear();
    // Adds a task at the end. Returns the number of empty places before `mark` that were removed
    // for it.
    std::size_t append(TaskId task, const Room& demand, std::size_t mark);
    // Removes the task if it is there.
    void remove(TaskId task);
    // The first place from `from` on whose task demands no more than that, or end().
    [[nodiscard]] std::size_t first(std::size_t from, const Room& room) const;

  private:
    void write(std::size_t at, const Room& demand);
    [[nodiscard]] bool within(std::size_t node, const Room& room) const {
        return room.holds(least_[node]);
    }
    std::size_t sweep(std::size_t mark);

    std::vector<TaskId> tasks_;       // by place; `no_task`: empty
    SharedRows<std::size_t> places_;  // by task
    // A binary tree over the places: the least demands for cores and for memory below each node.
    std::vector<Room> least_;
    std::size_t width_ = 0;
    std::size_t count_ = 0;
};

}  // namespace twinloop
