// Contention: the growth of work where tasks share a machine.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernel/efficiency.hpp"

namespace twinloop {

struct ContentionRule {
    enum class Kind : std::uint8_t { none, linear, table, kinds } kind = Kind::none;
    double slope = 0.0;
    std::vector<double> loads;  // of the table
    std::vector<double> inflations;
    std::vector<double> pressures;  // by kind of task
    std::vector<double> sensitivities;
    bool within_core = false;  // tasks press on tasks on the same core, not on the whole machine
};

// The efficiency of the tasks on a machine under a rule; nullptr if there is no contention.
[[nodiscard]] std::shared_ptr<const Efficiency> contention_efficiency(
    std::shared_ptr<const ContentionRule> rule);

}  // namespace twinloop
