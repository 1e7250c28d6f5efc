// The speed-up law of a task: how its run time depends on the number of its cores on one machine.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

namespace twinloop {

struct SpeedupLaw {
    // The share of the work that several cores do in parallel (Amdahl); NaN: the points count.
    double parallel_fraction = 1.0;
    std::vector<std::pair<double, double>> points;  // cores and speed-up, by cores
    double min_cores = 1.0;
    double max_cores = 1.0;

    // S(n): the speed on n cores, as a multiple of that on one core.
    [[nodiscard]] double speedup(double cores) const {
        if (points.empty()) return cores * efficiency(cores);
        const auto next = std::ranges::upper_bound(points, cores, {},
                                                   [](const auto& point) { return point.first; });
        // In proportion to the cores before the first point, constant after the last one.
        if (next == points.begin()) return next->second * (cores / next->first);
        const auto& [from, low] = *(next - 1);
        if (next == points.end() || cores == from) return low;
        return low + (next->second - low) * ((cores - from) / (next->first - from));
    }
    // e(n) = S(n) / n
    [[nodiscard]] double efficiency(double cores) const {
        if (points.empty()) return 1.0 / ((1.0 - parallel_fraction) * cores + parallel_fraction);
        return speedup(cores) / cores;
    }
};

}  // namespace twinloop
