// Static list scheduling with insertion: HEFT and CPOP of H. Topcuoglu, S. Hariri and M.-Y. Wu,
// "Performance-effective and low-complexity task scheduling for heterogeneous computing", IEEE
// Transactions on Parallel and Distributed Systems 13(3), 2002.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernel/measure.hpp"

namespace twinloop {

struct PlanEdge {
    std::uint32_t parent;
    std::uint32_t child;
    double cost;  // of the communication between two machines
};

// Tasks and machines are numbers from 0. A machine has slots, of which a task takes some.
struct PlanInput {
    std::vector<std::size_t> slots;    // by machine
    std::vector<std::size_t> widths;   // by task: slots that it takes
    std::vector<double> costs;         // by task and machine; infinite: it cannot run there
    std::vector<double> earliest;      // by task: it does not start before
    std::vector<std::uint64_t> ranks;  // by task: the order among equal ones
    std::vector<PlanEdge> edges;

    [[nodiscard]] std::size_t tasks() const { return widths.size(); }
    [[nodiscard]] std::size_t machines() const { return slots.size(); }
    [[nodiscard]] double cost(std::size_t task, std::size_t machine) const {
        return costs[task * slots.size() + machine];
    }
};

struct PlannedTask {
    std::uint32_t machine = ~0U;  // ~0: it fits on none
    double start = never;
    double end = never;
    std::vector<std::uint32_t> slots;  // of its machine
};

// By decreasing upward rank, each task on the machine that completes it first.
[[nodiscard]] std::vector<PlannedTask> plan_heft(const PlanInput& input);
// By decreasing sum of both ranks; the tasks of the critical path on the machine that has the least
// computation for them all.
[[nodiscard]] std::vector<PlannedTask> plan_cpop(const PlanInput& input);

}  // namespace twinloop
