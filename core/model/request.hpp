// What a scheduler is told: tasks that ask for cores, and machines that have them.
#pragma once

#include <cstdint>
#include <limits>

#include "kernel/measure.hpp"

namespace twinloop {

using TaskId = std::uint32_t;
using MachineId = std::uint32_t;

inline constexpr TaskId no_task = std::numeric_limits<TaskId>::max();
inline constexpr MachineId no_machine = std::numeric_limits<MachineId>::max();

// What a task asks for. Nothing here is known only afterwards: `time` is what a scheduler plans
// with.
struct Request {
    double cores = 1.0;   // over all nodes
    double memory = 0.0;  // bytes, over all nodes
    double time = 0.0;
    double submit = 0.0;
    double priority = 0.0;
    double mhz = 0.0;        // of a core, at least; 0: any
    std::int32_t nodes = 0;  // 0: its cores may be anywhere
    std::int32_t user = -1;  // -1: nobody knows
    std::int32_t group = -1;
    std::int32_t queue = -1;
};

struct MachineSpec {
    double cores = 1.0;
    double memory = never;  // bytes; infinite where nobody said
    double speed = 1.0;     // reference core-seconds that a core does in a second
    double mhz = 0.0;       // 0: unknown
};

// The same cores on each of `count` machines that follow each other.
struct Part {
    MachineId machine = 0;
    std::uint32_t count = 1;
    double cores = 0.0;

    // Of a task with so many cores, what is on each of these machines; all, if it has none.
    [[nodiscard]] double share_of(double all) const { return all > 0 ? cores / all : 1.0; }
};

}  // namespace twinloop
