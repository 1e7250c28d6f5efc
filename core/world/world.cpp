#include "world/world.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "control/order_checks.hpp"
#include "kernel/checks.hpp"
#include "world/clouds.hpp"
#include "world/executor.hpp"
#include "world/instances.hpp"
#include "world/lifecycle.hpp"
#include "world/machine_changes.hpp"
#include "world/staging.hpp"

namespace twinloop {
namespace {

// The first multiple of the interval from that time on; a multiple apart from rounding counts.
double next_multiple(double time, double interval) {
    const double near = std::round(time / interval) * interval;
    if (std::abs(near - time) <= 1e-12 * std::max(std::abs(time), interval)) return time;
    return std::ceil(time / interval) * interval;
}

}  // namespace

World::World(std::shared_ptr<const Scenario> scenario, std::shared_ptr<const Outages> outages,
             ModelValues values, std::unique_ptr<Controller> controller, const Recording& recording,
             std::unique_ptr<Source> source, std::vector<std::unique_ptr<Controller>> providers)
    : state_(std::move(scenario), std::move(outages), std::move(values), *controller, providers,
             recording, std::move(source)),
      controller_(std::move(controller)), providers_(std::move(providers)),
      foreign_(controller_->foreign()), decides_when_idle_(controller_->decides_when_idle()) {
    connect();
    for (const CloudPlan& cloud : *state_.scenario->clouds)
        if (cloud.hosts_begin_off)
            for (const MachineId host : cloud.hosts)
                MachineChanges(state_).restore_state(host, {off_state, now()});
    Lifecycle lifecycle(state_);
    // A controller in Python may read the plan of any task; others see it at the submission.
    if (foreign_)
        for (TaskId task = 0; task < state_.tasks.size(); ++task)
            state_.scheduler.set_planned_time(task, lifecycle.plan(task));
    for (TaskId task = 0; task < state_.tasks.size(); ++task)
        if (state_.task(task).rejected && state_.tasks[task].status == Status::none) {
            state_.tasks.edit(task).submit = state_.task(task).request.submit;
            lifecycle.conclude(task, Status::rejected, now());
        }
}

World::World(const World& other, std::unique_ptr<Controller> controller)
    : state_(other.state_), controller_(std::move(controller)), foreign_(controller_->foreign()),
      decides_when_idle_(controller_->decides_when_idle()), decide_at_(other.decide_at_),
      needs_outages_(other.needs_outages_), stuck_(other.stuck_), in_vain_(other.in_vain_),
      vain_since_(other.vain_since_), last_events_(other.last_events_) {
    for (const auto& each : other.providers_) providers_.push_back(each->clone());
    connect();
}

void World::connect() {
    state_.scheduler.set_controller(controller_.get());
    if (state_.has_files())
        state_.scheduler.set_data(
            {state_.scenario->files.get(), &state_.staging.transfers, &state_.simulation});
    for (std::size_t cloud = 0; cloud < providers_.size(); ++cloud) {
        state_.clouds[cloud].scheduler.set_controller(providers_[cloud].get());
        has_foreign_provider_ = has_foreign_provider_ || providers_[cloud]->foreign();
    }
    state_.simulation.set_client(this);
    state_.bids = foreign_ || controller_->bids();
    for (std::size_t cloud = 0; cloud < state_.clouds.size(); ++cloud)
        state_.set_price_timer(cloud);
    if (state_.is_shared() && state_.records.recording.use)
        state_.simulation.add_observer(&use_recorder_);
}

// --- the loop -----------------------------------------------------------------------------------

bool World::step() {
    double next = continues() ? state_.simulation.next_time() : never;
    const double time = time_of_instant(next);
    needs_outages_ = time >= state_.outages->until && time < never;
    if (needs_outages_ || (state_.records.usage && state_.records.usage->full())) return false;
    if (time == never) {
        fail_remaining();
        // Requests that waited for a stream of a task may have got it.
        return !state_.requests.open.empty() && next_time() < never;
    }
    check_progress(time);
    state_.scheduler.set_now(time);
    while (next <= time) {
        state_.simulation.process(next);
        if (is_called() && state_.options().decide_events) {
            check_progress(time);
            decide_all();
        }
        next = state_.simulation.next_time();
    }
    if (is_called()) decide_all();
    if (state_.watched) note_clouds();
    return true;
}

void World::fired(std::uint64_t token, bool /*again*/) {
    switch (subject_of(token)) {
        case Subject::execution:
            ++state_.events;
            Executor(state_).end_delay(index_of(token));
            break;
        case Subject::submission:
            submit_due();
            break;
        case Subject::outage:
            MachineChanges(state_).begin_outages();
            break;
        case Subject::recovery:
            ++state_.events;
            MachineChanges(state_).recover(state_.outages->list[index_of(token)]);
            break;
        case Subject::transition:
            ++state_.events;
            MachineChanges(state_).continue_transition(index_of(token));
            break;
        case Subject::decision:
            if (const std::uint32_t cloud = index_of(token); cloud > 0)
                state_.clouds[cloud - 1].call = true;
            else state_.call = true;
            break;
        case Subject::instance:
            ++state_.events;
            Clouds(state_).end_delay(index_of(token));
            break;
        case Subject::price:
            ++state_.events;
            Clouds(state_).change_price(index_of(token));
            break;
        case Subject::job_submission:
            Lifecycle(state_).end_submissions();
            break;
        case Subject::job_end:
            Lifecycle(state_).report_ends();
            break;
        case Subject::usage:
            Compute(state_).record_window(index_of(token));
            break;
    }
}

void World::ended(std::uint64_t token, Ending how, const Final& figures) {
    const auto slot = static_cast<std::uint32_t>((token - 1) >> 32);
    const auto member = static_cast<std::uint32_t>((token - 1) & 0xffffffffU);
    if (member == Staging::member) {
        Staging(state_).end(slot, how, figures);
        if (how == Ending::cancelled) return;
        ++state_.events;
        Executor(state_).end_transfer(slot);
    } else if (member == Clouds::transfer_member) {
        Clouds(state_).end_transfer(slot, how, figures);
        if (how == Ending::cancelled) return;
        ++state_.events;
    } else if (member == Clouds::migration_member) {
        Clouds(state_).end_round(slot, how, figures);
        if (how == Ending::cancelled) return;
        ++state_.events;
    } else if (member == Clouds::message_member) {
        Clouds(state_).end_message(slot, how);
        if (how == Ending::cancelled) return;
        ++state_.events;
    } else if (member == StoreRequests::member) {
        StoreRequests(state_).end(slot, how, figures);
        if (how == Ending::cancelled) return;
        ++state_.events;
    } else if (member == Clouds::boot_member) {
        if (how == Ending::cancelled) return;
        ++state_.events;
        Clouds(state_).end_boot(slot);
    } else {
        if (!Compute(state_).end_activity(slot, member, how, figures)) return;
        ++state_.events;
        Executor(state_).end_shared_step(slot);
    }
    // Several activities may end in one event of the kernel.
    if (is_called() && state_.options().decide_events) decide_all();
}

double World::next_time() {
    return time_of_instant(continues() ? state_.simulation.next_time() : never);
}

// Messages arrive also after the last task: instances exist until then. So do instances that a
// broker keeps until the end of their unit of time.
bool World::continues() const {
    return state_.is_open() || waiting_ || state_.messages.live() > 0 || controller_->continues();
}

// The time of the next instant, if that is the time of the next event.
double World::time_of_instant(double next) const {
    if (!state_.is_open() && state_.messages.live() == 0 && !controller_->continues())
        return waiting_ && state_.transitions > 0 ? next : never;
    if (is_called()) return now();
    return count_helpful() > 0 ? next : never;
}

// The number of pending events that can help a task: with outages alone, the run has ended. So its
// end does not depend on the number of known outages.
std::size_t World::count_helpful() const {
    return state_.simulation.pending() - state_.usage_timers -
           (state_.simulation.timer_set(state_.outage) ? 1U : 0U);
}

// Tasks that are left can never end: their machines are gone for good, or give them no capacity; or
// the source has not submitted them. It is not asked any more.
void World::fail_remaining() {
    const bool submits_all = state_.submitter.submits_all();
    state_.submitter.close();
    Executor executor(state_);
    Lifecycle lifecycle(state_);
    for (TaskId task = 0; state_.open > 0 && task < state_.tasks.size(); ++task) {
        if (state_.tasks[task].status != Status::none) continue;
        if (state_.tasks[task].slot != Executions::no_slot) {
            const std::span<const Part> parts = state_.scheduler.parts(task);
            executor.interrupt(task, Reason::failed, Interrupted::lost,
                               std::vector<Part>(parts.begin(), parts.end()));
            state_.scheduler.end(task);
        } else {
            state_.scheduler.withdraw(task);
        }
        const bool submitted = submits_all || !std::isnan(state_.tasks[task].submit);
        lifecycle.conclude(task, submitted ? Status::failed : Status::cancelled, now());
    }
}

void World::check_progress(double time) {
    stuck_ = time == now() ? stuck_ + 1 : 0;
    if (stuck_ > 1000 + 10 * (state_.tasks.size() + state_.fleet.size()))
        throw std::runtime_error("keeps returning decisions at the same time without progress");
}

void World::run_until(double time) {
    needs_outages_ = false;
    // Transitions of machines continue after the last task.
    waiting_ = true;
    while (next_time() <= time)
        if (!step()) break;
    waiting_ = false;
    if (needs_outages_ || (state_.records.usage && state_.records.usage->full())) return;
    needs_outages_ = time >= state_.outages->until && next_time() < never;
    if (needs_outages_) return;
    if (time > now() && std::isfinite(time)) {
        state_.simulation.wait(time);
        state_.scheduler.set_now(time);
    }
}

bool World::run_until_notice(double time) {
    waiting_ = true;
    while (state_.notices.empty() && next_time() <= time)
        if (!step()) break;
    waiting_ = false;
    return !state_.notices.empty();
}

void World::extend(std::shared_ptr<const Outages> outages) {
    state_.outages = std::move(outages);
    state_.set_outage_timer();
    needs_outages_ = false;
}

void World::submit_due() {
    Lifecycle lifecycle(state_);
    state_.submitter.submit_due(
        now(), state_.scheduler.tasks(),
        [&](TaskId task) {
            ++state_.events;
            if (state_.tasks[task].status == Status::rejected) {
                state_.tasks.edit(task).submit = now();
                state_.submitter.record_end(task, now(), Status::rejected);
            } else {
                lifecycle.submit(task);
            }
        },
        [&](NewTask& given) { submit_new(given); });
    state_.set_submission_timer();
}

void World::submit_new(NewTask& given) {
    given.row.request.submit = now();
    const TaskId id = add_task(given);
    ++state_.added_by_source;
    ++state_.events;
    Lifecycle(state_).submit(id);
}

void World::UseRecorder::rate_changed(ResourceId resource, double /*now*/, double /*rate*/) {
    if (resource >= world_.recorded.size()) return;
    const MachineId machine = world_.recorded[resource];
    // The use of a machine that is down or off is recorded with that change.
    if (machine != no_machine && world_.fleet[machine].running()) world_.record_use(machine);
}

// --- decisions ----------------------------------------------------------------------------------

void World::decide() {
    SchedulerState& scheduler = state_.scheduler;
    state_.call = false;
    const bool due = decide_at_ <= now();
    if (due) decide_at_ = never;
    const bool woken = scheduler.wake_time() <= now();
    const bool wanted = scheduler.must_decide() || decides_when_idle_ || (woken && foreign_);
    if (!wanted || is_postponed(due)) {
        if (woken) scheduler.clear_wake();
        set_decision_timer();
        return;
    }
    acting_cloud_ = none;
    try {
        scheduler.decide();
    } catch (...) {
        // The orders before the exception are valid: the scheduler state shows them.
        carry_out(scheduler.orders());
        set_decision_timer();
        throw;
    }
    check_wakes();
    carry_out(scheduler.orders());
    set_decision_timer();
}

// Whether the decision has to wait: for the next time of the decision interval, where the cycle of
// a negotiator begins, and for the end of that cycle.
bool World::is_postponed(bool due) {
    if (due) return false;
    const double interval = state_.values.decision_interval;
    const double cycle = state_.options().managed ? state_.values.submission_cycle : 0.0;
    const double next = (interval > 0 ? next_multiple(now(), interval) : now()) + cycle;
    if (next <= now()) return false;
    decide_at_ = std::min(decide_at_, next);
    return true;
}

void World::check_wakes() {
    const bool idle = state_.scheduler.orders().empty() && state_.events == last_events_;
    last_events_ = state_.events;
    if (!idle) {
        in_vain_ = 0;
        return;
    }
    const std::size_t decisions = state_.simulation.timer_set(state_.decision) ? 1 : 0;
    // A program may also call itself for ever without any progress of time.
    if (in_vain_ == 0) vain_since_ = now();
    const bool is_endless = foreign_ && now() - vain_since_ <= 1e-9 * static_cast<double>(in_vain_);
    in_vain_ = count_helpful() <= decisions || is_endless ? in_vain_ + 1 : 0;
    if (in_vain_ <= (foreign_ ? 10'000U : 1'000U)) return;
    if (!foreign_) {
        // It waits for tasks on machines that only a change from outside can let run again.
        in_vain_ = 0;
        state_.scheduler.clear_wake();
        return;
    }
    const TaskId waiting = state_.scheduler.first_waiting();
    throw std::runtime_error("keeps requesting wake-ups while nothing else happens" +
                             (waiting == no_task
                                  ? std::string()
                                  : ": task " + std::to_string(waiting) + " waits forever"));
}

// The next call of the controller if nothing happens before.
void World::set_decision_timer() {
    double time = decide_at_;
    const SchedulerState& scheduler = state_.scheduler;
    if (scheduler.must_decide() || foreign_ || decides_when_idle_)
        time = std::min(time, scheduler.wake_time());
    if (scheduler.must_decide() && !scheduler.window_ends().empty())
        time = std::min(time, scheduler.window_ends().front());
    if (time < never) {
        state_.simulation.set_timer(state_.decision, std::max(time, now()));
    } else if (state_.simulation.timer_set(state_.decision)) {
        state_.simulation.stop_timer(state_.decision);
    }
}

void World::carry_out(std::span<const Order> orders) {
    Executor executor(state_);
    const SchedulerState& scheduler = state_.scheduler;
    for (const Order& order : orders) {
        if (state_.records.recording.orders) {
            const auto parts = order.kind == Order::Kind::place ? scheduler.parts(order.task)
                                                                : std::span<const Part>();
            const MachineId machine = parts.empty() ? order.machine : parts.front().machine;
            MachineId label = machine == no_machine ? machine : state_.label(machine);
            if (order.kind == Order::Kind::rent)
                label = RentedInstance::label_bit | scheduler.rental_number(machine);
            state_.records.orders.add(order, now(), label);
        }
        switch (order.kind) {
            case Order::Kind::place:
                executor.start(order.task);
                break;
            case Order::Kind::preempt:
                executor.interrupt(order.task, Reason::preempted, state_.after_preemption,
                                   scheduler.vacated(order));
                break;
            case Order::Kind::kill:
                executor.kill(order.task, scheduler.vacated(order));
                break;
            case Order::Kind::set_state:
                MachineChanges(state_).enter(order.machine, scheduler.entered(order));
                // A controller before this one may use a machine that runs at once.
                if (order.controller > 0) state_.call = true;
                break;
            case Order::Kind::rent:
                Clouds(state_).rent(order.machine, scheduler.rental(order));
                break;
            case Order::Kind::release:
                Clouds(state_).release(order.machine);
                break;
            case Order::Kind::migrate:
            case Order::Kind::resize:
            case Order::Kind::reserve:
            case Order::Kind::wake:
                break;
        }
    }
}

// --- inspection ---------------------------------------------------------------------------------

double World::energy(MachineId machine) const {
    const double before =
        machine < state_.earlier_energy.size() ? state_.earlier_energy[machine] : 0.0;
    if (state_.is_shared()) {
        const ResourceId resource = state_.resource_of(machine);  // none: an instance that is gone
        return (resource == none ? 0.0 : state_.simulation.cost(resource)) - before;
    }
    Meter meter = state_.fleet.meter(machine);
    meter.advance(now());
    return meter.energy - before;
}

double World::energy_of(TaskId task) const {
    const TaskRun& mine = state_.tasks[task];
    if (mine.slot == Executions::no_slot) return mine.energy;
    return mine.energy + Compute(const_cast<WorldState&>(state_)).energy(mine.slot);
}

double World::progress(TaskId task) const {
    const TaskRun& mine = state_.tasks[task];
    if (mine.status == Status::completed) return 1.0;
    const double whole = state_.task(task).length;
    if (mine.slot == Executions::no_slot)
        return state_.saved.empty() || whole <= 0 ? 0.0 : state_.saved[task] / whole;
    const double reached = Compute(const_cast<WorldState&>(state_)).reached(mine.slot);
    return whole > 0 ? reached / whole : 1.0;
}

// --- changes from outside -----------------------------------------------------------------------

TaskId World::inject(const NewTask& given) {
    const TaskId id = add_task(given);
    if (state_.tasks[id].status == Status::none) {
        state_.submitter.add(given.row.request.submit, id);
        state_.set_submission_timer();
    }
    return id;
}

// The row of a task that is not in the scenario. A task that can never run is rejected, and one
// with a parent that did not complete ends at once.
TaskId World::add_task(const NewTask& given) {
    const Task& task = given.row;
    const std::vector<TaskId> parents = find_parents(state_.scheduler.tasks(), given);
    // A task that is larger than every machine is rejected below.
    const double ratio = controller_->overcommit().cores;
    bool fits = controller_->spreads();
    for (MachineId m = 0; m < state_.fleet.size() && !fits; ++m)
        fits = task.request.cores <= ratio * state_.fleet[m].capacity / state_.fleet[m].speed;
    const double provided = state_.options().fixed_demand ? state_.fleet.slowest() : task.speed;
    double cores = task.request.cores;
    if (!controller_->spreads())
        for (MachineId m = 0; m < state_.fleet.size(); ++m)
            cores = std::min(cores, state_.fleet[m].capacity / state_.fleet[m].speed);
    if (!state_.is_shared() && fits && task.limit > cores * provided * (1 + slack))
        share_machines();
    const TaskId id = append_task(given, parents.size());
    Lifecycle lifecycle(state_);
    const Status status = lifecycle.add_parents(id, parents);
    if (status == Status::rejected || !controller_->possible(state_.scheduler, id)) {
        reject_added(id);
    } else if (status != Status::none) {
        lifecycle.conclude(id, status, now());
    }
    return id;
}

TaskId World::append_task(const NewTask& given, std::size_t parents) {
    Task row = given.row;
    row.parents = static_cast<std::uint32_t>(parents);
    const TaskId id = state_.scheduler.add_task(row, given.amounts, given.name, given.command);
    state_.tasks.push_back({});
    if (!state_.saved.empty()) state_.saved.push_back(0.0);
    if (!state_.spent.empty()) state_.spent.push_back(0.0);
    if (state_.records.recording.machines) state_.records.last_machines.push_back(no_machine);
    state_.scheduler.set_planned_time(id, Lifecycle(state_).plan(id));
    ++state_.open;
    return id;
}

void World::reject_added(TaskId id) {
    state_.scheduler.set_rejected(id);
    state_.tasks.edit(id).submit = state_.task(id).request.submit;
    Lifecycle(state_).conclude(id, Status::rejected, now());
}

void World::adopt_added(const NewTask& given, bool rejected, bool pending) {
    const std::vector<TaskId> parents = find_parents(state_.scheduler.tasks(), given);
    const TaskId id = append_task(given, parents.size());
    Lifecycle(state_).add_parents(id, parents);
    if (rejected) reject_added(id);
    else if (pending) state_.submitter.add(given.row.request.submit, id);
    state_.set_submission_timer();
}

void World::fail(MachineId machine) { MachineChanges(state_).fail(machine); }
void World::restore(MachineId machine) { MachineChanges(state_).restore(machine); }
void World::set_cores(MachineId machine, double cores) {
    if (may_overload(cores, never)) share_machines();
    MachineChanges(state_).set_cores(machine, cores);
}
// Whether tasks that share nothing on the present machines may demand more than this one provides.
bool World::may_overload(double cores, double speed) const {
    if (state_.is_shared()) return false;
    if (state_.options().fixed_demand && speed < state_.fleet.slowest()) return true;
    if (controller_->spreads()) return false;
    for (MachineId m = 0; m < state_.fleet.size(); ++m)
        if (cores * state_.fleet[m].speed >= state_.fleet[m].capacity) return false;
    return true;
}
MachineId World::add_machine(const MachineSpec& spec, std::span<const double> amounts,
                             MachineId like) {
    check_positive("cores", spec.cores);
    check_positive("speed", spec.speed);
    if (may_overload(spec.cores, spec.speed * state_.values.speed_factor)) share_machines();
    return MachineChanges(state_).add(spec, amounts, like);
}
void World::share_machines() {
    if (state_.is_shared()) return;
    begin_sharing(state_);
    if (state_.records.recording.use) state_.simulation.add_observer(&use_recorder_);
}
MachineId World::add_instance(MachineId host, double cores, double memory, bool beyond) {
    check_positive("cores", cores);
    const double seen = cores * state_.values.effective_capacity;
    if (const char* why = find_rent_obstacle(state_.scheduler, host, seen, memory, beyond))
        throw std::invalid_argument(why);
    share_machines();
    return Instances(state_).add(host, cores, memory);
}
const char* World::move_instance(MachineId instance, MachineId host, bool beyond) {
    if (const char* why = find_migrate_obstacle(state_.scheduler, instance, host, beyond))
        return why;
    Instances(state_).move(instance, host);
    return nullptr;
}
const char* World::resize_instance(MachineId instance, double cores, bool beyond) {
    const double seen = cores * state_.values.effective_capacity;
    if (const char* why = find_resize_obstacle(state_.scheduler, instance, seen, beyond))
        return why;
    Instances(state_).resize(instance, cores);
    return nullptr;
}
const char* World::set_state(MachineId machine, StateId target) {
    const WorldState::Place place = state_.place_of(machine);
    const char* const obstacle = find_state_obstacle(place.scheduler, place.number, target);
    if (obstacle != nullptr) return obstacle;
    const MachineStatus before = state_.scheduler.status(machine);
    const MachineStatus after = state_.scheduler.state_table(machine).change(before, target, now());
    if (after.state == before.state) return nullptr;
    state_.set_status(machine, after);
    MachineChanges(state_).enter(machine, after);
    state_.call = true;
    return nullptr;
}
void World::remove_machine(MachineId machine) { MachineChanges(state_).remove(machine); }

void World::introduce_controller(Interrupted after_preemption) {
    state_.after_preemption = after_preemption;
    state_.asks_for_possible = true;
    SchedulerState& scheduler = state_.scheduler;
    Lifecycle lifecycle(state_);
    if (foreign_)
        for (TaskId task = 0; task < state_.tasks.size(); ++task)
            if (state_.tasks[task].status == Status::none && scheduler.phase(task) == Phase::absent)
                scheduler.set_planned_time(task, lifecycle.plan(task));
    for (const TaskId task : scheduler.introduce_controller()) {
        scheduler.withdraw(task);
        lifecycle.conclude(task, Status::rejected, now());
    }
    in_vain_ = stuck_ = 0;
    state_.call = true;
}

void World::forget_history() {
    std::vector<double> energy(state_.fleet.size());
    for (MachineId m = 0; m < energy.size(); ++m)
        energy[m] =
            this->energy(m) + (m < state_.earlier_energy.size() ? state_.earlier_energy[m] : 0.0);
    state_.earlier_energy = std::move(energy);
    state_.forgotten = state_.ended;
    state_.occupied.clear();
    state_.rental_totals = {};
    state_.begin = now();
    Records& records = state_.records;
    records.placements.clear();
    records.transfers.clear();
    state_.requests.forgotten = state_.requests.ended;
    records.orders.clear();
    records.states.forget();
    records.instances.forget();
    records.rentals.clear();
    records.migrations.clear();
    records.instance_states.clear();
    records.messages.clear();
    records.descriptions.clear();
    records.use.clear();
    records.use.resizes.clear();
    records.use.state_powers.clear();
    if (!records.recording.use) return;
    for (MachineId m = 0; m < state_.fleet.size(); ++m) {
        records.use.resizes.push_back({records.use.size(), m, state_.fleet[m].capacity});
        state_.record_use(m);
    }
}

void World::begin_at(double time) {
    state_.begin = time;
    state_.simulation.set_start(time);
    state_.scheduler.set_now(time);
    state_.fleet.set_start(time);
    for (std::size_t at = 0; at < state_.records.use.size(); ++at)
        state_.records.use.edit(at).t = time;
    MachineChanges(state_).skip_outages();
    for (std::size_t cloud = 0; cloud < state_.clouds.size(); ++cloud)
        state_.set_price_timer(cloud);
}

void World::adopt(TaskId task, const Known& known) {
    TaskRun& mine = state_.tasks.edit(task);
    const Status status = mine.status;
    static_cast<Outcome&>(mine) = known.outcome;
    mine.status = status;
    const double planned = known.planned;
    state_.scheduler.set_times(task, mine.submit,
                               std::isnan(planned) ? Lifecycle(state_).plan(task) : planned);
    if (known.arrival > 0) state_.scheduler.set_arrival(task, known.arrival);
    if (known.spent > 0) {
        state_.spent.resize(state_.tasks.size(), 0.0);
        state_.spent.edit(task) = known.spent;
    }
    // A task that failed with its parent has ended with it.
    if (known.outcome.status == Status::none || status != Status::none) return;
    const double end = std::isnan(known.outcome.end) ? known.outcome.last_end : known.outcome.end;
    Lifecycle(state_).conclude(task, known.outcome.status, std::isnan(end) ? now() : end,
                               known.seen);
    state_.tasks.edit(task).end = known.outcome.end;
}

void World::adopt_execution(TaskId task, std::span<const Part> parts, const SavedExecution& saved) {
    if (state_.tasks[task].status == Status::none) state_.tasks.edit(task).missing_parents = 0;
    Executor(state_).restore(task, parts, saved);
}

std::vector<std::pair<TaskId, SavedExecution>> World::executions() const {
    const Executor executor(const_cast<WorldState&>(state_));
    const std::span<const TaskId> running = state_.scheduler.running();
    std::vector<TaskId> tasks(running.begin(), running.end());
    std::ranges::stable_sort(tasks, {},
                             [&](TaskId task) { return executor.order(state_.tasks[task].slot); });
    std::vector<std::pair<TaskId, SavedExecution>> all;
    all.reserve(tasks.size());
    for (const TaskId task : tasks) all.emplace_back(task, executor.save(state_.tasks[task].slot));
    return all;
}

MachineId World::restore_instance(MachineId host, double cores, double memory) {
    share_machines();
    return Instances(state_).add(host == no_machine ? MachineId{0} : host, cores, memory);
}

void World::restore_host(MachineId instance, MachineId host) {
    if (state_.scheduler.host_of(instance) == host) return;
    Instances(state_).move(instance, host);
    state_.records.instances.forget();
}

void World::restore_machine(MachineId machine, const KnownMachine& known) {
    state_.fleet[machine].restored_at = known.restored_at;
    if (known.removed) {
        if (!state_.fleet[machine].removed) remove_machine(machine);
        state_.fleet[machine].outages = known.outages;
    }
    while (state_.fleet[machine].outages < known.outages) fail(machine);
    MachineChanges(state_).restore_state(machine, known.status);
    state_.earlier_energy.resize(state_.fleet.size(), 0.0);
    state_.earlier_energy[machine] = -known.energy;
}

void World::restore_stores(std::span<const StoreFiles> given) {
    Transfers& transfers = state_.staging.transfers;
    std::vector<bool> is_given(transfers.stores.size());
    for (const auto& [store, files] : given) is_given.at(store) = true;
    std::vector<std::pair<StoreId, FileId>> before;
    transfers.files().each([&](FileId file, StoreId store, double) {
        if (is_given[store]) before.emplace_back(store, file);
    });
    for (const auto& [store, file] : before) transfers.remove_file(store, file);
    for (const auto& [store, files] : given)
        for (const FileId file : files)
            transfers.put_file(store, file, state_.scenario->files->files.at(file).bytes);
}

void World::restore_submissions(std::size_t added_by_source, std::span<const double> memory) {
    state_.added_by_source = added_by_source;
    state_.submitter.skip(now(), [&](TaskId task) {
        return state_.tasks[task].status != Status::none || !std::isnan(state_.tasks[task].submit);
    });
    Source* const source = state_.submitter.source();
    if (source != nullptr && !memory.empty()) source->restore_memory(memory);
    state_.set_submission_timer();
}

World::Decisions World::decisions() const {
    return {state_.call,   state_.scheduler.wake_time(), decide_at_,
            state_.events, state_.occupied.value(),      controller_->memory()};
}

void World::restore_decisions(const Decisions& known) {
    controller_->restore_memory(state_.scheduler, known.memory);
    state_.call = known.call;
    state_.events = last_events_ = known.events;
    state_.occupied.clear();
    state_.occupied.add(known.occupied);
    state_.scheduler.set_wake(known.wake);
    decide_at_ = known.decide_at;
    set_decision_timer();
}

void World::adopt_waiting(TaskId task, double done_share) {
    if (!std::isnan(done_share)) state_.save_work(task, done_share * state_.task(task).length);
    state_.tasks.edit(task).missing_parents = 0;
    state_.scheduler.submit(task);
    state_.call = true;
}

void World::adopt_held(TaskId task) {
    if (state_.tasks[task].missing_parents > 0) return;
    state_.scheduler.submit(task);
    state_.call = true;
}

void World::adopt_running(TaskId task, std::span<const Part> parts, double done_share) {
    state_.save_work(task, done_share * state_.task(task).length);
    state_.tasks.edit(task).missing_parents = 0;
    Executor(state_).adopt(task, parts, state_.tasks[task].last_start);
}

}  // namespace twinloop
