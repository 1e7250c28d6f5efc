#include "policy/batch_room.hpp"

#include <algorithm>

namespace twinloop {

bool PoolRoom::place(Desk& desk, const Waiting& task, const Claim& /*claim*/,
                     std::vector<Part>& scratch) {
    if (task.cores > desk.free_cores() + slack) return false;
    if (!desk.space().find(desk.needs(task.task), scratch)) return false;
    desk.place(task.task, scratch);
    return true;
}

void SpaceRoom::take(const Desk& desk, const Waiting& task, const Claim& claim) {
    space_.take(desk.needs(task.task), claim);
    // Where plans slipped, a place may be promised twice. What is missing there is missing nowhere
    // else.
    for (const Part& part : claim)
        for (MachineId m = part.machine; m < part.machine + part.count; ++m)
            if (space_.cores(m) < 0) space_.resize(m, -space_.cores(m));
}

void SpaceRoom::meet(const SpaceRoom& room) {
    const Space& other = room.space_;
    std::vector<double> amounts(space_.resources());
    for (MachineId m = 0; m < space_.size(); ++m) {
        const auto excess = [](double mine, double theirs) {
            return mine > theirs ? mine - theirs : 0.0;
        };
        const double cores = excess(space_.cores(m), other.cores(m));
        const double memory = excess(space_.memory(m), other.memory(m));
        bool more = cores > 0 || memory > 0;
        for (std::size_t r = 0; r < amounts.size(); ++r) {
            amounts[r] = excess(space_.amount(m, r), other.amount(m, r));
            more = more || amounts[r] > 0;
        }
        if (!more) continue;
        const Part part{m, 1, cores};
        space_.take({cores, memory, 0, amounts}, {&part, 1});
    }
}

bool SpaceRoom::place(Desk& desk, const Waiting& task, const Claim& claim,
                      std::vector<Part>& /*scratch*/) {
    const Needs needs = desk.needs(task.task);
    for (const Part& part : claim) {
        const double share = part.share_of(needs.cores);
        for (MachineId m = part.machine; m < part.machine + part.count; ++m)
            if (!desk.space().holds(m, part.cores, needs.memory * share, needs.amounts, share))
                return false;
    }
    desk.place(task.task, claim);
    return true;
}

}  // namespace twinloop
