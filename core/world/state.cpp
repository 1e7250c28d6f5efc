#include "world/state.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace twinloop {

WorldState::WorldState(std::shared_ptr<const Scenario> its_scenario,
                       std::shared_ptr<const Outages> known, ModelValues its_values,
                       const Controller& controller,
                       std::span<const std::unique_ptr<Controller>> providers,
                       const Recording& recording, std::unique_ptr<Source> source)
    : scenario(std::move(its_scenario)), outages(std::move(known)), values(std::move(its_values)),
      submitter(scenario->submissions, std::move(source)),
      begin(std::isfinite(submitter.next_time()) ? submitter.next_time() : 0.0), simulation(begin),
      scheduler(scenario->make_scheduler_state(controller, values)), tasks(scenario->size()),
      records(recording, scenario->size()), open(scenario->size()),
      after_preemption(scenario->options.after_preemption),
      submissions(simulation.add_timer(EventKind::feed, make_token(Subject::submission))),
      outage(simulation.add_timer(EventKind::machine, make_token(Subject::outage))),
      decision(simulation.add_timer(EventKind::timer, make_token(Subject::decision))) {
    const auto& [ends, machines, submitted] = options().instant_order;
    // Ends of activities and of steps, capacities and outages, starts and submissions.
    const auto rank = [](std::uint8_t group, std::uint8_t place) {
        return static_cast<std::uint8_t>(2 * group + place);
    };
    simulation.set_kind_order({rank(ends, 0), rank(ends, 1), rank(machines, 0), rank(submitted, 0),
                               rank(machines, 1), rank(submitted, 1), 6, 7});
    scheduler.set_now(begin);
    if (scenario->may_share(values, controller) ||
        std::ranges::any_of(providers, [](const auto& each) { return each->overcommits(); }))
        set_sharing();
    if (scenario->network != nullptr) open_staging();
    if (options().managed) {
        manager.submission =
            simulation.add_timer(EventKind::feed, make_token(Subject::job_submission));
        manager.end = simulation.add_timer(EventKind::step, make_token(Subject::job_end));
    }
    const std::vector<MachineSpec>& machine_specs = scenario->machines_of(values);
    for (MachineId m = 0; m < machine_specs.size(); ++m)
        add_machine(machine_specs[m], scenario->power_of(values, m));
    for (std::size_t c = 0; c < scenario->clouds->size(); ++c) {
        const CloudPlan& plan = (*scenario->clouds)[c];
        clouds.push_back(
            {scenario->make_cloud_scheduler(plan, *providers[c], values),
             simulation.add_timer(EventKind::timer, make_token(Subject::decision, c + 1)),
             {},
             plan.hosts});
        clouds.back().scheduler.set_provider();
        clouds.back().scheduler.set_now(begin);
        for (std::uint32_t number = 0; number < plan.hosts.size(); ++number) {
            fleet[plan.hosts[number]].cloud = static_cast<std::uint16_t>(c);
            fleet[plan.hosts[number]].number = number;
        }
    }
    if (scenario->tasks->extent().parents)
        for (TaskId id = 0; id < tasks.size(); ++id)
            tasks.edit(id).missing_parents = task(id).parents;
    set_submission_timer();
    set_outage_timer();
}

void WorldState::set_sharing() {
    sharing = options().no_delay ? SharingMode::no_delay : SharingMode::delay;
    if (sharing == SharingMode::delay) efficiency = contention_efficiency(values.contention);
}

void WorldState::open_staging() {
    staging.transfers = scenario->network_of(values).build(simulation);
    staging.transfers.reserve_files(scenario->files->files.size());
    for (FileId file = 0; file < scenario->files->files.size(); ++file) {
        const FileTable::File& each = scenario->files->files[file];
        if (each.exists) staging.transfers.put_file(each.store, file, each.bytes);
    }
    for (const auto& [file, store] : scenario->files->copies)
        staging.transfers.put_file(store, file, scenario->files->files[file].bytes);
}

MachineId WorldState::add_machine(const MachineSpec& spec,
                                  std::shared_ptr<const PowerModel> power) {
    const MachineId machine = fleet.add(spec, values.speed_factor, std::move(power), now());
    if (is_shared()) add_resource(machine);
    record_use(machine);
    return machine;
}

void WorldState::add_resource(MachineId machine) {
    Machine& mine = fleet[machine];
    mine.resource = simulation.add_resource(mine.capacity, efficiency);
    if (mine.power) simulation.set_cost_model(mine.resource, mine.power);
    if (!records.recording.use) return;
    recorded.resize(mine.resource + std::size_t{1}, no_machine);
    recorded[mine.resource] = machine;
}

WorldState::Place WorldState::place_of(MachineId machine) {
    const Machine& mine = fleet[machine];
    if (mine.cloud == no_cloud || mine.is_instance) return {scheduler, machine};
    return {clouds[mine.cloud].scheduler, mine.number};
}

void WorldState::set_status(MachineId machine, MachineStatus status) {
    change_places(machine,
                  [&](SchedulerState& each, MachineId number) { each.set_status(number, status); });
}

void WorldState::set_present(MachineId machine, bool present) {
    change_places(machine, [&](SchedulerState& each, MachineId number) {
        each.set_present(number, present);
    });
}

void WorldState::resize(MachineId machine, double cores) {
    change_places(machine,
                  [&](SchedulerState& each, MachineId number) { each.resize(number, cores); });
}

void WorldState::remove_machine(MachineId machine) {
    change_places(machine,
                  [](SchedulerState& each, MachineId number) { each.remove_machine(number); });
}

template <class Change>
void WorldState::change_places(MachineId machine, Change change) {
    change(scheduler, machine);
    if (const Place place = place_of(machine); &place.scheduler != &scheduler) {
        change(place.scheduler, place.number);
        clouds[fleet[machine].cloud].call = true;
    }
}

std::span<const Part> WorldState::label(std::span<const Part> parts,
                                        std::vector<Part>& scratch) const {
    if (rented.empty()) return parts;
    scratch.clear();
    for (const Part& part : parts)
        for (MachineId m = part.machine; m < part.machine + part.count; ++m)
            scratch.push_back({label(m), 1, part.cores});
    return scratch;
}

void WorldState::save_work(TaskId id, double seconds) {
    if (seconds <= 0 && saved.empty()) return;
    saved.resize(tasks.size(), 0.0);
    saved.edit(id) = seconds;
}

void WorldState::set_submission_timer() {
    const double next = submitter.next_time();
    if (next < never) {
        // A source that is to be asked again gives a time in the past.
        simulation.set_timer(submissions, std::max(next, now()));
    } else {
        simulation.stop_timer(submissions);
    }
}

void WorldState::set_outage_timer() {
    // Before recoveries at the same time.
    if (next_outage < outages->list.size()) {
        simulation.set_timer(outage, outages->list[next_outage].start, 0);
    } else {
        simulation.stop_timer(outage);
    }
}

void WorldState::set_price_timer(std::size_t cloud) {
    const SpotPrices& spot = (*scenario->clouds)[cloud].billing.spot;
    if (!spot.used()) return;
    EventId& timer = clouds[cloud].price;
    if (timer == none)
        timer = simulation.add_timer(EventKind::machine, make_token(Subject::price, cloud));
    // After outages, recoveries and transitions at the same time.
    constexpr std::uint64_t after = std::uint64_t{1} << 34;
    const bool needed = bids || clouds[cloud].bidding > 0;
    if (const double next = spot.next_change(now()); next < never && needed)
        simulation.set_timer(timer, next, after + cloud);
    else if (simulation.timer_set(timer)) simulation.stop_timer(timer);
}

void WorldState::record_use(MachineId machine) {
    const Machine& mine = fleet[machine];
    if (!records.recording.use || mine.is_instance) return;
    double used = unknown;
    if (mine.running()) {
        used =
            is_shared() ? simulation.rate(resource_of(machine)) : fleet.meter(machine).used.value();
        used = std::clamp(used, 0.0, mine.capacity);
    } else if (mine.is_up() && mine.has_own_power) {
        used = mine.utilisation * mine.capacity;
    } else if (mine.is_up() && mine.watts > 0) {
        records.use.state_powers.push_back({records.use.size(), mine.watts});
    }
    records.use.push_back({machine, now(), used});
}

}  // namespace twinloop
