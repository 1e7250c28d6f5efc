#include "model/problem.hpp"

#include <algorithm>

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

void Problem::complete() {
    length.resize(size());
    for (TaskId task = 0; task < size(); ++task) length[task] = length_of(task);
    even = std::ranges::all_of(
        machines, [&](const MachineSpec& each) { return each.speed == machines.front().speed; });
}

Values Problem::values(std::span<const double> row) const {
    Values made{row[0], row[1], row[2],          row[3],     row[4],
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
            if (!power) power = std::make_shared<PowerModel>(powers.front());
            place(*power, which.what) = row[i];
        }
    }
    if (rule) made.contention = std::move(rule);
    made.power = std::move(power);
    return made;
}

double Problem::length_of(TaskId task) const {
    if (!varies(task)) return work[task] > 0 ? work[task] / limit[task] : 0.0;
    double total = 0.0;
    for (std::uint32_t i = fragment_offsets[task]; i < fragment_offsets[task + 1]; ++i)
        total += fragment_duration[i];
    return total;
}

}  // namespace twinloop
