#include "control/scheduler_state.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include "control/order_checks.hpp"

namespace twinloop {

bool Controller::possible(const SchedulerState& scheduler, TaskId task) const {
    const double cores = scheduler.request(task).cores;
    if (scheduler.pooled() && cores > slack)
        return cores <= scheduler.empty_space().total_cores() + slack;
    std::vector<Part> parts;
    // In the far future, after the end of all windows.
    return scheduler.find(task, scheduler.empty_space(), never, parts);
}

std::size_t Controller::count_places(const SchedulerState& scheduler, const Space& space,
                                     TaskId task, std::size_t most) const {
    if (foreign()) return most;
    Space left = space;
    std::vector<Part> parts;
    std::size_t count = 0;
    for (; count < most && scheduler.find(task, left, never, parts); ++count)
        left.take(scheduler.needs(task), parts);
    return count;
}

void Controller::refused(const SchedulerState&, const Order& order, std::span<const Part>,
                         const char* why) {
    constexpr const char* what[] = {"the placement", "the preemption", "the end",  "a state",
                                    "a reservation", "a call",         "the rent", "the release",
                                    "the migration", "the size"};
    std::string text = "ordered ";
    text += what[static_cast<std::size_t>(order.kind)];
    if (order.task != no_task) text += " of task " + std::to_string(order.task);
    if (order.machine != no_machine) text += " of machine " + std::to_string(order.machine);
    throw std::invalid_argument(text + ", but " + why);
}

SchedulerState::SchedulerState(std::shared_ptr<const TaskTable> tasks,
                               std::vector<MachineSpec> machines,
                               std::vector<double> machine_amounts,
                               std::vector<AccessWindow> windows, std::vector<QueueRule> queues,
                               bool spreads)
    : tasks_(std::move(tasks)), machines_(std::move(machines)),
      space_(machines_, tasks_.shared().resources(), std::move(machine_amounts)), empty_(space_),
      windows_(std::move(windows)), queues_(std::move(queues)), limits_(queues_), spreads_(spreads),
      states_(tasks_.size()), absent_(machines_.size(), 0) {
    for (const AccessWindow& window : windows_)
        if (std::isfinite(window.end)) window_ends_.push_back(window.end);
    std::ranges::sort(window_ends_);
    // Clang 14 does not compile std::ranges::unique with libstdc++ 12.
    // NOLINTNEXTLINE(modernize-use-ranges)
    window_ends_.erase(std::unique(window_ends_.begin(), window_ends_.end()), window_ends_.end());
    unrestricted_ = windows_.empty() && std::ranges::all_of(queues_, [](const QueueRule& each) {
                        return each.machines.empty();
                    });
    single_cores_ =
        spreads && std::ranges::all_of(machines_, [](const auto& each) { return each.cores == 1; });
    for (const MachineSpec& each : machines_) {
        finite_memory_ = finite_memory_ || std::isfinite(each.memory);
        if (each.mhz > 0) slowest_mhz_ = std::min(slowest_mhz_, each.mhz);
    }
    pooled_ = unrestricted_ && needs_only_cores(tasks_.shared().extent());
    if (tasks_.shared().extent().mhz > slowest_mhz_) unrestricted_ = false;
    has_laws_ = tasks_.shared().has_laws();
}

// Of a moldable task on several machines, the cores add up to the request.
double SchedulerState::count_cores(double requested, std::span<const Part> parts) {
    const bool is_one = parts.size() == 1 && parts.front().count == 1;
    return is_one ? parts.front().cores : requested;
}

double SchedulerState::scale_by_law(TaskId task, std::span<const Part> parts) const {
    const double requested = tasks_[task].request.cores;
    const double cores = count_cores(requested, parts);
    if (cores == requested) return 1.0;
    const SpeedupLaw& law = tasks_.law(task);
    return law.speedup(requested) / law.speedup(cores);
}

// --- tasks --------------------------------------------------------------------------------------

bool SchedulerState::needs_only_cores(const TaskTable::Extent& extent) const {
    return !(single_cores_ ? extent.nodes_beyond_one : extent.nodes) && !extent.amounts &&
           !(extent.memory && finite_memory_) && extent.mhz <= slowest_mhz_;
}

TaskId SchedulerState::add_task(const Task& task, std::span<const double> amounts,
                                std::string_view name, std::string_view command) {
    TaskTable::Extent alone;
    alone.include(task, amounts);
    if (pooled_ && !needs_only_cores(alone)) pooled_ = false;
    if (task.request.mhz > slowest_mhz_) unrestricted_ = false;
    states_.push_back({});
    return tasks_.add(task, amounts, name, command);
}

bool SchedulerState::allowed(TaskId task, MachineId machine, double from, double time) const {
    const Request& request = tasks_[task].request;
    const MachineSpec& spec = machines_[machine];
    if (request.mhz > 0 && spec.mhz > 0 && spec.mhz < request.mhz) return false;
    // A machine that was added during the run is in no list.
    const auto listed = [machine](const std::vector<std::uint8_t>& machines) {
        return machine < machines.size() && machines[machine] != 0;
    };
    if (request.queue >= 0 && static_cast<std::size_t>(request.queue) < queues_.size()) {
        const auto& own = queues_[static_cast<std::size_t>(request.queue)].machines;
        if (!own.empty() && !listed(own)) return false;
    }
    return std::ranges::none_of(windows_, [&](const AccessWindow& window) {
        const bool meets =
            from < window.end && (from + time > window.start || from >= window.start);
        return meets && listed(window.machines) &&
               std::ranges::find(window.users, request.user) == window.users.end() &&
               std::ranges::find(window.queues, request.queue) == window.queues.end();
    });
}

bool SchedulerState::find(TaskId task, const Space& space, double from,
                          std::vector<Part>& parts) const {
    const Needs wanted = needs(task);
    if (unrestricted_) {
        if (!space.find(wanted, parts)) return false;
    } else {
        const double time = states_[task].time;
        const auto allows = [&](MachineId machine) { return allowed(task, machine, from, time); };
        if (!space.find(wanted, allows, parts)) return false;
    }
    if (&space == &space_ && from == now_) found_ = {task, parts.data(), parts.size()};
    return true;
}

std::span<const double> SchedulerState::window_ends() const {
    const auto later = std::ranges::upper_bound(window_ends_, now_);
    return {later, window_ends_.end()};
}

// --- the queue ----------------------------------------------------------------------------------

inline void SchedulerState::enqueue(TaskId task, TaskState& state) {
    if (state.arrival == 0) state.arrival = next_arrival_++;
    // An interrupted task returns to its place before the tasks that arrived later.
    state.next = no_task;
    state.before = last_;
    while (state.before != no_task && states_[state.before].arrival > state.arrival) {
        state.next = state.before;
        state.before = states_[state.before].before;
    }
    (state.before == no_task ? first_ : states_.edit(state.before).next) = task;
    (state.next == no_task ? last_ : states_.edit(state.next).before) = task;
    ++waiting_count_;
    state.phase = Phase::waiting;
    if (controller_ != nullptr) controller_->submitted(*this, task);
}

inline void SchedulerState::submit(TaskId task, TaskState& state) {
    if (std::isnan(state.submit)) state.submit = now_;
    if (limits_.active() && !limits_.admit(task, request(task))) {
        state.phase = Phase::held;
        return;
    }
    enqueue(task, state);
}

void SchedulerState::submit(TaskId task) { submit(task, states_.edit(task)); }

void SchedulerState::submit(TaskId task, double planned) {
    TaskState& state = states_.edit(task);
    state.time = planned;
    submit(task, state);
}

void SchedulerState::release_held(TaskId ended) {
    const auto request_of = [this](TaskId task) -> const Request& { return request(task); };
    for (TaskId task = limits_.release(request(ended), request_of); task != no_task;
         task = limits_.release(request(ended), request_of))
        enqueue(task, states_.edit(task));
}

inline void SchedulerState::unlink(TaskId task) {
    const TaskId before = states_[task].before;
    const TaskId next = states_[task].next;
    (before == no_task ? first_ : states_.edit(before).next) = next;
    (next == no_task ? last_ : states_.edit(next).before) = before;
    --waiting_count_;
}

void SchedulerState::withdraw(TaskId task) {
    if (states_[task].phase == Phase::held) {
        limits_.withdraw(task, request(task));
    } else if (states_[task].phase == Phase::waiting) {
        unlink(task);
        if (controller_ != nullptr) controller_->withdrawn(*this, task);
        if (limits_.active()) {
            limits_.remove(request(task));
            release_held(task);
        }
    }
    states_.edit(task).phase = Phase::gone;
}

// --- occupied machines --------------------------------------------------------------------------

void SchedulerState::occupy(TaskId task, std::span<const Part> parts, double since) {
    TaskState& state = states_.edit(task);
    state.first_part = static_cast<std::uint32_t>(parts_.size());
    state.part_count = static_cast<std::uint32_t>(parts.size());
    parts_.insert(parts_.end(), parts.begin(), parts.end());
    live_parts_ += parts.size();
    space_.take(space_needs(task), parts);
    found_.task = no_task;
    state.phase = Phase::running;
    state.start = since;
    state.place = static_cast<std::uint32_t>(running_.size());
    running_.push_back(task);
    if (indexed_) index_parts(task, true);
    if (controller_ != nullptr) controller_->placed(*this, task);
}

void SchedulerState::vacate(TaskId task) {
    TaskState& state = states_.edit(task);
    if (indexed_) index_parts(task, false);
    space_.give(space_needs(task), parts(task));
    found_.task = no_task;
    live_parts_ -= state.part_count;
    const TaskId moved = running_.back();
    running_[state.place] = moved;
    states_.edit(moved).place = state.place;
    running_.pop_back();
    state.phase = Phase::gone;
    if (controller_ != nullptr) controller_->ended(*this, task);
    state.part_count = 0;
    if (live_parts_ == 0) {
        parts_.clear();
    } else if (parts_.size() > 2 * live_parts_ + 1024) {
        compact();
    }
}

void SchedulerState::compact() {
    std::vector<Part> kept;
    kept.reserve(live_parts_ * 2);
    for (const TaskId task : running_) {
        const std::span<const Part> mine = parts(task);
        const auto first = static_cast<std::uint32_t>(kept.size());
        kept.insert(kept.end(), mine.begin(), mine.end());
        states_.edit(task).first_part = first;
    }
    parts_ = std::move(kept);
}

void SchedulerState::index_parts(TaskId task, bool add) {
    for (const Part& part : parts(task))
        for (MachineId m = part.machine; m < part.machine + part.count; ++m) {
            std::vector<TaskId>& here = on_machine_[m];
            if (add) {
                here.push_back(task);
            } else {
                *std::ranges::find(here, task) = here.back();
                here.pop_back();
            }
        }
}

std::vector<TaskId> SchedulerState::tasks_on(MachineId machine) {
    if (!indexed_) {
        indexed_ = true;
        on_machine_.resize(machines_.size());
        for (const TaskId task : running_) index_parts(task, true);
    }
    std::vector<TaskId> found = on_machine_[machine];
    std::ranges::sort(found, {}, [this](TaskId task) { return states_[task].place; });
    return found;
}

void SchedulerState::adopt(TaskId task, std::span<const Part> parts, double since) {
    if (states_[task].arrival == 0) states_.edit(task).arrival = next_arrival_++;
    if (limits_.active()) limits_.add(request(task));
    occupy(task, parts, since);
}

void SchedulerState::end(TaskId task) {
    vacate(task);
    if (!limits_.active()) return;
    limits_.remove(request(task));
    release_held(task);
}

// --- machines -----------------------------------------------------------------------------------

const StateTable& SchedulerState::state_table(MachineId machine) const {
    // Machines of a platform without states are in no list.
    const std::size_t first = machines_.size() - added_tables_.size();
    if (machine >= first) return tables_->tables[added_tables_[machine - first]];
    return tables_->tables[tables_->of_machine.empty() ? 0 : tables_->of_machine[machine]];
}

void SchedulerState::set_status(MachineId machine, MachineStatus status) {
    if (statuses_.empty()) statuses_.resize(machines_.size());
    statuses_[machine] = status;
    reopen(machine);
    if (controller_ != nullptr) controller_->state_changed(*this, machine);
}

MachineId SchedulerState::add_machine(const MachineSpec& spec, std::span<const double> amounts,
                                      MachineId like) {
    const std::uint16_t table =
        like == no_machine
            ? 0
            : static_cast<std::uint16_t>(&state_table(like) - tables_->tables.data());
    return append_machine(spec, amounts, table);
}

MachineId SchedulerState::append_machine(const MachineSpec& spec, std::span<const double> amounts,
                                         std::uint16_t table) {
    added_tables_.push_back(table);
    const auto machine = static_cast<MachineId>(machines_.size());
    machines_.push_back(spec);
    space_.add(spec, amounts);
    empty_.add(spec, amounts);
    absent_.push_back(0);
    if (!statuses_.empty()) statuses_.emplace_back();
    if (indexed_) on_machine_.emplace_back();
    const bool restricted =
        std::ranges::any_of(queues_, [](const QueueRule& each) { return !each.machines.empty(); });
    single_cores_ = single_cores_ && spec.cores == 1;
    finite_memory_ = finite_memory_ || std::isfinite(spec.memory);
    if (spec.mhz > 0) slowest_mhz_ = std::min(slowest_mhz_, spec.mhz);
    const double highest = std::max(tasks_.shared().extent().mhz, tasks_.own().extent().mhz);
    unrestricted_ = unrestricted_ && !restricted && highest <= slowest_mhz_;
    pooled_ = pooled_ && unrestricted_ && needs_only_cores(tasks_.shared().extent()) &&
              needs_only_cores(tasks_.own().extent());
    announce(machine);
    return machine;
}

void SchedulerState::set_present(MachineId machine, bool present) {
    absent_[machine] = present ? 0 : 1;
    reopen(machine);
    if (controller_ != nullptr) controller_->state_changed(*this, machine);
}

void SchedulerState::reopen(MachineId machine) {
    const MachineId host = host_of(machine);
    const bool open = absent_[machine] == 0 && status(machine).state == running_state &&
                      (host == no_machine || space_.open(host)) && !is_cloud_host(machine);
    if (open == space_.open(machine)) return;
    space_.set_open(machine, open);
    found_.task = no_task;
    announce(machine);
    for (const MachineId instance : instances_on(machine)) reopen(instance);
}

void SchedulerState::announce(MachineId machine) {
    if (controller_ != nullptr) controller_->machine_changed(*this, machine);
}

void SchedulerState::resize(MachineId machine, double cores) {
    const double more = cores - machines_[machine].cores;
    const MachineId host = host_of(machine);
    if (host != no_machine) leave_host(machine);
    machines_[machine].cores = cores;
    if (host != no_machine) occupy_host(machine, host);
    space_.resize(machine, more);
    found_.task = no_task;
    empty_.resize(machine, more);
    announce(machine);
}

// --- instances ----------------------------------------------------------------------------------

namespace {

Needs needs_of(const MachineSpec& spec) {
    return {spec.cores, std::isfinite(spec.memory) ? spec.memory : 0.0, 0, {}};
}

}  // namespace

MachineId SchedulerState::add_instance(const MachineSpec& spec, MachineId host) {
    if (instance_table_ == 0) {
        instance_table_ = static_cast<std::uint16_t>(tables_->tables.size());
        tables_ = tables_->with_instances();
    }
    const std::vector<double> none(space_.resources(), 0.0);
    const MachineId instance = append_machine(spec, none, instance_table_);
    occupy_host(instance, host);
    reopen(instance);
    return instance;
}

void SchedulerState::move_instance(MachineId instance, MachineId host) {
    leave_host(instance);
    occupy_host(instance, host);
    reopen(instance);
}

void SchedulerState::remove_machine(MachineId machine) {
    set_present(machine, false);
    empty_.set_open(machine, false);
    if (host_of(machine) != no_machine) leave_host(machine);
}

void SchedulerState::occupy_host(MachineId instance, MachineId host) {
    const auto known = std::max<std::size_t>(instance, host) + std::size_t{1};
    if (hosts_.size() < known) {
        hosts_.resize(known, no_machine);
        instances_.resize(known);
    }
    hosts_[instance] = host;
    instances_[host].push_back(instance);
    const MachineSpec& spec = machines_[instance];
    const Part part{host, 1, spec.cores};
    space_.take(needs_of(spec), {&part, 1});
    empty_.take(needs_of(spec), {&part, 1});
    found_.task = no_task;
    announce(host);
}

void SchedulerState::leave_host(MachineId instance) {
    const MachineId host = std::exchange(hosts_[instance], no_machine);
    std::vector<MachineId>& here = instances_[host];
    *std::ranges::find(here, instance) = here.back();
    here.pop_back();
    const MachineSpec& spec = machines_[instance];
    const Part part{host, 1, spec.cores};
    space_.give(needs_of(spec), {&part, 1});
    empty_.give(needs_of(spec), {&part, 1});
    found_.task = no_task;
    announce(host);
}

// --- rented instances ---------------------------------------------------------------------------

void SchedulerState::set_clouds(std::shared_ptr<const CloudPlans> clouds) {
    clouds_ = std::move(clouds);
    totals_.resize(clouds_->size());
    in_cloud_.assign(machines_.size(), 0);
    for (const CloudPlan& each : *clouds_)
        for (const MachineId host : each.hosts) {
            in_cloud_[host] = 1;
            reopen(host);
            empty_.set_open(host, false);
        }
}

void SchedulerState::set_together(TaskId task, const Together& together) {
    if (task >= together_.size()) {
        if (together.group == none) return;
        together_.resize(task + std::size_t{1});
    }
    together_[task] = together;
}

MachineId SchedulerState::rent(const Rental& rental) {
    if (const char* why = find_rental_obstacle(*this, rental)) {
        refuse({.kind = Order::Kind::rent}, {}, why);
        return no_machine;
    }
    const MachineSpec spec{rental.cores, rental.memory > 0 ? rental.memory : never, 1.0, 0.0};
    MachineId instance = 0;
    if (free_.empty()) {
        const std::vector<double> no_amounts(space_.resources(), 0.0);
        instance = append_machine(spec, no_amounts, 0);
        absent_[instance] = 1;
        reopen(instance);
        empty_.set_open(instance, false);
        rented_.resize(machines_.size(), 0);
        last_rentals_.resize(machines_.size());
        rental_numbers_.resize(machines_.size(), none);
        hosted_since_.resize(machines_.size());
    } else {
        instance = free_.back();
        free_.pop_back();
        machines_[instance] = spec;
        space_.replace(instance, spec);
        finite_memory_ = finite_memory_ || std::isfinite(spec.memory);
    }
    rented_[instance] = 1;
    last_rentals_[instance] = rental;
    rental_numbers_[instance] = rental_count_++;
    hosted_since_[instance] = std::numeric_limits<double>::quiet_NaN();
    count_rental(rental, 1.0);
    add_order(Order::Kind::rent, no_task, instance);
    orders_.back().first = static_cast<std::uint32_t>(rentals_.size());
    rentals_.push_back(rental);
    return instance;
}

bool SchedulerState::release(MachineId instance) {
    if (const char* why = find_release_obstacle(*this, instance))
        return refuse({.kind = Order::Kind::release, .machine = instance}, {}, why);
    add_order(Order::Kind::release, no_task, instance);
    // No task begins on it any more, also if the order takes time.
    rented_[instance] = given_back;
    absent_[instance] = 1;
    reopen(instance);
    return true;
}

void SchedulerState::open_rented(MachineId instance) {
    absent_[instance] = 0;
    rented_[instance] = booted;
    reopen(instance);
    if (controller_ != nullptr) controller_->rental_changed(*this, instance, RentalEvent::ready);
}

void SchedulerState::set_cloud_host(MachineId host, bool in_cloud) {
    in_cloud_[host] = in_cloud ? 1 : 0;
    reopen(host);
    empty_.set_open(host, !in_cloud);
}

MachineId SchedulerState::adopt_machine(const SchedulerState& other, MachineId machine) {
    const auto table = &other.state_table(machine) - other.tables_->tables.data();
    const MachineId number =
        append_machine(other.machines_[machine], {}, static_cast<std::uint16_t>(table));
    if (const MachineStatus status = other.status(machine); status.state != running_state)
        set_status(number, status);
    if (!other.is_present(machine)) set_present(number, false);
    return number;
}

void SchedulerState::count_rental(const Rental& rental, double sign) {
    Rented& all = totals_[rental.cloud];
    all.instances += sign > 0 ? 1U : ~0U;
    all.cores += sign * rental.cores;
    all.memory += sign * rental.memory;
}

void SchedulerState::change_rental(MachineId instance, const Rental& rental) {
    count_rental(last_rentals_[instance], -1.0);
    count_rental(rental, 1.0);
    last_rentals_[instance] = rental;
}

void SchedulerState::end_rented(MachineId instance, RentalEvent event) {
    absent_[instance] = 1;
    reopen(instance);
    rented_[instance] = 0;
    count_rental(last_rentals_[instance], -1.0);
    free_.push_back(instance);
    if (controller_ != nullptr) controller_->rental_changed(*this, instance, event);
}

void SchedulerState::resize_rented(MachineId instance, double cores) {
    Rental& rental = last_rentals_[instance];
    totals_[rental.cloud].cores += cores - rental.cores;
    rental.cores = cores;
    resize(instance, cores);
}

double SchedulerState::used_cores(TaskId instance) const {
    if (client_ == nullptr || instance >= client_instances_.size()) return 0.0;
    const MachineId machine = client_instances_[instance];
    return client_->machines()[machine].cores - client_->space().cores(machine);
}

bool SchedulerState::is_within_limits(TaskId instance, double cores) const {
    if (client_ == nullptr || instance >= client_instances_.size()) return true;
    const Rental& rental = client_->last_rentals_[client_instances_[instance]];
    const double all = client_->rented_from(rental.cloud).cores + grown_;
    return all + cores - request(instance).cores <=
           client_->clouds()[rental.cloud].max_cores + slack;
}

TaskId SchedulerState::put_task(const Task& task) {
    if (free_tasks_.empty()) return add_task(task, {});
    const TaskId place = free_tasks_.back();
    free_tasks_.pop_back();
    states_.edit(place) = {};
    tasks_.replace(place, task);
    return place;
}

bool SchedulerState::migrate(TaskId instance, MachineId host) {
    if (const char* why = find_move_obstacle(*this, instance, host))
        return refuse({.kind = Order::Kind::migrate, .task = instance, .machine = host}, {}, why);
    const Task row = tasks_[instance];
    const double planned = states_[instance].time;
    const TaskId there = put_task(row);
    states_.edit(there).time = planned;
    const std::size_t known = std::max(instance, there) + std::size_t{1};
    if (other_ends_.size() < known) other_ends_.resize(known, no_task);
    other_ends_[instance] = there;
    other_ends_[there] = instance;
    set_rental(there, rental_of(instance));
    const Part part{host, 1, row.request.cores};
    adopt(there, {&part, 1}, now_);
    orders_.push_back({.kind = Order::Kind::migrate,
                       .controller = acting_,
                       .task = instance,
                       .machine = host,
                       .first = there});
    return true;
}

bool SchedulerState::resize_instance(TaskId instance, double cores) {
    const Overcommit overcommit = controller_ == nullptr ? Overcommit() : controller_->overcommit();
    if (const char* why = find_size_obstacle(*this, instance, cores, overcommit))
        return refuse({.kind = Order::Kind::resize, .task = instance}, {}, why);
    Task row = tasks_[instance];
    if (row.request.cores == cores) return true;
    grown_ += cores - row.request.cores;
    // It leaves its place for one of another size: its controllers see the end of one instance and
    // the start of another with the same number.
    const double since = states_[instance].start;
    Part part = parts(instance).front();
    vacate(instance);
    row.request.cores = part.cores = cores;
    tasks_.replace(instance, row);
    occupy(instance, {&part, 1}, since);
    orders_.push_back({.kind = Order::Kind::resize,
                       .controller = acting_,
                       .task = instance,
                       .first = static_cast<std::uint32_t>(sizes_.size())});
    sizes_.push_back(cores);
    return true;
}

void SchedulerState::end_migration(TaskId left) {
    other_ends_[other_ends_[left]] = no_task;
    other_ends_[left] = no_task;
    end(left);
    recycle(left);
}

// --- orders -------------------------------------------------------------------------------------

void SchedulerState::add_order(Order::Kind kind, TaskId task, MachineId machine) {
    Order order{kind, no_state, acting_, task, machine, static_cast<std::uint32_t>(vacated_.size()),
                0};
    if (kind != Order::Kind::place && task != no_task && states_[task].phase == Phase::running) {
        const std::span<const Part> mine = parts(task);
        order.count = static_cast<std::uint32_t>(mine.size());
        vacated_.insert(vacated_.end(), mine.begin(), mine.end());
    }
    orders_.push_back(order);
}

bool SchedulerState::refuse(const Order& order, std::span<const Part> parts, const char* why) {
    if (controller_ == nullptr) throw std::invalid_argument(why);
    controller_->refused(*this, order, parts, why);
    return false;
}

// The common case of the full check: the whole task on one machine that has what it needs free.
inline bool SchedulerState::is_free_machine(TaskId task, std::span<const Part> parts) const {
    if (parts.size() != 1 || !unrestricted_ || space_.resources() > 0) return false;
    const Part& part = parts.front();
    const Request& wanted = request(task);
    return part.count == 1 && part.machine < machines_.size() && part.cores > 0 &&
           part.cores == wanted.cores && wanted.nodes <= 1 && space_.open(part.machine) &&
           space_.cores(part.machine) >= part.cores - slack &&
           space_.memory(part.machine) >= wanted.memory * (1 - slack) &&
           states_[task].phase == Phase::waiting;
}

bool SchedulerState::place(TaskId task, std::span<const Part> parts) {
    if (!is_found(task, parts) && !is_free_machine(task, parts)) {
        const Overcommit overcommit =
            controller_ == nullptr ? Overcommit() : controller_->overcommit();
        if (const char* why = find_place_obstacle(*this, task, parts, overcommit))
            return refuse({.kind = Order::Kind::place, .task = task}, parts, why);
    }
    unlink(task);
    occupy(task, parts, now_);
    orders_.push_back({.kind = Order::Kind::place, .controller = acting_, .task = task});
    return true;
}

// A placement of the same call has not been carried out yet and is removed.
bool SchedulerState::undo_place(TaskId task) {
    const auto placed = std::ranges::find_if(orders_, [&](const Order& each) {
        return each.kind == Order::Kind::place && each.task == task;
    });
    if (placed == orders_.end()) return false;
    orders_.erase(placed);
    return true;
}

bool SchedulerState::preempt(TaskId task) {
    if (const char* why = find_preempt_obstacle(*this, task))
        return refuse({.kind = Order::Kind::preempt, .task = task}, {}, why);
    if (!undo_place(task)) add_order(Order::Kind::preempt, task, no_machine);
    vacate(task);
    enqueue(task, states_.edit(task));
    return true;
}

bool SchedulerState::kill(TaskId task) {
    if (const char* why = find_kill_obstacle(*this, task))
        return refuse({.kind = Order::Kind::kill, .task = task}, {}, why);
    const bool runs = states_[task].phase == Phase::running;
    if (runs && undo_place(task)) {
        end(task);
        add_order(Order::Kind::kill, task, no_machine);
        return true;
    }
    add_order(Order::Kind::kill, task, no_machine);
    if (runs) {
        end(task);
    } else {
        withdraw(task);
    }
    return true;
}

bool SchedulerState::set_state(MachineId machine, StateId target) {
    if (const char* why = find_state_obstacle(*this, machine, target))
        return refuse({.kind = Order::Kind::set_state, .state = target, .machine = machine}, {},
                      why);
    const MachineStatus before = status(machine);
    const MachineStatus after = state_table(machine).change(before, target, now_);
    if (after.state == before.state) return true;
    set_status(machine, after);
    add_order(Order::Kind::set_state, no_task, machine);
    orders_.back().state = target;
    orders_.back().first = static_cast<std::uint32_t>(entered_.size());
    entered_.push_back(after);
    return true;
}

bool SchedulerState::reserve(TaskId task, MachineId machine, double time) {
    if (const char* why = find_reserve_obstacle(*this, task, time))
        return refuse({.kind = Order::Kind::reserve, .task = task, .machine = machine}, {}, why);
    add_order(Order::Kind::reserve, task, machine);
    wake_ = std::min(wake_, time);
    return true;
}

bool SchedulerState::wake(double time) {
    if (const char* why = find_wake_obstacle(*this, time))
        return refuse({.kind = Order::Kind::wake}, {}, why);
    wake_ = std::min(wake_, time);
    return true;
}

// --- a new controller ---------------------------------------------------------------------------

void SchedulerState::set_spreads(bool spreads) {
    if (spreads == spreads_) return;
    spreads_ = spreads;
    single_cores_ =
        spreads && std::ranges::all_of(machines_, [](const auto& each) { return each.cores == 1; });
    pooled_ = unrestricted_ && needs_only_cores(tasks_.shared().extent()) &&
              needs_only_cores(tasks_.own().extent());
}

std::vector<TaskId> SchedulerState::introduce_controller() {
    set_spreads(controller_->spreads());
    wake_ = never;
    std::vector<TaskId> running = running_;
    std::ranges::sort(running, {}, [this](TaskId task) { return states_[task].arrival; });
    for (const TaskId task : running) controller_->placed(*this, task);
    for (MachineId m = 0; m < machines_.size(); ++m)
        if (!space_.open(m)) controller_->machine_changed(*this, m);
    for (MachineId m = 0; m < rented_.size(); ++m)
        if (rented_[m] != 0) controller_->rental_changed(*this, m, RentalEvent::found);
    std::vector<TaskId> impossible;
    for (TaskId task = first_; task != no_task; task = next_waiting(task)) {
        controller_->submitted(*this, task);
        if (!is_possible(task)) impossible.push_back(task);
    }
    return impossible;
}

void SchedulerState::clear_orders() {
    orders_.clear();
    vacated_.clear();
    entered_.clear();
    rentals_.clear();
    sizes_.clear();
    grown_ = 0.0;
}

std::span<const Order> SchedulerState::decide() {
    clear_orders();
    if (wake_ <= now_) wake_ = never;
    controller_->decide(*this);
    return orders_;
}

}  // namespace twinloop
