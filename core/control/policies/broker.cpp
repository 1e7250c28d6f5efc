// The life of the instances of a broker: decision, request, boot, tasks, release.
#include "control/policies/broker.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace twinloop {
namespace {

// The least time between two requests for the same tasks (s).
constexpr double shortest_pause = 1e-3;

// The first multiple of an interval that is not before a time.
double next_multiple_from(double time, double interval) {
    return std::ceil(time / interval - 1e-9) * interval;
}

}  // namespace

bool Broker::possible(const SchedulerState& scheduler, TaskId task) const {
    const CloudPlan& cloud = scheduler.clouds()[options_.client.cloud];
    const InstanceType& type = cloud.types[options_.client.type];
    if (!type.fits_task && !holds(type, scheduler.request(task))) return false;
    const Rental rental = make_rental(scheduler, task);
    return can_host(scheduler, cloud, rental.cores, rental.memory, options_.client.overcommit);
}

// --- notifications ------------------------------------------------------------------------------

void Broker::submitted(const SchedulerState& scheduler, TaskId task) {
    if (prepared_) {
        if (is_ranked()) rank_added_tasks(scheduler);
        note_submission(scheduler.submit_time(task));
    }
    if (task >= node_of_.size()) node_of_.resize(task + std::size_t{1}, no_node);
    node_of_[task] = no_node;
    arrived_.push_back(task);
}

void Broker::withdrawn(const SchedulerState& scheduler, TaskId task) {
    has_changed_ = true;
    std::erase(arrived_, task);
    std::erase(waiting_, task);
    const std::uint32_t at = std::exchange(node_of_[task], no_node);
    if (at == no_node) return;
    BrokerNode& node = nodes_[at];
    if (std::erase(node.queue, task) > 0) node.idle_at -= scheduler.predicted_time(task);
    node.is_stale = true;
    startable_.push_back(at);
}

void Broker::ended(const SchedulerState& scheduler, TaskId task) {
    has_changed_ = true;
    const std::uint32_t at =
        task < node_of_.size() ? std::exchange(node_of_[task], no_node) : no_node;
    if (at == no_node) {
        // It ran on an instance of an earlier client.
        unused_.push_back(scheduler.parts(task).front().machine);
        return;
    }
    BrokerNode& node = nodes_[at];
    const double time = scheduler.now() - scheduler.start_time(task);
    node.idle_at += time - scheduler.predicted_time(task);
    node.is_stale = true;
    std::erase(node.running, task);
    startable_.push_back(at);
}

void Broker::rental_changed(const SchedulerState& scheduler, MachineId instance,
                            RentalEvent event) {
    has_changed_ = true;
    if (event == RentalEvent::found) {
        unused_.push_back(instance);
        return;
    }
    const std::uint32_t at = node_on(instance);
    if (at == no_node) return;
    BrokerNode& node = nodes_[at];
    const double now = scheduler.now();
    if (node.state == BrokerNode::State::booting) end_boot();
    if (event == RentalEvent::ready) {
        node.is_stale = true;
        startable_.push_back(at);
        if (node.state != BrokerNode::State::booting) {
            // After a reboot or a resumption. Tasks that it runs go on.
            if (!node.running.empty()) return;
            node.idle_at = now;
            for (const TaskId task : node.queue) node.idle_at += scheduler.predicted_time(task);
            return;
        }
        find_host(scheduler, node);
        set_state(node, BrokerNode::State::lagging);
        node.idle_at += now - node.decided - node.predicted_boot;
        node.open_at = now + recorded(options_.lags, node.record, 0.0);
        return;
    }
    if (node.state == BrokerNode::State::booting) {
        const bool is_refused = event == RentalEvent::refused || event == RentalEvent::outbid;
        if (!is_refused) spend(scheduler, node);
        // Time passes between requests, so that a run without any success ends.
        const bool is_instant = now <= node.requested && node.attempts > 1;
        if (is_refused) node.request_at = now + std::max(options_.retry, shortest_pause);
        else node.request_at = is_instant ? now + shortest_pause : now;
        on_machine_[instance] = no_node;
        node.machine = no_machine;
        // The spot price was too high, which is no failed boot.
        if (event == RentalEvent::outbid || event == RentalEvent::interrupted) --node.attempts;
        remove_from_order(at);
        set_state(node, BrokerNode::State::future);
        insert(at);
        failed_.push_back(at);
    } else {
        return_tasks(node);
        remove_node(scheduler, at);
    }
}

// The tasks that were assigned to the node wait for another one.
void Broker::return_tasks(BrokerNode& node) {
    for (const TaskId task : std::exchange(node.queue, {})) {
        node_of_[task] = no_node;
        arrived_.push_back(task);
    }
}

// --- decision -----------------------------------------------------------------------------------

void Broker::decide(SchedulerState& scheduler) {
    prepare(scheduler);
    const double now = scheduler.now();
    for (const MachineId instance : std::exchange(unused_, {}))
        if (node_on(instance) == no_node && find_release_obstacle(scheduler, instance) == nullptr)
            scheduler.release(instance);
    for (const std::uint32_t at : std::exchange(failed_, {})) replace(scheduler, at);
    if (!from_request_ && count(BrokerNode::State::booting) > 0) find_hosts(scheduler);
    for (const std::uint32_t at : std::exchange(startable_, {})) start_tasks(scheduler, at);
    if (count(BrokerNode::State::lagging) > 0)
        for (const std::uint32_t at : order_)
            if (nodes_[at].state == BrokerNode::State::lagging) start_tasks(scheduler, at);
    // A request changes the order, in which nodes without a request come first.
    std::vector<std::uint32_t> due;
    for (std::size_t place = 0; place < count(BrokerNode::State::future); ++place)
        if (nodes_[order_[place]].request_at <= now) due.push_back(order_[place]);
    for (const std::uint32_t at : due) {
        if (!nodes_[at].queue.empty()) {
            request(scheduler, at);
            continue;
        }
        // Its tasks were killed.
        end_boot();
        remove_node(scheduler, at);
    }
    if (options_.strategy == BrokerStrategy::budget) enforce_budget(scheduler);
    if (options_.interval == 0 || (next_scan(now) <= now && scanned_ < now)) scan(scheduler);
    set_wakes(scheduler);
}

void Broker::prepare(const SchedulerState& scheduler) {
    if (prepared_) return;
    prepared_ = true;
    const CloudPlan& cloud = scheduler.clouds()[options_.client.cloud];
    unit_ = cloud.billing.unit;
    price_ = cloud.types[options_.client.type].price;
    // Whether an instance will be reserved is not known; a bid is an upper bound, too.
    if (cloud.billing.reserved > 0) price_ = std::max(price_, cloud.billing.reserved_price);
    if (bids()) price_ = options_.client.bid;
    from_request_ = cloud.billing.from_request;
    // The bill has the reservations of all clouds.
    for (const CloudPlan& each : scheduler.clouds())
        options_.budget -= each.billing.reserved * each.billing.upfront;
    const Tasks& tasks = scheduler.tasks();
    for (TaskId task = 0; task < tasks.size(); ++task) note_submission(tasks[task].request.submit);
    if (is_ranked()) rank_tasks(scheduler);
}

void Broker::note_submission(double time) {
    if (!(time > last_submission_)) return;
    last_submission_ = time;
    if (options_.interval > 0) later_from_ = next_multiple_from(time, options_.interval);
}

double Broker::next_scan(double time) const {
    if (options_.interval == 0) return time;
    if (time <= later_from_) return next_multiple_from(time, options_.interval);
    return later_from_ + next_multiple_from(time - later_from_, options_.later_interval);
}

double Broker::scan_after(double time) const {
    const double scan = next_scan(time);
    if (scan > time || options_.interval == 0) return scan;
    return next_scan(time + 0.5 * std::min(options_.interval, options_.later_interval));
}

double Broker::last_scan(double time) const {
    if (options_.interval == 0) return time;
    const bool is_later = time > later_from_;
    const double begin = is_later ? later_from_ : 0.0;
    const double interval = is_later ? options_.later_interval : options_.interval;
    return begin + std::floor((time - begin) / interval + 1e-9) * interval;
}

void Broker::scan(SchedulerState& scheduler) {
    scanned_ = scheduler.now();
    has_changed_ = false;
    // Without a unit of time an idle instance has nothing left, but it may get a task now.
    if (unit_ < never) stop_idle(scheduler);
    assign_waiting(scheduler);
    if (unit_ == never) stop_idle(scheduler);
    if (options_.strategy == BrokerStrategy::budget && order_.empty() && !is_outbid(scheduler))
        give_up(scheduler);
}

void Broker::assign_waiting(SchedulerState& scheduler) {
    if (arrived_.empty() && waiting_.empty()) return;
    const auto is_first = [&](TaskId a, TaskId b) {
        if (is_ranked() && ranks_[a] != ranks_[b]) return ranks_[a] > ranks_[b];
        const double first = scheduler.submit_time(a);
        const double second = scheduler.submit_time(b);
        return first != second ? first < second : a < b;
    };
    std::ranges::sort(arrived_, is_first);
    const auto known = static_cast<std::ptrdiff_t>(waiting_.size());
    waiting_.insert(waiting_.end(), arrived_.begin(), arrived_.end());
    arrived_.clear();
    std::ranges::inplace_merge(waiting_, waiting_.begin() + known, is_first);
    std::vector<TaskId> left;
    for (const TaskId task : std::exchange(waiting_, {})) {
        if (scheduler.phase(task) != Phase::waiting) continue;
        const std::uint32_t at = choose(scheduler, task);
        if (at == no_node) left.push_back(task);
        else assign(scheduler, task, at == new_node ? add_node(scheduler, task) : at);
    }
    waiting_ = std::move(left);
}

// No instance is left, and the budget allows no other one.
void Broker::give_up(SchedulerState& scheduler) {
    for (const TaskId task : std::exchange(waiting_, {}))
        if (scheduler.phase(task) == Phase::waiting) scheduler.kill(task);
}

void Broker::assign(SchedulerState& scheduler, TaskId task, std::uint32_t at) {
    BrokerNode& node = nodes_[at];
    if (node.is_idle()) {
        node.idle_at = node.claimed_at = scheduler.now();
        node.is_listed = false;
        std::erase(idle_, at);
    }
    const double start = std::max(node.idle_at, scheduler.now());
    node.idle_at += scheduler.predicted_time(task);
    node.is_stale = true;
    node.queue.push_back(task);
    node_of_[task] = at;
    if (is_ranked()) unassigned_ -= std::exchange(work_[task], 0.0);
    scheduler.reserve(task, node.machine, start);
    start_tasks(scheduler, at);
}

void Broker::start_tasks(SchedulerState& scheduler, std::uint32_t at) {
    BrokerNode& node = nodes_[at];
    const double now = scheduler.now();
    if (node.state == BrokerNode::State::lagging && node.open_at <= now) {
        set_state(node, BrokerNode::State::ready);
        node.is_stale = true;
    }
    if (node.state != BrokerNode::State::ready) return;
    while (!node.queue.empty()) {
        const TaskId task = node.queue.front();
        const Part part{node.machine, 1, scheduler.request(task).cores};
        if (find_place_obstacle(scheduler, task, {&part, 1}, {}) != nullptr) return;
        node.queue.pop_front();
        node.running.push_back(task);
        scheduler.place(task, {&part, 1});
    }
    if (node.is_idle() && !std::exchange(node.is_listed, true)) {
        node.idle_since = now;
        idle_.push_back(at);
    }
}

// --- instances ----------------------------------------------------------------------------------

Rental Broker::make_rental(const SchedulerState& scheduler, TaskId task) const {
    const InstanceType& type =
        scheduler.clouds()[options_.client.cloud].types[options_.client.type];
    const Request& wanted = scheduler.request(task);
    Rental rental;
    rental.cloud = options_.client.cloud;
    rental.type = options_.client.type;
    rental.image = options_.client.image;
    rental.cores = type.fits_task ? wanted.cores : type.cores;
    rental.memory = type.fits_task ? wanted.memory : type.memory;
    rental.user = wanted.user;
    rental.bid = options_.client.bid;
    return rental;
}

bool Broker::can_rent(const SchedulerState& scheduler, const Rental& rental) const {
    if (order_.size() >= options_.instances) return false;
    const std::uint32_t decided = count(BrokerNode::State::future);
    return find_rental_obstacle(scheduler, rental, decided + 1) == nullptr && !is_outbid(scheduler);
}

std::uint32_t Broker::add_node(SchedulerState& scheduler, TaskId task) {
    std::uint32_t at;
    if (free_.empty()) {
        at = static_cast<std::uint32_t>(nodes_.size());
        nodes_.emplace_back();
    } else {
        at = free_.back();
        free_.pop_back();
    }
    BrokerNode& node = nodes_[at] = {};
    const double now = scheduler.now();
    const Rental rental = make_rental(scheduler, task);
    node.cores = rental.cores;
    node.memory = rental.memory;
    node.record = node.index = decided_++;
    node.decided = node.requested = node.begin = now;
    node.request_at = recorded(options_.request_dates, node.record, now);
    node.predicted_boot = predict_boot();
    node.idle_at = now + node.predicted_boot;
    node.is_stale = true;
    ++counts_[static_cast<std::size_t>(node.state)];
    ++booting_;
    insert(at);
    if (node.request_at <= now) request(scheduler, at);
    return at;
}

void Broker::set_state(BrokerNode& node, BrokerNode::State state) {
    --counts_[static_cast<std::size_t>(node.state)];
    node.state = state;
    ++counts_[static_cast<std::size_t>(state)];
}

// Nodes without a request come first, in the order of their decisions; then nodes by their
// requests, of equal ones the last decision first.
bool Broker::is_before(std::uint32_t at, std::uint32_t other_at) const {
    const BrokerNode& node = nodes_[at];
    const BrokerNode& other = nodes_[other_at];
    const bool mine = node.state == BrokerNode::State::future;
    if (mine != (other.state == BrokerNode::State::future)) return mine;
    if (mine) return node.index < other.index;
    return node.requested != other.requested ? node.requested < other.requested
                                             : node.index > other.index;
}

void Broker::insert(std::uint32_t at) {
    order_.insert(
        std::ranges::lower_bound(order_, at,
                                 [&](std::uint32_t a, std::uint32_t b) { return is_before(a, b); }),
        at);
}

void Broker::remove_from_order(std::uint32_t at) {
    order_.erase(std::ranges::lower_bound(
        order_, at, [&](std::uint32_t a, std::uint32_t b) { return is_before(a, b); }));
}

void Broker::find_host(const SchedulerState& scheduler, BrokerNode& node) const {
    if (node.has_host) return;
    const double since = scheduler.hosted_since(node.machine);
    if (std::isnan(since)) return;
    node.has_host = true;
    if (from_request_) return;
    // Its boot began with the allocation, as its bill.
    node.begin = since;
    node.idle_at += since - node.decided;
    node.decided = since;
    node.is_stale = true;
}

void Broker::find_hosts(const SchedulerState& scheduler) {
    for (const std::uint32_t at : order_)
        if (nodes_[at].state == BrokerNode::State::booting) find_host(scheduler, nodes_[at]);
}

void Broker::spend(const SchedulerState& scheduler, BrokerNode& node) {
    find_host(scheduler, node);
    if (node.has_host) spent_units_ += units(scheduler.now() - node.begin);
}

void Broker::request(SchedulerState& scheduler, std::uint32_t at) {
    BrokerNode& node = nodes_[at];
    const double now = scheduler.now();
    Rental rental;
    rental.cloud = options_.client.cloud;
    rental.type = options_.client.type;
    rental.image = options_.client.image;
    rental.cores = node.cores;
    rental.memory = node.memory;
    rental.boot_record = node.record;
    rental.bid = options_.client.bid;
    if (options_.boots_as_predicted) rental.boot_time = node.predicted_boot;
    if (!node.queue.empty()) rental.user = scheduler.request(node.queue.front()).user;
    if (find_rental_obstacle(scheduler, rental) != nullptr || is_outbid(scheduler)) {
        node.request_at = now + std::max(options_.retry, shortest_pause);
        return;
    }
    node.machine = scheduler.rent(rental);
    if (node.machine >= on_machine_.size())
        on_machine_.resize(node.machine + std::size_t{1}, no_node);
    on_machine_[node.machine] = at;
    remove_from_order(at);
    set_state(node, BrokerNode::State::booting);
    node.requested = node.begin = now;
    insert(at);
    const std::vector<double>& dates = options_.recorded_dates;
    // Schlouder forgets at a request how many instances boot, unless the next one was requested
    // together with it.
    if (options_.validation && node.record + std::size_t{1} < dates.size() &&
        std::abs(dates[node.record] - dates[node.record + std::size_t{1}]) > 0)
        booting_ = 0;
}

// Another instance takes the place of one that has not booted, with its tasks.
void Broker::replace(SchedulerState& scheduler, std::uint32_t at) {
    BrokerNode& node = nodes_[at];
    const double now = scheduler.now();
    if (node.attempts >= options_.attempts) {
        for (const TaskId task : std::exchange(node.queue, {})) {
            node_of_[task] = no_node;
            if (scheduler.phase(task) == Phase::waiting) scheduler.kill(task);
        }
    }
    if (node.queue.empty()) {
        remove_node(scheduler, at);
        return;
    }
    remove_from_order(at);
    ++node.attempts;
    node.record = node.index = decided_++;
    node.request_at = std::max(now, node.request_at);
    node.decided = node.requested = node.begin = node.request_at;
    node.predicted_boot = predict_boot();
    node.idle_at = node.request_at + node.predicted_boot;
    for (const TaskId task : node.queue) node.idle_at += scheduler.predicted_time(task);
    node.approved = 1.0;
    node.is_stale = true;
    node.has_host = false;
    ++booting_;
    insert(at);
    if (options_.strategy == BrokerStrategy::budget && planned_units(scheduler) > budget_units()) {
        return_tasks(node);
        end_boot();
        remove_node(scheduler, at);
    }
}

void Broker::remove_node(const SchedulerState& scheduler, std::uint32_t at) {
    BrokerNode& node = nodes_[at];
    if (node.machine != no_machine) {
        spend(scheduler, node);
        on_machine_[node.machine] = no_node;
    }
    remove_from_order(at);
    std::erase(startable_, at);
    if (node.is_listed) std::erase(idle_, at);
    --counts_[static_cast<std::size_t>(node.state)];
    node = {};
    free_.push_back(at);
}

// --- release ------------------------------------------------------------------------------------

bool Broker::may_stop(const BrokerNode& node, double now) const {
    const double uptime = now - node.begin;
    if (unit_ == never) return true;
    if (!options_.published) return now >= stop_time(node, now);
    // SimSchlouder keeps an instance that has become idle within the margin. It has one core.
    const double idle = node.cores < 2.0 ? node.idle_at : node.idle_since;
    return units(uptime) < units(uptime + options_.margin) &&
           units(uptime) * unit_ - (idle - node.begin) > options_.margin;
}

// The time from which on the node may be stopped if it stays idle, or an earlier time.
double Broker::stop_time(const BrokerNode& node, double now) const {
    if (unit_ == never) return now;
    const double end = node.begin + units(now - node.begin) * unit_;
    if (options_.published) return end + 1.0 - options_.margin;
    // There may be no scan within the margin.
    return std::min(end - options_.margin, last_scan(end));
}

void Broker::stop_idle(SchedulerState& scheduler) {
    const double now = scheduler.now();
    std::vector<std::uint32_t> stops;
    for (const std::uint32_t at : idle_)
        if (may_stop(nodes_[at], now) &&
            find_release_obstacle(scheduler, nodes_[at].machine) == nullptr)
            stops.push_back(at);
    std::ranges::sort(stops, [&](std::uint32_t a, std::uint32_t b) { return is_before(a, b); });
    for (const std::uint32_t at : stops) {
        const MachineId machine = nodes_[at].machine;
        remove_node(scheduler, at);
        scheduler.release(machine);
        has_changed_ = true;
    }
}

// At the end of a unit of time that the budget covers, the next one is bought for an instance that
// has tasks; otherwise it is given back with what it runs.
void Broker::enforce_budget(SchedulerState& scheduler) {
    const double now = scheduler.now();
    double approved = spent_units_;
    for (const std::uint32_t at : order_) approved += nodes_[at].approved;
    for (const std::uint32_t at : std::vector<std::uint32_t>(order_)) {
        BrokerNode& node = nodes_[at];
        if (node.state == BrokerNode::State::future || !is_billed(node)) continue;
        if (now < node.begin + node.approved * unit_ * (1 - 1e-12)) continue;
        if (!node.is_idle() && (approved + 1) * price_ <= options_.budget * (1 + 1e-12)) {
            ++node.approved;
            ++approved;
            continue;
        }
        for (const TaskId task : std::vector<TaskId>(node.running)) scheduler.preempt(task);
        return_tasks(node);
        if (node.state == BrokerNode::State::booting) end_boot();
        const MachineId machine = node.machine;
        remove_node(scheduler, at);
        scheduler.release(machine);
    }
}

// --- next call ----------------------------------------------------------------------------------

void Broker::set_wakes(SchedulerState& scheduler) {
    const double now = scheduler.now();
    double next = never;
    double next_change = never;  // that a scan finds
    const bool enforces = options_.strategy == BrokerStrategy::budget && unit_ < never;
    for (std::size_t place = 0; place < count(BrokerNode::State::future); ++place)
        next = std::min(next, nodes_[order_[place]].request_at);
    if (enforces || count(BrokerNode::State::lagging) > 0) {
        for (const std::uint32_t at : order_) {
            const BrokerNode& node = nodes_[at];
            if (node.state == BrokerNode::State::lagging) next = std::min(next, node.open_at);
            if (enforces && node.state != BrokerNode::State::future)
                next = std::min(next, (is_billed(node) ? node.begin : now) + node.approved * unit_);
        }
    }
    for (const std::uint32_t at : idle_) {
        double stop = stop_time(nodes_[at], now);
        // A node that may not stop now is looked at again in its next unit.
        if (stop <= now && scanned_ >= now && unit_ < never) stop += unit_;
        next_change = std::min(next_change, stop);
    }
    // A lower price lets tasks start that wait for one.
    const bool may_change = has_changed_ || (bids() && options_.interval > 0);
    if (!arrived_.empty() || (may_change && !waiting_.empty())) next_change = now;
    if (next_change < never) {
        const double scan = next_scan(std::max(next_change, now));
        next = std::min(next, scan > now || scanned_ < now ? scan : scan_after(now));
    }
    if (next < never && next > now) scheduler.wake(next);
}

std::unique_ptr<Controller> make_broker(const BrokerOptions& options) {
    return std::make_unique<Broker>(options);
}

}  // namespace twinloop
