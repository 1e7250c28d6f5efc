#include "world/machine_changes.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

#include "world/clouds.hpp"
#include "world/executor.hpp"
#include "world/instances.hpp"
#include "world/staging.hpp"

namespace twinloop {

void MachineChanges::begin_outages() {
    const auto& list = world_.outages->list;
    while (world_.next_outage < list.size() && list[world_.next_outage].start <= world_.now()) {
        ++world_.events;
        begin_outage(world_.next_outage++);
    }
    world_.set_outage_timer();
}

void MachineChanges::skip_outages() {
    const auto& list = world_.outages->list;
    while (world_.next_outage < list.size() && list[world_.next_outage].start <= world_.now()) {
        const std::size_t place = world_.next_outage++;
        const Outage& outage = list[place];
        if (outage.end > world_.now() && outage.start > world_.fleet[outage.machine].restored_at)
            begin_outage(place);
    }
    world_.set_outage_timer();
}

void MachineChanges::begin_outage(std::size_t place) {
    const Outage& outage = world_.outages->list[place];
    fail(outage.machine);
    if (outage.end < never)
        world_.simulation.schedule(std::max(outage.end, world_.now()),
                                   make_token(Subject::recovery, place), EventKind::machine,
                                   std::uint64_t{1} + outage.machine);
}

void MachineChanges::fail(MachineId machine) {
    if (world_.fleet[machine].outages++ > 0 || world_.fleet[machine].removed) return;
    for (const MachineId instance : world_.scheduler.instances_on(machine)) fail(instance);
    if (world_.fleet[machine].cloud != no_cloud) Clouds(world_).lose_instances(machine);
    interrupt_tasks(machine);
    if (world_.fleet[machine].state != running_state)
        world_.records.states.end(machine, world_.now());
    reset_state(machine);
    world_.records.states.begin(machine, StateLog::down, world_.now());
    world_.set_present(machine, false);
    update_meter(machine);
    note_state(machine);
    world_.call = true;
}

void MachineChanges::restore(MachineId machine) {
    Machine& mine = world_.fleet[machine];
    if (mine.outages == 0) throw std::invalid_argument("the machine is not down");
    const MachineId host = world_.scheduler.host_of(machine);
    if (host != no_machine && !world_.fleet[host].is_up())
        throw std::invalid_argument("its host is down");
    mine.outages = 0;
    mine.restored_at = world_.now();
    if (!mine.removed) come_back(machine);
}

void MachineChanges::recover(const Outage& outage) {
    Machine& mine = world_.fleet[outage.machine];
    if (outage.start <= mine.restored_at) return;
    if (--mine.outages == 0 && !mine.removed) come_back(outage.machine);
}

void MachineChanges::come_back(MachineId machine) {
    world_.set_present(machine, true);
    world_.records.states.end(machine, world_.now());
    if (const StateId state = world_.fleet[machine].state; state != running_state)
        world_.records.states.begin(machine, state, world_.now());
    update_meter(machine);
    note_state(machine);
    world_.call = true;
    // Instances that failed with their host.
    for (const MachineId instance : world_.scheduler.instances_on(machine))
        if (--world_.fleet[instance].outages == 0) come_back(instance);
}

void MachineChanges::interrupt_tasks(MachineId machine) {
    Executor executor(world_);
    Lifecycle lifecycle(world_);
    const Interrupted then = world_.options().after_failure;
    for (const TaskId task : world_.scheduler.tasks_on(machine)) {
        // A task that has ended keeps its machines until the scheduler knows of its end.
        if (world_.executions[world_.tasks[task].slot].step == Step::release) continue;
        const std::span<const Part> parts = world_.scheduler.parts(task);
        const std::vector<Part> left(parts.begin(), parts.end());
        executor.interrupt(task, then == Interrupted::lost ? Reason::lost : Reason::failed, then,
                           left);
        world_.scheduler.end(task);
        if (then == Interrupted::lost) {
            lifecycle.conclude(task, Status::lost, world_.now());
        } else if (world_.tasks[task].failures >= world_.options().max_failures) {
            lifecycle.conclude(task, Status::failed, world_.now());
        } else {
            world_.scheduler.submit(task);
        }
    }
}

// --- states -------------------------------------------------------------------------------------

void MachineChanges::enter(MachineId machine, MachineStatus status) {
    Machine& mine = world_.fleet[machine];
    const StateId before = std::exchange(mine.state, status.state);
    if (mine.is_up()) {
        if (before != running_state) world_.records.states.end(machine, world_.now());
        if (status.state != running_state)
            world_.records.states.begin(machine, status.state, world_.now());
    }
    if (before == running_state) pause_tasks(machine);
    else if (status.state == running_state) resume_tasks(machine);
    begin_phase(machine, status);
    update_meter(machine);
    note_state(machine);
}

void MachineChanges::note_state(MachineId machine) {
    if (!world_.watched) return;
    const Machine& mine = world_.fleet[machine];
    world_.notices.push_back({Notice::Kind::machine, machine, world_.now(),
                              mine.is_up() ? static_cast<double>(mine.state) : -1.0});
}

void MachineChanges::begin_phase(MachineId machine, MachineStatus status) {
    Machine& mine = world_.fleet[machine];
    const StateTable& table = world_.scheduler.state_table(machine);
    const StateTable::Period period = table.period(status, world_.now());
    mine.utilisation = period.utilisation;
    mine.has_own_power = table[status.state].power == nullptr;
    const PowerModel* const power =
        mine.has_own_power ? mine.power.get() : table[status.state].power.get();
    mine.watts = mine.power == nullptr ? 0.0 : power->at(period.utilisation);
    if (period.until < never) {
        if (mine.transition == none)
            mine.transition = world_.simulation.add_timer(EventKind::machine,
                                                          make_token(Subject::transition, machine));
        // After outages and recoveries at the same time.
        constexpr std::uint64_t after = std::uint64_t{1} << 33;
        if (!world_.simulation.timer_set(mine.transition)) ++world_.transitions;
        world_.simulation.set_timer(mine.transition, period.until, after + machine);
    } else if (mine.transition != none && world_.simulation.timer_set(mine.transition)) {
        world_.simulation.stop_timer(mine.transition);
        --world_.transitions;
    }
}

void MachineChanges::continue_transition(MachineId machine) {
    --world_.transitions;
    const StateTable& table = world_.scheduler.state_table(machine);
    const MachineStatus status = world_.scheduler.status(machine);
    if (world_.now() < table.end(status)) {
        begin_phase(machine, status);
        update_meter(machine);
        return;
    }
    const MachineStatus reached{table.target(status), world_.now()};
    world_.set_status(machine, reached);
    enter(machine, reached);
    world_.call = true;
}

// A failure ends a transition, and a machine loses what it has kept: after the recovery it runs if
// it ran or was on the way there, and is off otherwise.
void MachineChanges::reset_state(MachineId machine) {
    const MachineStatus status = world_.scheduler.status(machine);
    if (status.state == running_state || status.state == off_state) return;
    const StateId target = world_.scheduler.state_table(machine).target(status);
    const MachineStatus after{target == running_state ? running_state : off_state, world_.now()};
    world_.set_status(machine, after);
    enter(machine, after);
}

void MachineChanges::restore_state(MachineId machine, MachineStatus status) {
    const StateTable& table = world_.scheduler.state_table(machine);
    if (!table.has(status.state)) throw std::invalid_argument("it does not have this state");
    if (!(status.begun <= world_.now() && world_.now() <= table.end(status)))
        throw std::invalid_argument("it cannot be in this state now: `begun` does not fit");
    if (status.state == running_state) return;
    world_.set_status(machine, status);
    world_.fleet[machine].state = status.state;
    if (world_.fleet[machine].is_up())
        world_.records.states.begin(machine, status.state, world_.now());
    begin_phase(machine, status);
    update_meter(machine);
}

// The tasks on the instances of a machine stop and continue with it.
void MachineChanges::pause_tasks(MachineId machine) {
    if (world_.scheduler.space().occupants(machine) == 0) return;
    for (const MachineId instance : world_.scheduler.instances_on(machine)) pause_tasks(instance);
    Executor executor(world_);
    for (const TaskId task : world_.scheduler.tasks_on(machine)) {
        const std::uint32_t slot = world_.tasks[task].slot;
        // A placement of the same decision has not been carried out yet, or the task has ended.
        if (slot == Executions::no_slot || world_.executions[slot].step == Step::release) continue;
        if (world_.executions[slot].halted++ == 0) executor.pause(slot);
    }
}

void MachineChanges::resume_tasks(MachineId machine) {
    if (world_.scheduler.space().occupants(machine) == 0) return;
    for (const MachineId instance : world_.scheduler.instances_on(machine)) resume_tasks(instance);
    Executor executor(world_);
    for (const TaskId task : world_.scheduler.tasks_on(machine)) {
        const std::uint32_t slot = world_.tasks[task].slot;
        if (slot == Executions::no_slot || world_.executions[slot].halted == 0) continue;
        if (--world_.executions[slot].halted == 0) executor.resume(slot);
    }
}

// --- size ---------------------------------------------------------------------------------------

void MachineChanges::set_cores(MachineId machine, double cores) {
    if (world_.fleet[machine].is_instance) {
        Instances(world_).resize(machine, cores);
        return;
    }
    world_.resize(machine, cores * world_.values.effective_capacity);
    Machine& mine = world_.fleet[machine];
    Meter& meter = world_.fleet.meter(machine);
    meter.advance(world_.now());
    mine.capacity = meter.capacity = cores * mine.speed;
    if (world_.is_shared())
        world_.simulation.set_capacity(world_.resource_of(machine), mine.capacity);
    if (world_.records.recording.use)
        world_.records.use.resizes.push_back({world_.records.use.size(), machine, mine.capacity});
    record_use(machine);
    world_.call = true;
}

MachineId MachineChanges::add(const MachineSpec& spec, std::span<const double> amounts,
                              MachineId like) {
    if (world_.records.recording.use)
        world_.records.use.resizes.push_back(
            {world_.records.use.size(), static_cast<MachineId>(world_.fleet.size()),
             spec.cores * spec.speed * world_.values.speed_factor});
    const MachineId machine =
        world_.add_machine(spec, like == no_machine ? nullptr : world_.fleet[like].power);
    MachineSpec seen = spec;
    seen.cores *= world_.values.effective_capacity;
    world_.scheduler.add_machine(seen, amounts, like);
    if (world_.has_network()) Staging(world_).add_machine(machine, like);
    world_.call = true;
    return machine;
}

void MachineChanges::remove(MachineId machine) {
    if (world_.fleet[machine].removed) throw std::invalid_argument("the machine was removed");
    while (!world_.scheduler.instances_on(machine).empty())
        remove(world_.scheduler.instances_on(machine).back());
    if (world_.fleet[machine].cloud != no_cloud) Clouds(world_).lose_instances(machine);
    interrupt_tasks(machine);
    reset_state(machine);
    world_.fleet[machine].removed = true;
    if (world_.fleet[machine].is_instance) Instances(world_).remove(machine);
    world_.remove_machine(machine);
    update_meter(machine);
    world_.call = true;
}

// The power of a machine that is down or removed is 0. In a state other than running it is constant
// until the next phase: no task uses the machine.
void MachineChanges::update_meter(MachineId machine) {
    const Machine& mine = world_.fleet[machine];
    const bool runs = mine.running();
    const double watts = mine.is_up() && !runs ? mine.watts : 0.0;
    if (!world_.is_shared()) {
        Meter& meter = world_.fleet.meter(machine);
        meter.advance(world_.now());
        meter.power = runs ? mine.power.get() : nullptr;
        meter.watts = watts;
    } else if (mine.power) {
        std::shared_ptr<const PowerModel> power = runs ? mine.power : nullptr;
        if (watts > 0) power = constant_power(watts);
        world_.simulation.set_cost_model(world_.resource_of(machine), std::move(power));
    }
    record_use(machine);
}

// The record shows the machine between two changes in one instant, so that the rate after them is
// recorded again even if it is that from before them.
void MachineChanges::record_use(MachineId machine) {
    if (world_.fleet[machine].is_instance) return;
    world_.record_use(machine);
    if (world_.is_shared()) world_.simulation.report_rate(world_.resource_of(machine));
}

}  // namespace twinloop
