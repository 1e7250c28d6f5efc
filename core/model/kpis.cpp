#include "model/kpis.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace twinloop {
namespace {

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
constexpr double bound = 10.0;  // seconds below which a run time does not count in a slowdown

double mean(const std::vector<double>& values) {
    if (values.empty()) return unknown;
    Sum sum;
    for (const double value : values) sum.add(value);
    return sum.value() / static_cast<double>(values.size());
}

// Between the two nearest, as NumPy's default. The values are moved about: those from the first of
// the two on are then not less than it, so that later calls need to look at these only.
double quantile(std::vector<double>& values, double share, std::size_t& from) {
    if (values.empty()) return unknown;
    const double place = static_cast<double>(values.size() - 1) * share;
    const auto below = static_cast<std::size_t>(place);
    const auto at = values.begin() + static_cast<std::ptrdiff_t>(below);
    std::nth_element(values.begin() + static_cast<std::ptrdiff_t>(from), at, values.end());
    from = below;
    const double low = *at;
    const double high = below + 1 < values.size() ? *std::min_element(at + 1, values.end()) : low;
    const double part = place - static_cast<double>(below);
    const double width = high - low;
    return part < 0.5 ? low + width * part : high - width * (1 - part);
}

double quantile(std::vector<double>& values, double share) {
    std::size_t from = 0;
    return quantile(values, share, from);
}

}  // namespace

std::array<double, kpi_names.size()> kpis(const Run& run) {
    const Problem& all = run.problem();
    std::vector<double> waits;
    std::vector<double> turnarounds;
    std::vector<double> slowdowns;
    std::vector<double> bounded;
    std::vector<double> lateness;
    for (auto* each : {&waits, &turnarounds, &slowdowns, &bounded, &lateness})
        each->reserve(all.size());
    std::array<double, 6> counts{};
    double first = never;
    double last = -never;
    double first_recorded = never;
    double last_recorded = -never;
    double misses = 0.0;
    for (TaskId task = 0; task < all.size(); ++task) {
        const Outcome& outcome = run.outcomes()[task];
        ++counts[static_cast<std::size_t>(outcome.status)];
        // One that was interrupted and never came to its end has that of its last execution.
        const double end = std::isnan(outcome.end) ? outcome.last_end : outcome.end;
        const bool undone = outcome.status != Status::none && outcome.status != Status::completed;
        if (all.deadline[task] < never && (end > all.deadline[task] || undone)) ++misses;
        // One that has not run yet, or that still runs, is in none of the others.
        if (std::isnan(outcome.start) || std::isnan(end)) continue;
        const double since = all.parents[task] > 0 ? outcome.ready : outcome.submit;
        const double turnaround = end - outcome.submit;
        const double length = end - outcome.last_start;
        waits.push_back(outcome.start - since);
        turnarounds.push_back(turnaround);
        if (length > 0) slowdowns.push_back(turnaround / length);
        bounded.push_back(std::max(1.0, turnaround / std::max(length, bound)));
        const double recorded = all.requests[task].submit;
        lateness.push_back(outcome.submit - recorded);
        first_recorded = std::min(first_recorded, recorded);
        last_recorded = std::max(last_recorded, recorded);
        first = std::min(first, outcome.submit);
        last = std::max(last, end);
    }
    const double makespan = waits.empty() ? unknown : last - first;
    double cores = 0.0;
    for (const MachineSpec& each : all.machines) cores += each.cores;
    double energy = unknown;
    if (all.metered() && run.now() > run.begin()) {
        energy = 0.0;
        for (MachineId m = 0; m < all.machines.size(); ++m) energy += run.energy(m);
    }
    const auto count = [&](Status status) { return counts[static_cast<std::size_t>(status)]; };
    const double late = mean(lateness);
    const double span = last_recorded - first_recorded;
    const auto ran = static_cast<double>(lateness.size());
    const double wait_mean = mean(waits);
    const double turnaround_mean = mean(turnarounds);
    const double slowdown_mean = mean(slowdowns);
    const double bounded_mean = mean(bounded);
    const double wait_max = waits.empty() ? unknown : std::ranges::max(waits);
    std::size_t from = 0;
    const double wait_p50 = quantile(waits, 0.5, from);
    const double wait_p95 = quantile(waits, 0.95, from);
    const double wait_p99 = quantile(waits, 0.99, from);
    return {static_cast<double>(all.size()),
            count(Status::completed),
            count(Status::rejected),
            count(Status::killed),
            count(Status::failed) + count(Status::lost),
            count(Status::lost),
            makespan,
            wait_mean,
            wait_p50,
            wait_p95,
            wait_p99,
            wait_max,
            turnaround_mean,
            quantile(turnarounds, 0.95),
            slowdown_mean,
            bounded_mean,
            quantile(bounded, 0.95),
            makespan > 0 ? run.occupied() / (cores * makespan) : unknown,
            makespan > 0 ? ran / makespan : unknown,
            energy,
            energy / count(Status::completed),
            misses,
            late,
            span > 0 ? 1.0 + late / span : unknown,
            ran > 1 ? 2.0 * late / (ran - 1.0) : unknown,
            static_cast<double>(run.events())};
}

}  // namespace twinloop
