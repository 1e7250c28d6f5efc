// Switches off machines that have been idle for some time, and on those that waiting tasks need.
#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "control/order_checks.hpp"
#include "control/policies/options.hpp"

namespace twinloop {

namespace {

// Follows the changes of machines, so that a decision costs what has changed, and the tasks for
// which it plans, not the number of machines.
class PowerSaving final : public Controller {
  public:
    explicit PowerSaving(const PowerSavingOptions& options) : options_(options) {}

    [[nodiscard]] std::unique_ptr<Controller> clone() const override {
        return std::make_unique<PowerSaving>(*this);
    }
    [[nodiscard]] bool decides_when_idle() const override { return true; }

    void placed(const SchedulerState& scheduler, TaskId task) override {
        for_each_machine(scheduler, task, [&](MachineId m) {
            set_busy(m);
            copy_capacity(scheduler, m);
        });
    }
    void ended(const SchedulerState& scheduler, TaskId task) override {
        for_each_machine(scheduler, task, [&](MachineId m) {
            update(scheduler, m);
            copy_capacity(scheduler, m);
        });
    }
    void machine_changed(const SchedulerState& scheduler, MachineId machine) override {
        set_busy(machine);
        update(scheduler, machine);
        if (!known_) return;
        if (machine >= machines_.size()) {
            learn_spaces(scheduler);
        } else {
            copy_capacity(scheduler, machine);
            classify(scheduler, machine);
        }
    }
    void state_changed(const SchedulerState& scheduler, MachineId machine) override {
        if (known_ && machine < machines_.size()) classify(scheduler, machine);
    }

    void decide(SchedulerState& scheduler) override {
        if (!known_) learn(scheduler);
        const bool any_due = !idle_.empty() && is_due(scheduler, idle_.begin()->first);
        ++round_;
        if (scheduler.waiting_count() > 0 && (off_ > 0 || any_due)) plan(scheduler, any_due);
        if (any_due && on_ > options_.keep) switch_off(scheduler);
        wake_for_next(scheduler);
    }

  private:
    struct State {
        bool is_on = false;        // running, or on the way there
        bool is_off = false;       // it can be switched on
        std::uint64_t needed = 0;  // in this round, by a waiting task
    };

    template <class Each>
    void for_each_machine(const SchedulerState& scheduler, TaskId task, Each&& each) const {
        if (!known_) return;
        for (const Part& part : scheduler.parts(task))
            for (MachineId m = part.machine; m < part.machine + part.count; ++m) each(m);
    }
    void learn(const SchedulerState& scheduler) {
        known_ = true;
        for (MachineId m = 0; m < scheduler.machines().size(); ++m) update(scheduler, m);
        learn_spaces(scheduler);
    }
    void learn_spaces(const SchedulerState& scheduler) {
        machines_.assign(scheduler.machines().size(), {});
        ready_ = all_ = scheduler.space();
        on_ = off_ = 0;
        for (MachineId m = 0; m < machines_.size(); ++m) classify(scheduler, m);
    }
    void copy_capacity(const SchedulerState& scheduler, MachineId machine) {
        ready_.copy_machine(scheduler.space(), machine);
        all_.copy_machine(scheduler.space(), machine);
    }
    void classify(const SchedulerState& scheduler, MachineId machine) {
        const bool is_on =
            scheduler.is_present(machine) &&
            scheduler.state_table(machine).target(scheduler.status(machine)) == running_state;
        const bool is_off =
            !is_on && find_state_obstacle(scheduler, machine, running_state) == nullptr;
        State& state = machines_[machine];
        on_ += static_cast<std::size_t>(is_on) - static_cast<std::size_t>(state.is_on);
        off_ += static_cast<std::size_t>(is_off) - static_cast<std::size_t>(state.is_off);
        state.is_on = is_on;
        state.is_off = is_off;
        ready_.set_open(machine, is_on);
        all_.set_open(machine, is_on || is_off);
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
        if (!space.open(machine) || space.occupants(machine) > 0 || since_[machine] < never) return;
        since_[machine] = scheduler.now();
        idle_.insert({since_[machine], machine});
    }

    // Switches on the machines that waiting tasks need beside those that run, or will run soon, and
    // notes which machines they need. If machines are due to be switched off, all tasks count.
    void plan(SchedulerState& scheduler, bool any_due) {
        planned_.clear();
        for (TaskId task = scheduler.first_waiting(); task != no_task && (off_ > 0 || any_due);
             task = scheduler.next_waiting(task)) {
            if (!scheduler.find(task, ready_, scheduler.now(), parts_) &&
                !(off_ > 0 && scheduler.find(task, all_, scheduler.now(), parts_)))
                continue;
            for (const Part& part : parts_)
                for (MachineId m = part.machine; m < part.machine + part.count; ++m) {
                    machines_[m].needed = round_;
                    planned_.push_back(m);
                    if (machines_[m].is_off) scheduler.set_state(m, running_state);
                }
            ready_.take(scheduler.needs(task), parts_);
            all_.take(scheduler.needs(task), parts_);
        }
        for (const MachineId m : planned_) copy_capacity(scheduler, m);
    }

    // Machines that must stay on remain in the set: they are considered again at every decision.
    void switch_off(SchedulerState& scheduler) {
        due_.clear();
        for (const auto& [since, machine] : idle_) {
            if (!is_due(scheduler, since)) break;
            due_.push_back(machine);
        }
        for (const MachineId m : due_) {
            if (on_ <= options_.keep) return;
            if (machines_[m].needed == round_ ||
                find_state_obstacle(scheduler, m, off_state) != nullptr)
                continue;
            scheduler.set_state(m, off_state);
        }
    }
    [[nodiscard]] bool is_due(const SchedulerState& scheduler, double since) const {
        return since + options_.idle_time <= scheduler.now();
    }
    void wake_for_next(SchedulerState& scheduler) const {
        auto next = idle_.lower_bound({scheduler.now() - options_.idle_time, 0});
        while (next != idle_.end() && is_due(scheduler, next->first)) ++next;
        if (next == idle_.end() || (options_.keep > 0 && on_ <= options_.keep)) return;
        scheduler.wake(next->first + options_.idle_time);
    }

    PowerSavingOptions options_;
    bool known_ = false;
    std::vector<double> since_;  // by machine: when it became idle; infinite: it is not idle
    std::set<std::pair<double, MachineId>> idle_;
    std::vector<State> machines_;
    std::size_t on_ = 0;
    std::size_t off_ = 0;
    Space ready_;  // the free capacity of machines that are on
    Space all_;    // and of those that can be switched on
    std::uint64_t round_ = 0;
    std::vector<Part> parts_;
    std::vector<MachineId> planned_;
    std::vector<MachineId> due_;
};

}  // namespace

std::unique_ptr<Controller> make_power_saving(const PowerSavingOptions& options) {
    return std::make_unique<PowerSaving>(options);
}

}  // namespace twinloop
