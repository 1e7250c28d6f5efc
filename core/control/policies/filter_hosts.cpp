#include "control/policies/filter_hosts.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace twinloop {

FilterHosts::FilterHosts(const FilterOptions& options)
    : rules_(options), draw_(options.seed), pick_(options.pick),
      subset_(std::max(options.subset, 1U)),
      indexed_(pick_ == Pick::round_robin ||
               (pick_ == Pick::first && subset_ == 1 && rules_.weighers().size() <= 1)) {}

void FilterHosts::index_all(const SchedulerState& scheduler) {
    known_ = true;
    rules_.learn_clocks(scheduler);
    if (!indexed_) return;
    const auto& weighers = rules_.weighers();
    const bool most_room_first = !weighers.empty() && weighers.front().second > 0 &&
                                 weighers.front().first != Weigher::instance_count;
    const std::size_t count = scheduler.machines().size();
    index_ = HostIndex(count, most_room_first);
    for (MachineId m = 0; m < count; ++m) update(scheduler, m);
}

void FilterHosts::change(const SchedulerState& scheduler, MachineId machine) {
    if (!known_) return;
    // An unknown clock changes the weights of all machines.
    if (rules_.knows_clocks() && scheduler.machines()[machine].mhz <= 0) {
        known_ = false;
        return;
    }
    if (!indexed_) return;
    if (machine >= index_.size()) index_.resize(machine + 1);
    update(scheduler, machine);
}

void FilterHosts::update(const SchedulerState& scheduler, MachineId first, std::uint32_t count) {
    if (!indexed_ || !known_) return;
    for (MachineId m = first; m < first + count; ++m) update(scheduler, m);
}

void FilterHosts::update(const SchedulerState& scheduler, MachineId machine) {
    if (!rules_.takes_tasks(scheduler.space(), machine)) {
        index_.remove(machine);
        return;
    }
    double key = 0.0;
    if (pick_ == Pick::first && !rules_.weighers().empty()) {
        const auto& [weigher, multiplier] = rules_.weighers().front();
        const double value = rules_.value(weigher, scheduler, machine);
        key = multiplier > 0 ? -value : value;
    }
    index_.put(machine, key, rules_.room(scheduler, scheduler.space(), machine));
}

const std::vector<MachineId>& FilterHosts::choose(const SchedulerState& scheduler, TaskId task,
                                                  const Demand& demand) {
    if (!known_) index_all(scheduler);
    chosen_.clear();
    if (indexed_) choose_from_index(scheduler, task, demand);
    else choose_from_all(scheduler, task, demand);
    std::ranges::sort(chosen_);
    return chosen_;
}

void FilterHosts::choose_from_index(const SchedulerState& scheduler, TaskId task,
                                    const Demand& demand) {
    const bool only_room = rules_.only_room(scheduler);
    const auto accept = [&](MachineId m) {
        return only_room ||
               rules_.accepts(scheduler, scheduler.space(), m, task, demand, scheduler.now());
    };
    const auto collect = [&](HostIndex::Place from, MachineId limit) {
        while (chosen_.size() < demand.machines) {
            const HostIndex::Place found = index_.best(demand.room, from, accept);
            if (found.machine >= limit) return;
            chosen_.push_back(found.machine);
            from = {found.key, found.machine + 1};
        }
    };
    const bool in_turn = pick_ == Pick::round_robin;
    if (in_turn) collect({0.0, next_}, no_machine);
    collect({}, in_turn ? next_ : no_machine);
    if (chosen_.size() < demand.machines) chosen_.clear();
    else next_ = chosen_.back() + 1;
}

void FilterHosts::choose_from_all(const SchedulerState& scheduler, TaskId task,
                                  const Demand& demand) {
    passing_.clear();
    const bool only_room = rules_.only_room(scheduler);
    const Space& space = scheduler.space();
    for (MachineId m = 0; m < scheduler.machines().size(); ++m)
        if (rules_.has_room(scheduler, space, m, demand) &&
            (only_room || rules_.accepts(scheduler, space, m, task, demand, scheduler.now())))
            passing_.push_back(m);
    if (passing_.size() < demand.machines) return;
    if (pick_ == Pick::random) choose_any(demand.machines);
    else choose_best(scheduler, demand.machines);
}

void FilterHosts::choose_any(std::size_t count) {
    for (std::size_t taken = 0; taken < count; ++taken) {
        std::swap(passing_[taken], passing_[taken + draw_.below(passing_.size() - taken)]);
        chosen_.push_back(passing_[taken]);
    }
}

void FilterHosts::choose_best(const SchedulerState& scheduler, std::size_t count) {
    weigh(scheduler);
    if (count == 1 && subset_ == 1) {
        const auto best = std::ranges::max_element(weights_);
        chosen_.push_back(passing_[static_cast<std::size_t>(best - weights_.begin())]);
        return;
    }
    std::vector<std::size_t> order(passing_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const std::size_t in_question = std::min(order.size(), count + subset_ - 1);
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(in_question),
                      order.end(), [&](std::size_t a, std::size_t b) {
                          return weights_[a] != weights_[b] ? weights_[a] > weights_[b] : a < b;
                      });
    for (std::size_t taken = 0; taken < count; ++taken) {
        const std::size_t best = std::min<std::size_t>(subset_, order.size());
        const std::size_t drawn = best > 1 ? draw_.below(best) : 0;
        chosen_.push_back(passing_[order[drawn]]);
        order.erase(order.begin() + static_cast<std::ptrdiff_t>(drawn));
    }
}

// The weights of several weighers are added, each scaled to 0..1 over the passing machines.
void FilterHosts::weigh(const SchedulerState& scheduler) {
    weights_.assign(passing_.size(), 0.0);
    const bool alone = rules_.weighers().size() == 1;
    for (const auto& [weigher, multiplier] : rules_.weighers()) {
        values_.clear();
        for (const MachineId m : passing_) values_.push_back(rules_.value(weigher, scheduler, m));
        const auto [low, high] = std::ranges::minmax(values_);
        if (low == high) continue;
        for (std::size_t i = 0; i < values_.size(); ++i) {
            const double value = values_[i];
            if (alone) {
                weights_[i] = multiplier > 0 ? value : -value;
            } else if (std::isfinite(high)) {
                weights_[i] += multiplier * ((value - low) / (high - low));
            } else if (value == high) {
                // Beside machines with memory without limit, the others have the least weight.
                weights_[i] += multiplier;
            }
        }
    }
}

}  // namespace twinloop
