#include "model/desk.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace twinloop {

bool Policy::possible(const Desk& desk, TaskId task) const {
    std::vector<Part> parts;
    // Far in the future, when all windows are over.
    return desk.find(task, desk.empty_space(), never, parts);
}

Desk::Desk(std::vector<MachineSpec> machines, std::size_t resources,
           std::vector<double> machine_amounts, std::vector<Window> windows,
           std::vector<QueueRule> queues)
    : machines_(std::move(machines)), resources_(resources),
      space_(machines_, resources, std::move(machine_amounts)), empty_(space_),
      windows_(std::move(windows)), queues_(std::move(queues)), queue_states_(queues_.size()),
      gone_(machines_.size(), 0), off_(machines_.size(), 0) {
    for (const Window& window : windows_)
        if (std::isfinite(window.end)) window_ends_.push_back(window.end);
    std::ranges::sort(window_ends_);
    const auto ties = std::ranges::unique(window_ends_);
    window_ends_.erase(ties.begin(), ties.end());
    unrestricted_ = windows_.empty();
    for (const QueueRule& queue : queues_) {
        if (!queue.machines.empty()) unrestricted_ = false;
        if (queue.max_running != ~0U || queue.max_running_per_user != ~0U) limited_ = true;
    }
    pooled_ = unrestricted_;
    single_cores_ = std::ranges::all_of(machines_, [](const auto& m) { return m.cores == 1; });
    for (const MachineSpec& each : machines_) {
        finite_memory_ = finite_memory_ || std::isfinite(each.memory);
        if (each.mhz > 0) slowest_mhz_ = std::min(slowest_mhz_, each.mhz);
    }
}

// --- tasks ------------------------------------------------------------------------------------

void Desk::reserve_tasks(std::size_t count) {
    requests_.reserve(count);
    phases_.reserve(count);
    links_.reserve(count);
    submits_.reserve(count);
    arrivals_.reserve(count);
    runs_.reserve(count);
    ranges_.reserve(count);
    places_.reserve(count);
    amounts_.reserve(count * resources_);
}

bool Desk::only_cores(const Request& request, std::span<const double> amounts) const {
    if (request.nodes > 0) return false;
    if (std::ranges::any_of(amounts, [](double amount) { return amount > 0; })) return false;
    return !(request.memory > 0 && finite_memory_) && request.mhz <= slowest_mhz_;
}

TaskId Desk::add_task(const Request& request, std::span<const double> amounts) {
    const auto task = static_cast<TaskId>(requests_.size());
    requests_.push_back(request);
    Request& added = requests_.back();
    // On machines of one core each, that many nodes are that many cores.
    const bool anywhere = policy_ == nullptr || policy_->spreads();
    if (anywhere && added.nodes > 0 && single_cores_ && added.cores == added.nodes &&
        added.memory == 0)
        added.nodes = 0;
    if (pooled_ && !only_cores(added, amounts)) pooled_ = false;
    if (added.mhz > slowest_mhz_) unrestricted_ = false;
    amounts_.insert(amounts_.end(), amounts.begin(), amounts.end());
    phases_.push_back(Phase::absent);
    links_.emplace_back();
    submits_.push_back(std::numeric_limits<double>::quiet_NaN());
    arrivals_.push_back(0);
    runs_.emplace_back();
    ranges_.emplace_back();
    places_.push_back(0);
    return task;
}

Needs Desk::needs(TaskId task) const {
    const Request& request = requests_[task];
    return {request.cores, request.memory, request.nodes,
            std::span(amounts_).subspan(task * resources_, resources_)};
}

bool Desk::allowed(TaskId task, MachineId machine, double from, double time) const {
    const Request& request = requests_[task];
    const MachineSpec& spec = machines_[machine];
    if (request.mhz > 0 && spec.mhz > 0 && spec.mhz < request.mhz) return false;
    if (request.queue >= 0 && static_cast<std::size_t>(request.queue) < queues_.size()) {
        const auto& own = queues_[static_cast<std::size_t>(request.queue)].machines;
        if (!own.empty() && own[machine] == 0) return false;
    }
    return std::ranges::none_of(windows_, [&](const Window& window) {
        const bool meets =
            from < window.end && (from + time > window.start || from >= window.start);
        return meets && window.machines[machine] != 0 &&
               std::ranges::find(window.users, request.user) == window.users.end() &&
               std::ranges::find(window.queues, request.queue) == window.queues.end();
    });
}

bool Desk::find(TaskId task, const Space& space, double from, std::vector<Part>& parts) const {
    const Needs wanted = needs(task);
    if (unrestricted_) return space.find(wanted, parts);
    const double time = requests_[task].time;
    return space.find(
        wanted, [&](MachineId machine) { return allowed(task, machine, from, time); }, parts);
}

std::span<const double> Desk::window_ends() const {
    const auto later = std::ranges::upper_bound(window_ends_, now_);
    return {later, window_ends_.end()};
}

// --- the queue --------------------------------------------------------------------------------

Desk::Line& Desk::line(const Request& request) {
    auto& lines = queue_states_[static_cast<std::size_t>(request.queue)].lines;
    const auto user = static_cast<std::uint32_t>(request.user + 1);
    if (user >= lines.size()) lines.resize(user + 1);
    return lines[user];
}

bool Desk::within_limits(const Request& request) {
    if (!in_queue(request)) return true;
    const auto at = static_cast<std::size_t>(request.queue);
    return queue_states_[at].running < queues_[at].max_running &&
           line(request).running < queues_[at].max_running_per_user;
}

// A task that waits counts against the limits as if it ran: the limits hold whatever the policy
// then does.
void Desk::count_running(const Request& request, std::int32_t by) {
    if (!in_queue(request)) return;
    queue_states_[static_cast<std::size_t>(request.queue)].running +=
        static_cast<std::uint32_t>(by);
    line(request).running += static_cast<std::uint32_t>(by);
    offer(request);
}

// Keeps the list of those that may go next right, after a change in the line of this one.
void Desk::offer(const Request& request) {
    const auto at = static_cast<std::size_t>(request.queue);
    Line& mine = line(request);
    const bool may = mine.first != no_task && mine.running < queues_[at].max_running_per_user;
    const std::uint64_t since = may ? holds_[mine.first] : 0;
    if (since == mine.offered) return;
    if (mine.offered != 0) queue_states_[at].next.erase(mine.offered);
    if (since != 0) queue_states_[at].next.emplace(since, mine.first);
    mine.offered = since;
}

void Desk::hold(TaskId task) {
    phases_[task] = Phase::held;
    holds_.resize(requests_.size(), 0);
    holds_[task] = next_hold_++;
    Line& mine = line(requests_[task]);
    links_[task] = {mine.last, no_task};
    (mine.last == no_task ? mine.first : links_[mine.last].next) = task;
    mine.last = task;
    offer(requests_[task]);
}

void Desk::let_go(TaskId task) {
    Line& mine = line(requests_[task]);
    const Link link = links_[task];
    (link.before == no_task ? mine.first : links_[link.before].next) = link.next;
    (link.next == no_task ? mine.last : links_[link.next].before) = link.before;
    offer(requests_[task]);
}

void Desk::submit(TaskId task) {
    if (std::isnan(submits_[task])) submits_[task] = now_;
    if (limited_) {
        if (!within_limits(requests_[task])) {
            hold(task);
            return;
        }
        count_running(requests_[task], 1);
    }
    enqueue(task);
}

// Where one has ended, others may follow, in the order in which they were held.
void Desk::release_held(const Request& ended) {
    if (!in_queue(ended)) return;
    const auto at = static_cast<std::size_t>(ended.queue);
    QueueState& state = queue_states_[at];
    while (state.running < queues_[at].max_running && !state.next.empty()) {
        const TaskId task = state.next.begin()->second;
        let_go(task);
        count_running(requests_[task], 1);
        enqueue(task);
    }
}

void Desk::enqueue(TaskId task) {
    if (arrivals_[task] == 0) arrivals_[task] = next_arrival_++;
    // One that was interrupted goes back to its place among those that came after it.
    TaskId next = no_task;
    TaskId before = last_;
    while (before != no_task && arrivals_[before] > arrivals_[task]) {
        next = before;
        before = links_[before].before;
    }
    links_[task] = {before, next};
    (before == no_task ? first_ : links_[before].next) = task;
    (next == no_task ? last_ : links_[next].before) = task;
    ++waiting_count_;
    phases_[task] = Phase::waiting;
    if (policy_ != nullptr) policy_->submitted(*this, task);
}

void Desk::unlink(TaskId task) {
    const Link link = links_[task];
    (link.before == no_task ? first_ : links_[link.before].next) = link.next;
    (link.next == no_task ? last_ : links_[link.next].before) = link.before;
    --waiting_count_;
}

void Desk::withdraw(TaskId task) {
    if (phases_[task] == Phase::held) {
        let_go(task);
    } else if (phases_[task] == Phase::waiting) {
        unlink(task);
        if (policy_ != nullptr) policy_->withdrawn(*this, task);
        if (limited_) {
            count_running(requests_[task], -1);
            release_held(requests_[task]);
        }
    }
    phases_[task] = Phase::gone;
}

// --- machines ---------------------------------------------------------------------------------

void Desk::occupy(TaskId task, std::span<const Part> parts, double since) {
    ranges_[task] = {static_cast<std::uint32_t>(parts_.size()),
                     static_cast<std::uint32_t>(parts.size())};
    parts_.insert(parts_.end(), parts.begin(), parts.end());
    live_parts_ += parts.size();
    space_.take(needs(task), parts);
    phases_[task] = Phase::running;
    runs_[task] = {since, since + requests_[task].time};
    places_[task] = static_cast<std::uint32_t>(running_.size());
    running_.push_back(task);
    if (policy_ != nullptr) policy_->placed(*this, task);
}

void Desk::vacate(TaskId task) {
    space_.give(needs(task), parts(task));
    live_parts_ -= ranges_[task].count;
    ranges_[task].count = 0;
    const TaskId moved = running_.back();
    running_[places_[task]] = moved;
    places_[moved] = places_[task];
    running_.pop_back();
    phases_[task] = Phase::gone;
    if (policy_ != nullptr) policy_->ended(*this, task);
    if (parts_.size() > 2 * live_parts_ + 1024) compact();
}

void Desk::compact() {
    std::vector<Part> kept;
    kept.reserve(live_parts_ * 2);
    for (const TaskId task : running_) {
        const std::span<const Part> mine = parts(task);
        const auto first = static_cast<std::uint32_t>(kept.size());
        kept.insert(kept.end(), mine.begin(), mine.end());
        ranges_[task].first = first;
    }
    parts_ = std::move(kept);
}

void Desk::decided(Decision::Kind kind, TaskId task, MachineId machine) {
    Decision decision{kind, task, machine, static_cast<std::uint32_t>(vacated_.size()), 0};
    if (kind != Decision::Kind::place && task != no_task && phases_[task] == Phase::running) {
        const std::span<const Part> mine = parts(task);
        decision.count = static_cast<std::uint32_t>(mine.size());
        vacated_.insert(vacated_.end(), mine.begin(), mine.end());
    }
    decisions_.push_back(decision);
}

void Desk::place(TaskId task, std::span<const Part> parts) {
    unlink(task);
    occupy(task, parts, now_);
    decided(Decision::Kind::place, task, no_machine);
}

// A place that was given in this round has not been taken yet: it is as if it had never been given.
bool Desk::undo_place(TaskId task) {
    const auto placed = std::ranges::find_if(decisions_, [&](const Decision& each) {
        return each.kind == Decision::Kind::place && each.task == task;
    });
    if (placed == decisions_.end()) return false;
    decisions_.erase(placed);
    return true;
}

void Desk::preempt(TaskId task) {
    if (!undo_place(task)) decided(Decision::Kind::preempt, task, no_machine);
    vacate(task);
    enqueue(task);
}

void Desk::kill(TaskId task) {
    const bool runs = phases_[task] == Phase::running;
    if (runs && undo_place(task)) {
        end(task);
        decided(Decision::Kind::kill, task, no_machine);
        return;
    }
    decided(Decision::Kind::kill, task, no_machine);
    if (runs) {
        end(task);
    } else {
        withdraw(task);
    }
}

void Desk::switch_machine(MachineId machine, bool on) {
    off_[machine] = on ? 0 : 1;
    reopen(machine);
    decided(on ? Decision::Kind::open : Decision::Kind::close, no_task, machine);
}

void Desk::reserve(TaskId task, MachineId machine, double time) {
    decided(Decision::Kind::reserve, task, machine);
    wake(time);
}

void Desk::wake(double time) { wake_ = std::min(wake_, time); }

void Desk::adopt(TaskId task, std::span<const Part> parts, double since) {
    if (arrivals_[task] == 0) arrivals_[task] = next_arrival_++;
    if (limited_) count_running(requests_[task], 1);
    occupy(task, parts, since);
}

void Desk::end(TaskId task) {
    vacate(task);
    if (limited_) {
        count_running(requests_[task], -1);
        release_held(requests_[task]);
    }
}

void Desk::set_open(MachineId machine, bool open) {
    gone_[machine] = open ? 0 : 1;
    reopen(machine);
}

void Desk::reopen(MachineId machine) {
    space_.set_open(machine, gone_[machine] == 0 && off_[machine] == 0);
    if (policy_ != nullptr) policy_->machines_changed(*this);
}

void Desk::resize(MachineId machine, double cores) {
    const double more = cores - machines_[machine].cores;
    machines_[machine].cores = cores;
    space_.resize(machine, more);
    empty_.resize(machine, more);
    if (policy_ != nullptr) policy_->machines_changed(*this);
}

std::span<const Desk::Decision> Desk::decide() {
    decisions_.clear();
    vacated_.clear();
    if (wake_ <= now_) wake_ = never;
    policy_->decide(*this);
    return decisions_;
}

}  // namespace twinloop
