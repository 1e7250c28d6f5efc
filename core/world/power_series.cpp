#include "world/power_series.hpp"

#include <algorithm>
#include <cmath>

#include "record/windows.hpp"

namespace twinloop {
namespace {

// Calls `each(machine, from, until, share of its capacity that is used, watts)` for all periods in
// which the use of a machine was constant. If the share is NaN, the machine had the power of its
// state, which is `watts`. The last periods end with the world.
template <class Each>
void for_each_use(const World& world, Each&& each) {
    struct Last {
        double t;
        double share;
        double watts;
    };
    const WorldState& all = world.state();
    std::vector<Last> last(all.fleet.size(), {all.begin, unknown, 0.0});
    std::vector<double> capacities;
    capacities.reserve(all.fleet.size());
    // As they were at the start; resizes follow.
    for (const MachineSpec& machine : all.scenario->machines_of(all.values))
        capacities.push_back(machine.cores * machine.speed * all.values.speed_factor);
    capacities.resize(all.fleet.size(), 0.0);
    const UseLog& use = all.records.use;
    std::size_t resize = 0;
    std::size_t power = 0;
    for (std::size_t i = 0; i < use.size(); ++i) {
        const auto [id, t, used] = use[i];
        const std::size_t machine = id;
        if (t > last[machine].t)
            each(machine, last[machine].t, t, last[machine].share, last[machine].watts);
        for (; resize < use.resizes.size() && use.resizes[resize].place <= i; ++resize)
            capacities[use.resizes[resize].machine] = use.resizes[resize].capacity;
        const bool some = std::isnan(used) || capacities[machine] > 0;
        last[machine] = {t, some ? used / capacities[machine] : 0.0, 0.0};
        if (power < use.state_powers.size() && use.state_powers[power].place == i)
            last[machine].watts = use.state_powers[power++].watts;
    }
    for (std::size_t machine = 0; machine < last.size(); ++machine)
        each(machine, last[machine].t, world.now(), last[machine].share, last[machine].watts);
}

// The length of each window.
std::vector<double> lengths(const World& world, double step) {
    std::vector<double> found(window_count(world, step), step);
    if (!found.empty())
        found.back() =
            world.now() - (world.state().begin + static_cast<double>(found.size() - 1) * step);
    return found;
}

}  // namespace

std::size_t window_count(const World& world, double step) {
    const double begin = world.state().begin;
    std::size_t count = windows_in(world.now() - begin, step);
    // At a late time, rounding may leave nothing for the last window.
    while (count > 1 && begin + static_cast<double>(count - 1) * step >= world.now()) --count;
    return count;
}

std::vector<double> power_series(const World& world, double step, bool machines) {
    const std::vector<double> length = lengths(world, step);
    const std::size_t windows = length.size();
    std::vector<double> joules(windows * (machines ? world.state().machine_count() : 1), 0.0);
    const Fleet& fleet = world.state().fleet;
    // The periods of a machine follow each other, so each begins in the last window of the one
    // before.
    std::vector<std::size_t> at(fleet.size(), 0);
    for_each_use(
        world, [&](std::size_t machine, double from, double until, double share, double watts) {
            const PowerModel* const power = fleet[static_cast<MachineId>(machine)].power.get();
            if (power == nullptr) return;
            if (!std::isnan(share)) watts = power->at(share);
            if (watts == 0) return;
            double* const row = joules.data() + (machines ? machine * windows : 0);
            spread(world.state().begin, step, windows - 1, at[machine], from, until,
                   [=](std::size_t window, double seconds) { row[window] += watts * seconds; });
        });
    for (std::size_t i = 0; i < joules.size(); ++i) joules[i] /= length[i % windows];
    return joules;
}

LoadProfile::LoadProfile(const World& world, double step, bool by_group)
    : lengths_(lengths(world, step)), in_states_(lengths_.size(), 0.0),
      groups_(by_group ? world.state().scenario->group_count() : std::size_t{1}) {
    for (Group& each : groups_) {
        each.on.resize(windows(), 0.0);
        each.offsets.resize(windows() + 1, 0);
    }
    // Two passes over the same periods: the first counts them by window.
    const std::size_t last = windows() - 1;
    const std::vector<std::uint32_t>& group_of = world.state().scenario->groups;
    const auto all = [&](auto&& each) {
        for_each_use(
            world, [&](std::size_t machine, double from, double until, double share, double watts) {
                if (std::isnan(share) && watts == 0) return;
                const std::size_t group = by_group ? group_of[machine] : 0;
                spread(world.state().begin, step, last, from, until,
                       [&](std::size_t window, double seconds) {
                           each(group, window, share, watts, seconds);
                       });
            });
    };
    all([&](std::size_t group, std::size_t window, double share, double watts, double seconds) {
        if (std::isnan(share)) {
            in_states_[window] += watts * seconds;
            return;
        }
        groups_[group].on[window] += seconds;
        if (share > 0) ++groups_[group].offsets[window + 1];
    });
    std::vector<std::vector<double>> shares(groups_.size());
    std::vector<std::vector<std::size_t>> next(groups_.size());
    for (std::size_t group = 0; group < groups_.size(); ++group) {
        Group& mine = groups_[group];
        for (std::size_t window = 0; window < windows(); ++window)
            mine.offsets[window + 1] += mine.offsets[window];
        shares[group].resize(mine.offsets.back());
        mine.seconds.resize(mine.offsets.back());
        next[group].assign(mine.offsets.begin(), mine.offsets.end() - 1);
    }
    all([&](std::size_t group, std::size_t window, double share, double, double seconds) {
        if (!(share > 0)) return;
        shares[group][next[group][window]] = share;
        groups_[group].seconds[next[group][window]++] = seconds;
    });
    for (std::size_t group = 0; group < groups_.size(); ++group) {
        Group& mine = groups_[group];
        mine.levels = shares[group];
        std::ranges::sort(mine.levels);
        // Clang 14 does not compile std::ranges::unique with libstdc++ 12.
        // NOLINTNEXTLINE(modernize-use-ranges)
        mine.levels.erase(std::unique(mine.levels.begin(), mine.levels.end()), mine.levels.end());
        mine.level_of.reserve(shares[group].size());
        for (const double share : shares[group]) {
            const auto level = std::ranges::lower_bound(mine.levels, share) - mine.levels.begin();
            mine.level_of.push_back(static_cast<std::uint32_t>(level));
        }
    }
}

void LoadProfile::Group::add_joules(const PowerModel& model, std::span<double> joules) const {
    const double idle = model.at(0.0);
    std::vector<double> above(levels.size());
    for (std::size_t i = 0; i < levels.size(); ++i) above[i] = model.at(levels[i]) - idle;
    for (std::size_t window = 0; window < joules.size(); ++window) {
        double mine = idle * on[window];
        for (std::size_t i = offsets[window]; i < offsets[window + 1]; ++i)
            mine += above[level_of[i]] * seconds[i];
        joules[window] += mine;
    }
}

void LoadProfile::watts(std::span<const std::shared_ptr<const PowerModel>> models,
                        std::span<double> means) const {
    std::ranges::copy(in_states_, means.begin());
    for (std::size_t group = 0; group < groups_.size(); ++group)
        groups_[group].add_joules(*models[group], means);
    for (std::size_t window = 0; window < windows(); ++window) means[window] /= lengths_[window];
}

}  // namespace twinloop
