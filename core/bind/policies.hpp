// Policies as Python sees them: native ones as handles, and classes of the user's own.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <vector>

#include "model/desk.hpp"
#include "model/problem.hpp"

namespace twinloop::bind {

namespace nb = nanobind;

// A compiled scenario, and the names that its numbers stand for.
struct ProblemHandle {
    std::shared_ptr<Problem> problem;
    nb::object names;  // an object with `tasks`, `machines`, `users`, `groups` and `queues`
};

// What a policy in Python may look at: the desk of a run or of a dispatcher.
struct View {
    Desk* desk = nullptr;
    nb::object names;
    [[nodiscard]] Desk& get() const;
};

// The task or the machine of that number, or an IndexError.
TaskId task_at(const Desk& desk, std::int64_t task);
MachineId machine_at(const Desk& desk, std::int64_t machine);

// A native policy, or an object with `start` and `decide`.
std::unique_ptr<Policy> policy_from(nb::handle policy, const nb::object& names, Desk* desk,
                                    std::uint64_t seed);
// A policy in Python is told where its view looks once the desk has found its place.
void attach(Policy& policy, Desk& desk);

}  // namespace twinloop::bind
