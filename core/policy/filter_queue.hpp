// Those that wait, in their order, found by what they ask for: after a task has ended, the first
// one that its machines have room for is found without looking at all who wait.
#pragma once

#include <cstddef>
#include <vector>

#include "model/desk.hpp"
#include "policy/host_index.hpp"

namespace twinloop {

class FilterQueue {
  public:
    // Places in the queue; the order is that of arrival.
    [[nodiscard]] std::size_t end() const { return tasks_.size(); }
    [[nodiscard]] TaskId task(std::size_t at) const { return tasks_[at]; }

    void clear();
    // Behind all others. Returns how many places before `mark` were given up for it, being empty.
    std::size_t append(TaskId task, const Room& asked, std::size_t mark);
    // Nothing if it is not there.
    void remove(TaskId task);
    // The first place from `from` on whose task asks for no more than that, or end().
    [[nodiscard]] std::size_t first(std::size_t from, const Room& room) const;

  private:
    void write(std::size_t at, const Room& asked);
    [[nodiscard]] bool within(std::size_t node, const Room& room) const {
        return room.holds(least_[node]);
    }
    std::size_t sweep(std::size_t mark);

    std::vector<TaskId> tasks_;        // by place; no_task where one has left
    std::vector<std::size_t> places_;  // by task
    // A binary tree over the places: the least cores and the least memory asked for below.
    std::vector<Room> least_;
    std::size_t width_ = 0;
    std::size_t count_ = 0;
};

}  // namespace twinloop
