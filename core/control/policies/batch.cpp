#include "control/policies/batch.hpp"

#include <algorithm>

namespace twinloop {

void Batch::submitted(const SchedulerState& scheduler, TaskId task) {
    fresh_.push_back(queue_.entry(scheduler, task));
}

void Batch::withdrawn(const SchedulerState& scheduler, TaskId task) {
    enqueue_fresh();
    queue_.erase(queue_.entry(scheduler, task));
    invalidate();
}

Release Batch::release(const SchedulerState& scheduler, TaskId task) const {
    double cores = scheduler.request(task).cores;
    if (closed_) {
        // Cores on closed machines are not released.
        cores = 0.0;
        for (const Part& part : scheduler.parts(task))
            for (MachineId m = part.machine; m < part.machine + part.count; ++m)
                if (scheduler.space().open(m)) cores += part.cores;
    }
    return {scheduler.planned_end(task), cores, task};
}

void Batch::placed(const SchedulerState& scheduler, TaskId task) {
    queue_.placed(scheduler, task);
    releases_.insert(release(scheduler, task));
    if (!deciding_) invalidate();
}

void Batch::ended(const SchedulerState& scheduler, TaskId task) {
    queue_.ended(scheduler, task);
    releases_.erase(releases_.find({scheduler.planned_end(task), 0.0, task}));
}

void Batch::machine_changed(const SchedulerState& scheduler, MachineId machine) {
    closed_ = scheduler.space().has_closed();
    // The release of a task changes only with a machine that it occupies.
    if (scheduler.space().occupants(machine) > 0) {
        releases_.clear();
        for (const TaskId task : scheduler.running()) releases_.insert(release(scheduler, task));
    }
    invalidate();
}

void Batch::enqueue_fresh() {
    for (const Waiting& task : fresh_) queue_.insert(task);
    fresh_.clear();
}

void Batch::decide(SchedulerState& scheduler) {
    if (pooled_ != scheduler.pooled()) {
        pooled_ = scheduler.pooled();
        invalidate();
    }
    deciding_ = true;
    if (pooled_) decide_pool(scheduler);
    else decide_space(scheduler);
    deciding_ = false;
    // Tasks may start at the end of a window without any other event.
    if (!scheduler.unrestricted() && scheduler.waiting_count() > 0 &&
        !scheduler.window_ends().empty())
        scheduler.wake(scheduler.window_ends().front());
}

template <class Room>
const Waiting* Batch::start_in_order(SchedulerState& scheduler, Queue::Cursor& cursor) {
    for (;;) {
        const Waiting* const first = cursor.next();
        if (first == nullptr) return nullptr;
        if (start<Room>(scheduler, *first)) {
            cursor.take();
        } else if (make_room<Room>(scheduler, *first) && start<Room>(scheduler, *first)) {
            cursor.take();
            enqueue_fresh();
            cursor = queue_.cursor();
        } else {
            return first;
        }
    }
}

template <class Room>
bool Batch::make_room(SchedulerState& scheduler, const Waiting& task) {
    if (options_.preemption == Preemption::no) return false;
    std::vector<TaskId> victims;
    const double priority = scheduler.request(task.task).priority;
    for (const TaskId other : scheduler.running())
        if (scheduler.phase(other) == Phase::running &&
            scheduler.request(other).priority < priority)
            victims.push_back(other);
    std::ranges::sort(victims, [&](TaskId a, TaskId b) {
        const double first = scheduler.request(a).priority;
        const double second = scheduler.request(b).priority;
        if (first != second) return first < second;
        if (scheduler.start_time(a) != scheduler.start_time(b))
            return scheduler.start_time(a) > scheduler.start_time(b);
        return scheduler.arrival(a) > scheduler.arrival(b);
    });
    Room room;
    room.reset(scheduler);
    room.watch(scheduler, task);
    typename Room::Claim claim;
    std::size_t count = 0;
    while (count < victims.size()) {
        room.give(scheduler, release(scheduler, victims[count++]));
        if (room.find(scheduler, task, scheduler.now(), claim)) break;
    }
    if (count == 0 || !room.find(scheduler, task, scheduler.now(), claim)) return false;
    // The last victim was needed. Victims before it that are not needed are spared.
    victims.resize(count);
    for (std::size_t at = count - 1; at-- > 0;) {
        const Release spared = release(scheduler, victims[at]);
        room.take(scheduler, spared);
        if (room.find(scheduler, task, scheduler.now(), claim))
            victims.erase(victims.begin() + static_cast<std::ptrdiff_t>(at));
        else room.give(scheduler, spared);
    }
    for (const TaskId victim : victims) scheduler.preempt(victim);
    return true;
}

template const Waiting* Batch::start_in_order<PoolRoom>(SchedulerState&, Queue::Cursor&);
template const Waiting* Batch::start_in_order<SpaceRoom>(SchedulerState&, Queue::Cursor&);

std::unique_ptr<Controller> make_batch(const BatchOptions& options) {
    switch (options.backfill) {
        case Backfill::none:
            return make_strict(options);
        case Backfill::conservative:
            return make_conservative(options);
        default:
            return make_easy(options);
    }
}

}  // namespace twinloop
