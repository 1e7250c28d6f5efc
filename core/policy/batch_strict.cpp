// Tasks in order, and no passing.
#include "policy/batch.hpp"

namespace twinloop {

namespace {

// In order of arrival the desk has the queue already.
class Fcfs final : public Policy {
  public:
    [[nodiscard]] std::unique_ptr<Policy> clone() const override {
        return std::make_unique<Fcfs>(*this);
    }

    void decide(Desk& desk) override {
        const bool pooled = desk.pooled();
        for (TaskId task = desk.first_waiting(); task != no_task; task = desk.first_waiting()) {
            if (pooled && desk.request(task).cores > desk.free_cores() + slack) return;
            if (!desk.find(task, desk.space(), desk.now(), parts_)) break;
            desk.place(task, parts_);
        }
        if (desk.waiting_count() > 0 && !desk.unrestricted() && !desk.window_ends().empty())
            desk.wake(desk.window_ends().front());
    }

  private:
    std::vector<Part> parts_;
};

class Strict final : public Batch {
  public:
    explicit Strict(const BatchOptions& options) : Batch(options) {}
    [[nodiscard]] std::unique_ptr<Policy> clone() const override {
        return std::make_unique<Strict>(*this);
    }

  private:
    void decide_pool(Desk& desk) override { decide_in<PoolRoom>(desk); }
    void decide_space(Desk& desk) override { decide_in<SpaceRoom>(desk); }

    template <class Room>
    void decide_in(Desk& desk) {
        absorb();
        queue_.rank(desk.now());
        Queue::Walk walk = queue_.walk();
        start_in_order<Room>(desk, walk);
    }
};

}  // namespace

std::unique_ptr<Policy> make_strict(const BatchOptions& options) {
    if (options.order == Order::arrival) return std::make_unique<Fcfs>();
    return std::make_unique<Strict>(options);
}

}  // namespace twinloop
