// What all batch schedulers share: the queue, and the running tasks by their planned ends.
#pragma once

#include <memory>
#include <vector>

#include "model/desk.hpp"
#include "policy/batch_room.hpp"
#include "policy/options.hpp"
#include "policy/queue_blocks.hpp"
#include "policy/queue_order.hpp"

namespace twinloop {

class Batch : public Policy {
  public:
    void submitted(const Desk& desk, TaskId task) override;
    void withdrawn(const Desk& desk, TaskId task) override;
    void placed(const Desk& desk, TaskId task) override;
    void ended(const Desk& desk, TaskId task) override;
    void machines_changed(const Desk& desk) override;
    void decide(Desk& desk) final;

  protected:
    explicit Batch(const BatchOptions& options) : options_(options), queue_(options) {}

    virtual void decide_pool(Desk& desk) = 0;
    virtual void decide_space(Desk& desk) = 0;
    // What was worked out before does not hold any more.
    virtual void upset() {}

    // Starts the task now, wherever there is room.
    template <class Room>
    bool start(Desk& desk, const Waiting& task) {
        if constexpr (std::is_same_v<Room, PoolRoom>) {
            return PoolRoom::place(desk, task, {}, parts_);
        } else {
            if (!desk.find(task.task, desk.space(), desk.now(), parts_)) return false;
            desk.place(task.task, parts_);
            return true;
        }
    }

    // Starts what is first, as long as it fits or others make room for it; what remains first, and
    // must wait, or nullptr.
    template <class Room>
    const Waiting* start_in_order(Desk& desk, Queue::Walk& walk);

    // Whether tasks of less priority were taken off their machines so that this one fits.
    template <class Room>
    bool make_room(Desk& desk, const Waiting& task);

    // Those that are new go where they belong.
    void absorb();

    BatchOptions options_;
    Queue queue_;
    std::vector<Waiting> fresh_;      // submitted since the last decision, not in the queue yet
    SortedBlocks<Release> releases_;  // of all that run, by planned end
    std::vector<Part> parts_;

  private:
    [[nodiscard]] Release release(const Desk& desk, TaskId task) const;

    bool closed_ = false;  // some machine is
    bool deciding_ = false;
    bool pooled_ = true;
};

// The first that does not fit holds up all behind it.
std::unique_ptr<Policy> make_strict(const BatchOptions& options);
// One reservation, for the first that does not fit: others may pass if they do not delay it.
std::unique_ptr<Policy> make_easy(const BatchOptions& options);
// Everybody has a reservation: others may pass if they do not delay anybody.
std::unique_ptr<Policy> make_conservative(const BatchOptions& options);

}  // namespace twinloop
