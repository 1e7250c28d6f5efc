// The lower bound of the sharing benchmark: tasks that share one core equally, and nothing else.
//
// No limits, weights, kinds, counters, observers, cancellation or errors: a heap of virtual finish
// times is the least that any correct simulation of this work must maintain, so the kernel is
// compared with its speed. Tasks must be sorted by start.

#include <cstdint>
#include <functional>
#include <limits>
#include <queue>
#include <utility>
#include <vector>

extern "C" void limit_run(std::int64_t count, const double* start, const double* work,
                          double capacity, double* finish) {
    using Entry = std::pair<double, std::int64_t>;  // virtual finish time, task
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> live;
    double now = 0.0;
    double served = 0.0;  // virtual time: work given to each live task so far
    std::int64_t next = 0;
    while (next < count || !live.empty()) {
        const double sharers = static_cast<double>(live.size());
        const double end = live.empty() ? std::numeric_limits<double>::infinity()
                                        : now + (live.top().first - served) * sharers / capacity;
        if (next < count && start[next] <= end) {
            // Rebased when idle: otherwise the virtual time loses digits over a long run.
            served = live.empty() ? 0.0 : served + (start[next] - now) * capacity / sharers;
            now = start[next];
            live.emplace(served + work[next], next);
            ++next;
        } else {
            now = end;
            served = live.top().first;
            finish[live.top().second] = now;
            live.pop();
        }
    }
}
