#include "kernel/columns.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>

namespace twinloop {
namespace {

class Feeder final : public Client {
  public:
    Feeder(const Columns& columns, Simulation& simulation, std::vector<double>& finish)
        : columns_(columns), simulation_(simulation), finish_(finish) {
        if (!std::ranges::is_sorted(columns.start)) {
            order_.resize(columns.start.size());
            std::iota(order_.begin(), order_.end(), std::size_t{0});
            std::ranges::stable_sort(order_, {},
                                     [&](std::size_t row) { return columns.start[row]; });
        }
        if (!columns.start.empty()) simulation_.schedule(start_of(0), 0, EventKind::feed);
    }

    double feed(std::uint64_t) override {
        while (next_ < columns_.start.size() && start_of(next_) <= simulation_.now())
            begin(row_at(next_++));
        return next_ < columns_.start.size() ? start_of(next_) : never;
    }
    void fired(std::uint64_t, bool) override {}
    void dropped(std::uint64_t) override {}
    void ended(std::uint64_t token, Ending, const Final&) override {
        finish_[token - 1] = simulation_.now();
    }

  private:
    [[nodiscard]] std::size_t row_at(std::size_t place) const {
        return order_.empty() ? place : order_[place];
    }
    [[nodiscard]] double start_of(std::size_t place) const { return columns_.start[row_at(place)]; }

    void begin(std::size_t row) {
        ActivitySpec spec;
        spec.work = columns_.work[row];
        spec.start = simulation_.now();
        spec.token = row + 1;
        if (!columns_.limit.empty()) spec.limit = columns_.limit[row];
        if (!columns_.weight.empty()) spec.weight = columns_.weight[row];
        if (!columns_.kind.empty()) spec.kind = static_cast<Kind>(columns_.kind[row]);
        if (!columns_.resource.empty()) {
            route_.clear();
            for (std::size_t i = row * columns_.width; i < (row + 1) * columns_.width; ++i)
                if (columns_.resource[i] >= 0)
                    route_.push_back(static_cast<ResourceId>(columns_.resource[i]));
        }
        simulation_.launch(spec, route_);
    }

    const Columns& columns_;
    Simulation& simulation_;
    std::vector<double>& finish_;
    std::vector<std::size_t> order_;  // of the rows by start; empty if they are sorted
    std::vector<ResourceId> route_ = {0};
    std::size_t next_ = 0;
};

}  // namespace

ColumnRun run_columns(const Columns& columns, bool record, const std::function<void()>& poll) {
    ColumnRun run;
    run.finish.assign(columns.start.size(), std::numeric_limits<double>::quiet_NaN());
    Simulation simulation;
    for (const double capacity : columns.capacity)
        simulation.add_resource(capacity, columns.efficiency);
    for (std::size_t i = 0; i < columns.lease_host.size(); ++i)
        simulation.add_lease(static_cast<ResourceId>(columns.lease_host[i]), columns.lease_size[i],
                             columns.lease_weight[i]);
    if (record) {
        run.rates.emplace();
        simulation.add_observer(&*run.rates);
    }
    Feeder feeder(columns, simulation, run.finish);
    simulation.set_client(&feeder);
    for (std::uint32_t count = 1; simulation.step(); ++count)
        if (count % 65536 == 0) poll();
    run.events = simulation.events();
    for (Stalled each : simulation.stalled()) {
        each.slot = static_cast<Slot>(simulation.token(each.slot) - 1);
        run.stalled.push_back(each);
    }
    return run;
}

}  // namespace twinloop
