// Conservative backfilling. Source: A. W. Mu'alem and D. G. Feitelson, "Utilization,
// predictability, workloads, and user runtime estimates in scheduling the IBM SP2 with
// backfilling", 2001.
//
// Without compression a task gets, when it is submitted, a reservation at the earliest time that
// delays no other reservation, and starts then, even if other tasks have ended early: the gaps they
// leave are for tasks submitted later. If a task that runs longer than planned is in the way at
// that time, it starts as soon as it fits, and other starts may slip. Reservations are kept as long
// as all tasks keep to their plans.
//
// With compression the plan is at any time the result of planning all waiting tasks in the order of
// the queue, each at the earliest time. It has to be made anew only if a task ends early, runs
// longer than planned or comes before planned tasks in the queue; otherwise it would be the same. A
// start may then be LATER than in an earlier plan: a task that moves ahead into a gap may delay a
// task behind it in the queue that was planned in the same gap. Only the first task in the queue is
// never delayed, if all tasks keep to their plans. Preemption breaks plans at any time; with it,
// plans are made as with compression. Decisions are made at every event and at every planned end of
// a running task, because a task that runs longer counts as ending now from then on.
//
// The plan is needed only for the tasks that start now, so most tasks remain without a reservation.
// Reservations reduce free capacity, so the earliest start of a task in an incomplete plan is a
// lower bound. It is exact if all tasks before it in the queue that start before its planned end
// have their reservations: the other tasks before it occupy no time that it needs. Such a task can
// in turn be planned after the tasks before it that start before its own planned end. This
// recursion ends, because the tasks are ever closer to the head of the queue. Conversely a
// reservation leaves the start of each unplanned task before it in the queue as it is, because they
// do not overlap.
#include <algorithm>
#include <limits>
#include <type_traits>

#include "control/policies/batch.hpp"
#include "control/policies/batch_timeline.hpp"
#include "kernel/ordinal.hpp"

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
    // Comes after all reservations that start by then, and before all others.
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
        : Batch(options), compress_(options.compress || options.preemption != Preemption::no),
          // Shares change with time, so the plan of fair shares depends on when it is made: at the
          // planned starts of the tasks in order.
          in_order_(!compress_ || options.depth > 0 || queue_.fair()) {}
    [[nodiscard]] std::unique_ptr<Controller> clone() const override {
        return std::make_unique<Conservative>(*this);
    }
    void ended(const SchedulerState& scheduler, TaskId task) override {
        if (scheduler.now() < scheduler.planned_end(task)) {
            early_ = true;
            release_early(scheduler, task, in_pool_);
            release_early(scheduler, task, in_space_);
        }
        changed_ = true;
        Batch::ended(scheduler, task);
    }
    void withdrawn(const SchedulerState& scheduler, TaskId task) override {
        if (!cancel(scheduler, task, in_pool_) && !cancel(scheduler, task, in_space_)) {
            enqueue_fresh();
            queue_.erase(queue_.entry(scheduler, task));
        }
        changed_ = early_ = true;
    }

    // The reservations, which a plan with compression makes anew; and before them, for fair shares,
    // the accounts.
    [[nodiscard]] std::vector<double> memory() const override;
    void restore_memory(const SchedulerState& scheduler, std::span<const double> numbers) override;

  private:
    void invalidate() override {
        changed_ = true;
        valid_ = false;
    }
    void decide_pool(SchedulerState& scheduler) override { decide_in(scheduler, in_pool_); }
    void decide_space(SchedulerState& scheduler) override { decide_in(scheduler, in_space_); }

    template <class Room>
    void decide_in(SchedulerState& scheduler, Plan<Room>& plan);
    template <class Room>
    [[nodiscard]] bool is_outdated(const SchedulerState& scheduler, const Plan<Room>& plan) const;
    template <class Room>
    bool start_first(SchedulerState& scheduler);
    template <class Room>
    void release_early(const SchedulerState& scheduler, TaskId task, Plan<Room>& plan);
    template <class Room>
    void repair(const SchedulerState& scheduler, Plan<Room>& plan);
    template <class Room>
    void requeue_unplanned(const SchedulerState& scheduler, Plan<Room>& plan);
    template <class Room>
    void delay(const SchedulerState& scheduler, Plan<Room>& plan);
    template <class Room>
    void start_due(SchedulerState& scheduler, Plan<Room>& plan);
    template <class Room>
    TaskId plan_first(SchedulerState& scheduler, Plan<Room>& plan);
    template <class Room>
    void plan_in_order(SchedulerState& scheduler, Plan<Room>& plan);
    template <class Room>
    void plan_backfill(SchedulerState& scheduler, Plan<Room>& plan);
    template <class Room>
    Reserved<Room> first_to_start(const SchedulerState& scheduler, Plan<Room>& plan,
                                  const std::vector<Reserved<Room>>& pending);
    template <class Room>
    void reserve(SchedulerState& scheduler, Plan<Room>& plan, Reserved<Room> planned);
    template <class Room>
    [[nodiscard]] double next_start(const SchedulerState& scheduler, const Plan<Room>& plan) const;
    [[nodiscard]] double next_end(const SchedulerState& scheduler) const;
    template <class Room>
    void clear(Plan<Room>& plan);
    template <class Room>
    void append_plan(const Plan<Room>& plan, std::vector<double>& numbers) const;
    template <class Room>
    void read_plan(const SchedulerState& scheduler, std::span<const double> numbers,
                   Plan<Room>& plan);
    template <class Room>
    static bool cancel(const SchedulerState& scheduler, TaskId task, Plan<Room>& plan);

    bool compress_;
    bool in_order_;        // all tasks are planned, from the first in the queue on
    bool valid_ = false;   // the plan is
    bool changed_ = true;  // since the last decision
    bool early_ = false;   // a task has left before its planned time
    double next_end_ = 0.0;
    Waiting last_planned_;  // in the order of the queue
    // The queue holds the tasks without a reservation.
    Plan<PoolRoom> in_pool_;
    Plan<SpaceRoom> in_space_;
};

template <class Room>
void Conservative::decide_in(SchedulerState& scheduler, Plan<Room>& plan) {
    // A request for a decision may be outdated.
    if (!in_order_ && !changed_ && fresh_.empty() && scheduler.now() < next_end_) {
        if (valid_) scheduler.wake(next_end_);
        return;
    }
    const bool anew =
        !valid_ || plan.reserved.empty() || (compress_ && is_outdated(scheduler, plan));
    enqueue_fresh();
    queue_.rank(scheduler.now());
    if (anew) {
        clear(in_pool_);
        clear(in_space_);
        queue_.rank(scheduler.now());
        valid_ = start_first<Room>(scheduler);
        last_planned_.key = -never;
        if (valid_) plan.timeline.reset(scheduler, releases_);
    } else {
        repair(scheduler, plan);
    }
    changed_ = early_ = false;
    if (valid_) {
        start_due(scheduler, plan);
        if (in_order_) plan_in_order(scheduler, plan);
        else plan_backfill(scheduler, plan);
    }
    next_end_ = next_end(scheduler);
    if (valid_) scheduler.wake(in_order_ ? next_start(scheduler, plan) : next_end_);
}

template <class Room>
bool Conservative::is_outdated(const SchedulerState& scheduler, const Plan<Room>& plan) const {
    return early_ || queue_.fair() || options_.preemption != Preemption::no ||
           plan.reserved.front().start < scheduler.now() ||
           std::ranges::any_of(
               fresh_, [&](const Waiting& task) { return task.before(last_planned_); });
}

// Without reservations, the first tasks in the queue start as long as they fit. Returns whether a
// plan is needed: with compression, only if a task could start now by it.
template <class Room>
bool Conservative::start_first(SchedulerState& scheduler) {
    Queue::Cursor cursor = queue_.cursor();
    if (start_in_order<Room>(scheduler, cursor) == nullptr) return false;
    return !compress_ || cursor.next_within(scheduler.free_cores() + slack) != nullptr;
}

// Without compression, capacity released early is free again.
template <class Room>
void Conservative::release_early(const SchedulerState& scheduler, TaskId task, Plan<Room>& plan) {
    if (compress_ || plan.reserved.empty()) return;
    const auto place = releases_.find({scheduler.planned_end(task), 0.0, task});
    plan.timeline.release_early(scheduler, releases_.at(place));
}

// Without compression, tasks that could not start at their times have yet to start.
template <class Room>
void Conservative::repair(const SchedulerState& scheduler, Plan<Room>& plan) {
    plan.timeline.advance(scheduler.now());
    const bool delayed = plan.reserved.front().start < scheduler.now();
    if (early_ || delayed) requeue_unplanned(scheduler, plan);
    if (delayed) delay(scheduler, plan);
}

// Tasks for which there was no time at all may have one now.
template <class Room>
void Conservative::requeue_unplanned(const SchedulerState& scheduler, Plan<Room>& plan) {
    auto& reserved = plan.reserved;
    while (!reserved.empty()) {
        const std::size_t block = reserved.blocks() - 1;
        const std::size_t last = reserved.block(block).size() - 1;
        if (reserved.at({block, last}).start < never) break;
        queue_.insert(reserved.at({block, last}).task);
        reserved.erase({block, last});
    }
    queue_.rank(scheduler.now());
}

// Moves the reservations of the past to now.
template <class Room>
void Conservative::delay(const SchedulerState& scheduler, Plan<Room>& plan) {
    auto& reserved = plan.reserved;
    while (reserved.front().start < scheduler.now()) {
        Reserved<Room> late = reserved.front();
        reserved.erase({});
        late.start = scheduler.now();
        reserved.insert(std::move(late));
    }
    plan.timeline.reset(scheduler, releases_);
    plan.timeline.allow_overlap();
    reserved.each([&](const Reserved<Room>& each) {
        plan.timeline.reserve(scheduler, each.task, each.start, each.claim);
    });
}

template <class Room>
void Conservative::start_due(SchedulerState& scheduler, Plan<Room>& plan) {
    std::vector<Reserved<Room>> kept;
    auto& reserved = plan.reserved;
    while (!reserved.empty() && reserved.front().start <= scheduler.now()) {
        const Reserved<Room> due = reserved.front();
        reserved.erase({});
        if (!Room::place(scheduler, due.task, due.claim, parts_)) kept.push_back(due);
    }
    for (Reserved<Room>& each : kept) reserved.insert(std::move(each));
}

template <class Room>
void Conservative::plan_in_order(SchedulerState& scheduler, Plan<Room>& plan) {
    TaskId last = no_task;
    while (options_.depth == 0 || plan.reserved.size() <= options_.depth) {
        // No task starts now behind the last task that is small enough: their plans can wait until
        // something happens, and will most often have to be made anew then.
        if (compress_ && last == no_task) {
            Queue::Cursor ahead = queue_.cursor();
            const Waiting* const next = ahead.next_within(scheduler.free_cores() + slack);
            if (next == nullptr) return;
            last = next->task;
        }
        const TaskId first = plan_first(scheduler, plan);
        if (first == no_task) return;
        if (first == last) last = no_task;
    }
}

// Plans the first task without a reservation, if there is one.
template <class Room>
TaskId Conservative::plan_first(SchedulerState& scheduler, Plan<Room>& plan) {
    Queue::Cursor cursor = queue_.cursor();
    const Waiting* const first = cursor.next();
    if (first == nullptr) return no_task;
    Reserved<Room> planned{0.0, *first, {}};
    cursor.take();
    planned.start = plan.timeline.earliest(scheduler, planned.task, never, planned.claim);
    const TaskId task = planned.task.task;
    reserve(scheduler, plan, std::move(planned));
    return task;
}

// Starts all tasks that the complete plan would start now, in the order of the queue. `pending`
// holds tasks that have to be planned, each before the previous one in the queue.
template <class Room>
void Conservative::plan_backfill(SchedulerState& scheduler, Plan<Room>& plan) {
    std::vector<Reserved<Room>> pending;
    for (;;) {
        Reserved<Room> first = first_to_start(scheduler, plan, pending);
        const bool found = first.task.task != no_task;
        if (pending.empty() && !found) return;
        if (found && queue_.is_among_first(first.task)) {
            // It is not worth while to leave out single tasks before it.
            while (plan_first(scheduler, plan) != first.task.task) {
            }
            continue;
        }
        if (pending.empty() || (found && first.task.before(pending.back().task))) {
            pending.push_back(std::move(first));
            continue;
        }
        // The lower bound is exact, or it was too low, and the task may not have to be planned.
        const Reserved<Room>& last = pending.back();
        if (first.task.task == last.task.task && first.start == last.start) {
            queue_.erase(first.task);
            reserve(scheduler, plan, std::move(first));
        }
        pending.pop_back();
    }
}

// The first task in the queue that may start, as far as is planned, before the end of the last of
// these tasks; without any, that may start now.
template <class Room>
Reserved<Room> Conservative::first_to_start(const SchedulerState& scheduler, Plan<Room>& plan,
                                            const std::vector<Reserved<Room>>& pending) {
    double until = next_larger(scheduler.now());
    double most = scheduler.free_cores();
    if (!pending.empty()) {
        const Reserved<Room>& last = pending.back();
        // Includes a task of no length.
        until = std::max(last.start + last.task.time, next_larger(last.start));
        most = never;
    }
    const Limits limits = plan.timeline.limits(scheduler.now(), until, most);
    Queue::Cursor cursor = queue_.cursor();
    Reserved<Room> first;
    const Waiting* const task = cursor.next(limits, [&](const Waiting& each) {
        if (each.cores > most + slack || !limits.admit(each)) return false;
        if (pending.empty() && !Room::has_room(scheduler, each, parts_)) return false;
        first.start = plan.timeline.earliest(scheduler, each, until, first.claim);
        return first.start < until;
    });
    if (task != nullptr) first.task = *task;
    return first;
}

template <class Room>
void Conservative::reserve(SchedulerState& scheduler, Plan<Room>& plan, Reserved<Room> planned) {
    plan.timeline.reserve(scheduler, planned.task, planned.start, planned.claim);
    if (planned.start <= scheduler.now() &&
        Room::place(scheduler, planned.task, planned.claim, parts_))
        return;
    if (last_planned_.before(planned.task)) last_planned_ = planned.task;
    plan.reserved.insert(std::move(planned));
}

template <class Room>
double Conservative::next_start(const SchedulerState& scheduler, const Plan<Room>& plan) const {
    const auto next = plan.reserved.find(Reserved<Room>::after(scheduler.now()));
    return next.index < plan.reserved.block(next.block).size() ? plan.reserved.at(next).start
                                                               : never;
}

// The next planned end of a running task, or end of a window.
double Conservative::next_end(const SchedulerState& scheduler) const {
    const auto next = releases_.find({scheduler.now(), 0.0, no_task});
    const bool found = next.index < releases_.block(next.block).size();
    const std::span<const double> windows = scheduler.window_ends();
    return std::min(found ? releases_.at(next).end : never,
                    windows.empty() ? never : windows.front());
}

template <class Room>
void Conservative::clear(Plan<Room>& plan) {
    plan.reserved.each([&](const Reserved<Room>& each) { queue_.insert(each.task); });
    plan.reserved.clear();
}

template <class Room>
bool Conservative::cancel(const SchedulerState& scheduler, TaskId task, Plan<Room>& plan) {
    for (std::size_t block = 0; block < plan.reserved.blocks(); ++block) {
        const auto in_block = plan.reserved.block(block);
        const auto found = std::ranges::find_if(
            in_block, [&](const Reserved<Room>& each) { return each.task.task == task; });
        if (found == in_block.end()) continue;
        plan.timeline.cancel(scheduler, found->task, found->start, found->claim);
        plan.reserved.erase({block, static_cast<std::size_t>(found - in_block.begin())});
        return true;
    }
    return false;
}

// --- memory -------------------------------------------------------------------------------------

// Each reservation: its start, the task, the number of parts of its claim, and these.
template <class Room>
void Conservative::append_plan(const Plan<Room>& plan, std::vector<double>& numbers) const {
    plan.reserved.each([&](const Reserved<Room>& each) {
        numbers.insert(numbers.end(), {each.start, static_cast<double>(each.task.task)});
        if constexpr (std::is_same_v<Room, SpaceRoom>) {
            numbers.push_back(static_cast<double>(each.claim.size()));
            for (const Part& part : each.claim)
                numbers.insert(numbers.end(), {static_cast<double>(part.machine),
                                               static_cast<double>(part.count), part.cores});
        } else {
            numbers.push_back(0.0);
        }
    });
}

std::vector<double> Conservative::memory() const {
    const std::vector<double> accounts = Batch::memory();
    std::vector<double> numbers = {static_cast<double>(accounts.size())};
    numbers.insert(numbers.end(), accounts.begin(), accounts.end());
    if (compress_ || !valid_) return numbers;
    const bool pooled = in_space_.reserved.empty();
    numbers.insert(numbers.end(), {pooled ? 1.0 : 0.0, early_ ? 1.0 : 0.0});
    if (pooled) append_plan(in_pool_, numbers);
    else append_plan(in_space_, numbers);
    return numbers;
}

template <class Room>
void Conservative::read_plan(const SchedulerState& scheduler, std::span<const double> numbers,
                             Plan<Room>& plan) {
    plan.timeline.reset(scheduler, releases_);
    plan.timeline.allow_overlap();
    while (numbers.size() >= 3) {
        const auto id = static_cast<TaskId>(numbers[1]);
        Reserved<Room> planned{numbers[0], queue_.entry(scheduler, id), {}};
        auto parts = static_cast<std::size_t>(numbers[2]);
        numbers = numbers.subspan(3);
        for (; parts > 0 && numbers.size() >= 3; --parts, numbers = numbers.subspan(3))
            if constexpr (std::is_same_v<Room, SpaceRoom>)
                planned.claim.push_back({static_cast<MachineId>(numbers[0]),
                                         static_cast<std::uint32_t>(numbers[1]), numbers[2]});
        std::erase_if(fresh_, [&](const Waiting& each) { return each.task == id; });
        if (planned.start < never)
            plan.timeline.reserve(scheduler, planned.task, planned.start, planned.claim);
        if (last_planned_.before(planned.task)) last_planned_ = planned.task;
        plan.reserved.insert(std::move(planned));
    }
}

void Conservative::restore_memory(const SchedulerState& scheduler,
                                  std::span<const double> numbers) {
    if (numbers.empty()) return;
    const auto accounts = static_cast<std::size_t>(numbers.front());
    numbers = numbers.subspan(1);
    if (accounts > numbers.size()) return;
    Batch::restore_memory(scheduler, numbers.first(accounts));
    numbers = numbers.subspan(accounts);
    if (numbers.size() < 2) return;
    valid_ = true;
    changed_ = false;
    early_ = numbers[1] != 0;
    last_planned_.key = -never;
    if (numbers[0] != 0) read_plan(scheduler, numbers.subspan(2), in_pool_);
    else read_plan(scheduler, numbers.subspan(2), in_space_);
}

}  // namespace

std::unique_ptr<Controller> make_conservative(const BatchOptions& options) {
    return std::make_unique<Conservative>(options);
}

}  // namespace twinloop
