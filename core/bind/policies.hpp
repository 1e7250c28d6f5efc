// Policies in the Python interface: handles of native policies, and user-defined classes.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <vector>

#include "bind/in_use.hpp"
#include "model/desk.hpp"
#include "model/problem.hpp"

namespace twinloop::bind {

namespace nb = nanobind;

// A compiled scenario, and the names of its tasks and machines.
struct ProblemHandle {
    std::shared_ptr<Problem> problem;
    nb::object names;  // an object with `tasks`, `machines`, `users`, `groups` and `queues`
};

// The view of a policy in Python: the scheduler state of a run or of a dispatcher.
struct View {
    Desk* desk = nullptr;
    nb::object names;
    std::shared_ptr<InUse> guard;
    [[nodiscard]] Desk& get() const;
};

// The task or machine of that index; raises IndexError.
TaskId task_at(const Desk& desk, std::int64_t task);
MachineId machine_at(const Desk& desk, std::int64_t machine);

// A native policy, or an object with `start` and `decide`.
std::unique_ptr<Policy> policy_from(nb::handle policy, const nb::object& names, Desk* desk,
                                    std::uint64_t seed);
// Connects the view of a policy in Python with the scheduler state at its final address.
void attach(Policy& policy, Desk& desk, std::shared_ptr<InUse> guard);

}  // namespace twinloop::bind
