#include "policy/batch_timeline.hpp"

namespace twinloop {

template <>
double Timeline<PoolRoom>::earliest(const Desk& desk, const Waiting& task, Claim& /*claim*/) const {
    double start = desk.now();
    const double cores = task.cores - slack;
    for (std::size_t at = present(start);; ++at) {
        const bool last = at + 1 == steps_.size();
        if (steps_[at].room.cores() < cores) {
            if (last) return never;
            start = steps_[at + 1].time;
        } else if (last || steps_[at + 1].time >= start + task.time) {
            return start;
        }
    }
}

// Here a task needs the same places all the time, so it is looked for in what is free throughout.
template <>
double Timeline<SpaceRoom>::earliest(const Desk& desk, const Waiting& task, Claim& claim) const {
    std::span<const double> windows = desk.window_ends();
    double start = desk.now();
    std::size_t at = present(start);
    for (;;) {
        // Where the cores of all machines together do not do, nobody needs to look at each: it
        // starts after the last such step.
        if (const std::size_t after = past_shortage(at, start, task); after > at) {
            if (after == steps_.size()) return never;
            at = after;
            start = steps_[at].time;
        }
        if (steps_[at].room.find(desk, task, start, claim)) {
            SpaceRoom room = steps_[at].room;
            for (std::size_t next = at + 1;
                 next < steps_.size() && steps_[next].time < start + task.time; ++next)
                room.meet(steps_[next].room);
            if (room.find(desk, task, start, claim)) return start;
        }
        const double next_step = at + 1 < steps_.size() ? steps_[at + 1].time : never;
        while (!windows.empty() && windows.front() <= start) windows = windows.subspan(1);
        start = windows.empty() ? next_step : std::min(next_step, windows.front());
        if (start == never) return never;
        if (start == next_step) ++at;
    }
}

}  // namespace twinloop
