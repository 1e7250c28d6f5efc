#include "control/policies/idle_cores.hpp"

#include <algorithm>
#include <bit>

namespace twinloop {

void IdleCores::build(const SchedulerState& scheduler, const WorkflowTables& tables) {
    const std::size_t count = scheduler.machines().size();
    std::uint32_t known = 0;
    for (const std::uint32_t each : tables.clusters) known = std::max(known, each + 1);
    clusters_.assign(known + std::size_t{1}, {});
    places_.assign(count, {});
    for (MachineId m = 0; m < count; ++m) {
        // An instance belongs to the cluster of its host; other machines that were added in the run
        // are a cluster of their own.
        const MachineId host = scheduler.host_of(m) == no_machine ? m : scheduler.host_of(m);
        const std::uint32_t cluster = host < tables.clusters.size() ? tables.clusters[host] : known;
        std::vector<MachineId>& machines = clusters_[cluster].machines;
        places_[m] = {cluster, static_cast<std::uint32_t>(machines.size())};
        machines.push_back(m);
    }
    if (clusters_.back().machines.empty() && known > 0) clusters_.pop_back();
    for (Cluster& each : clusters_) {
        each.leaves = std::bit_ceil(std::max<std::size_t>(each.machines.size(), 1));
        each.sums.assign(2 * each.leaves, 0.0);
        each.most.assign(2 * each.leaves, -1.0);
        for (const MachineId m : each.machines) {
            each.speed = std::max(each.speed, scheduler.machines()[m].speed);
            set(scheduler, m);
        }
        for (std::size_t at = each.leaves - 1; at > 0; --at) {
            each.sums[at] = each.sums[2 * at] + each.sums[2 * at + 1];
            each.most[at] = std::max(each.most[2 * at], each.most[2 * at + 1]);
        }
    }
}

void IdleCores::set(const SchedulerState& scheduler, MachineId machine) {
    const Place place = places_[machine];
    Cluster& cluster = clusters_[place.cluster];
    const Space& space = scheduler.space();
    const double idle = space.open(machine) ? std::max(0.0, space.cores(machine)) : -1.0;
    cluster.sums[cluster.leaves + place.leaf] = std::max(0.0, idle);
    cluster.most[cluster.leaves + place.leaf] = idle;
}

void IdleCores::update(const SchedulerState& scheduler, MachineId machine) {
    set(scheduler, machine);
    const Place place = places_[machine];
    Cluster& cluster = clusters_[place.cluster];
    for (std::size_t at = (cluster.leaves + place.leaf) / 2; at > 0; at /= 2) {
        cluster.sums[at] = cluster.sums[2 * at] + cluster.sums[2 * at + 1];
        cluster.most[at] = std::max(cluster.most[2 * at], cluster.most[2 * at + 1]);
    }
}

MachineId IdleCores::first(std::size_t index, double cores) const {
    const Cluster& cluster = clusters_[index];
    std::size_t at = 1;
    while (at < cluster.leaves) {
        at *= 2;
        if (cluster.most[at] < cores - slack) ++at;
    }
    return cluster.machines[at - cluster.leaves];
}

}  // namespace twinloop
