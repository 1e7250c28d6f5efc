#include "world/scenario.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace twinloop {
namespace {

double& place(ContentionRule& rule, const FurtherValue& which) {
    switch (which.what) {
        case FurtherValue::What::inflation:
            return rule.inflations[which.index];
        case FurtherValue::What::pressure:
            return rule.pressures[which.index];
        case FurtherValue::What::sensitivity:
            return rule.sensitivities[which.index];
        default:
            return rule.slope;
    }
}

double& place(PowerModel& power, FurtherValue::What what) {
    switch (what) {
        case FurtherValue::What::max:
            return power.max;
        case FurtherValue::What::parameter:
            return power.parameter;
        default:
            return power.idle;
    }
}

}  // namespace

void Scenario::complete() {
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
        for (const MachineSpec& each : machines)
            provided = std::min(provided, each.speed * values.speed_factor);
    }
    return (controller.spreads() ? peak_spread_ : peak_alone_) > provided * (1 + slack);
}

ModelValues Scenario::values(std::span<const double> row) const {
    ModelValues made{row[0], row[1], row[2],          row[3],     row[4],
                     row[5], row[6], service_factors, contention, nullptr};
    std::shared_ptr<ContentionRule> rule;
    std::shared_ptr<PowerModel> power;
    for (std::size_t i = model_values; i < row.size(); ++i) {
        const FurtherValue& which = further[i - model_values];
        if (which.what == FurtherValue::What::service_factor) {
            made.service_factors[which.index] = row[i];
        } else if (which.what < FurtherValue::What::idle) {
            if (!rule) rule = std::make_shared<ContentionRule>(*contention);
            place(*rule, which) = row[i];
        } else {
            if (!power) power = std::make_shared<PowerModel>(*powers.front());
            place(*power, which.what) = row[i];
        }
    }
    if (rule) made.contention = std::move(rule);
    made.power = std::move(power);
    return made;
}

SchedulerState Scenario::make_scheduler_state(const Controller& controller, double capacity) const {
    std::vector<MachineSpec> seen = machines;
    for (MachineSpec& each : seen) each.cores *= capacity;
    SchedulerState made(tasks, std::move(seen), machine_amounts, windows, queues,
                        controller.spreads());
    made.set_state_tables(states);
    return made;
}

double Scenario::requested_or_recorded_time(TaskId task) const {
    const Task& row = (*tasks)[task];
    return std::isnan(row.request.time) ? row.length : row.request.time;
}

}  // namespace twinloop
