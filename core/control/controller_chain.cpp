#include "control/controller_chain.hpp"

#include <algorithm>
#include <utility>

namespace twinloop {

ControllerChain::ControllerChain(std::vector<std::unique_ptr<Controller>> controllers)
    : controllers_(std::move(controllers)), wakes_(controllers_.size(), never) {}

std::unique_ptr<Controller> ControllerChain::clone() const {
    std::vector<std::unique_ptr<Controller>> copies;
    copies.reserve(controllers_.size());
    for (const auto& each : controllers_) copies.push_back(each->clone());
    auto chain = std::make_unique<ControllerChain>(std::move(copies));
    chain->wakes_ = wakes_;
    chain->acting_ = acting_;
    return chain;
}

void ControllerChain::submitted(const SchedulerState& scheduler, TaskId task) {
    for (const auto& each : controllers_) each->submitted(scheduler, task);
}
void ControllerChain::withdrawn(const SchedulerState& scheduler, TaskId task) {
    for (const auto& each : controllers_) each->withdrawn(scheduler, task);
}
void ControllerChain::placed(const SchedulerState& scheduler, TaskId task) {
    for (const auto& each : controllers_) each->placed(scheduler, task);
}
void ControllerChain::ended(const SchedulerState& scheduler, TaskId task) {
    for (const auto& each : controllers_) each->ended(scheduler, task);
}
void ControllerChain::machine_changed(const SchedulerState& scheduler, MachineId machine) {
    for (const auto& each : controllers_) each->machine_changed(scheduler, machine);
}
void ControllerChain::state_changed(const SchedulerState& scheduler, MachineId machine) {
    for (const auto& each : controllers_) each->state_changed(scheduler, machine);
}
void ControllerChain::rental_changed(const SchedulerState& scheduler, MachineId instance,
                                     RentalEvent event) {
    for (const auto& each : controllers_) each->rental_changed(scheduler, instance, event);
}
void ControllerChain::start_failed(const SchedulerState& scheduler, TaskId task,
                                   std::span<const Part> parts, const char* why) {
    controllers_.front()->start_failed(scheduler, task, parts, why);
}
void ControllerChain::refused(const SchedulerState& scheduler, const Order& order,
                              std::span<const Part> parts, const char* why) {
    controllers_[acting_]->refused(scheduler, order, parts, why);
}

// A controller is called under the conditions under which it would be called alone. Its wake time
// is that of the scheduler state while it acts.
void ControllerChain::decide(SchedulerState& scheduler) {
    // Also if the tasks that wait now are placed by a controller before it.
    const bool waiting = scheduler.must_decide();
    for (std::size_t i = 0; i < controllers_.size(); ++i) {
        Controller& controller = *controllers_[i];
        const bool woken = wakes_[i] <= scheduler.now();
        if (woken) wakes_[i] = never;
        if (!waiting && !controller.decides_when_idle() && !(woken && controller.foreign()))
            continue;
        acting_ = i;
        scheduler.set_acting(i);
        scheduler.set_wake(wakes_[i]);
        controller.decide(scheduler);
        wakes_[i] = scheduler.wake_time();
    }
    scheduler.set_wake(std::ranges::min(wakes_));
}

bool ControllerChain::overcommits() const {
    return std::ranges::any_of(controllers_, [](const auto& each) { return each->overcommits(); });
}
bool ControllerChain::decides_when_idle() const {
    return std::ranges::any_of(controllers_,
                               [](const auto& each) { return each->decides_when_idle(); });
}
bool ControllerChain::continues() const {
    return std::ranges::any_of(controllers_, [](const auto& each) { return each->continues(); });
}
bool ControllerChain::foreign() const {
    return std::ranges::any_of(controllers_, [](const auto& each) { return each->foreign(); });
}

std::vector<double> ControllerChain::memory() const {
    std::vector<double> numbers;
    for (std::size_t i = 0; i < controllers_.size(); ++i) {
        const std::vector<double> own = controllers_[i]->memory();
        numbers.insert(numbers.end(), {wakes_[i], static_cast<double>(own.size())});
        numbers.insert(numbers.end(), own.begin(), own.end());
    }
    return numbers;
}

void ControllerChain::restore_memory(const SchedulerState& scheduler,
                                     std::span<const double> numbers) {
    for (std::size_t i = 0; i < controllers_.size() && numbers.size() >= 2; ++i) {
        wakes_[i] = numbers[0];
        const auto count = std::min(static_cast<std::size_t>(numbers[1]), numbers.size() - 2);
        controllers_[i]->restore_memory(scheduler, numbers.subspan(2, count));
        numbers = numbers.subspan(2 + count);
    }
}

}  // namespace twinloop
