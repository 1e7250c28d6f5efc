// Policies as Python sees them: native ones as handles, and classes of the user's own.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <vector>

#include "bind/in_use.hpp"
#include "model/desk.hpp"
#include "model/problem.hpp"

namespace twinloop::bind {

namespace nb = nanobind;

// A compiled scenario, and the names that its numbers stand for.
struct ProblemHandle {
    std::shared_ptr<Problem> problem;
    nb::object names;  // an object with `tasks`, `machines`, `users`, `groups` and `queues`
};

// What a policy in Python may look at: the desk of a run or of a dispatcher, which `guard` guards.
struct View {
    Desk* desk = nullptr;
    nb::object names;
    std::shared_ptr<InUse> guard;
    [[nodiscard]] Desk& get() const;
};

// The task or the machine of that number, or an IndexError.
TaskId task_at(const Desk& desk, std::int64_t task);
MachineId machine_at(const Desk& desk, std::int64_t machine);

// A native policy, or an object with `start` and `decide`.
std::unique_ptr<Policy> policy_from(nb::handle policy, const nb::object& names, Desk* desk,
                                    std::uint64_t seed);
// Connects the view of a policy in Python with the desk, once that has found its place.
void attach(Policy& policy, Desk& desk, std::shared_ptr<InUse> guard);

}  // namespace twinloop::bind
