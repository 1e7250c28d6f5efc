// The strategies of a broker: the instance of a task, a new one, or none yet.
#include <algorithm>
#include <cmath>

#include "control/policies/broker.hpp"

namespace twinloop {

std::uint32_t Broker::choose(const SchedulerState& scheduler, TaskId task) {
    const bool rents = can_rent(scheduler, make_rental(scheduler, task));
    switch (options_.strategy) {
        case BrokerStrategy::asap:
            return choose_asap(scheduler, task, rents);
        case BrokerStrategy::afap:
            return choose_afap(scheduler, task, rents);
        case BrokerStrategy::list:
            return choose_list(scheduler, task, rents);
        case BrokerStrategy::deadline:
            return choose_deadline(scheduler, task, rents);
        case BrokerStrategy::budget:
            return choose_budget(scheduler, task, rents);
    }
    return no_node;
}

// As soon as possible: an instance that is idle before a new one has booted, of these the one that
// is filled most.
std::uint32_t Broker::choose_asap(const SchedulerState& scheduler, TaskId task, bool rents) {
    const double now = scheduler.now();
    const double cores = scheduler.request(task).cores;
    const double work = scheduler.predicted_time(task);
    const double boot_end = now + predict_boot();
    std::uint32_t best = no_node;
    std::uint32_t soonest = no_node;
    double least = never;
    double first_idle = never;
    for (const std::uint32_t at : order_) {
        BrokerNode& node = nodes_[at];
        if (!fits(scheduler, node, task)) continue;
        const double idle = idle_time(scheduler, node, cores);
        if (soonest == no_node || idle < first_idle) {
            soonest = at;
            first_idle = idle;
        }
        if (idle >= boot_end) continue;
        const double rest = left(uptime_at_idle(node, idle, now), work);
        if (best == no_node || rest < least) {
            best = at;
            least = rest;
        }
    }
    if (!rents) return soonest;
    return best == no_node ? new_node : best;
}

// As full as possible: an instance whose time the task does not extend by a unit of billing, of
// these the one that is filled most.
std::uint32_t Broker::choose_afap(const SchedulerState& scheduler, TaskId task, bool rents) {
    const double now = scheduler.now();
    const double cores = scheduler.request(task).cores;
    const double work = scheduler.predicted_time(task);
    std::uint32_t best = no_node;
    std::uint32_t soonest = no_node;
    double least = never;
    double first_idle = never;
    for (const std::uint32_t at : order_) {
        BrokerNode& node = nodes_[at];
        if (!fits(scheduler, node, task)) continue;
        const double idle = idle_time(scheduler, node, cores);
        if (soonest == no_node || idle <= first_idle) {
            soonest = at;
            first_idle = idle;
        }
        const double uptime = uptime_at_idle(node, idle, now);
        const double rest = left(uptime, work);
        bool is_filled;
        if (!options_.published) {
            const double end = uptime + options_.margin;
            is_filled = units(end + work) == units(end);
        } else {
            const double before = left(uptime, 0.0);
            is_filled = options_.validation ? rest < before : rest <= before;
        }
        if (is_filled && (best == no_node || rest < least)) {
            best = at;
            least = rest;
        }
    }
    if (best != no_node) return best;
    return rents ? new_node : soonest;
}

// The earliest start; a new instance only if it starts the task earlier.
std::uint32_t Broker::choose_list(const SchedulerState& scheduler, TaskId task, bool rents) {
    const double now = scheduler.now();
    const double cores = scheduler.request(task).cores;
    const double work = scheduler.predicted_time(task);
    std::uint32_t best = rents ? new_node : no_node;
    double earliest = rents ? now + predict_boot() : never;
    double fewest = units(predict_boot() + work);
    for (const std::uint32_t at : order_) {
        BrokerNode& node = nodes_[at];
        if (!fits(scheduler, node, task)) continue;
        const double start = std::max(idle_time(scheduler, node, cores), now);
        const double extra = extra_units(scheduler, node, start, work);
        if (best == no_node || start < earliest || (start == earliest && extra < fewest)) {
            best = at;
            earliest = start;
            fewest = extra;
        }
    }
    return best;
}

// The fewest units among the instances that end the task in time. They cost at most what a new one
// costs, and end the task by its latest end, or by the end of the task on a new one if that is
// later: so the deadline is met if an instance for every task meets it, and the bill is not higher.
std::uint32_t Broker::choose_deadline(const SchedulerState& scheduler, TaskId task, bool rents) {
    const double now = scheduler.now();
    const double cores = scheduler.request(task).cores;
    const double work = scheduler.predicted_time(task);
    const double boot = predict_boot();
    const double latest = std::max(latest_[task], now + boot + work);
    std::uint32_t best = rents ? new_node : no_node;
    std::uint32_t soonest = no_node;
    double fewest = units(boot + work);
    double least = never;
    double first_idle = never;
    for (const std::uint32_t at : order_) {
        BrokerNode& node = nodes_[at];
        if (!fits(scheduler, node, task)) continue;
        const double start = std::max(idle_time(scheduler, node, cores), now);
        if (soonest == no_node || start < first_idle) {
            soonest = at;
            first_idle = start;
        }
        if (start + work > latest + 1e-9 * std::max(1.0, std::abs(latest))) continue;
        const double extra = extra_units(scheduler, node, start, work);
        const double rest =
            unit_ < never ? (units(start + work - node.begin) * unit_ - (start + work - node.begin))
                          : start;
        if (extra > fewest || (extra == fewest && best != new_node && rest >= least)) continue;
        best = at;
        fewest = extra;
        least = rest;
    }
    return best == no_node ? soonest : best;
}

// The earliest end whose price leaves enough for the work of the other tasks; if there is none, the
// cheapest that can be paid.
std::uint32_t Broker::choose_budget(const SchedulerState& scheduler, TaskId task, bool rents) {
    const double now = scheduler.now();
    const double cores = scheduler.request(task).cores;
    const double work = scheduler.predicted_time(task);
    const double boot = predict_boot();
    const double paid = budget_units();
    const double affordable = paid < never ? paid - planned_units(scheduler) : never;
    // The work of the other tasks beyond what is paid for already.
    double rest = std::max(0.0, unassigned_ - work);
    for (const std::uint32_t at : order_) {
        BrokerNode& node = nodes_[at];
        const double uptime = std::max(idle_time(scheduler, node, node.cores), now) - node.begin;
        if (unit_ < never) rest -= units(uptime) * unit_ - uptime;
    }
    const double kept = unit_ < never ? std::max(0.0, rest) / unit_ : 0.0;
    std::uint32_t earliest = no_node;
    std::uint32_t cheapest = no_node;
    double first_start = never;
    double fewest = never;
    const auto offer = [&](std::uint32_t at, double start, double extra) {
        if (extra > affordable) return;
        if (extra + kept <= affordable && (earliest == no_node || start < first_start)) {
            earliest = at;
            first_start = start;
        }
        if (cheapest == no_node || extra < fewest) {
            cheapest = at;
            fewest = extra;
        }
    };
    for (const std::uint32_t at : order_) {
        BrokerNode& node = nodes_[at];
        if (!fits(scheduler, node, task)) continue;
        const double start = std::max(idle_time(scheduler, node, cores), now);
        offer(at, start, extra_units(scheduler, node, start, work));
    }
    if (rents) offer(new_node, now + boot, units(boot + work));
    return earliest == no_node ? cheapest : earliest;
}

}  // namespace twinloop
