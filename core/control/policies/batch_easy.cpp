// EASY backfilling. Source: A. W. Mu'alem and D. G. Feitelson, "Utilization, predictability,
// workloads, and user runtime estimates in scheduling the IBM SP2 with backfilling", 2001.
#include <algorithm>

#include "control/policies/batch.hpp"

namespace twinloop {

namespace {

// The reservation of the first task in the queue.
template <class Room>
struct Reservation {
    double shadow = never;        // its planned start
    double next_release = never;  // the first planned end of a running task after that
    Room spare;  // free both now and, with the task in place, from the shadow time on
    Room then;   // free at the shadow time
};

class Easy final : public Batch {
  public:
    explicit Easy(const BatchOptions& options) : Batch(options) {}
    [[nodiscard]] std::unique_ptr<Controller> clone() const override {
        return std::make_unique<Easy>(*this);
    }
    void ended(const SchedulerState& scheduler, TaskId task) override {
        Batch::ended(scheduler, task);
        invalidate();
    }

  private:
    void invalidate() override { blocked_ = false; }
    void decide_pool(SchedulerState& scheduler) override { decide_in(scheduler, in_pool_); }
    void decide_space(SchedulerState& scheduler) override { decide_in(scheduler, in_space_); }

    template <class Room>
    void decide_in(SchedulerState& scheduler, Reservation<Room>& reservation);
    template <class Room>
    [[nodiscard]] bool still_blocked(const SchedulerState& scheduler,
                                     const Reservation<Room>& reservation) const;
    template <class Room>
    void reserve(const SchedulerState& scheduler, Reservation<Room>& reservation) const;
    template <class Room>
    void fill(SchedulerState& scheduler, Queue::Cursor& cursor, Reservation<Room>& reservation);
    template <class Room>
    [[nodiscard]] const Waiting* next(const SchedulerState& scheduler, Queue::Cursor& cursor,
                                      const Reservation<Room>& reservation) const;
    template <class Room>
    bool try_now(SchedulerState& scheduler, const Waiting& task, Reservation<Room>& reservation);

    [[nodiscard]] bool by_time() const { return options_.backfill == Backfill::easy_time; }

    bool blocked_ = false;
    Waiting head_;  // the first task in the queue, while blocked
    Reservation<PoolRoom> in_pool_;
    Reservation<SpaceRoom> in_space_;
};

template <class Room>
void Easy::decide_in(SchedulerState& scheduler, Reservation<Room>& reservation) {
    if (fresh_.size() > 1)
        std::ranges::sort(fresh_, [](const auto& a, const auto& b) { return a.before(b); });
    if (blocked_ && still_blocked(scheduler, reservation)) {
        for (const Waiting& task : fresh_)
            if (!try_now(scheduler, task, reservation)) queue_.insert(task);
        fresh_.clear();
        return;
    }
    blocked_ = false;
    std::size_t started = 0;
    // Without a queue most tasks start at once.
    if (queue_.empty() && !queue_.fair())
        while (started < fresh_.size() && start<Room>(scheduler, fresh_[started])) ++started;
    for (std::size_t at = started; at < fresh_.size(); ++at) queue_.insert(fresh_[at]);
    fresh_.clear();
    if (queue_.empty()) return;

    queue_.rank(scheduler.now());
    Queue::Cursor cursor = queue_.cursor();
    const Waiting* const head = start_in_order<Room>(scheduler, cursor);
    if (head == nullptr) return;
    blocked_ = true;
    head_ = *head;
    cursor.pass();
    reserve(scheduler, reservation);
    fill(scheduler, cursor, reservation);
}

// A task that could not pass cannot pass now, as long as no task has ended and no machine has
// changed: no more cores are free, and less time is left before the shadow time. Only a task that
// runs longer than planned, and then counts as ending now, can add to the spare capacity: if its
// planned end is after the shadow time, and has passed. With fair shares, windows or a depth the
// order or the selection of tasks changes with time, so all tasks are tried again.
template <class Room>
bool Easy::still_blocked(const SchedulerState& scheduler,
                         const Reservation<Room>& reservation) const {
    return scheduler.now() < reservation.next_release && options_.depth == 0 && !queue_.fair() &&
           scheduler.unrestricted() && (fresh_.empty() || head_.before(fresh_.front()));
}

template <class Room>
void Easy::reserve(const SchedulerState& scheduler, Reservation<Room>& reservation) const {
    reservation.shadow = reservation.next_release = never;
    reservation.spare.reset(scheduler);
    Room& room = reservation.then;
    room.reset(scheduler);
    room.watch(scheduler, head_);
    typename Room::Claim claim;
    std::span<const double> windows = scheduler.window_ends();
    std::size_t block = 0;
    std::size_t index = 0;
    const auto next_end = [&] {
        if (index == releases_.block(block).size() && block + 1 < releases_.blocks()) {
            ++block;
            index = 0;
        }
        return index < releases_.block(block).size() ? releases_.block(block)[index].end : never;
    };
    for (;;) {
        const double end = next_end();
        const double time =
            std::max(scheduler.now(), windows.empty() ? end : std::min(end, windows.front()));
        if (time == never) return;  // without a planned start no task can delay it
        while (next_end() <= time) room.give(scheduler, releases_.block(block)[index++]);
        while (!windows.empty() && windows.front() <= time) windows = windows.subspan(1);
        if (!room.find(scheduler, head_, time, claim)) continue;
        reservation.shadow = time;
        reservation.next_release = next_end();
        room.take(scheduler, head_, claim);
        reservation.spare.meet(room, claim);
        return;
    }
}

template <class Room>
const Waiting* Easy::next(const SchedulerState& scheduler, Queue::Cursor& cursor,
                          const Reservation<Room>& reservation) const {
    // With a depth all tasks count, also if they cannot pass.
    if (options_.depth > 0) return cursor.next();
    const double now = scheduler.now();
    const double free = scheduler.free_cores() + slack;
    const double shadow = std::max(now, reservation.shadow);
    const double spare = by_time() ? -never : std::min(free, reservation.spare.cores() + slack);
    Limits limits;
    limits.allow(free, now, shadow);
    limits.allow(spare, never);
    return cursor.next(limits, [&](const Waiting& task) {
        return task.cores <= free && (now + task.time <= shadow || task.cores <= spare);
    });
}

template <class Room>
bool Easy::try_now(SchedulerState& scheduler, const Waiting& task, Reservation<Room>& reservation) {
    if (task.cores > scheduler.free_cores() + slack) return false;
    const double end = scheduler.now() + task.time;
    if (end <= std::max(scheduler.now(), reservation.shadow)) {
        // It ends before the reservation starts, so it may be on any machines.
        if (!start<Room>(scheduler, task)) return false;
        reservation.spare.meet(scheduler, scheduler.parts(task.task));
        return true;
    }
    if (by_time() || task.cores > reservation.spare.cores() + slack) return false;
    typename Room::Claim claim;
    if (!reservation.spare.find(scheduler, task, scheduler.now(), claim)) return false;
    if (!Room::place(scheduler, task, claim, parts_)) return false;
    reservation.spare.take(scheduler, task, claim);
    reservation.next_release = std::min(reservation.next_release, end);
    return true;
}

template <class Room>
void Easy::fill(SchedulerState& scheduler, Queue::Cursor& cursor, Reservation<Room>& reservation) {
    for (std::uint32_t looked_at = 0; options_.depth == 0 || looked_at < options_.depth;
         ++looked_at) {
        const Waiting* const task = next(scheduler, cursor, reservation);
        if (task == nullptr) return;
        if (try_now(scheduler, *task, reservation)) cursor.take();
        else cursor.pass();
    }
}

}  // namespace

std::unique_ptr<Controller> make_easy(const BatchOptions& options) {
    return std::make_unique<Easy>(options);
}

}  // namespace twinloop
