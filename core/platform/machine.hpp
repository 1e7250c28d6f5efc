// Machines: identity and capacity, and the parts of machines that a task occupies.
#pragma once

#include <cstdint>
#include <limits>

#include "kernel/measure.hpp"

namespace twinloop {

using MachineId = std::uint32_t;

inline constexpr MachineId no_machine = std::numeric_limits<MachineId>::max();

struct MachineSpec {
    double cores = 1.0;
    double memory = never;  // bytes; infinite if not specified
    double speed = 1.0;     // reference core-seconds per second of a core
    double mhz = 0.0;       // clock of a core; 0 if not specified
};

// The same number of cores on each of `count` consecutive machines.
struct Part {
    MachineId machine = 0;
    std::uint32_t count = 1;
    double cores = 0.0;

    // The share of a task with `all` cores on each of these machines; 1 if it has no cores.
    [[nodiscard]] double share_of(double all) const { return all > 0 ? cores / all : 1.0; }
};

}  // namespace twinloop
