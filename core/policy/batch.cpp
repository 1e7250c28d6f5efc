#include "policy/batch.hpp"

#include <algorithm>

namespace twinloop {

void Batch::submitted(const Desk& desk, TaskId task) { fresh_.push_back(queue_.entry(desk, task)); }

void Batch::withdrawn(const Desk& desk, TaskId task) {
    absorb();
    queue_.erase(queue_.entry(desk, task));
    upset();
}

Release Batch::release(const Desk& desk, TaskId task) const {
    double cores = desk.request(task).cores;
    if (closed_) {
        // What comes free on a machine that is closed helps nobody.
        cores = 0.0;
        for (const Part& part : desk.parts(task))
            for (MachineId m = part.machine; m < part.machine + part.count; ++m)
                if (desk.space().open(m)) cores += part.cores;
    }
    return {desk.running(task).planned_end, cores, task};
}

void Batch::placed(const Desk& desk, TaskId task) {
    queue_.placed(desk, task);
    releases_.insert(release(desk, task));
    if (!deciding_) upset();
}

void Batch::ended(const Desk& desk, TaskId task) {
    queue_.ended(desk, task);
    releases_.erase(releases_.find({desk.running(task).planned_end, 0.0, task}));
}

void Batch::machines_changed(const Desk& desk) {
    const Space& space = desk.space();
    closed_ = false;
    for (MachineId m = 0; m < space.size(); ++m) closed_ = closed_ || !space.open(m);
    releases_.clear();
    for (const TaskId task : desk.running()) releases_.insert(release(desk, task));
    upset();
}

void Batch::absorb() {
    for (const Waiting& task : fresh_) queue_.insert(task);
    fresh_.clear();
}

void Batch::decide(Desk& desk) {
    if (pooled_ != desk.pooled()) {
        pooled_ = desk.pooled();
        upset();
    }
    deciding_ = true;
    if (pooled_) decide_pool(desk);
    else decide_space(desk);
    deciding_ = false;
    // The end of a window lets tasks start though nothing else happens.
    if (!desk.unrestricted() && desk.waiting_count() > 0 && !desk.window_ends().empty())
        desk.wake(desk.window_ends().front());
}

template <class Room>
const Waiting* Batch::start_in_order(Desk& desk, Queue::Walk& walk) {
    const Limits any;
    for (;;) {
        const Waiting* const first = walk.next(any);
        if (first == nullptr) return nullptr;
        if (start<Room>(desk, *first)) {
            walk.take();
        } else if (make_room<Room>(desk, *first) && start<Room>(desk, *first)) {
            walk.take();
            absorb();
            walk = queue_.walk();
        } else {
            return first;
        }
    }
}

template <class Room>
bool Batch::make_room(Desk& desk, const Waiting& task) {
    if (options_.preemption == Preemption::no) return false;
    std::vector<TaskId> victims;
    const double priority = desk.request(task.task).priority;
    for (const TaskId other : desk.running())
        if (desk.phase(other) == Phase::running && desk.request(other).priority < priority)
            victims.push_back(other);
    std::ranges::sort(victims, [&](TaskId a, TaskId b) {
        const double first = desk.request(a).priority;
        const double second = desk.request(b).priority;
        if (first != second) return first < second;
        if (desk.running(a).start != desk.running(b).start)
            return desk.running(a).start > desk.running(b).start;
        return desk.arrival(a) > desk.arrival(b);
    });
    Room room(desk);
    typename Room::Claim claim;
    std::size_t count = 0;
    while (count < victims.size()) {
        room.give(desk, release(desk, victims[count++]));
        if (room.find(desk, task, desk.now(), claim)) break;
    }
    if (count == 0 || !room.find(desk, task, desk.now(), claim)) return false;
    // The last one was needed. Of those before it, whoever is not, stays.
    victims.resize(count);
    for (std::size_t at = count - 1; at-- > 0;) {
        const Release spared = release(desk, victims[at]);
        room.take(desk, spared);
        if (room.find(desk, task, desk.now(), claim))
            victims.erase(victims.begin() + static_cast<std::ptrdiff_t>(at));
        else room.give(desk, spared);
    }
    for (const TaskId victim : victims) desk.preempt(victim);
    return true;
}

template const Waiting* Batch::start_in_order<PoolRoom>(Desk&, Queue::Walk&);
template const Waiting* Batch::start_in_order<SpaceRoom>(Desk&, Queue::Walk&);

std::unique_ptr<Policy> make_batch(const BatchOptions& options) {
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
