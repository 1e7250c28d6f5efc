// Policies in the Python interface: handles of native policies, and user-defined classes.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bind/in_use.hpp"
#include "control/scheduler_state.hpp"
#include "world/scenario.hpp"

namespace twinloop::bind {

namespace nb = nanobind;

// A compiled scenario, and the names of its tasks and machines.
struct ScenarioHandle {
    std::shared_ptr<Scenario> scenario;
    nb::object names;  // an object with `tasks`, `machines`, `users`, `groups` and `queues`
    // Of each cloud: its policy, or a list of controllers; and the names that these see.
    std::vector<std::pair<nb::object, nb::object>> providers;
};

// The view of a policy in Python: the scheduler state of a run or of a dispatcher.
struct View {
    SchedulerState* scheduler = nullptr;
    nb::object names;
    std::shared_ptr<InUse> guard;
    [[nodiscard]] SchedulerState& get() const;
};

// The task or machine of that index; raises IndexError.
TaskId task_at(const SchedulerState& scheduler, std::int64_t task);
MachineId machine_at(const SchedulerState& scheduler, std::int64_t machine);
// The state of that name that can be ordered; raises ValueError.
StateId state_of(const SchedulerState& scheduler, const std::string& name);
std::string state_name(const SchedulerState& scheduler, MachineId machine);

// A native policy, an object with `start` and `decide`, or a list of them: several controllers.
std::unique_ptr<Controller> policy_from(nb::handle policy, const nb::object& names,
                                        std::uint64_t seed);
// The controllers of the clouds of a scenario.
std::vector<std::unique_ptr<Controller>> providers_from(const ScenarioHandle& scenario,
                                                        std::uint64_t seed);
// What a policy in Python remembers, as values of JSON; None for a native policy.
nb::object save_policy(const Controller& policy);
void restore_policy(Controller& policy, nb::handle memory);
// Guards the view of a policy in Python against other threads.
void attach(Controller& policy, std::shared_ptr<InUse> guard);
// Sets the names in the view of a policy in Python.
void rename(Controller& policy, const nb::object& names);

}  // namespace twinloop::bind
