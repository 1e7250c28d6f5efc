#include "control/policies/batch_room.hpp"

namespace twinloop {

bool PoolRoom::place(SchedulerState& scheduler, const Waiting& task, const Claim& /*claim*/,
                     std::vector<Part>& scratch) {
    if (task.cores > scheduler.free_cores() + slack) return false;
    if (!scheduler.find(task.task, scheduler.space(), scheduler.now(), scratch)) return false;
    scheduler.place(task.task, scratch);
    return true;
}

void SpaceRoom::reset(const SchedulerState& scheduler) {
    space_ = scheduler.space();
    watched_ = no_task;
    needs_ = {};
}

void SpaceRoom::watch(const SchedulerState& scheduler, const Waiting& task) {
    watched_ = task.task;
    needs_ = scheduler.needs(task.task);
    fitting_ = 0;
    if (needs_.nodes == 0) return;
    for (MachineId m = space_.index().next(0); m != FreeIndex::end; m = space_.index().next(m + 1))
        if (fits(m)) ++fitting_;
}

// As Space::find, which takes no machine without free cores for a node.
bool SpaceRoom::fits(MachineId machine) const {
    const double share = 1.0 / needs_.nodes;
    return space_.index().test(machine) &&
           space_.holds(machine, needs_.cores * share, needs_.memory * share, needs_.amounts,
                        share);
}

std::size_t SpaceRoom::count_fitting(std::span<const Part> parts) const {
    if (needs_.nodes == 0) return 0;
    std::size_t count = 0;
    for (const Part& part : parts)
        for (MachineId m = part.machine; m < part.machine + part.count; ++m)
            if (fits(m)) ++count;
    return count;
}

void SpaceRoom::give(const SchedulerState& scheduler, const Release& release) {
    const std::span<const Part> parts = scheduler.parts(release.task);
    fitting_ -= count_fitting(parts);
    space_.give(scheduler.needs(release.task), parts);
    fitting_ += count_fitting(parts);
}

void SpaceRoom::take(const Needs& needs, std::span<const Part> parts) {
    fitting_ -= count_fitting(parts);
    space_.take(needs, parts);
    fitting_ += count_fitting(parts);
}

void SpaceRoom::meet(const Space& other, std::span<const Part> parts) {
    fitting_ -= count_fitting(parts);
    for (const Part& part : parts)
        for (MachineId m = part.machine; m < part.machine + part.count; ++m) meet(other, m);
    fitting_ += count_fitting(parts);
}

void SpaceRoom::meet(const Space& other, MachineId machine) {
    const auto excess = [](double mine, double theirs) {
        return mine > theirs ? mine - theirs : 0.0;
    };
    const double cores = excess(space_.cores(machine), other.cores(machine));
    const double memory = excess(space_.memory(machine), other.memory(machine));
    bool more = cores > 0 || memory > 0;
    amounts_.resize(space_.resources());
    for (std::size_t r = 0; r < amounts_.size(); ++r) {
        amounts_[r] = excess(space_.amount(machine, r), other.amount(machine, r));
        more = more || amounts_[r] > 0;
    }
    if (!more) return;
    const Part part{machine, 1, cores};
    space_.take({cores, memory, 0, amounts_}, {&part, 1});
}

bool SpaceRoom::place(SchedulerState& scheduler, const Waiting& task, const Claim& claim,
                      std::vector<Part>& /*scratch*/) {
    const Needs needs = scheduler.needs(task.task);
    const double now = scheduler.now();
    const double time = scheduler.planned_time(task.task);
    for (const Part& part : claim) {
        const double share = part.share_of(needs.cores);
        // A task that is late for its reservation may meet a window that it would have missed.
        for (MachineId m = part.machine; m < part.machine + part.count; ++m)
            if (!scheduler.space().holds(m, part.cores, needs.memory * share, needs.amounts,
                                         share) ||
                !scheduler.allowed(task.task, m, now, time))
                return false;
    }
    scheduler.place(task.task, claim);
    return true;
}

}  // namespace twinloop
