// System clocks in seconds.
#pragma once

#include <ctime>

namespace twinloop::burn {

inline double seconds(clockid_t clock) {
    timespec now{};
    clock_gettime(clock, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// CPU time of the calling thread.
inline double thread_seconds() { return seconds(CLOCK_THREAD_CPUTIME_ID); }

inline double wall_seconds() { return seconds(CLOCK_MONOTONIC); }

// Waits until this wall-clock time; signals do not shorten the wait.
inline void wait_until(double wall) {
    while (true) {
        const double left = wall - wall_seconds();
        if (left <= 0.0) return;
        const auto whole = static_cast<time_t>(left);
        const timespec pause{
            .tv_sec = whole,
            .tv_nsec = static_cast<long>((left - static_cast<double>(whole)) * 1e9)};
        nanosleep(&pause, nullptr);
    }
}

}  // namespace twinloop::burn
