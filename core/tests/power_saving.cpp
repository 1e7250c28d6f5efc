// The controller that switches machines off and on, which follows changes, against one that looks
// at all machines at every decision: the same orders in random worlds, in which machines also fail,
// change their size, are added and removed, and the run is copied.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "control/controller_chain.hpp"
#include "control/order_checks.hpp"
#include "control/policies/options.hpp"
#include "random_scenario.hpp"

namespace {

using namespace twinloop;

class SlowPowerSaving final : public Controller {
  public:
    explicit SlowPowerSaving(const PowerSavingOptions& options) : options_(options) {}
    [[nodiscard]] std::unique_ptr<Controller> clone() const override {
        return std::make_unique<SlowPowerSaving>(*this);
    }
    [[nodiscard]] bool decides_when_idle() const override { return true; }
    void placed(const SchedulerState& scheduler, TaskId task) override { watch(scheduler, task); }
    void ended(const SchedulerState& scheduler, TaskId task) override { watch(scheduler, task); }
    void machine_changed(const SchedulerState& scheduler, MachineId machine) override {
        if (!since_.empty()) note(scheduler, machine, true);
    }

    void decide(SchedulerState& scheduler) override {
        if (since_.empty())
            for (MachineId m = 0; m < scheduler.machines().size(); ++m) note(scheduler, m, true);
        const std::vector<bool> needed = plan(scheduler);
        std::vector<std::pair<double, MachineId>> idle;
        for (MachineId m = 0; m < since_.size(); ++m)
            if (since_[m] < never) idle.emplace_back(since_[m], m);
        std::ranges::sort(idle);
        for (const auto& [since, m] : idle)
            if (since + options_.idle_time <= scheduler.now() && !needed[m] &&
                count_on(scheduler) > options_.keep &&
                find_state_obstacle(scheduler, m, off_state) == nullptr)
                scheduler.set_state(m, off_state);
        double wake = never;
        for (const double since : since_)
            if (since + options_.idle_time > scheduler.now())
                wake = std::min(wake, since + options_.idle_time);
        if (wake < never && (options_.keep == 0 || count_on(scheduler) > options_.keep))
            scheduler.wake(wake);
    }

  private:
    void watch(const SchedulerState& scheduler, TaskId task) {
        if (since_.empty()) return;
        for (const Part& part : scheduler.parts(task))
            for (MachineId m = part.machine; m < part.machine + part.count; ++m)
                note(scheduler, m, false);
    }
    // Since when a machine is idle; infinite: it is not.
    void note(const SchedulerState& scheduler, MachineId machine, bool anew) {
        if (machine >= since_.size()) since_.resize(machine + std::size_t{1}, never);
        const Space& space = scheduler.space();
        const bool idle = space.open(machine) && space.occupants(machine) == 0;
        if (!idle) since_[machine] = never;
        else if (anew || since_[machine] == never) since_[machine] = scheduler.now();
    }
    [[nodiscard]] static bool is_on(const SchedulerState& scheduler, MachineId m) {
        return scheduler.is_present(m) &&
               scheduler.state_table(m).target(scheduler.status(m)) == running_state;
    }
    [[nodiscard]] static std::size_t count_on(const SchedulerState& scheduler) {
        std::size_t on = 0;
        for (MachineId m = 0; m < scheduler.machines().size(); ++m)
            on += is_on(scheduler, m) ? 1U : 0U;
        return on;
    }
    std::vector<bool> plan(SchedulerState& scheduler) {
        std::vector<bool> needed(scheduler.machines().size());
        std::vector<bool> off(scheduler.machines().size());
        Space ready = scheduler.space();
        Space all = ready;
        for (MachineId m = 0; m < off.size(); ++m) {
            off[m] =
                !is_on(scheduler, m) && find_state_obstacle(scheduler, m, running_state) == nullptr;
            ready.set_open(m, is_on(scheduler, m));
            all.set_open(m, is_on(scheduler, m) || off[m]);
        }
        std::vector<Part> parts;
        for (TaskId task = scheduler.first_waiting(); task != no_task;
             task = scheduler.next_waiting(task)) {
            if (!scheduler.find(task, ready, scheduler.now(), parts) &&
                !scheduler.find(task, all, scheduler.now(), parts))
                continue;
            for (const Part& part : parts)
                for (MachineId m = part.machine; m < part.machine + part.count; ++m) {
                    needed[m] = true;
                    ready.set_open(m, true);
                    if (off[m]) scheduler.set_state(m, running_state);
                    off[m] = false;
                }
            ready.take(scheduler.needs(task), parts);
            all.take(scheduler.needs(task), parts);
        }
        return needed;
    }

    PowerSavingOptions options_;
    std::vector<double> since_;
};

std::shared_ptr<const StateTables> pick_states(std::size_t machines, Bytes& bytes) {
    auto states = std::make_shared<StateTables>();
    states->names.insert(states->names.end(), {"switching-on", "switching-off"});
    states->tables.resize(2);
    const auto power = std::make_shared<PowerModel>();
    states->tables[1].add_transition(2, off_state, running_state, power,
                                     {{pick(bytes, {0, 0.5, 2, 5}), 0.0}});
    states->tables[1].add_transition(3, running_state, off_state, power,
                                     {{pick(bytes, {0, 0.5, 1}), 0.0}});
    for (std::size_t m = 0; m < machines; ++m)
        states->of_machine.push_back(static_cast<std::uint16_t>(bytes.below(3) > 0 ? 1 : 0));
    return states;
}

std::unique_ptr<World> start(const RandomScenario& made, std::unique_ptr<Controller> saving) {
    std::vector<std::unique_ptr<Controller>> both;
    both.push_back(made.controller->clone());
    both.push_back(std::move(saving));
    return std::make_unique<World>(made.scenario, made.all, made.values,
                                   std::make_unique<ControllerChain>(std::move(both)),
                                   made.recording);
}

// The number of orders of a state; the orders must be the same.
std::size_t compare(const World& fast, const World& slow) {
    const OrderLog& a = fast.state().records.orders;
    const OrderLog& b = slow.state().records.orders;
    require(a.size() == b.size(), "both give as many orders");
    std::size_t states = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        require(a[i].t == b[i].t && a[i].kind == b[i].kind && a[i].state == b[i].state &&
                    a[i].task == b[i].task && a[i].machine == b[i].machine &&
                    a[i].controller == b[i].controller,
                "both give the same orders");
        states += a[i].kind == Order::Kind::set_state ? 1U : 0U;
    }
    return states;
}

std::size_t run(Bytes bytes) {
    RandomScenario made(bytes);
    made.scenario->states = pick_states(made.scenario->machines.size(), bytes);
    made.recording.orders = true;
    made.recording.usage_step = never;
    const PowerSavingOptions options{.idle_time = pick(bytes, {0, 0.5, 1, 3}),
                                     .keep = bytes.below(4)};
    auto fast = start(made, make_power_saving(options));
    auto slow = start(made, std::make_unique<SlowPowerSaving>(options));
    for (int step = 0; step < 12; ++step) {
        const double until = fast->now() + pick(bytes, {0, 0.5, 1.5, 4});
        const auto count = static_cast<std::size_t>(fast->state().fleet.size());
        const auto machine = static_cast<MachineId>(bytes.below(count));
        const std::size_t kind = bytes.below(8);
        const double cores = pick(bytes, {1, 2, 4});
        for (auto* each : {&fast, &slow}) {
            World& world = **each;
            world.run_until(until);
            const bool removed = world.state().fleet[machine].removed;
            if (kind == 0) *each = std::make_unique<World>(world);
            else if (kind == 1 && !removed) world.fail(machine);
            else if (kind == 2 && world.state().fleet[machine].outages > 0) world.restore(machine);
            else if (kind == 3 && !removed) world.set_cores(machine, cores);
            else if (kind == 4)
                world.add_machine({.cores = cores},
                                  std::vector<double>(made.scenario->tasks->resources(), 1.0),
                                  machine);
            else if (kind == 5 && !removed) world.remove_machine(machine);
            else if (kind == 6 && !removed) world.set_state(machine, off_state);
        }
        compare(*fast, *slow);
    }
    for (World* each : {fast.get(), slow.get()})
        while (each->step()) {
        }
    return compare(*fast, *slow);
}

}  // namespace

int main(int count, char** arguments) {
    const long programs = count > 1 ? std::strtol(arguments[1], nullptr, 10) : 1000;
    std::size_t states = 0;
    for (long seed = 0; seed < programs; ++seed) {
        std::mt19937_64 random(static_cast<std::uint64_t>(seed));
        std::vector<std::uint8_t> bytes(200 + random() % 800);
        for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
        std::fprintf(stderr, "\rprogram %ld", seed);
        states += run(Bytes(bytes));
    }
    require(states > static_cast<std::size_t>(programs), "machines are switched off and on");
    std::printf("\n%ld passed, 0 failed; %zu orders of states\n", programs, states);
    return 0;
}
