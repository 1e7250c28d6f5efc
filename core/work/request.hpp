// The request of a task: known to the scheduler before the task runs.
#pragma once

#include <cstdint>
#include <limits>

namespace twinloop {

using TaskId = std::uint32_t;

inline constexpr TaskId no_task = std::numeric_limits<TaskId>::max();

struct Request {
    double cores = 1.0;   // on all nodes together
    double memory = 0.0;  // bytes, on all nodes together
    double time = 0.0;    // requested run time (s); NaN if not specified
    double submit = 0.0;  // recorded submission time (s)
    double priority = 0.0;
    double mhz = 0.0;        // minimum clock of a core; 0: any
    std::int32_t nodes = 0;  // 0: its cores may be on any machines
    std::int32_t user = -1;  // -1: unknown
    std::int32_t group = -1;
    std::int32_t queue = -1;
};

}  // namespace twinloop
