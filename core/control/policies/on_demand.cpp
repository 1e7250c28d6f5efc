// Switches a machine on while tasks wait, and machines without tasks off while none waits.
#include <algorithm>
#include <vector>

#include "control/order_checks.hpp"
#include "control/policies/options.hpp"

namespace twinloop {
namespace {

// The rule of DISSECT-CF: one machine at a time, in their order.
class OneAtATime final : public Controller {
  public:
    [[nodiscard]] std::unique_ptr<Controller> clone() const override {
        return std::make_unique<OneAtATime>(*this);
    }
    [[nodiscard]] bool decides_when_idle() const override { return true; }

    void ended(const SchedulerState& scheduler, TaskId task) override {
        for (const Part& part : scheduler.parts(task))
            for (MachineId m = part.machine; m < part.machine + part.count; ++m) note(m);
    }
    void machine_changed(const SchedulerState&, MachineId machine) override { note(machine); }
    void state_changed(const SchedulerState& scheduler, MachineId machine) override {
        note(machine);
        if (starting_ == machine && !is_starting(scheduler, machine)) starting_ = no_machine;
    }

    void decide(SchedulerState& scheduler) override {
        if (!known_) learn(scheduler);
        if (scheduler.waiting_count() > 0) switch_on(scheduler);
        else switch_off(scheduler);
    }

  private:
    [[nodiscard]] static bool is_starting(const SchedulerState& scheduler, MachineId machine) {
        const MachineStatus status = scheduler.status(machine);
        return scheduler.is_present(machine) && status.state != running_state &&
               scheduler.state_table(machine).target(status) == running_state;
    }
    void note(MachineId machine) {
        if (known_) changed_.push_back(machine);
    }
    void learn(const SchedulerState& scheduler) {
        known_ = true;
        for (MachineId m = 0; m < scheduler.machines().size(); ++m) {
            changed_.push_back(m);
            if (is_starting(scheduler, m)) starting_ = m;
        }
    }
    void switch_on(SchedulerState& scheduler) {
        if (starting_ != no_machine) return;
        for (MachineId m = 0; m < scheduler.machines().size(); ++m) {
            if (scheduler.status(m).state == running_state ||
                find_state_obstacle(scheduler, m, running_state) != nullptr)
                continue;
            scheduler.set_state(m, running_state);
            if (is_starting(scheduler, m)) starting_ = m;
            return;
        }
    }
    void switch_off(SchedulerState& scheduler) {
        // The orders note changes, too.
        for (std::size_t at = 0; at < changed_.size(); ++at) {
            const MachineId m = changed_[at];
            if (scheduler.status(m).state == running_state && scheduler.space().occupants(m) == 0 &&
                find_state_obstacle(scheduler, m, off_state) == nullptr)
                scheduler.set_state(m, off_state);
        }
        changed_.clear();
    }

    bool known_ = false;
    MachineId starting_ = no_machine;
    std::vector<MachineId> changed_;  // that may have become unused
};

}  // namespace

std::unique_ptr<Controller> make_on_demand(const OnDemandOptions& options) {
    if (!options.one_at_a_time) return make_power_saving({});
    return std::make_unique<OneAtATime>();
}

}  // namespace twinloop
