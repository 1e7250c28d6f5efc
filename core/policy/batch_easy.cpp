// EASY backfilling. Source: A. W. Mu'alem and D. G. Feitelson, "Utilization, predictability,
// workloads, and user runtime estimates in scheduling the IBM SP2 with backfilling", 2001.
#include <algorithm>

#include "policy/batch.hpp"

namespace twinloop {

namespace {

// What the first task in the queue waits for.
template <class Room>
struct Reservation {
    double shadow = never;        // when it will fit, as planned
    double next_release = never;  // the first planned end after that
    Room spare;  // what is free both now and, with the task there, from the shadow time on
};

class Easy final : public Batch {
  public:
    explicit Easy(const BatchOptions& options) : Batch(options) {}
    [[nodiscard]] std::unique_ptr<Policy> clone() const override {
        return std::make_unique<Easy>(*this);
    }
    void ended(const Desk& desk, TaskId task) override {
        Batch::ended(desk, task);
        upset();
    }

  private:
    void upset() override { blocked_ = false; }
    void decide_pool(Desk& desk) override { decide_in(desk, in_pool_); }
    void decide_space(Desk& desk) override { decide_in(desk, in_space_); }

    template <class Room>
    void decide_in(Desk& desk, Reservation<Room>& reservation);
    template <class Room>
    [[nodiscard]] bool still_blocked(const Desk& desk, const Reservation<Room>& reservation) const;
    template <class Room>
    void reserve(const Desk& desk, Reservation<Room>& reservation) const;
    template <class Room>
    void fill(Desk& desk, Queue::Walk& walk, Reservation<Room>& reservation);
    template <class Room>
    [[nodiscard]] Limits limits(const Desk& desk, const Reservation<Room>& reservation) const;
    template <class Room>
    bool try_now(Desk& desk, const Waiting& task, Reservation<Room>& reservation);

    bool blocked_ = false;
    Waiting head_;  // the first in the queue, while blocked
    Reservation<PoolRoom> in_pool_;
    Reservation<SpaceRoom> in_space_;
};

template <class Room>
void Easy::decide_in(Desk& desk, Reservation<Room>& reservation) {
    if (fresh_.size() > 1)
        std::ranges::sort(fresh_, [](const auto& a, const auto& b) { return a.before(b); });
    if (blocked_ && still_blocked(desk, reservation)) {
        for (const Waiting& task : fresh_)
            if (!try_now(desk, task, reservation)) queue_.insert(task);
        fresh_.clear();
        return;
    }
    blocked_ = false;
    std::size_t started = 0;
    // Most tasks of a quiet time never see the queue.
    if (queue_.empty() && !queue_.fair())
        while (started < fresh_.size() && start<Room>(desk, fresh_[started])) ++started;
    for (std::size_t at = started; at < fresh_.size(); ++at) queue_.insert(fresh_[at]);
    fresh_.clear();
    if (queue_.empty()) return;

    queue_.rank(desk.now());
    Queue::Walk walk = queue_.walk();
    const Waiting* const head = start_in_order<Room>(desk, walk);
    if (head == nullptr) return;
    blocked_ = true;
    head_ = *head;
    walk.pass();
    reserve(desk, reservation);
    fill(desk, walk, reservation);
}

// Whoever was refused in the last pass would be refused again, as long as nothing ended or changed:
// no more is free now, and less time is left before the shadow. Only a running task that outstays
// its plan, and then counts as ending now, can add to what is spare: if it was to end after the
// shadow time, and that has passed. Fair shares move, windows open, and a task may come within the
// depth: then all is looked at again.
template <class Room>
bool Easy::still_blocked(const Desk& desk, const Reservation<Room>& reservation) const {
    return desk.now() < reservation.next_release && options_.depth == 0 && !queue_.fair() &&
           desk.unrestricted() && (fresh_.empty() || head_.before(fresh_.front()));
}

template <class Room>
void Easy::reserve(const Desk& desk, Reservation<Room>& reservation) const {
    Room room(desk);
    reservation = {never, never, room};
    typename Room::Claim claim;
    std::span<const double> windows = desk.window_ends();
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
            std::max(desk.now(), windows.empty() ? end : std::min(end, windows.front()));
        if (time == never) return;  // nobody can tell when it will fit: nobody delays it
        while (next_end() <= time) room.give(desk, releases_.block(block)[index++]);
        while (!windows.empty() && windows.front() <= time) windows = windows.subspan(1);
        if (!room.find(desk, head_, time, claim)) continue;
        reservation.shadow = time;
        reservation.next_release = next_end();
        room.take(desk, head_, claim);
        reservation.spare.meet(room);
        return;
    }
}

template <class Room>
Limits Easy::limits(const Desk& desk, const Reservation<Room>& reservation) const {
    const bool by_time = options_.backfill == Backfill::easy_time;
    return {desk.free_cores() + slack, desk.now(), std::max(desk.now(), reservation.shadow),
            by_time ? -never : reservation.spare.cores() + slack};
}

template <class Room>
bool Easy::try_now(Desk& desk, const Waiting& task, Reservation<Room>& reservation) {
    const Limits now = limits(desk, reservation);
    if (!now.accept(task.cores, task.time)) return false;
    if (now.now + task.time <= now.shadow) {
        // Back before anybody misses it, so it may be anywhere.
        if (start<Room>(desk, task)) {
            reservation.spare.meet(Room(desk));
            return true;
        }
        return false;
    }
    typename Room::Claim claim;
    if (!reservation.spare.find(desk, task, now.now, claim)) return false;
    if (!Room::place(desk, task, claim, parts_)) return false;
    reservation.spare.take(desk, task, claim);
    reservation.next_release = std::min(reservation.next_release, now.now + task.time);
    return true;
}

template <class Room>
void Easy::fill(Desk& desk, Queue::Walk& walk, Reservation<Room>& reservation) {
    const Limits any;
    // With a depth, every task counts that is looked at.
    const bool deep = options_.depth == 0;
    std::uint32_t left = options_.depth;
    while (deep || left-- > 0) {
        const Waiting* const task = walk.next(deep ? limits(desk, reservation) : any);
        if (task == nullptr) return;
        if (try_now(desk, *task, reservation)) walk.take();
        else walk.pass();
    }
}

}  // namespace

std::unique_ptr<Policy> make_easy(const BatchOptions& options) {
    return std::make_unique<Easy>(options);
}

}  // namespace twinloop
