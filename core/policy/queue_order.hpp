// The queue of a batch scheduler: whose turn it is, by any of the orders.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/desk.hpp"
#include "policy/options.hpp"
#include "policy/queue_lane.hpp"
#include "policy/queue_shares.hpp"

namespace twinloop {

// Most orders are fixed when a task arrives: one lane. Fair shares change all the time, but only
// between users: each has a lane, in order of arrival, and the lanes are ranked when asked.
class Queue {
  public:
    // From the first to the last, stopping where the limits allow. One at a time.
    class Walk {
      public:
        // The next task that keeps to the limits; the same again unless it was passed or taken.
        const Waiting* next(const Limits& limits);
        void pass() { ++queue_->places_[chosen_].index; }
        void take();

      private:
        friend class Queue;
        explicit Walk(Queue& queue) : queue_(&queue) { open(); }
        void open();

        Queue* queue_;
        std::size_t first_ = 0;  // of the ranks that are walked together, as their use is equal
        std::size_t last_ = 0;
        std::size_t chosen_ = 0;
    };

    explicit Queue(const BatchOptions& options);

    [[nodiscard]] bool empty() const { return size_ == 0; }
    [[nodiscard]] std::size_t size() const { return size_; }
    [[nodiscard]] bool fair() const { return order_ == Order::fair_share; }

    [[nodiscard]] Waiting entry(const Desk& desk, TaskId task) const;
    void insert(const Waiting& task);
    void erase(const Waiting& task);
    void placed(const Desk& desk, TaskId task);
    void ended(const Desk& desk, TaskId task);

    // Ranks the lanes by what their owners have used up to now; before a walk.
    void rank(double now);
    Walk walk() { return Walk(*this); }

  private:
    struct Ranked {
        double use = 0.0;
        std::uint32_t lane = 0;
    };

    [[nodiscard]] std::size_t owner(const Request& request) const {
        return static_cast<std::size_t>(by_group_ ? request.group : request.user) + 1;
    }

    Order order_;
    bool by_group_;
    double age_;
    Shares shares_;
    std::vector<Lane> lanes_;  // of a single queue, or by owner; the first is for those unknown
    std::vector<std::uint32_t> busy_;  // lanes in which somebody waits, in no order
    std::vector<Ranked> ranked_;
    std::vector<Lane::Place> places_;  // of the walk, by rank among those walked together
    std::size_t size_ = 0;
};

}  // namespace twinloop
