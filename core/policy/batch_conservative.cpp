// Conservative backfilling. Source: A. W. Mu'alem and D. G. Feitelson, "Utilization,
// predictability, workloads, and user runtime estimates in scheduling the IBM SP2 with
// backfilling", 2001.
//
// Without compression a task is given the earliest time that disturbs nobody when it is submitted,
// and starts then, even if others have ended early: the holes they leave are for tasks still to
// come. If somebody who runs longer than planned is in the way at that time, it starts as soon as
// it fits, and other starts may slip. What was promised is kept as long as all keep to their plans.
//
// With compression the plan is at any time the one that planning all waiting tasks in the order of
// the queue, each at the earliest time, would give. So it must be made anew only if a task ends
// early, outstays its plan or comes before others that are planned already; else it would come out
// the same. A start may then be LATER than once promised: a task that moves ahead into what came
// free may push back another behind it in the queue that had found a gap. Only the first in the
// queue is never put off, if all keep to their plans. Preemption breaks plans at any time; with it,
// they are made as with compression.
#include <algorithm>
#include <limits>

#include "policy/batch.hpp"
#include "policy/batch_timeline.hpp"

namespace twinloop {

namespace {

template <class Room>
struct Reserved {
    double start = 0.0;
    Waiting task;
    typename Room::Claim claim;

    [[nodiscard]] bool before(const Reserved& other) const {
        return start < other.start || (start == other.start && task.before(other.task));
    }
    // Comes behind all that start by then, and before all others.
    static Reserved after(double time) {
        Reserved last;
        last.start = time;
        last.task.key = never;
        return last;
    }
};

template <class Room>
struct Plan {
    Timeline<Room> timeline;
    SortedBlocks<Reserved<Room>> reserved;
};

class Conservative final : public Batch {
  public:
    explicit Conservative(const BatchOptions& options)
        : Batch(options), compress_(options.compress || options.preemption != Preemption::no) {}
    [[nodiscard]] std::unique_ptr<Policy> clone() const override {
        return std::make_unique<Conservative>(*this);
    }
    void ended(const Desk& desk, TaskId task) override {
        Batch::ended(desk, task);
        if (desk.now() < desk.running(task).planned_end) early_ = true;
    }
    void withdrawn(const Desk& desk, TaskId task) override {
        if (!forget(task, in_pool_) && !forget(task, in_space_)) {
            absorb();
            queue_.erase(queue_.entry(desk, task));
        }
        early_ = true;
    }

  private:
    void upset() override { upset_ = true; }
    void decide_pool(Desk& desk) override { decide_in(desk, in_pool_); }
    void decide_space(Desk& desk) override { decide_in(desk, in_space_); }

    template <class Room>
    void decide_in(Desk& desk, Plan<Room>& plan);
    template <class Room>
    [[nodiscard]] bool outdated(const Desk& desk, const Plan<Room>& plan) const;
    template <class Room>
    bool start_anew(Desk& desk);
    template <class Room>
    void mend(const Desk& desk, Plan<Room>& plan);
    template <class Room>
    void start_due(Desk& desk, Plan<Room>& plan);
    template <class Room>
    void plan_waiting(Desk& desk, Plan<Room>& plan);
    template <class Room>
    void reserve(Desk& desk, Plan<Room>& plan, const Waiting& task);
    template <class Room>
    void unplan(Plan<Room>& plan);
    template <class Room>
    static bool forget(TaskId task, Plan<Room>& plan);

    bool compress_;
    bool upset_ = true;
    bool early_ = false;    // somebody left before the planned time
    Waiting last_planned_;  // in the order of the queue
    // The queue holds those who have no reservation.
    Plan<PoolRoom> in_pool_;
    Plan<SpaceRoom> in_space_;
};

template <class Room>
void Conservative::decide_in(Desk& desk, Plan<Room>& plan) {
    const bool anew = upset_ || plan.reserved.empty() || (compress_ && outdated(desk, plan));
    absorb();
    queue_.rank(desk.now());
    if (anew) {
        unplan(in_pool_);
        unplan(in_space_);
        queue_.rank(desk.now());
        upset_ = !start_anew<Room>(desk);
        if (upset_) return;
        last_planned_.key = -never;
        plan.timeline.reset(desk, releases_);
    } else {
        mend(desk, plan);
    }
    early_ = false;
    start_due(desk, plan);
    plan_waiting(desk, plan);
    const auto next = plan.reserved.find(Reserved<Room>::after(desk.now()));
    if (next.index < plan.reserved.block(next.block).size() && plan.reserved.at(next).start < never)
        desk.wake(plan.reserved.at(next).start);
}

template <class Room>
bool Conservative::outdated(const Desk& desk, const Plan<Room>& plan) const {
    return early_ || queue_.fair() || options_.preemption != Preemption::no ||
           plan.reserved.front().start < desk.now() ||
           std::ranges::any_of(
               fresh_, [&](const Waiting& task) { return task.before(last_planned_); });
}

// With nobody planned, the first in the queue start as long as they fit. False if that is all there
// is to do: with compression, plans are made only if somebody could start now by them.
template <class Room>
bool Conservative::start_anew(Desk& desk) {
    Queue::Walk walk = queue_.walk();
    if (start_in_order<Room>(desk, walk) == nullptr) return false;
    return !compress_ || walk.next({.cores = desk.free_cores() + slack}) != nullptr;
}

// Without compression: what others left early is free again, and who could not start when promised
// is still to start.
template <class Room>
void Conservative::mend(const Desk& desk, Plan<Room>& plan) {
    bool changed = early_;
    auto& reserved = plan.reserved;
    while (reserved.front().start < desk.now()) {
        Reserved<Room> late = reserved.front();
        reserved.erase({});
        late.start = desk.now();
        reserved.insert(std::move(late));
        changed = true;
    }
    if (!changed) {
        plan.timeline.advance(desk.now());
        return;
    }
    // Those for whom there was no time at all may have one now.
    const auto hopeless = reserved.find(Reserved<Room>::after(std::numeric_limits<double>::max()));
    while (hopeless.block < reserved.blocks() &&
           hopeless.index < reserved.block(hopeless.block).size()) {
        queue_.insert(reserved.at(hopeless).task);
        reserved.erase(hopeless);
    }
    queue_.rank(desk.now());
    plan.timeline.reset(desk, releases_);
    reserved.each([&](const Reserved<Room>& each) {
        plan.timeline.take(desk, each.task, each.start, each.claim);
    });
}

template <class Room>
void Conservative::start_due(Desk& desk, Plan<Room>& plan) {
    std::vector<Reserved<Room>> kept;
    auto& reserved = plan.reserved;
    while (!reserved.empty() && reserved.front().start <= desk.now()) {
        const Reserved<Room> due = reserved.front();
        reserved.erase({});
        if (!Room::place(desk, due.task, due.claim, parts_)) kept.push_back(due);
    }
    for (Reserved<Room>& each : kept) reserved.insert(std::move(each));
}

template <class Room>
void Conservative::plan_waiting(Desk& desk, Plan<Room>& plan) {
    const Limits any;
    TaskId hopeful = no_task;
    while (options_.depth == 0 || plan.reserved.size() <= options_.depth) {
        // Nobody starts now behind the last one that is small enough: their plans can wait until
        // something happens, and will most often have to be made anew then.
        if (compress_ && hopeful == no_task) {
            Queue::Walk ahead = queue_.walk();
            const Waiting* const next = ahead.next({.cores = desk.free_cores() + slack});
            if (next == nullptr) return;
            hopeful = next->task;
        }
        Queue::Walk walk = queue_.walk();
        const Waiting* const first = walk.next(any);
        if (first == nullptr) return;
        const Waiting task = *first;
        walk.take();
        if (task.task == hopeful) hopeful = no_task;
        reserve(desk, plan, task);
    }
}

template <class Room>
void Conservative::reserve(Desk& desk, Plan<Room>& plan, const Waiting& task) {
    Reserved<Room> planned{0.0, task, {}};
    planned.start = plan.timeline.earliest(desk, task, planned.claim);
    plan.timeline.take(desk, task, planned.start, planned.claim);
    if (last_planned_.before(task)) last_planned_ = task;
    if (planned.start <= desk.now() && Room::place(desk, task, planned.claim, parts_)) return;
    plan.reserved.insert(std::move(planned));
}

template <class Room>
void Conservative::unplan(Plan<Room>& plan) {
    plan.reserved.each([&](const Reserved<Room>& each) { queue_.insert(each.task); });
    plan.reserved.clear();
}

template <class Room>
bool Conservative::forget(TaskId task, Plan<Room>& plan) {
    for (std::size_t block = 0; block < plan.reserved.blocks(); ++block) {
        const auto in_block = plan.reserved.block(block);
        const auto found = std::ranges::find_if(
            in_block, [&](const Reserved<Room>& each) { return each.task.task == task; });
        if (found == in_block.end()) continue;
        plan.reserved.erase({block, static_cast<std::size_t>(found - in_block.begin())});
        return true;
    }
    return false;
}

}  // namespace

std::unique_ptr<Policy> make_conservative(const BatchOptions& options) {
    return std::make_unique<Conservative>(options);
}

}  // namespace twinloop
