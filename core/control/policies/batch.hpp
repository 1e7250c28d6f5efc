// The common part of the batch schedulers: the queue, and the running tasks by their planned ends.
#pragma once

#include <memory>
#include <vector>

#include "control/policies/batch_room.hpp"
#include "control/policies/options.hpp"
#include "control/policies/queue_blocks.hpp"
#include "control/policies/queue_order.hpp"
#include "control/scheduler_state.hpp"

namespace twinloop {

class Batch : public Controller {
  public:
    void submitted(const SchedulerState& scheduler, TaskId task) override;
    void withdrawn(const SchedulerState& scheduler, TaskId task) override;
    void placed(const SchedulerState& scheduler, TaskId task) override;
    void ended(const SchedulerState& scheduler, TaskId task) override;
    void machine_changed(const SchedulerState& scheduler, MachineId machine) override;
    void decide(SchedulerState& scheduler) final;
    // Where shares are fair, the usage of their owners.
    [[nodiscard]] std::vector<double> memory() const override { return queue_.memory(); }
    void restore_memory(const SchedulerState&, std::span<const double> numbers) override {
        queue_.restore_memory(numbers);
    }

  protected:
    explicit Batch(const BatchOptions& options) : options_(options), queue_(options) {}

    virtual void decide_pool(SchedulerState& scheduler) = 0;
    virtual void decide_space(SchedulerState& scheduler) = 0;
    // Results of earlier decisions do not hold any more.
    virtual void invalidate() {}

    // Starts the task now, on any machines with room.
    template <class Room>
    bool start(SchedulerState& scheduler, const Waiting& task) {
        if constexpr (std::is_same_v<Room, PoolRoom>) {
            return PoolRoom::place(scheduler, task, {}, parts_);
        } else {
            if (!scheduler.find(task.task, scheduler.space(), scheduler.now(), parts_))
                return false;
            scheduler.place(task.task, parts_);
            return true;
        }
    }

    // Starts the first task as long as it fits or tasks can be preempted for it. Returns the first
    // task that must wait, or nullptr.
    template <class Room>
    const Waiting* start_in_order(SchedulerState& scheduler, Queue::Cursor& cursor);

    // Preempts tasks of lower priority so that the task fits; false if that is not possible.
    template <class Room>
    bool make_room(SchedulerState& scheduler, const Waiting& task);

    void enqueue_fresh();

    BatchOptions options_;
    Queue queue_;
    std::vector<Waiting> fresh_;      // submitted since the last decision, not in the queue yet
    SortedBlocks<Release> releases_;  // of the running tasks, by planned end
    std::vector<Part> parts_;

  private:
    [[nodiscard]] Release release(const SchedulerState& scheduler, TaskId task) const;

    bool closed_ = false;  // some machine is closed
    bool deciding_ = false;
    bool pooled_ = true;
};

// The first task that does not fit blocks all tasks behind it.
std::unique_ptr<Controller> make_strict(const BatchOptions& options);
// One reservation, for the first task that does not fit: tasks may pass if they do not delay it.
std::unique_ptr<Controller> make_easy(const BatchOptions& options);
// A reservation for every task: tasks may pass if they delay no task before them.
std::unique_ptr<Controller> make_conservative(const BatchOptions& options);

}  // namespace twinloop
