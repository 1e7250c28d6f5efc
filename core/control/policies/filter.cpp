// The filter scheduler: one task after another, each to the best machine that passes all filters.
#include <algorithm>
#include <set>
#include <tuple>

#include "control/policies/filter_hosts.hpp"
#include "control/policies/filter_queue.hpp"
#include "control/policies/options.hpp"

namespace twinloop {

namespace {

class FilterPolicy final : public Controller {
  public:
    explicit FilterPolicy(const FilterOptions& options)
        : hosts_(options), skip_(options.skip), refuse_(options.refuse),
          smallest_first_(options.smallest_first), waits_(options.waits) {}

    [[nodiscard]] std::unique_ptr<Controller> clone() const override {
        return std::make_unique<FilterPolicy>(*this);
    }

    void submitted(const SchedulerState& scheduler, TaskId task) override;
    void withdrawn(const SchedulerState& scheduler, TaskId task) override {
        queue_.remove(task);
        if (smallest_first_) sizes_.erase(size(scheduler, task));
        blocked_ = no_task;
    }
    void placed(const SchedulerState& scheduler, TaskId task) override;
    void ended(const SchedulerState& scheduler, TaskId task) override;
    void machine_changed(const SchedulerState& scheduler, MachineId machine) override {
        hosts_.change(scheduler, machine);
        release(scheduler, machine, 1);
    }

    void decide(SchedulerState& scheduler) override;
    [[nodiscard]] std::vector<double> memory() const override { return hosts_.memory(); }
    void restore_memory(const SchedulerState&, std::span<const double> numbers) override {
        hosts_.restore_memory(numbers);
    }

    [[nodiscard]] bool possible(const SchedulerState& scheduler, TaskId task) const override;
    [[nodiscard]] std::size_t count_places(const SchedulerState& scheduler, const Space& space,
                                           TaskId task, std::size_t most) const override;
    [[nodiscard]] bool spreads() const override { return false; }
    [[nodiscard]] bool overcommits() const override { return rules().overcommits(); }
    [[nodiscard]] Overcommit overcommit() const override { return rules().overcommit(); }

  private:
    [[nodiscard]] const FilterRules& rules() const { return hosts_.rules(); }
    void try_all_again() {
        blocked_ = no_task;
        fresh_ = 0;
    }
    // Consecutive machines may have more room than before.
    void release(const SchedulerState& scheduler, MachineId first, std::uint32_t count);
    // The most room of each kind on the machines that were released.
    [[nodiscard]] Room released_room(const SchedulerState& scheduler) const;
    void serve_in_order(SchedulerState& scheduler);
    void serve_all(SchedulerState& scheduler);
    void serve_or_refuse(SchedulerState& scheduler);
    void serve_smallest(SchedulerState& scheduler);
    bool try_to_place(SchedulerState& scheduler, TaskId task);
    bool try_to_place_one(SchedulerState& scheduler, TaskId task);

    using Size = std::tuple<double, double, std::uint64_t, TaskId>;
    [[nodiscard]] static Size size(const SchedulerState& scheduler, TaskId task) {
        const Request& wanted = scheduler.request(task);
        return {wanted.cores, wanted.memory, scheduler.arrival(task), task};
    }

    FilterHosts hosts_;
    bool skip_;
    bool refuse_;
    bool smallest_first_;
    bool waits_;
    std::set<Size> sizes_;  // of the waiting tasks, only used if the smallest is the first

    // A task that could not be placed is tried again only after a change that could admit it.
    double next_window_end_ = never;
    TaskId blocked_ = no_task;  // the first waiting task, if it was tried
    FilterQueue queue_;         // only used if tasks may pass the first one
    bool queue_known_ = false;
    std::size_t fresh_ = 0;            // from this place on, no task has been tried
    std::vector<MachineId> released_;  // since the tasks before it were tried
    std::vector<Part> parts_;
};

// --- notifications ----------------------------------------------------------------------------

void FilterPolicy::submitted(const SchedulerState& scheduler, TaskId task) {
    if (smallest_first_) {
        sizes_.insert(size(scheduler, task));
        blocked_ = no_task;
    }
    if (!skip_ || !queue_known_) return;
    // An interrupted task returns to its place before others.
    if (scheduler.next_waiting(task) != no_task) queue_known_ = false;
    else fresh_ -= queue_.append(task, FilterRules::demand(scheduler, task).room, fresh_);
}

void FilterPolicy::placed(const SchedulerState& scheduler, TaskId task) {
    queue_.remove(task);
    if (smallest_first_) sizes_.erase(size(scheduler, task));
    for (const Part& part : scheduler.parts(task))
        hosts_.update(scheduler, part.machine, part.count);
}

void FilterPolicy::ended(const SchedulerState& scheduler, TaskId task) {
    for (const Part& part : scheduler.parts(task)) {
        hosts_.update(scheduler, part.machine, part.count);
        release(scheduler, part.machine, part.count);
    }
}

void FilterPolicy::release(const SchedulerState& scheduler, MachineId first, std::uint32_t count) {
    blocked_ = no_task;
    if (!skip_ || scheduler.waiting_count() == 0) return;
    for (MachineId m = first; m < first + count; ++m) released_.push_back(m);
}

// --- decisions --------------------------------------------------------------------------------

void FilterPolicy::decide(SchedulerState& scheduler) {
    if (scheduler.now() >= next_window_end_) try_all_again();
    if (refuse_) serve_or_refuse(scheduler);
    else if (smallest_first_) serve_smallest(scheduler);
    else if (skip_) serve_all(scheduler);
    else serve_in_order(scheduler);
    const std::span<const double> ends = scheduler.window_ends();
    next_window_end_ = ends.empty() ? never : ends.front();
    if (scheduler.waiting_count() > 0 && !ends.empty()) scheduler.wake(next_window_end_);
}

void FilterPolicy::serve_in_order(SchedulerState& scheduler) {
    while (scheduler.waiting_count() > 0) {
        const TaskId task = scheduler.first_waiting();
        if (task == blocked_) return;
        if (!try_to_place(scheduler, task)) {
            blocked_ = task;
            return;
        }
    }
}

void FilterPolicy::serve_or_refuse(SchedulerState& scheduler) {
    std::uint32_t refused = none;  // a group
    while (scheduler.waiting_count() > 0) {
        const TaskId task = scheduler.first_waiting();
        const std::uint32_t group = scheduler.together(task).group;
        if ((group != none && group == refused) || !try_to_place(scheduler, task)) {
            scheduler.kill(task);
            refused = group;
        }
    }
}

void FilterPolicy::serve_smallest(SchedulerState& scheduler) {
    while (!sizes_.empty()) {
        const TaskId task = std::get<TaskId>(*sizes_.begin());
        if (task == blocked_) return;
        if (!try_to_place(scheduler, task)) {
            blocked_ = task;
            return;
        }
    }
}

// Room only shrinks while tasks are placed: a task that did not fit before can fit only on machines
// that were released.
void FilterPolicy::serve_all(SchedulerState& scheduler) {
    if (!queue_known_) {
        queue_.clear();
        for (TaskId task = scheduler.first_waiting(); task != no_task;
             task = scheduler.next_waiting(task))
            queue_.append(task, FilterRules::demand(scheduler, task).room, 0);
        queue_known_ = true;
        fresh_ = 0;
    }
    if (fresh_ > 0 && !released_.empty()) {
        // To look at many machines again after each task would cost more than it saves.
        constexpr std::size_t many = 64;
        Room room = released_room(scheduler);
        for (std::size_t at = queue_.first(0, room); at < fresh_; at = queue_.first(at + 1, room))
            if (try_to_place(scheduler, queue_.task(at)) && released_.size() < many)
                room = released_room(scheduler);
    }
    constexpr Room any{never, never};
    for (std::size_t at = queue_.first(fresh_, any); at < queue_.end();
         at = queue_.first(at + 1, any))
        try_to_place(scheduler, queue_.task(at));
    fresh_ = queue_.end();
    released_.clear();
}

Room FilterPolicy::released_room(const SchedulerState& scheduler) const {
    Room most{-never, -never};
    for (const MachineId m : released_) {
        if (!rules().takes_tasks(scheduler.space(), m)) continue;
        const Room room = rules().room(scheduler, scheduler.space(), m);
        most = {std::max(most.cores, room.cores), std::max(most.memory, room.memory)};
    }
    return most;
}

// Instances that start together are placed with the first one of them.
bool FilterPolicy::try_to_place(SchedulerState& scheduler, TaskId task) {
    const SchedulerState::Together mine = scheduler.together(task);
    if (mine.group == none) return try_to_place_one(scheduler, task);
    if (scheduler.follows(task) ||
        count_places(scheduler, scheduler.space(), task, mine.count) < mine.count ||
        !try_to_place_one(scheduler, task))
        return false;
    // Each takes one of the places, so that there is one for the next.
    for (TaskId next = mine.after; next != no_task; next = scheduler.together(next).after)
        try_to_place_one(scheduler, next);
    return true;
}

bool FilterPolicy::try_to_place_one(SchedulerState& scheduler, TaskId task) {
    const FilterRules::Demand demand = FilterRules::demand(scheduler, task);
    const std::vector<MachineId>& chosen = hosts_.choose(scheduler, task, demand);
    if (chosen.empty()) return false;
    parts_.clear();
    for (const MachineId m : chosen) {
        if (!parts_.empty() && parts_.back().machine + parts_.back().count == m)
            ++parts_.back().count;
        else parts_.push_back({m, 1, demand.cores});
    }
    scheduler.place(task, parts_);
    return true;
}

bool FilterPolicy::possible(const SchedulerState& scheduler, TaskId task) const {
    if (waits_) return true;
    const FilterRules::Demand demand = FilterRules::demand(scheduler, task);
    std::size_t missing = demand.machines;
    for (MachineId m = 0; m < scheduler.machines().size(); ++m)
        // In the far future, after the end of all windows.
        if (rules().passes(scheduler, scheduler.empty_space(), m, task, demand, never) &&
            --missing == 0)
            return true;
    return false;
}

std::size_t FilterPolicy::count_places(const SchedulerState& scheduler, const Space& space,
                                       TaskId task, std::size_t most) const {
    const FilterRules::Demand demand = FilterRules::demand(scheduler, task);
    double places = 0.0;
    for (MachineId m = 0; m < scheduler.machines().size() && places < most; ++m)
        if (rules().accepts(scheduler, space, m, task, demand, scheduler.now()))
            places += rules().count_places(scheduler, space, m, demand);
    return places < most ? static_cast<std::size_t>(places) : most;
}

}  // namespace

std::unique_ptr<Controller> make_filter(const FilterOptions& options) {
    return std::make_unique<FilterPolicy>(options);
}

}  // namespace twinloop
