// Switches off machines that have been idle for some time, and on those that waiting tasks need.
#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "control/order_checks.hpp"
#include "control/policies/options.hpp"

namespace twinloop {

namespace {

class PowerSaving final : public Controller {
  public:
    explicit PowerSaving(const PowerSavingOptions& options) : options_(options) {}

    [[nodiscard]] std::unique_ptr<Controller> clone() const override {
        return std::make_unique<PowerSaving>(*this);
    }
    [[nodiscard]] bool decides_when_idle() const override { return true; }

    void placed(const SchedulerState& scheduler, TaskId task) override {
        for_each_machine(scheduler, task, [&](MachineId m) { set_busy(m); });
    }
    void ended(const SchedulerState& scheduler, TaskId task) override {
        for_each_machine(scheduler, task, [&](MachineId m) { update(scheduler, m); });
    }
    void machine_changed(const SchedulerState& scheduler, MachineId machine) override {
        set_busy(machine);
        update(scheduler, machine);
    }

    void decide(SchedulerState& scheduler) override {
        if (!known_) learn(scheduler);
        std::vector<std::uint8_t> needed;
        if (scheduler.waiting_count() > 0) needed = plan(scheduler);
        switch_off(scheduler, needed);
        wake_for_next(scheduler);
    }

  private:
    template <class Each>
    void for_each_machine(const SchedulerState& scheduler, TaskId task, Each&& each) const {
        if (!known_) return;
        for (const Part& part : scheduler.parts(task))
            for (MachineId m = part.machine; m < part.machine + part.count; ++m) each(m);
    }
    void learn(const SchedulerState& scheduler) {
        known_ = true;
        for (MachineId m = 0; m < scheduler.machines().size(); ++m) update(scheduler, m);
    }
    void set_busy(MachineId machine) {
        if (machine >= since_.size() || since_[machine] == never) return;
        idle_.erase({since_[machine], machine});
        since_[machine] = never;
    }
    // A machine that is open and has no task has been idle from now on, or for longer.
    void update(const SchedulerState& scheduler, MachineId machine) {
        if (!known_) return;
        if (machine >= since_.size()) since_.resize(machine + std::size_t{1}, never);
        const Space& space = scheduler.space();
        if (!space.open(machine) || space.instances(machine) > 0 || since_[machine] < never) return;
        since_[machine] = scheduler.now();
        idle_.insert({since_[machine], machine});
    }

    // Switches on the machines that waiting tasks need beside those that run, or will run soon.
    // Returns which machines the tasks need.
    std::vector<std::uint8_t> plan(SchedulerState& scheduler) {
        const std::size_t count = scheduler.machines().size();
        std::vector<std::uint8_t> needed(count, 0);
        Space ready = scheduler.space();  // running, or on the way there
        Space all = ready;                // and those that can be switched on
        std::vector<std::uint8_t> off(count, 0);
        std::size_t left = 0;
        for (MachineId m = 0; m < count; ++m) {
            if (ready.open(m) || !scheduler.is_present(m)) continue;
            const MachineStatus status = scheduler.status(m);
            if (scheduler.state_table(m).target(status) == running_state) {
                ready.set_open(m, true);
                all.set_open(m, true);
            } else if (find_state_obstacle(scheduler, m, running_state) == nullptr) {
                all.set_open(m, true);
                off[m] = 1;
                ++left;
            }
        }
        const bool any_idle = !idle_.empty();
        for (TaskId task = scheduler.first_waiting(); task != no_task && (left > 0 || any_idle);
             task = scheduler.next_waiting(task)) {
            if (!scheduler.find(task, ready, scheduler.now(), parts_) &&
                !(left > 0 && scheduler.find(task, all, scheduler.now(), parts_)))
                continue;
            for (const Part& part : parts_)
                for (MachineId m = part.machine; m < part.machine + part.count; ++m) {
                    needed[m] = 1;
                    if (off[m] == 0) continue;
                    off[m] = 0;
                    --left;
                    ready.set_open(m, true);
                    scheduler.set_state(m, running_state);
                }
            ready.take(scheduler.needs(task), parts_);
            all.take(scheduler.needs(task), parts_);
        }
        return needed;
    }

    // Machines that must stay on remain in the set: they are considered again at every decision.
    void switch_off(SchedulerState& scheduler, const std::vector<std::uint8_t>& needed) {
        if (idle_.empty() || !is_due(scheduler, idle_.begin()->first)) return;
        std::size_t on = count_on(scheduler);
        due_.clear();
        for (const auto& [since, machine] : idle_) {
            if (!is_due(scheduler, since)) break;
            due_.push_back(machine);
        }
        for (const MachineId m : due_) {
            if (on <= options_.keep) return;
            if ((!needed.empty() && needed[m] != 0) ||
                find_state_obstacle(scheduler, m, off_state) != nullptr)
                continue;
            scheduler.set_state(m, off_state);
            --on;
        }
    }
    [[nodiscard]] bool is_due(const SchedulerState& scheduler, double since) const {
        return since + options_.idle_time <= scheduler.now();
    }
    [[nodiscard]] static std::size_t count_on(const SchedulerState& scheduler) {
        std::size_t on = 0;
        for (MachineId m = 0; m < scheduler.machines().size(); ++m)
            on += static_cast<std::size_t>(scheduler.is_present(m) &&
                                           scheduler.state_table(m).target(scheduler.status(m)) ==
                                               running_state);
        return on;
    }
    void wake_for_next(SchedulerState& scheduler) const {
        auto next = idle_.lower_bound({scheduler.now() - options_.idle_time, 0});
        while (next != idle_.end() && is_due(scheduler, next->first)) ++next;
        if (next == idle_.end() || (options_.keep > 0 && count_on(scheduler) <= options_.keep))
            return;
        scheduler.wake(next->first + options_.idle_time);
    }

    PowerSavingOptions options_;
    bool known_ = false;
    std::vector<double> since_;  // by machine: when it became idle; infinite: it is not idle
    std::set<std::pair<double, MachineId>> idle_;
    std::vector<Part> parts_;
    std::vector<MachineId> due_;
};

}  // namespace

std::unique_ptr<Controller> make_power_saving(const PowerSavingOptions& options) {
    return std::make_unique<PowerSaving>(options);
}

}  // namespace twinloop
