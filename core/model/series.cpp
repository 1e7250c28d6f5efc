#include "model/series.hpp"

#include <algorithm>
#include <cmath>

namespace twinloop {

std::size_t window_count(const Run& run, double step) {
    const double length = run.now() - run.begin();
    if (length <= 0) return 0;
    const double count = std::ceil(length / step * (1 - 1e-12));
    return static_cast<std::size_t>(std::max(1.0, count));
}

std::vector<double> power_series(const Run& run, double step, bool machines) {
    const Problem& all = run.problem();
    const std::size_t windows = window_count(run, step);
    const double begin = run.begin();
    const double end = run.now();
    std::vector<double> joules(windows * (machines ? all.machines.size() : 1), 0.0);
    struct Last {
        double t;
        double watts;
    };
    std::vector<Last> last(all.machines.size(), {begin, 0.0});
    const auto spread = [&](std::size_t machine, double until) {
        double from = last[machine].t;
        const double watts = last[machine].watts;
        double* const row = joules.data() + (machines ? machine * windows : 0);
        auto window = static_cast<std::size_t>((from - begin) / step);
        while (from < until) {
            window = std::min(window, windows - 1);
            const double edge =
                window + 1 == windows ? until : begin + static_cast<double>(window + 1) * step;
            const double to = std::min(until, edge);
            if (to > from) row[window] += watts * (to - from);
            from = std::max(from, to);
            ++window;
        }
    };
    const UseLog& use = run.use();
    std::vector<double> capacities;
    capacities.reserve(all.machines.size());
    for (const MachineSpec& each : all.machines)
        capacities.push_back(each.cores * each.speed * run.values().speed_factor);
    std::span<const Resize> resizes = run.resizes();
    for (std::size_t i = 0; i < use.t.size(); ++i) {
        const std::size_t machine = use.machine[i];
        if (use.t[i] > last[machine].t) spread(machine, use.t[i]);
        for (; !resizes.empty() && resizes.front().place <= i; resizes = resizes.subspan(1))
            capacities[resizes.front().machine] = resizes.front().capacity;
        const bool off = std::isnan(use.used[i]);
        const double share = capacities[machine] > 0 ? use.used[i] / capacities[machine] : 0.0;
        const PowerModel& model = all.powers[all.power_of[machine]];
        last[machine] = {use.t[i], off ? 0.0 : model.at(share)};
    }
    for (std::size_t machine = 0; machine < last.size(); ++machine) spread(machine, end);
    for (std::size_t i = 0; i < joules.size(); ++i) {
        const std::size_t window = i % windows;
        const double from = begin + static_cast<double>(window) * step;
        joules[i] /= window + 1 == windows ? end - from : step;
    }
    return joules;
}

}  // namespace twinloop
