#include "policy/filter_hosts.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace twinloop {

FilterHosts::FilterHosts(const FilterOptions& options)
    : rules_(options), draw_(options.seed), pick_(options.pick),
      subset_(std::max(options.subset, 1U)),
      indexed_(pick_ == Pick::round_robin ||
               (pick_ == Pick::first && subset_ == 1 && rules_.weighers().size() <= 1)) {}

void FilterHosts::look(const Desk& desk) {
    if (known_) return;
    known_ = true;
    rules_.learn_clocks(desk);
    if (!indexed_) return;
    const std::size_t count = desk.machines().size();
    if (index_.size() != count) {
        const auto& weighers = rules_.weighers();
        const bool most_room_first = !weighers.empty() && weighers.front().second > 0 &&
                                     weighers.front().first != Weigher::instance_count;
        index_ = HostIndex(count, most_room_first);
    }
    for (MachineId m = 0; m < count; ++m) update(desk, m);
}

void FilterHosts::update(const Desk& desk, MachineId first, std::uint32_t count) {
    if (!indexed_ || !known_) return;
    for (MachineId m = first; m < first + count; ++m) update(desk, m);
}

void FilterHosts::update(const Desk& desk, MachineId machine) {
    if (!rules_.takes_tasks(desk.space(), machine)) {
        index_.remove(machine);
        return;
    }
    double key = 0.0;
    if (pick_ == Pick::first && !rules_.weighers().empty()) {
        const auto& [weigher, multiplier] = rules_.weighers().front();
        const double value = rules_.value(weigher, desk, machine);
        key = multiplier > 0 ? -value : value;
    }
    index_.put(machine, key, rules_.room(desk, desk.space(), machine));
}

const std::vector<MachineId>& FilterHosts::choose(const Desk& desk, TaskId task,
                                                  const Asked& asked) {
    look(desk);
    chosen_.clear();
    if (indexed_) choose_from_index(desk, task, asked);
    else choose_from_all(desk, task, asked);
    std::ranges::sort(chosen_);
    return chosen_;
}

void FilterHosts::choose_from_index(const Desk& desk, TaskId task, const Asked& asked) {
    const bool only_room = rules_.only_room(desk);
    const auto accept = [&](MachineId m) {
        return only_room || rules_.accepts(desk, desk.space(), m, task, asked, desk.now());
    };
    const auto collect = [&](HostIndex::Place from, MachineId limit) {
        while (chosen_.size() < asked.machines) {
            const HostIndex::Place found = index_.best(asked.room, from, accept);
            if (found.machine >= limit) return;
            chosen_.push_back(found.machine);
            from = {found.key, found.machine + 1};
        }
    };
    const bool in_turn = pick_ == Pick::round_robin;
    if (in_turn) collect({0.0, next_}, no_machine);
    collect({}, in_turn ? next_ : no_machine);
    if (chosen_.size() < asked.machines) chosen_.clear();
    else next_ = chosen_.back() + 1;
}

void FilterHosts::choose_from_all(const Desk& desk, TaskId task, const Asked& asked) {
    passing_.clear();
    for (MachineId m = 0; m < desk.machines().size(); ++m)
        if (rules_.passes(desk, desk.space(), m, task, asked, desk.now())) passing_.push_back(m);
    if (passing_.size() < asked.machines) return;
    if (pick_ == Pick::random) choose_any(asked.machines);
    else choose_best(desk, asked.machines);
}

void FilterHosts::choose_any(std::size_t count) {
    for (std::size_t taken = 0; taken < count; ++taken) {
        std::swap(passing_[taken], passing_[taken + draw_.below(passing_.size() - taken)]);
        chosen_.push_back(passing_[taken]);
    }
}

void FilterHosts::choose_best(const Desk& desk, std::size_t count) {
    weigh(desk);
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

// Several weighers add up, each brought to 0..1 over the machines that pass.
void FilterHosts::weigh(const Desk& desk) {
    weights_.assign(passing_.size(), 0.0);
    const bool alone = rules_.weighers().size() == 1;
    for (const auto& [weigher, multiplier] : rules_.weighers()) {
        values_.clear();
        for (const MachineId m : passing_) values_.push_back(rules_.value(weigher, desk, m));
        const auto [low, high] = std::ranges::minmax(values_);
        if (low == high) continue;
        for (std::size_t i = 0; i < values_.size(); ++i) {
            const double value = values_[i];
            if (alone) {
                weights_[i] = multiplier > 0 ? value : -value;
            } else if (std::isfinite(high)) {
                weights_[i] += multiplier * ((value - low) / (high - low));
            } else if (value == high) {
                // Where some machines have memory without limit, the others have next to none.
                weights_[i] += multiplier;
            }
        }
    }
}

}  // namespace twinloop
