// The queue of a batch scheduler, in any of the orders.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "control/policies/options.hpp"
#include "control/policies/queue_lane.hpp"
#include "control/policies/queue_shares.hpp"
#include "control/scheduler_state.hpp"

namespace twinloop {

// Most orders are fixed when a task arrives: one lane. Fair shares change all the time, but only
// between owners (users or groups): each has a lane, in order of arrival, and the lanes are ranked
// before a decision.
class Queue {
  public:
    // Goes from the first to the last task and stops at tasks within limits. One at a time.
    class Cursor {
      public:
        // The next task; the same again unless it was passed or taken.
        const Waiting* next();
        // The next task that `accept` accepts, which are only tasks that the limits admit.
        template <class Accept>
        const Waiting* next(const Limits& limits, Accept&& accept) {
            return first(
                [&](Lane& lane, Lane::Place& place) { return lane.seek(place, limits, accept); });
        }
        // The next task with at most so many cores.
        const Waiting* next_within(double cores);
        void pass() { ++queue_->places_[chosen_].index; }
        void take();

      private:
        friend class Queue;
        explicit Cursor(Queue& queue) : queue_(&queue) { open(); }
        void open();
        // The first task in order that `seek` finds in a lane from a place on.
        template <class Seek>
        const Waiting* first(Seek&& seek);

        Queue* queue_;
        std::size_t first_ = 0;  // of the ranks with equal usage, whose tasks are in one order
        std::size_t last_ = 0;
        std::size_t chosen_ = 0;
    };

    explicit Queue(const BatchOptions& options);

    [[nodiscard]] bool empty() const { return size_ == 0; }
    [[nodiscard]] std::size_t size() const { return size_; }
    [[nodiscard]] bool fair() const { return order_ == QueueOrder::fair_share; }

    [[nodiscard]] std::vector<double> memory() const { return shares_.memory(); }
    void restore_memory(std::span<const double> numbers) { shares_.restore_memory(numbers); }

    [[nodiscard]] Waiting entry(const SchedulerState& scheduler, TaskId task) const;
    void insert(const Waiting& task);
    void erase(const Waiting& task);
    void placed(const SchedulerState& scheduler, TaskId task);
    void ended(const SchedulerState& scheduler, TaskId task);

    // Whether the task is among the first tasks, some dozens; not for fair shares.
    [[nodiscard]] bool is_among_first(const Waiting& task) const {
        return lanes_.front().find(task).block == 0;
    }

    // Ranks the lanes by the usage of their owners up to now; before a cursor is made.
    void rank(double now);
    Cursor cursor() { return Cursor(*this); }

  private:
    struct Ranked {
        double use = 0.0;
        std::uint32_t lane = 0;
    };

    [[nodiscard]] std::size_t owner(const Request& request) const {
        return static_cast<std::size_t>(by_group_ ? request.group : request.user) + 1;
    }

    QueueOrder order_;
    bool by_group_;
    double age_;
    UsageShares shares_;
    std::vector<Lane> lanes_;          // one, or by owner; the first is for unknown owners
    std::vector<std::uint32_t> busy_;  // lanes with waiting tasks, in no order
    std::vector<Ranked> ranked_;
    std::vector<Lane::Place> places_;  // of the cursor, by rank among the ranks of equal usage
    std::size_t size_ = 0;
};

template <class Seek>
const Waiting* Queue::Cursor::first(Seek&& seek) {
    for (; first_ < last_; open()) {
        const Waiting* best = nullptr;
        for (std::size_t at = 0; at < last_ - first_; ++at) {
            const Waiting* const task =
                seek(queue_->lanes_[queue_->ranked_[first_ + at].lane], queue_->places_[at]);
            if (task == nullptr || (best != nullptr && best->arrival < task->arrival)) continue;
            best = task;
            chosen_ = at;
        }
        if (best != nullptr) return best;
    }
    return nullptr;
}

}  // namespace twinloop
