#include "control/policies/filter_rules.hpp"

#include <algorithm>
#include <cmath>

namespace twinloop {

namespace {

void tighten(std::optional<double>& ratio, double value) {
    ratio = ratio ? std::min(*ratio, value) : value;
}

double unused(double free, double size, double ratio) {
    return ratio == 1 || !std::isfinite(size) ? free : ratio * size - (size - free);
}

// A task may overcommit a machine together with others, but not alone.
double room_of(double free, double size, const std::optional<double>& ratio) {
    return ratio ? std::min(unused(free, size, *ratio), size) : never;
}

}  // namespace

FilterRules::FilterRules(const FilterOptions& options) {
    for (const auto& [filter, value] : options.filters) {
        switch (filter) {
            case Filter::instance_count:
                instances_ = std::min(instances_, value);
                break;
            case Filter::vcpu:
                tighten(vcpu_, value);
                break;
            case Filter::ram:
                tighten(ram_, value);
                break;
            case Filter::capacity:
                capacity_ = true;
                break;
            case Filter::resource:
                tighten(resource_, value);
                break;
        }
    }
    std::ranges::copy_if(options.weighers, std::back_inserter(weighers_),
                         [](const auto& weigher) { return weigher.second != 0; });
}

FilterRules::Demand FilterRules::demand(const SchedulerState& scheduler, TaskId task) {
    const Request& request = scheduler.request(task);
    const double share = request.nodes > 0 ? 1.0 / request.nodes : 1.0;
    const double cores = request.cores * share;
    return {{cores - slack, request.memory * share * (1 - slack)},
            cores,
            request.memory * share,
            request.mhz,
            share,
            request.nodes > 0 ? static_cast<std::size_t>(request.nodes) : 1};
}

Room FilterRules::room(const SchedulerState& scheduler, const Space& space,
                       MachineId machine) const {
    const MachineSpec& spec = scheduler.machines()[machine];
    return {room_of(space.cores(machine), spec.cores, vcpu_),
            room_of(space.memory(machine), spec.memory, ram_)};
}

double FilterRules::count_places(const SchedulerState& scheduler, const Space& space,
                                 MachineId machine, const Demand& demand) const {
    if (!has_room(scheduler, space, machine, demand)) return 0.0;
    const auto count = [](double room, double each, double rounding) {
        return each > 0 ? std::max(std::floor((room + rounding) / each), 1.0) : never;
    };
    const MachineSpec& spec = scheduler.machines()[machine];
    double places = instances_ - space.occupants(machine);
    if (vcpu_)
        places = std::min(
            places, count(unused(space.cores(machine), spec.cores, *vcpu_), demand.cores, slack));
    if (ram_)
        places = std::min(places, count(unused(space.memory(machine), spec.memory, *ram_),
                                        demand.memory, demand.memory * slack));
    return places;
}

bool FilterRules::accepts(const SchedulerState& scheduler, const Space& space, MachineId machine,
                          TaskId task, const Demand& demand, double now) const {
    if (capacity_) {
        const double mhz = scheduler.machines()[machine].mhz;
        if (demand.mhz > 0 && mhz > 0 && mhz < demand.mhz) return false;
    }
    if (resource_) {
        const std::span<const double> amounts = scheduler.needs(task).amounts;
        for (std::size_t r = 0; r < amounts.size(); ++r) {
            const double size = scheduler.empty_space().amount(machine, r);
            if (room_of(space.amount(machine, r), size, resource_) <
                amounts[r] * demand.share - slack)
                return false;
        }
    }
    return scheduler.unrestricted() ||
           scheduler.allowed(task, machine, now, scheduler.planned_time(task));
}

double FilterRules::value(Weigher weigher, const SchedulerState& scheduler,
                          MachineId machine) const {
    const Space& space = scheduler.space();
    switch (weigher) {
        case Weigher::instance_count:
            return space.occupants(machine);
        case Weigher::vcpu: {
            // In millionths of a core: far finer than any request, far coarser than rounding
            // errors.
            const double size = scheduler.machines()[machine].cores;
            return std::round(1e6 * unused(space.cores(machine), size, vcpu_.value_or(1.0)));
        }
        case Weigher::ram:
            return std::round(space.memory(machine));
        case Weigher::capacity:
            return clocks_known_ ? scheduler.machines()[machine].mhz
                                 : scheduler.machines()[machine].speed;
    }
    return 0.0;
}

void FilterRules::learn_clocks(const SchedulerState& scheduler) {
    clocks_known_ =
        std::ranges::all_of(scheduler.machines(), [](const auto& each) { return each.mhz > 0; });
}

bool FilterRules::overcommits() const { return vcpu_ ? *vcpu_ > 1 : instances_ > 1; }

}  // namespace twinloop
