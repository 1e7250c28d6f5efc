// What a broker predicts: boots, the times at which its instances are idle, and units of billing.
#include <algorithm>
#include <cmath>

#include "control/policies/broker.hpp"

namespace twinloop {

// SimSchlouder counts whole seconds: a second more than a unit begins no other one.
double Broker::units(double time) const {
    if (unit_ == never) return 1.0;
    if (options_.published) return 1.0 + std::trunc((time > 1.0 ? time - 1.0 : time) / unit_);
    // Rounding of times must not begin another unit, as in the bill.
    return std::max(1.0, std::ceil(time / unit_ - 1e-9));
}

double Broker::predict_boot() const {
    if (options_.validation && booting_ == 0) return std::floor(options_.boot_base + 0.5);
    const double boot = options_.boot_base + options_.boot_per_booting * (booting_ + 1.0);
    return options_.published ? std::floor(boot + 0.5) : boot;
}

double Broker::idle_time(const SchedulerState& scheduler, BrokerNode& node, double cores) const {
    if (node.is_idle()) return scheduler.now();
    if (node.cores < 2.0) return node.idle_at;
    if (node.is_stale) predict_cores(scheduler, node);
    const auto wanted = static_cast<std::size_t>(std::ceil(cores));
    const double time = node.cores_at[std::clamp<std::size_t>(wanted, 1, node.cores_at.size()) - 1];
    return time == -never ? scheduler.now() : time;
}

// The tasks of the node in the order in which it starts them, each on the cores that are idle
// first.
void Broker::predict_cores(const SchedulerState& scheduler, BrokerNode& node) const {
    std::vector<double>& dates = node.cores_at;
    // Cores that are idle stay so while time passes.
    double begin = -never;
    if (node.state == BrokerNode::State::lagging) begin = node.open_at;
    else if (node.state != BrokerNode::State::ready)
        begin = std::max({node.request_at, node.requested, node.decided}) + node.predicted_boot;
    dates.assign(static_cast<std::size_t>(node.cores), begin);
    const auto occupy = [&](TaskId task, bool runs) {
        const auto wanted = static_cast<std::size_t>(std::ceil(scheduler.request(task).cores));
        const std::size_t count = std::clamp<std::size_t>(wanted, 1, dates.size());
        double start = runs ? scheduler.start_time(task) : dates[count - 1];
        if (start == -never) start = scheduler.now();
        std::fill_n(dates.begin(), count, start + scheduler.predicted_time(task));
        std::ranges::sort(dates);
    };
    for (const TaskId task : node.running) occupy(task, true);
    for (const TaskId task : node.queue) occupy(task, false);
    // They stay valid until a task is assigned or ends.
    node.is_stale = false;
}

double Broker::uptime_at_idle(const BrokerNode& node, double idle, double now) const {
    // Where its threads are known to have acted, Schlouder forgets the tasks that an idle instance
    // got in the same scan.
    if (options_.validation && !options_.recorded_dates.empty() && node.claimed_at == now)
        return now - node.begin;
    // It forgets the boot of an instance that it has not requested yet.
    const bool forgets = options_.validation && node.state == BrokerNode::State::future;
    return idle - (forgets ? node.predicted_boot : 0.0) - node.begin;
}

double Broker::left(double uptime, double work) const {
    if (unit_ == never) return never;
    const double end = uptime + options_.margin + work;
    return units(end) * unit_ - end;
}

bool Broker::fits(const SchedulerState& scheduler, const BrokerNode& node, TaskId task) const {
    const Request& wanted = scheduler.request(task);
    return wanted.cores <= node.cores * (1 + 1e-9) &&
           (wanted.memory <= node.memory * (1 + 1e-9) || node.memory == 0.0);
}

double Broker::extra_units(const SchedulerState& scheduler, BrokerNode& node, double start,
                           double work) const {
    const double idle = std::max(idle_time(scheduler, node, node.cores), scheduler.now());
    const double paid = std::max(units(idle - node.begin), node.approved);
    return std::max(0.0, units(std::max(start + work, idle) - node.begin) - paid);
}

double Broker::planned_units(const SchedulerState& scheduler) {
    double sum = spent_units_;
    for (const std::uint32_t at : order_) {
        BrokerNode& node = nodes_[at];
        const double idle = std::max(idle_time(scheduler, node, node.cores), scheduler.now());
        sum += std::max(units(idle - node.begin), node.approved);
    }
    return sum;
}

double Broker::budget_units() const {
    if (price_ <= 0 || options_.budget == never) return never;
    return std::floor(options_.budget / price_ * (1 + 1e-12));
}

// --- paths --------------------------------------------------------------------------------------

// The work on the longest path from the start of each task, and the latest end of each task with
// which all tasks after it can meet their deadlines on new instances.
void Broker::rank_tasks(const SchedulerState& scheduler) {
    const Tasks& tasks = scheduler.tasks();
    const std::size_t count = tasks.size();
    work_.resize(count);
    ranks_.resize(count);
    latest_.resize(count);
    std::vector<std::uint32_t> children_left(count, 0);
    std::vector<std::vector<TaskId>> parents(count);
    for (TaskId task = 0; task < count; ++task) {
        const Task& row = tasks[task];
        work_[task] = std::isnan(row.request.time) ? row.length : row.request.time;
        unassigned_ += work_[task];
        ranks_[task] = work_[task];
        latest_[task] = std::min(options_.deadline, row.deadline);
        tasks.each_child(task, [&](TaskId child) {
            ++children_left[task];
            parents[child].push_back(task);
        });
    }
    std::vector<TaskId> ready;
    for (TaskId task = 0; task < count; ++task)
        if (children_left[task] == 0) ready.push_back(task);
    const double boot = options_.boot_base + options_.boot_per_booting;
    for (std::size_t at = 0; at < ready.size(); ++at) {
        const TaskId task = ready[at];
        for (const TaskId parent : parents[task]) {
            ranks_[parent] = std::max(ranks_[parent], work_[parent] + ranks_[task]);
            latest_[parent] = std::min(latest_[parent], latest_[task] - work_[task] - boot);
            if (--children_left[parent] == 0) ready.push_back(parent);
        }
    }
}

// Likewise for tasks that were added during the run. Their parents existed before, and keep their
// ranks: most of them have been assigned.
void Broker::rank_added_tasks(const SchedulerState& scheduler) {
    const Tasks& tasks = scheduler.tasks();
    const std::size_t known = ranks_.size();
    if (tasks.size() <= known) return;
    work_.resize(tasks.size());
    ranks_.resize(tasks.size());
    latest_.resize(tasks.size());
    const double boot = options_.boot_base + options_.boot_per_booting;
    for (auto task = static_cast<TaskId>(tasks.size()); task-- > known;) {
        const Task& row = tasks[task];
        work_[task] = std::isnan(row.request.time) ? row.length : row.request.time;
        unassigned_ += work_[task];
        double longest = 0.0;
        latest_[task] = std::min(options_.deadline, row.deadline);
        tasks.each_child(task, [&](TaskId child) {
            longest = std::max(longest, ranks_[child]);
            latest_[task] = std::min(latest_[task], latest_[child] - work_[child] - boot);
        });
        ranks_[task] = work_[task] + longest;
    }
}

}  // namespace twinloop
