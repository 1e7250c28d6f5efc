#include "control/policies/batch_timeline.hpp"

#include <cmath>

namespace twinloop {

void Timeline<PoolRoom>::reset(const SchedulerState& scheduler,
                               const SortedBlocks<Release>& releases) {
    cores_.reset(scheduler.now(), scheduler.free_cores());
    releases.each([&](const Release& release) {
        if (release.end < never)
            cores_.append(std::max(release.end, scheduler.now()), release.cores);
    });
}

void Timeline<SpaceRoom>::reset(const SchedulerState& scheduler,
                                const SortedBlocks<Release>& releases) {
    const Space& space = scheduler.space();
    const double now = scheduler.now();
    kinds_ = space.is_plain() ? 1 : 2 + space.resources();
    overlap_ = false;
    cores_.reset(now, scheduler.free_cores());
    free_.resize(space.size() * kinds_);
    for (MachineId m = 0; m < space.size(); ++m) {
        Profile* const mine = &free_[m * kinds_];
        mine[0].reset(now, space.cores(m));
        if (kinds_ == 1) continue;
        mine[1].reset(now, space.memory(m));
        for (std::size_t r = 0; r < space.resources(); ++r)
            mine[r + 2].reset(now, space.amount(m, r));
    }
    releases.each([&](const Release& release) {
        if (release.end == never) return;
        const double end = std::max(release.end, now);
        cores_.append(end, release.cores);
        for_each_share(scheduler.needs(release.task), scheduler.parts(release.task),
                       [&](Profile& profile, double amount) { profile.append(end, amount); });
    });
}

// Visits the profiles of the machines of a task with its share of each.
template <class Visit>
void Timeline<SpaceRoom>::for_each_share(const Needs& needs, std::span<const Part> parts,
                                         Visit&& visit) {
    // Other resources go with the cores; without any, in equal parts.
    double machines = 0.0;
    for (const Part& part : parts) machines += part.count;
    for (const Part& part : parts) {
        const double share = needs.cores > 0 ? part.cores / needs.cores : 1.0 / machines;
        for (MachineId m = part.machine; m < part.machine + part.count; ++m) {
            Profile* const mine = &free_[m * kinds_];
            visit(mine[0], part.cores);
            if (kinds_ == 1) continue;
            if (needs.memory > 0) visit(mine[1], needs.memory * share);
            for (std::size_t r = 0; r < needs.amounts.size(); ++r)
                if (needs.amounts[r] > 0) visit(mine[r + 2], needs.amounts[r] * share);
        }
    }
}

void Timeline<SpaceRoom>::release_early(const SchedulerState& scheduler, const Release& release) {
    cores_.add(scheduler.now(), release.end, release.cores);
    for_each_share(scheduler.needs(release.task), scheduler.parts(release.task),
                   [&](Profile& profile, double amount) {
                       profile.add(scheduler.now(), release.end, amount);
                   });
}

void Timeline<SpaceRoom>::reserve(const SchedulerState& scheduler, const Waiting& task,
                                  double start, const Claim& claim) {
    const double end = start + task.time;
    cores_.add(start, end, -task.cores);
    for_each_share(scheduler.needs(task.task), claim, [&](Profile& profile, double amount) {
        profile.advance(scheduler.now());
        profile.add(start, end, -amount);
    });
}

void Timeline<SpaceRoom>::cancel(const SchedulerState& scheduler, const Waiting& task, double start,
                                 const Claim& claim) {
    const double begin = std::max(start, scheduler.now());
    const double end = start + task.time;
    if (!(begin < end)) return;
    cores_.add(begin, end, task.cores);
    for_each_share(scheduler.needs(task.task), claim,
                   [&](Profile& profile, double amount) { profile.add(begin, end, amount); });
}

double Timeline<SpaceRoom>::earliest(const SchedulerState& scheduler, const Waiting& task,
                                     double until, Claim& claim) {
    const Search search{task, scheduler.needs(task.task), until};
    claim.clear();
    return search.needs.nodes > 0 ? earliest_nodes(scheduler, search, claim)
                                  : earliest_anywhere(scheduler, search, claim);
}

// A lower bound: the cores of all machines together are enough.
double Timeline<SpaceRoom>::earliest_by_cores(const Search& search, double from) const {
    if (overlap_) return from;
    return cores_.earliest(from, search.task.cores - slack, search.task.time, search.until);
}

// Each machine has an earliest start. Before the time at which as many machines as needed have
// reached theirs there are too few; at that time some of them may be reserved again.
double Timeline<SpaceRoom>::earliest_nodes(const SchedulerState& scheduler, const Search& search,
                                           Claim& claim) {
    const Needs& needs = search.needs;
    const double share = 1.0 / needs.nodes;
    // A machine without free cores takes no node.
    least_.assign(1, std::max(needs.cores * share - slack, std::nextafter(slack, never)));
    if (kinds_ > 1) {
        least_.push_back(needs.memory > 0 ? needs.memory * share * (1 - slack) : -never);
        for (const double amount : needs.amounts)
            least_.push_back(amount > 0 ? amount * share - slack : -never);
    }
    const auto machines = static_cast<MachineId>(scheduler.space().size());
    const auto nodes = static_cast<std::size_t>(needs.nodes);
    if (nodes > machines) return never;
    starts_.assign(machines, -never);
    for (double start = scheduler.now();;) {
        start = earliest_by_cores(search, start);
        if (start >= search.until) return never;
        claim.clear();
        std::size_t found = 0;
        for (MachineId m = 0; m < machines; ++m) {
            if (starts_[m] < start) starts_[m] = earliest_on(scheduler, search, m, start);
            if (starts_[m] > start) continue;
            Space::append(claim, m, needs.cores * share);
            if (++found == nodes) return start;
        }
        sorted_ = starts_;
        const auto last = sorted_.begin() + static_cast<std::ptrdiff_t>(nodes) - 1;
        std::ranges::nth_element(sorted_, last);
        start = *last;
    }
}

// The earliest start of one node on a machine; `never` if there is none before the limit.
double Timeline<SpaceRoom>::earliest_on(const SchedulerState& scheduler, const Search& search,
                                        MachineId machine, double from) const {
    const Waiting& task = search.task;
    const Profile* const mine = &free_[machine * kinds_];
    double start = from;
    for (double before = -never; before < start && start < search.until;) {
        before = start;
        for (std::size_t kind = 0; kind < least_.size() && start < never; ++kind)
            start = mine[kind].earliest(start, least_[kind], task.time, search.until);
        if (least_.size() == 1 && scheduler.unrestricted()) break;
        if (start < never && !scheduler.allowed(task.task, machine, start, task.time)) {
            const std::span<const double> windows = scheduler.window_ends();
            const auto next = std::ranges::upper_bound(windows, start);
            start = next == windows.end() ? never : *next;
        }
    }
    return start < search.until && scheduler.space().open(machine) ? start : never;
}

double Timeline<SpaceRoom>::earliest_anywhere(const SchedulerState& scheduler, const Search& search,
                                              Claim& claim) {
    std::span<const double> windows = scheduler.window_ends();
    for (double start = scheduler.now();;) {
        start = earliest_by_cores(search, start);
        if (start >= search.until) return never;
        if (find_anywhere(scheduler, search, start, claim)) return start;
        while (!windows.empty() && windows.front() <= start) windows = windows.subspan(1);
        start = std::min(cores_.next_change(start), windows.empty() ? never : windows.front());
    }
}

// As Space::find, in the capacity that is free for the whole planned time.
bool Timeline<SpaceRoom>::find_anywhere(const SchedulerState& scheduler, const Search& search,
                                        double start, Claim& claim) {
    const Waiting& task = search.task;
    const Needs& needs = search.needs;
    const bool coreless = needs.cores <= slack;
    double missing = needs.cores;
    claim.clear();
    least_.resize(kinds_);
    for (MachineId m = 0; m < scheduler.space().size(); ++m) {
        if (!scheduler.space().open(m)) continue;
        for (std::size_t kind = 0; kind < kinds_; ++kind)
            least_[kind] = free_[m * kinds_ + kind].lowest(start, start + task.time);
        double given = 0.0;
        if (coreless) {
            if (!holds_other_resources(needs)) continue;
        } else {
            given = least_[0];
            if (kinds_ > 1)
                given = Space::offer(needs, least_[0], least_[1], std::span(least_).subspan(2));
            given = std::min(given, missing);
            if (given <= slack) continue;
        }
        if (!scheduler.unrestricted() && !scheduler.allowed(task.task, m, start, task.time))
            continue;
        Space::append(claim, m, given);
        missing -= given;
        if (missing <= slack) return true;
    }
    return false;
}

bool Timeline<SpaceRoom>::holds_other_resources(const Needs& needs) const {
    if (kinds_ == 1) return true;
    if (needs.memory > 0 && least_[1] < needs.memory * (1 - slack)) return false;
    for (std::size_t r = 0; r < needs.amounts.size(); ++r)
        if (needs.amounts[r] > 0 && least_[r + 2] < needs.amounts[r] - slack) return false;
    return true;
}

}  // namespace twinloop
