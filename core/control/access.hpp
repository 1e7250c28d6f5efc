// Rules of access: which tasks may use which machines, and when.
#pragma once

#include <cstdint>
#include <vector>

#include "kernel/measure.hpp"

namespace twinloop {

// A period in which machines are reserved for some tasks, or for none (maintenance).
struct AccessWindow {
    double start = 0.0;
    double end = never;
    std::vector<std::uint8_t> machines;  // by machine: whether the window applies to it
    std::vector<std::int32_t> users;     // whose tasks may run
    std::vector<std::int32_t> queues;    // whose tasks may run
};

struct QueueRule {
    std::vector<std::uint8_t> machines;  // by machine: whether its tasks may use it; empty: all
    std::uint32_t max_running = ~0U;
    std::uint32_t max_running_per_user = ~0U;
};

}  // namespace twinloop
