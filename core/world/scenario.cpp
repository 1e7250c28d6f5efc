#include "world/scenario.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "world/values_draft.hpp"

namespace twinloop {

void Scenario::complete() {
    groups.resize(machines.size(), 0);
    firsts_.clear();
    for (MachineId m = 0; m < machines.size(); ++m) {
        if (groups[m] >= firsts_.size()) firsts_.resize(groups[m] + 1, no_machine);
        if (firsts_[groups[m]] == no_machine) firsts_[groups[m]] = m;
    }
    double fewest = never;
    for (const MachineSpec& each : machines) fewest = std::min(fewest, each.cores);
    peak_spread_ = peak_alone_ = 0.0;
    for (TaskId task = 0; task < tasks->size(); ++task) {
        const Task& row = (*tasks)[task];
        if (!(row.limit > 0)) continue;
        const double demand = options.fixed_demand ? row.limit : row.limit / row.speed;
        const double cores = row.request.cores;
        peak_spread_ = std::max(peak_spread_, demand / cores);
        peak_alone_ = std::max(peak_alone_, demand / std::min(cores, fewest));
    }
}

bool Scenario::may_share(const ModelValues& values, const Controller& controller) const {
    if (contention->kind != ContentionRule::Kind::none || controller.overcommits() ||
        values.effective_capacity > 1)
        return true;
    double provided = 1.0;
    if (options.fixed_demand) {
        provided = never;
        for (const MachineSpec& each : machines_of(values))
            provided = std::min(provided, each.speed * values.speed_factor);
    }
    return (controller.spreads() ? peak_spread_ : peak_alone_) > provided * (1 + slack);
}

ModelValues Scenario::values(std::span<const double> row, const ValueColumns& its_columns) const {
    ValuesDraft draft(*this);
    for (std::size_t i = 0; i < row.size(); ++i) its_columns.set(draft, i, row[i]);
    return std::move(draft).finish();
}

std::shared_ptr<const PowerModel> Scenario::power_of(const ModelValues& values,
                                                     MachineId machine) const {
    if (!values.powers.empty() && values.powers[groups[machine]])
        return values.powers[groups[machine]];
    return metered() ? powers[machine] : nullptr;
}

SchedulerState Scenario::make_scheduler_state(const Controller& controller,
                                              const ModelValues& values) const {
    std::vector<MachineSpec> seen = machines_of(values);
    for (MachineSpec& each : seen) each.cores *= values.effective_capacity;
    SchedulerState made(tasks, std::move(seen), machine_amounts, windows, queues,
                        controller.spreads());
    made.set_state_tables(values.states ? values.states : states);
    if (!clouds->empty()) made.set_clouds(clouds);
    return made;
}

SchedulerState Scenario::make_cloud_scheduler(const CloudPlan& cloud, const Controller& controller,
                                              const ModelValues& values) const {
    const StateTables& all = values.states ? *values.states : *states;
    StateTables seen;
    seen.names = all.names;
    seen.tables = all.tables;
    std::vector<MachineSpec> hosts;
    for (const MachineId host : cloud.hosts) {
        MachineSpec spec = machines_of(values)[host];
        spec.cores *= values.effective_capacity;
        hosts.push_back(spec);
        seen.of_machine.push_back(all.of_machine.empty() ? std::uint16_t{0} : all.of_machine[host]);
    }
    SchedulerState made(std::make_shared<const TaskTable>(), std::move(hosts), {}, {}, {},
                        controller.spreads());
    made.set_state_tables(std::make_shared<const StateTables>(std::move(seen)));
    return made;
}

double Scenario::requested_or_recorded_time(TaskId task) const {
    const Task& row = (*tasks)[task];
    return std::isnan(row.request.time) ? row.length : row.request.time;
}

}  // namespace twinloop
