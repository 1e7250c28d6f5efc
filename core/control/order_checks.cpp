#include "control/order_checks.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace twinloop {
namespace {

bool has_repeats(std::span<const Part> parts) {
    const auto overlap = [](const Part& a, const Part& b) {
        return b.machine < a.machine + a.count;
    };
    const auto begins_before = [](const Part& a, const Part& b) { return a.machine < b.machine; };
    if (std::ranges::is_sorted(parts, begins_before))
        return std::ranges::adjacent_find(parts, overlap) != parts.end();
    std::vector<Part> sorted(parts.begin(), parts.end());
    std::ranges::sort(sorted, begins_before);
    return std::ranges::adjacent_find(sorted, overlap) != sorted.end();
}

// The amount that may be placed in addition on a machine of that size.
double room(double free, double size, double ratio) {
    if (ratio == 1.0) return free;
    return ratio < never ? free + (ratio - 1) * size : never;
}

// The reason why a task cannot get this share of its needs on the machine, for its planned time
// multiplied by `stretch`.
const char* find_machine_obstacle(const SchedulerState& scheduler, TaskId task, const Needs& needs,
                                  MachineId machine, double cores, double share, double stretch,
                                  const Overcommit& overcommit) {
    const Space& space = scheduler.space();
    const MachineSpec& spec = scheduler.machines()[machine];
    if (!space.open(machine)) return "the machine is down or off";
    if (cores > 0 && room(space.cores(machine), spec.cores, overcommit.cores) < cores - slack)
        return "the machine has too few free cores";
    if (needs.memory > 0 && room(space.memory(machine), spec.memory, overcommit.memory) <
                                needs.memory * share * (1 - slack))
        return "the machine has too little free memory";
    for (std::size_t r = 0; r < needs.amounts.size(); ++r)
        if (needs.amounts[r] > 0 &&
            room(space.amount(machine, r), scheduler.empty_space().amount(machine, r),
                 overcommit.amounts) < needs.amounts[r] * share - slack)
            return "the machine has too little of another resource";
    if (!scheduler.unrestricted() &&
        !scheduler.allowed(task, machine, scheduler.now(), scheduler.planned_time(task) * stretch))
        return "its queue, a reservation or maintenance does not allow the task on the machine now";
    return nullptr;
}

}  // namespace

const char* find_place_obstacle(const SchedulerState& scheduler, TaskId task,
                                std::span<const Part> parts, const Overcommit& overcommit) {
    if (scheduler.phase(task) != Phase::waiting) return "the task is not waiting";
    const Needs needs = scheduler.needs(task);
    double machines = 0.0;
    double total = 0.0;
    for (const Part& part : parts) {
        if (part.machine + part.count > scheduler.machines().size()) return "it has no machine";
        machines += part.count;
        total += part.cores * part.count;
    }
    if (machines == 0) return "it has no machine";
    if (has_repeats(parts)) return "it lists a machine twice";
    // A task with a speed-up law takes any number of cores on one machine.
    const bool is_molded = scheduler.tasks()[task].moldable && machines == 1;
    const double whole = is_molded ? total : needs.cores;
    const double stretch = is_molded ? scheduler.time_scale(task, parts) : 1.0;
    for (const Part& part : parts) {
        if (!(part.cores >= 0 && std::isfinite(part.cores)) || (part.cores == 0 && needs.cores > 0))
            return "the number of cores is not valid";
        const double share = whole > 0 ? part.cores / whole : 1.0 / machines;
        for (MachineId m = part.machine; m < part.machine + part.count; ++m)
            if (const char* why = find_machine_obstacle(scheduler, task, needs, m, part.cores,
                                                        share, stretch, overcommit))
                return why;
    }
    if (is_molded) {
        const SpeedupLaw& law = scheduler.tasks().law(task);
        if (total < law.min_cores - slack || total > law.max_cores + slack)
            return "its speed-up law does not allow that number of cores";
    } else if (std::abs(total - needs.cores) > slack * (1 + needs.cores)) {
        return "the cores do not add up to the request of the task";
    }
    if (needs.nodes > 0 && needs.nodes != machines)
        return "the task requests another number of nodes";
    return nullptr;
}

const char* find_preempt_obstacle(const SchedulerState& scheduler, TaskId task) {
    if (scheduler.is_provider()) return "a cloud cannot preempt an instance";
    return scheduler.phase(task) == Phase::running ? nullptr : "the task is not running";
}

const char* find_kill_obstacle(const SchedulerState& scheduler, TaskId task) {
    const Phase phase = scheduler.phase(task);
    if (scheduler.is_provider() && phase == Phase::running)
        return "a cloud refuses an instance only before it has a host";
    return phase == Phase::running || phase == Phase::waiting || phase == Phase::held
               ? nullptr
               : "the task is neither waiting nor running";
}

const char* find_state_obstacle(const SchedulerState& scheduler, MachineId machine,
                                StateId target) {
    if (scheduler.is_cloud_host(machine))
        return "the machine is a host of a cloud: only the controllers of the cloud change its "
               "state";
    if (!scheduler.is_present(machine)) return "the machine is down";
    const StateTable& table = scheduler.state_table(machine);
    const MachineStatus status = scheduler.status(machine);
    if (!table.has(target) || table[target].is_transition())
        return "the machine does not have this state";
    if (!table.can_change(status, target))
        return table[status.state].is_transition()
                   ? "the machine is in a transition between two other states"
                   : "the machine has to run before it can enter this state";
    // Tasks stay where they are kept: on a machine that runs, or that will run again.
    const bool keeps_them = table[target].keeps_tasks && !scheduler.is_provider();
    if (!keeps_them && scheduler.space().occupants(machine) > 0)
        return scheduler.instances_on(machine).empty() && !scheduler.is_provider()
                   ? "the machine has tasks"
                   : "the machine has instances";
    return nullptr;
}

const char* find_reserve_obstacle(const SchedulerState& scheduler, TaskId task, double time) {
    if (scheduler.phase(task) != Phase::waiting) return "the task is not waiting";
    return time >= scheduler.now() ? nullptr : "the time of Reserve must not be before now";
}

const char* find_rent_obstacle(const SchedulerState& scheduler, MachineId host, double cores,
                               double memory, bool beyond) {
    if (scheduler.host_of(host) != no_machine) return "an instance cannot be a host";
    const Space& space = scheduler.space();
    if (!space.open(host)) return "the host is down or off";
    if (!beyond && space.cores(host) < cores - slack) return "the host has too few free cores";
    // The memory of an instance is not shared.
    if (space.memory(host) < (std::isfinite(memory) ? memory * (1 - slack) : memory))
        return std::isfinite(memory)
                   ? "the host has too little free memory"
                   : "the memory of the host is limited: give that of the instance";
    return nullptr;
}

const char* find_migrate_obstacle(const SchedulerState& scheduler, MachineId instance,
                                  MachineId host, bool beyond) {
    const MachineId from = scheduler.host_of(instance);
    if (from == no_machine) return "the machine is not an instance";
    if (from == host) return "it is on this host";
    if (!scheduler.space().open(from)) return "its host is down or off";
    const MachineSpec& spec = scheduler.machines()[instance];
    return find_rent_obstacle(scheduler, host, spec.cores, spec.memory, beyond);
}

const char* find_resize_obstacle(const SchedulerState& scheduler, MachineId instance, double cores,
                                 bool beyond) {
    const MachineId host = scheduler.host_of(instance);
    if (host == no_machine) return "the machine is not an instance";
    const Space& space = scheduler.space();
    const double before = scheduler.machines()[instance].cores;
    if (cores < std::min(before, before - space.cores(instance)) - slack)
        return "its tasks use more cores";
    if (!beyond && space.cores(host) < cores - before - slack && cores > before)
        return "the host has too few free cores";
    return nullptr;
}

const char* find_rental_obstacle(const SchedulerState& scheduler, const Rental& rental,
                                 std::uint32_t count) {
    if (scheduler.is_provider()) return "only the policy of the scenario rents instances";
    if (rental.cloud >= scheduler.clouds().size()) return "there is no such cloud";
    const CloudPlan& cloud = scheduler.clouds()[rental.cloud];
    if (rental.type >= cloud.types.size()) return "the cloud does not have this type of instance";
    if (rental.image >= cloud.images.size()) return "the cloud does not have this image";
    const InstanceType& type = cloud.types[rental.type];
    if (!type.fits_task && (rental.cores != type.cores || rental.memory != type.memory))
        return "instances of this type have another size";
    if (!(rental.cores > 0 && std::isfinite(rental.cores)))
        return "an instance needs a positive number of cores";
    if (!(rental.memory >= 0 && std::isfinite(rental.memory)))
        return "the memory of the instance is not valid";
    if (rental.is_spot() && !cloud.billing.spot.used()) return "the cloud has no spot prices";
    if (rental.bid < 0) return "the bid must not be negative";
    const SchedulerState::Rented& now = scheduler.rented_from(rental.cloud);
    if (now.instances >= cloud.max_instances || count > cloud.max_instances - now.instances)
        return "the cloud allows no more instances";
    if (now.cores + count * rental.cores > cloud.max_cores + slack)
        return "the cloud allows no more cores";
    if (now.memory + count * rental.memory > cloud.max_memory * (1 + slack))
        return "the cloud allows no more memory";
    return nullptr;
}

bool is_outbid(const SchedulerState& scheduler, std::size_t cloud, double bid) {
    return !std::isnan(bid) && bid < scheduler.clouds()[cloud].billing.spot.at(scheduler.now());
}

const char* find_release_obstacle(const SchedulerState& scheduler, MachineId instance) {
    if (scheduler.is_provider()) return "only the policy of the scenario gives instances back";
    if (!scheduler.is_rented(instance)) return "the machine is not a rented instance";
    if (scheduler.is_given_back(instance)) return "the instance has been given back already";
    return scheduler.space().occupants(instance) == 0 ? nullptr : "the instance has tasks";
}

const char* find_move_obstacle(const SchedulerState& scheduler, TaskId instance, MachineId host) {
    if (!scheduler.is_provider()) return "only the controllers of a cloud move instances";
    if (scheduler.phase(instance) != Phase::running) return "the instance is on no host";
    if (scheduler.other_end(instance) != no_task) return "the instance is moving already";
    if (scheduler.is_starting(instance)) return "the instance has not started yet";
    if (host >= scheduler.machines().size()) return "there is no such host";
    if (scheduler.parts(instance).front().machine == host) return "it is on this host";
    const Space& space = scheduler.space();
    const Request& size = scheduler.request(instance);
    if (!space.open(host)) return "the host is down or off";
    if (space.cores(host) < size.cores - slack) return "the host has too few free cores";
    if (space.memory(host) < size.memory * (1 - slack))
        return "the host has too little free memory";
    return nullptr;
}

const char* find_size_obstacle(const SchedulerState& scheduler, TaskId instance, double cores,
                               const Overcommit& overcommit) {
    if (!scheduler.is_provider()) return "only the controllers of a cloud resize instances";
    if (!(cores > 0 && std::isfinite(cores))) return "an instance needs a positive number of cores";
    if (scheduler.phase(instance) != Phase::running) return "the instance is on no host";
    if (scheduler.other_end(instance) != no_task) return "the instance is moving";
    if (scheduler.is_starting(instance)) return "the instance has not started yet";
    const double before = scheduler.request(instance).cores;
    if (cores < std::min(before, scheduler.used_cores(instance)) - slack)
        return "its tasks use more cores";
    if (cores <= before) return nullptr;
    const MachineId host = scheduler.parts(instance).front().machine;
    if (!scheduler.space().open(host)) return "its host is down or off";
    if (room(scheduler.space().cores(host), scheduler.machines()[host].cores, overcommit.cores) <
        cores - before - slack)
        return "the host has too few free cores";
    if (!scheduler.is_within_limits(instance, cores)) return "the cloud allows no more cores";
    return nullptr;
}

bool holds(const InstanceType& type, const Request& task) {
    return task.cores <= type.cores + slack &&
           (type.memory == 0 || task.memory <= type.memory * (1 + slack));
}

bool can_host(const SchedulerState& scheduler, const CloudPlan& cloud, double cores, double memory,
              double overcommit) {
    return cores <= cloud.max_cores + slack && memory <= cloud.max_memory * (1 + slack) &&
           std::ranges::any_of(cloud.hosts, [&](MachineId host) {
               const MachineSpec& spec = scheduler.machines()[host];
               return cores <= spec.cores * overcommit + slack &&
                      memory <= spec.memory * (1 + slack);
           });
}

const char* find_wake_obstacle(const SchedulerState& scheduler, double time) {
    return time > scheduler.now() ? nullptr : "the time of Wake must be later than now";
}

}  // namespace twinloop
