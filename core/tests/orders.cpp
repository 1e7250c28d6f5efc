// Wrong orders of a native controller are refused with their reason, and change nothing.
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "control/controller_chain.hpp"
#include "control/scheduler_state.hpp"

namespace {

using namespace twinloop;

void check(bool holds, const char* law) {
    if (holds) return;
    std::fprintf(stderr, "violated: %s\n", law);
    std::exit(1);
}

// Gives one order at each call, and notes why it was refused.
class Wrong : public Controller {
  public:
    using Give = std::function<bool(SchedulerState&)>;
    Wrong(Give give, std::string& why) : give_(std::move(give)), why_(why) {}

    [[nodiscard]] std::unique_ptr<Controller> clone() const override {
        return std::make_unique<Wrong>(*this);
    }
    void decide(SchedulerState& scheduler) override {
        why_.clear();
        check(give_(scheduler) == why_.empty(), "an order is refused exactly if it says so");
    }
    void refused(const SchedulerState&, const Order&, std::span<const Part>,
                 const char* why) override {
        why_ = why;
    }

  private:
    Give give_;
    std::string& why_;
};

// Reports no refusals: then they are errors.
class Silent final : public Wrong {
  public:
    using Wrong::Wrong;
    void refused(const SchedulerState& scheduler, const Order& order, std::span<const Part> parts,
                 const char* why) override {
        Controller::refused(scheduler, order, parts, why);
    }
};

// Two machines of four cores. Task 0 runs on the first one, task 1 waits, task 2 is not submitted.
SchedulerState make_state() {
    auto tasks = std::make_shared<TaskTable>(0);
    for (int i = 0; i < 3; ++i) {
        Task task;
        task.request.cores = 4.0;
        tasks->add(task, {});
    }
    SchedulerState scheduler(tasks, std::vector<MachineSpec>(2, {4.0}), {}, {}, {}, true);
    const std::vector<Part> first = {{0, 1, 4.0}};
    scheduler.adopt(0, first, 0.0);
    scheduler.submit(1);
    return scheduler;
}

std::string give(const Wrong::Give& order) {
    SchedulerState scheduler = make_state();
    std::string why;
    Wrong controller(order, why);
    scheduler.set_controller(&controller);
    scheduler.decide();
    const bool changed = !scheduler.orders().empty();
    if (!why.empty())
        check(!changed && scheduler.free_cores() == 4.0 && scheduler.waiting_count() == 1,
              "a refused order changes nothing");
    return why;
}

Wrong::Give place(TaskId task, std::vector<Part> parts) {
    return [=](SchedulerState& scheduler) { return scheduler.place(task, parts); };
}

}  // namespace

int main() {
    const std::vector<std::pair<Wrong::Give, std::string>> orders = {
        {place(1, {{1, 1, 4.0}}), ""},
        {place(0, {{1, 1, 4.0}}), "the task is not waiting"},
        {place(1, {}), "it has no machine"},
        {place(1, {{1, 2, 2.0}}), "it has no machine"},
        {place(1, {{0, 1, 4.0}}), "the machine has too few free cores"},
        {place(1, {{1, 1, 2.0}}), "the cores do not add up to the request of the task"},
        {place(1, {{1, 1, 2.0}, {1, 1, 2.0}}), "it lists a machine twice"},
        {place(1, {{1, 1, -4.0}}), "the number of cores is not valid"},
        {[](auto& scheduler) { return scheduler.preempt(1); }, "the task is not running"},
        {[](auto& scheduler) { return scheduler.kill(2); },
         "the task is neither waiting nor running"},
        {[](auto& scheduler) { return scheduler.set_state(0, off_state); },
         "the machine has tasks"},
        {[](auto& scheduler) { return scheduler.set_state(1, 7); },
         "the machine does not have this state"},
        {[](auto& scheduler) { return scheduler.reserve(2, 0, 5.0); }, "the task is not waiting"},
        {[](auto& scheduler) { return scheduler.wake(0.0); },
         "the time of Wake must be later than now"},
        // What was found is correct only until something changes.
        {[](auto& scheduler) {
             std::vector<Part> parts;
             check(scheduler.find(1, scheduler.space(), scheduler.now(), parts), "there is room");
             scheduler.set_present(1, false);
             const bool placed = scheduler.place(1, parts);
             scheduler.set_present(1, true);
             return placed;
         },
         "the machine is down or off"},
    };
    for (const auto& [order, reason] : orders) check(give(order) == reason, reason.c_str());

    // Each of several controllers gets its own refusals; without a method they are errors.
    SchedulerState scheduler = make_state();
    std::string first;
    std::string second;
    std::vector<std::unique_ptr<Controller>> both;
    both.push_back(std::make_unique<Wrong>(orders[1].first, first));
    both.push_back(std::make_unique<Wrong>(orders[0].first, second));
    ControllerChain chain(std::move(both));
    scheduler.set_controller(&chain);
    const std::span<const Order> given = scheduler.decide();
    check(first == orders[1].second && second.empty(), "refusals are told to their controller");
    check(given.size() == 1 && given[0].controller == 1, "an order names its controller");
    SchedulerState other = make_state();
    Silent silent(orders[1].first, first);
    other.set_controller(&silent);
    try {
        other.decide();
        check(false, "a refusal that is not handled is an error");
    } catch (const std::invalid_argument& error) {
        check(std::string(error.what()) ==
                  "ordered the placement of task 0, but the task is not waiting",
              "the error names the order and the reason");
    }
    return 0;
}
