#include "world/machine_changes.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

#include "world/executor.hpp"

namespace twinloop {

void MachineChanges::begin_outages() {
    const auto& list = world_.outages->list;
    while (world_.next_outage < list.size() && list[world_.next_outage].start <= world_.now()) {
        ++world_.events;
        begin_outage(list[world_.next_outage++]);
    }
    world_.set_outage_timer();
}

void MachineChanges::skip_outages() {
    const auto& list = world_.outages->list;
    while (world_.next_outage < list.size() && list[world_.next_outage].start <= world_.now()) {
        const Outage& outage = list[world_.next_outage++];
        if (outage.end > world_.now()) begin_outage(outage);
    }
    world_.set_outage_timer();
}

void MachineChanges::begin_outage(const Outage& outage) {
    fail(outage.machine);
    if (outage.end < never)
        world_.simulation.schedule(std::max(outage.end, world_.now()),
                                   make_token(Subject::recovery, outage.machine),
                                   EventKind::machine, std::uint64_t{1} + outage.machine);
}

void MachineChanges::fail(MachineId machine) {
    if (world_.fleet[machine].outages++ > 0 || world_.fleet[machine].removed) return;
    interrupt_tasks(machine);
    world_.records.states.begin(machine, StateLog::Kind::down, world_.now());
    world_.scheduler.set_present(machine, false);
    update_meter(machine);
    world_.call = true;
}

void MachineChanges::restore(MachineId machine) {
    if (world_.fleet[machine].outages == 0) throw std::invalid_argument("the machine is not down");
    if (--world_.fleet[machine].outages > 0 || world_.fleet[machine].removed) return;
    world_.scheduler.set_present(machine, true);
    world_.records.states.end(machine, StateLog::Kind::down, world_.now());
    update_meter(machine);
    world_.call = true;
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

void MachineChanges::switch_machine(MachineId machine, bool on) {
    world_.fleet[machine].off = !on;
    if (on) {
        world_.records.states.end(machine, StateLog::Kind::off, world_.now());
    } else {
        world_.records.states.begin(machine, StateLog::Kind::off, world_.now());
    }
    update_meter(machine);
}

void MachineChanges::set_cores(MachineId machine, double cores) {
    world_.scheduler.resize(machine, cores * world_.values.effective_capacity);
    Machine& mine = world_.fleet[machine];
    Meter& meter = world_.fleet.meter(machine);
    meter.advance(world_.now());
    mine.capacity = meter.capacity = cores * mine.speed;
    if (world_.is_shared()) world_.simulation.set_capacity(machine, mine.capacity);
    if (world_.records.recording.use)
        world_.records.use.resizes.push_back({world_.records.use.size(), machine, mine.capacity});
    record_use(machine);
    world_.call = true;
}

MachineId MachineChanges::add(const MachineSpec& spec, std::span<const double> amounts,
                              std::shared_ptr<const PowerModel> power) {
    if (world_.records.recording.use)
        world_.records.use.resizes.push_back(
            {world_.records.use.size(), static_cast<MachineId>(world_.fleet.size()),
             spec.cores * spec.speed * world_.values.speed_factor});
    const MachineId machine = world_.add_machine(spec, std::move(power));
    MachineSpec seen = spec;
    seen.cores *= world_.values.effective_capacity;
    world_.scheduler.add_machine(seen, amounts);
    world_.call = true;
    return machine;
}

void MachineChanges::remove(MachineId machine) {
    if (world_.fleet[machine].removed) throw std::invalid_argument("the machine was removed");
    interrupt_tasks(machine);
    world_.fleet[machine].removed = true;
    world_.scheduler.set_present(machine, false);
    update_meter(machine);
    world_.call = true;
}

// The power of a machine that is down, off or removed is 0.
void MachineChanges::update_meter(MachineId machine) {
    const Machine& mine = world_.fleet[machine];
    const bool runs = mine.running();
    if (world_.is_shared()) {
        if (mine.power) world_.simulation.set_cost_model(machine, runs ? mine.power : nullptr);
    } else {
        Meter& meter = world_.fleet.meter(machine);
        meter.advance(world_.now());
        meter.power = runs ? mine.power.get() : nullptr;
    }
    record_use(machine);
}

// The record shows the machine between two changes in one instant, so that the rate after them is
// recorded again even if it is that from before them.
void MachineChanges::record_use(MachineId machine) {
    world_.record_use(machine);
    if (world_.is_shared()) world_.simulation.report_rate(machine);
}

}  // namespace twinloop
