// Orders from outside about the instances and the hosts of clouds, see `CloudService` in Python.
#include <algorithm>

#include "control/order_checks.hpp"
#include "world/clouds.hpp"
#include "world/machine_changes.hpp"

namespace twinloop {

const char* Clouds::terminate(MachineId instance, bool violent) {
    if (violent && !world_.scheduler.is_given_back(instance))
        MachineChanges(world_).interrupt_tasks(instance);
    if (const char* why = find_release_obstacle(world_.scheduler, instance)) return why;
    world_.scheduler.release(instance);
    release(instance);
    return nullptr;
}

const char* Clouds::migrate_to(MachineId instance, MachineId host) {
    const Machine& target = world_.fleet[host];
    const RentedInstance& mine = world_.rented[instance];
    if (target.cloud != mine.rental.cloud || target.is_instance)
        return "the machine is not a host of the cloud of the instance";
    if (const char* why = find_rest_obstacle(instance)) return why;
    SchedulerState& scheduler = world_.clouds[mine.rental.cloud].scheduler;
    const TaskId number = world_.fleet[instance].number;
    if (const char* why = find_move_obstacle(scheduler, number, target.number)) return why;
    scheduler.set_now(world_.now());
    scheduler.migrate(number, target.number);
    migrate(mine.rental.cloud, number, target.number);
    return nullptr;
}

const char* Clouds::resize_to(MachineId instance, double cores) {
    const RentedInstance& mine = world_.rented[instance];
    if (const char* why = find_rest_obstacle(instance)) return why;
    CloudState& cloud = world_.clouds[mine.rental.cloud];
    const TaskId number = world_.fleet[instance].number;
    const ClientAccess access(world_.scheduler, cloud);
    if (const char* why = find_size_obstacle(cloud.scheduler, number, cores, {})) return why;
    cloud.scheduler.set_now(world_.now());
    cloud.scheduler.resize_instance(number, cores);
    resize(mine.rental.cloud, number, cores);
    cloud.scheduler.clear_orders();
    return nullptr;
}

// --- allocations --------------------------------------------------------------------------------

const char* Clouds::use(MachineId instance) {
    RentedInstance& mine = world_.rented[instance];
    if (!mine.is_held) return "it is not an allocation that expires";
    mine.is_held = false;
    if (mine.state != InstanceState::allocated) return nullptr;
    stop_timer(instance);
    start(instance);
    return nullptr;
}

void Clouds::rent_together(std::span<const MachineId> instances, const Rental& rental) {
    const auto group = static_cast<std::uint32_t>(world_.groups.size());
    world_.groups.push_back({{instances.begin(), instances.end()}, instances.size()});
    for (const MachineId instance : instances) {
        open(instance, rental, true, unknown);
        world_.rented[instance].group = group;
    }
    // If one is refused at once, all of them are.
    for (const MachineId instance : instances)
        if (world_.rented[instance].group == group) send(instance, InstanceRequest::run);
}

void Clouds::tell_group(std::uint32_t group) {
    const std::vector<MachineId>& members = world_.groups[group].members;
    SchedulerState& scheduler =
        world_.clouds[world_.rented[members.front()].rental.cloud].scheduler;
    auto count = static_cast<std::uint32_t>(members.size());
    TaskId before = no_task;
    for (const MachineId member : members) {
        if (world_.rented[member].state == InstanceState::queued) {
            const TaskId number = world_.fleet[member].number;
            if (before != no_task) {
                SchedulerState::Together last = scheduler.together(before);
                last.after = number;
                scheduler.set_together(before, last);
            }
            scheduler.set_together(number, {group, count, before, no_task});
            before = number;
        }
        --count;
    }
}

void Clouds::start_group(std::uint32_t group) {
    for (const MachineId member : std::exchange(world_.groups[group].members, {})) {
        world_.rented[member].group = none;
        start(member);
    }
}

// A request for several instances is served as a whole or not at all.
void Clouds::leave_group(MachineId instance, RentalEnd reason) {
    const std::uint32_t group = std::exchange(world_.rented[instance].group, none);
    if (group == none) return;
    InstanceGroup& mine = world_.groups[group];
    std::erase(mine.members, instance);
    if (reason == RentalEnd::refused) {
        for (const MachineId member : std::exchange(mine.members, {})) {
            world_.rented[member].group = none;
            finish(member, RentalEnd::refused);
        }
    } else if (world_.rented[instance].host == no_machine && --mine.waiting == 0) {
        start_group(group);
    } else if (!mine.members.empty()) {
        tell_group(group);
    }
}

// --- hosts --------------------------------------------------------------------------------------

const char* Clouds::register_host(MachineId host, std::size_t at) {
    Machine& machine = world_.fleet[host];
    if (machine.is_instance) return "the machine is an instance";
    if (machine.cloud != no_cloud) return "the machine is a host of a cloud already";
    if (machine.removed) return "the machine was removed";
    if (world_.scheduler.space().occupants(host) > 0) return "the machine has tasks";
    CloudState& cloud = world_.clouds[at];
    machine.cloud = static_cast<std::uint16_t>(at);
    machine.number = cloud.scheduler.adopt_machine(world_.scheduler, host);
    cloud.hosts.push_back(host);
    world_.scheduler.set_cloud_host(host, true);
    cloud.call = true;
    return nullptr;
}

const char* Clouds::deregister_host(MachineId host, bool violent) {
    Machine& machine = world_.fleet[host];
    if (machine.cloud == no_cloud || machine.is_instance) return "the machine is in no cloud";
    CloudState& cloud = world_.clouds[machine.cloud];
    if (!violent && cloud.scheduler.space().occupants(machine.number) > 0)
        return "the machine has instances";
    lose_instances(host);
    cloud.scheduler.remove_machine(machine.number);
    cloud.call = true;
    machine.cloud = no_cloud;
    world_.scheduler.set_cloud_host(host, false);
    world_.call = true;
    return nullptr;
}

}  // namespace twinloop
