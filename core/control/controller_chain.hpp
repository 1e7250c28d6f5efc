// Several controllers as one: each is notified and called in a fixed order, with wake times of its
// own.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "control/scheduler_state.hpp"

namespace twinloop {

class ControllerChain final : public Controller {
  public:
    // The first one is the scheduling policy: it decides which tasks are possible, and whether they
    // are spread over machines.
    explicit ControllerChain(std::vector<std::unique_ptr<Controller>> controllers);

    [[nodiscard]] std::unique_ptr<Controller> clone() const override;
    [[nodiscard]] std::span<const std::unique_ptr<Controller>> controllers() const {
        return controllers_;
    }

    void submitted(const SchedulerState& scheduler, TaskId task) override;
    void withdrawn(const SchedulerState& scheduler, TaskId task) override;
    void placed(const SchedulerState& scheduler, TaskId task) override;
    void ended(const SchedulerState& scheduler, TaskId task) override;
    void machine_changed(const SchedulerState& scheduler, MachineId machine) override;
    void state_changed(const SchedulerState& scheduler, MachineId machine) override;
    void rental_changed(const SchedulerState& scheduler, MachineId instance,
                        RentalEvent event) override;
    void start_failed(const SchedulerState& scheduler, TaskId task, std::span<const Part> parts,
                      const char* why) override;
    void refused(const SchedulerState& scheduler, const Order& order, std::span<const Part> parts,
                 const char* why) override;

    void decide(SchedulerState& scheduler) override;
    // For each controller: when it is called next, how much it remembers, and this.
    [[nodiscard]] std::vector<double> memory() const override;
    void restore_memory(const SchedulerState& scheduler, std::span<const double> numbers) override;

    [[nodiscard]] bool possible(const SchedulerState& scheduler, TaskId task) const override {
        return controllers_.front()->possible(scheduler, task);
    }
    [[nodiscard]] std::size_t count_places(const SchedulerState& scheduler, const Space& space,
                                           TaskId task, std::size_t most) const override {
        return controllers_.front()->count_places(scheduler, space, task, most);
    }
    [[nodiscard]] bool spreads() const override { return controllers_.front()->spreads(); }
    [[nodiscard]] bool overcommits() const override;
    [[nodiscard]] Overcommit overcommit() const override {
        return controllers_[acting_]->overcommit();
    }
    [[nodiscard]] bool decides_when_idle() const override;
    [[nodiscard]] bool continues() const override;
    [[nodiscard]] bool bids() const override { return controllers_.front()->bids(); }
    [[nodiscard]] bool foreign() const override;
    [[nodiscard]] std::size_t acting() const override { return acting_; }
    [[nodiscard]] std::size_t count() const override { return controllers_.size(); }

  private:
    std::vector<std::unique_ptr<Controller>> controllers_;
    std::vector<double> wakes_;
    std::size_t acting_ = 0;
};

}  // namespace twinloop
