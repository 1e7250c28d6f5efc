// Batch scheduling without backfilling: no task passes another.
#include "control/policies/batch.hpp"

namespace twinloop {

namespace {

// In order of arrival, the waiting tasks of the scheduler state are the queue.
class Fcfs final : public Controller {
  public:
    [[nodiscard]] std::unique_ptr<Controller> clone() const override {
        return std::make_unique<Fcfs>(*this);
    }

    void decide(SchedulerState& scheduler) override {
        const bool pooled = scheduler.pooled();
        for (TaskId task = scheduler.first_waiting(); task != no_task;
             task = scheduler.first_waiting()) {
            if (pooled && scheduler.request(task).cores > scheduler.free_cores() + slack) return;
            if (!scheduler.find(task, scheduler.space(), scheduler.now(), parts_)) break;
            scheduler.place(task, parts_);
        }
        if (scheduler.waiting_count() > 0 && !scheduler.unrestricted() &&
            !scheduler.window_ends().empty())
            scheduler.wake(scheduler.window_ends().front());
    }

  private:
    std::vector<Part> parts_;
};

class Strict final : public Batch {
  public:
    explicit Strict(const BatchOptions& options) : Batch(options) {}
    [[nodiscard]] std::unique_ptr<Controller> clone() const override {
        return std::make_unique<Strict>(*this);
    }

  private:
    void decide_pool(SchedulerState& scheduler) override { decide_in<PoolRoom>(scheduler); }
    void decide_space(SchedulerState& scheduler) override { decide_in<SpaceRoom>(scheduler); }

    template <class Room>
    void decide_in(SchedulerState& scheduler) {
        enqueue_fresh();
        queue_.rank(scheduler.now());
        Queue::Cursor cursor = queue_.cursor();
        start_in_order<Room>(scheduler, cursor);
    }
};

}  // namespace

std::unique_ptr<Controller> make_strict(const BatchOptions& options) {
    if (options.order == QueueOrder::arrival) return std::make_unique<Fcfs>();
    return std::make_unique<Strict>(options);
}

}  // namespace twinloop
