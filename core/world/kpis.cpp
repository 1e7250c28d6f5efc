#include "world/kpis.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace twinloop {
namespace {

constexpr double bound = 10.0;  // seconds below which a run time does not count in a slowdown

// A mean, as its terms come.
class Mean {
  public:
    void add(double value) {
        sum_.add(value);
        ++count_;
    }
    [[nodiscard]] double count() const { return static_cast<double>(count_); }
    [[nodiscard]] double value() const { return count_ > 0 ? sum_.value() / count() : unknown; }

  private:
    Sum sum_;
    std::size_t count_ = 0;
};

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

std::array<double, kpi_names.size()> kpis(const World& world) {
    const WorldState& all = world.state();
    const Scenario& scenario = *all.scenario;
    const Tasks& rows = world.scheduler().tasks();
    std::vector<double> waits;
    std::vector<double> turnarounds;
    std::vector<double> bounded;
    for (auto* each : {&waits, &turnarounds, &bounded}) each->reserve(rows.size());
    Mean wait_mean;
    Mean turnaround_mean;
    Mean slowdown_mean;
    Mean bounded_mean;
    Mean lateness;
    double wait_max = unknown;
    std::array<double, 7> counts{};
    double first = never;
    double last = -never;
    double first_recorded = never;
    double last_recorded = -never;
    double misses = 0.0;
    for (TaskId task = 0; task < rows.size(); ++task) {
        const TaskRun& outcome = world.tasks()[task];
        if (all.is_forgotten(outcome)) continue;
        const Task& row = rows[task];
        ++counts[static_cast<std::size_t>(outcome.status)];
        // One that was interrupted and did not run again has the end of its last execution.
        const double end = std::isnan(outcome.last_end) ? outcome.end : outcome.last_end;
        const bool undone = outcome.status != Status::none && outcome.status != Status::completed;
        if (row.deadline < never && (end > row.deadline || undone)) ++misses;
        // One that has not run yet, or that still runs, is in none of the others.
        if (std::isnan(outcome.start) || std::isnan(end)) continue;
        const double since = row.parents > 0 ? outcome.ready : outcome.submit;
        const double turnaround = end - outcome.submit;
        const double length = end - outcome.last_start;
        const double wait = outcome.start - since;
        const double slowdown = std::max(1.0, turnaround / std::max(length, bound));
        waits.push_back(wait);
        turnarounds.push_back(turnaround);
        bounded.push_back(slowdown);
        wait_mean.add(wait);
        turnaround_mean.add(turnaround);
        bounded_mean.add(slowdown);
        if (length > 0) slowdown_mean.add(turnaround / length);
        wait_max = wait_max >= wait ? wait_max : wait;
        const double recorded = row.request.submit;
        lateness.add(outcome.submit - recorded);
        first_recorded = std::min(first_recorded, recorded);
        last_recorded = std::max(last_recorded, recorded);
        first = std::min(first, outcome.submit);
        last = std::max(last, end);
    }
    const double makespan = waits.empty() ? unknown : last - first;
    double cores = 0.0;
    for (const MachineSpec& each : scenario.machines) cores += each.cores;
    double energy = unknown;
    if (all.fleet.metered() && world.now() > all.begin) {
        energy = 0.0;
        // The energy of an instance is part of that of its host.
        for (MachineId m = 0; m < all.fleet.size(); ++m)
            if (!all.fleet[m].is_instance) energy += world.energy(m);
    }
    RentalTotals rented = all.rental_totals;
    for (const RentedInstance& each : all.rented)
        if (each.serial != none)
            rented.add((*scenario.clouds)[each.rental.cloud], each, world.now());
    const bool rentals = !scenario.clouds->empty();
    bool bills = false;
    bool bills_transfers = false;
    Sum bill = rented.bill;
    bill.add(rented.transfers.value());
    for (const CloudPlan& each : *scenario.clouds) {
        const BillingPlan& billing = each.billing;
        bills = bills || billing.used();
        bills_transfers = bills_transfers || billing.has_transfers;
        bill.add(billing.reserved * billing.upfront);
    }
    const auto count = [&](Status status) { return counts[static_cast<std::size_t>(status)]; };
    const double late = lateness.value();
    const double span = last_recorded - first_recorded;
    const double ran = lateness.count();
    std::size_t from = 0;
    const double wait_p50 = quantile(waits, 0.5, from);
    const double wait_p95 = quantile(waits, 0.95, from);
    const double wait_p99 = quantile(waits, 0.99, from);
    return {static_cast<double>(rows.size() - all.forgotten),
            count(Status::completed),
            count(Status::rejected),
            count(Status::killed),
            count(Status::failed) + count(Status::lost),
            count(Status::lost),
            makespan,
            wait_mean.value(),
            wait_p50,
            wait_p95,
            wait_p99,
            wait_max,
            turnaround_mean.value(),
            quantile(turnarounds, 0.95),
            slowdown_mean.value(),
            bounded_mean.value(),
            quantile(bounded, 0.95),
            makespan > 0 ? all.occupied.value() / (cores * makespan) : unknown,
            makespan > 0 ? ran / makespan : unknown,
            energy,
            energy / count(Status::completed),
            misses,
            late,
            span > 0 ? 1.0 + late / span : unknown,
            ran > 1 ? 2.0 * late / (ran - 1.0) : unknown,
            static_cast<double>(all.events),
            rentals ? static_cast<double>(rented.instances) : unknown,
            rentals ? static_cast<double>(rented.refused) : unknown,
            rentals ? static_cast<double>(rented.lost) : unknown,
            rentals ? static_cast<double>(rented.interrupted) : unknown,
            rented.ready > 0 ? rented.wait.value() / static_cast<double>(rented.ready) : unknown,
            rentals ? rented.core_seconds.value() : unknown,
            bills ? round_price(bill.value()) : unknown,
            bills_transfers ? round_price(rented.transfers.value()) : unknown,
            rentals ? static_cast<double>(rented.migrations) : unknown,
            rentals ? rented.downtime.value() : unknown};
}

}  // namespace twinloop
