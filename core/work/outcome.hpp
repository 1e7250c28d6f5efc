// The outcome of a task.
#pragma once

#include <cstdint>
#include <limits>

namespace twinloop {

inline constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

// Cancelled: never submitted in this run.
enum class Status : std::uint8_t { none, completed, rejected, killed, failed, lost, cancelled };
// The reason why an execution ended.
enum class Reason : std::uint8_t { completed, killed, failed, lost, preempted };

// The outcome so far; times are NaN before their event.
struct Outcome {
    double submit = unknown;
    double ready = unknown;
    double start = unknown;       // of the first execution
    double last_start = unknown;  // of the last execution
    double end = unknown;
    double last_end = unknown;  // of the last execution, also if the task continues later
    double done = 0.0;          // work (reference core-seconds), including lost work
    double used = 0.0;          // core-seconds of its machines
    double energy = 0.0;        // J
    std::uint32_t attempts = 0;
    std::uint32_t failures = 0;  // executions that a failure of a machine has ended
    Status status = Status::none;
};

}  // namespace twinloop
