#include "world/instances.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "world/clouds.hpp"
#include "world/executor.hpp"
#include "world/machine_changes.hpp"

namespace twinloop {
namespace {

// Tasks whose executions are in progress, in the order of their timers.
std::vector<TaskId> list_started(const WorldState& world) {
    std::vector<TaskId> tasks;
    for (const TaskId task : world.scheduler.running())
        if (world.tasks[task].slot != Executions::no_slot) tasks.push_back(task);
    std::ranges::sort(tasks, {},
                      [&](TaskId task) { return world.executions[world.tasks[task].slot].rank; });
    return tasks;
}

}  // namespace

void begin_sharing(WorldState& world) {
    if (world.is_shared()) return;
    Compute compute(world);
    const std::vector<TaskId> tasks = list_started(world);
    std::vector<std::pair<std::uint32_t, SavedExecution>> steps;
    for (const TaskId task : tasks) {
        const std::uint32_t slot = world.tasks[task].slot;
        if (world.executions[slot].step == Step::compute)
            steps.emplace_back(slot, compute.save_unshared(slot));
    }
    world.set_sharing();
    world.executions.share();
    MachineChanges changes(world);
    world.earlier_energy.resize(world.fleet.size(), 0.0);
    for (MachineId m = 0; m < world.fleet.size(); ++m) {
        if (world.fleet[m].is_instance) continue;
        Meter& meter = world.fleet.meter(m);
        meter.advance(world.now());
        world.earlier_energy[m] -= meter.energy;
        world.add_resource(m);
        if (!world.fleet[m].running()) changes.update_meter(m);
    }
    Clouds(world).begin_sharing();
    for (auto& [slot, saved] : steps) {
        Execution& execution = world.executions[slot];
        world.simulation.stop_timer(execution.timer);
        const bool paused = execution.halted > 0;
        if (paused && saved.draws && world.sharing == SharingMode::delay) {
            execution.until_stop = execution.stop < never;
            execution.left = execution.stop - execution.paused;
        }
        if (paused) saved.until = never;
        compute.restore(slot, saved);
        if (saved.until < never)
            world.simulation.set_timer(execution.timer, saved.until, execution.rank);
        if (paused) compute.pause(slot);
    }
    for (const TaskId task : tasks) {
        const std::uint32_t slot = world.tasks[task].slot;
        const Step step = world.executions[slot].step;
        if (step != Step::dispatch && step != Step::release) compute.open_windows(slot);
    }
}

MachineId Instances::add(MachineId host, double cores, double memory) {
    MachineSpec seen = world_.scheduler.machines()[host];
    seen.cores = cores * world_.values.effective_capacity;
    seen.memory = memory;
    const MachineId instance = world_.fleet.add_instance(host, cores);
    world_.scheduler.add_instance(seen, host);
    Machine& mine = world_.fleet[instance];
    mine.resource =
        world_.simulation.add_lease(world_.resource_of(host), mine.capacity, weight(cores));
    begin_period(instance);
    world_.call = true;
    return instance;
}

double Instances::weight(double cores) const {
    return world_.sharing == SharingMode::delay ? cores : 1.0;
}

void Instances::resize(MachineId instance, double cores) {
    end_period(instance, InstanceEnd::resized);
    world_.scheduler.resize(instance, cores * world_.values.effective_capacity);
    Machine& mine = world_.fleet[instance];
    mine.capacity = cores * mine.speed;
    world_.simulation.set_capacity(mine.resource, mine.capacity);
    if (cores > 0) world_.simulation.set_lease_weight(mine.resource, weight(cores));
    begin_period(instance);
    world_.call = true;
}

void Instances::move(MachineId instance, MachineId host) {
    end_period(instance, InstanceEnd::moved);
    Machine& mine = world_.fleet[instance];
    const double speed = world_.fleet[host].speed;
    const bool changes_speed = speed != mine.speed;
    const double cores = mine.capacity / mine.speed;
    world_.scheduler.move_instance(instance, host);
    world_.simulation.move_lease(mine.resource, world_.resource_of(host));
    mine.speed = speed;
    if (changes_speed) {
        mine.capacity = cores * speed;
        world_.simulation.set_capacity(mine.resource, mine.capacity);
    }
    Executor executor(world_);
    for (const TaskId task : world_.scheduler.tasks_on(instance)) {
        if (changes_speed) executor.change_speed(world_.tasks[task].slot);
        executor.reroute(world_.tasks[task].slot);
    }
    begin_period(instance);
    world_.call = true;
}

void Instances::remove(MachineId instance) {
    end_period(instance, InstanceEnd::removed);
    const ResourceId lease = std::exchange(world_.fleet[instance].resource, none);
    world_.earlier_energy.resize(world_.fleet.size(), 0.0);
    world_.earlier_energy[instance] -= world_.simulation.cost(lease);
    world_.simulation.release_lease(lease);
}

// --- records ------------------------------------------------------------------------------------

void Instances::begin_period(MachineId instance) {
    if (!world_.records.recording.placements) return;
    const Machine& mine = world_.fleet[instance];
    world_.records.instances.begin(instance, world_.scheduler.host_of(instance),
                                   mine.capacity / mine.speed,
                                   world_.scheduler.machines()[instance].memory, world_.now());
}

void Instances::end_period(MachineId instance, InstanceEnd reason) {
    if (world_.records.recording.placements)
        world_.records.instances.end(instance, reason, world_.now());
}

}  // namespace twinloop
