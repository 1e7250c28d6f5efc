// The filter scheduler: one task after another, each to the best machine that passes all filters.
#include <algorithm>
#include <unordered_map>

#include "policy/filter_hosts.hpp"
#include "policy/filter_queue.hpp"
#include "policy/options.hpp"

namespace twinloop {

namespace {

class FilterPolicy final : public Policy {
  public:
    explicit FilterPolicy(const FilterOptions& options) : hosts_(options), skip_(options.skip) {}

    [[nodiscard]] std::unique_ptr<Policy> clone() const override {
        return std::make_unique<FilterPolicy>(*this);
    }

    void submitted(const Desk& desk, TaskId task) override;
    void withdrawn(const Desk&, TaskId task) override { queue_.remove(task); }
    void placed(const Desk& desk, TaskId task) override;
    void ended(const Desk& desk, TaskId task) override;
    void machines_changed(const Desk&) override {
        hosts_.forget();
        try_all_again();
    }

    void decide(Desk& desk) override;

    [[nodiscard]] bool possible(const Desk& desk, TaskId task) const override;
    [[nodiscard]] bool spreads() const override { return false; }
    [[nodiscard]] bool overcommits() const override { return rules().overcommits(); }

  private:
    // Machines that follow each other.
    struct Home {
        MachineId first = 0;
        std::uint32_t count = 0;
    };

    [[nodiscard]] const FilterRules& rules() const { return hosts_.rules(); }
    template <class Visit>
    void for_each_home(TaskId task, Visit&& visit) const {
        visit(homes_[task]);
        if (const auto more = further_.find(task); more != further_.end())
            for (const Home& home : more->second) visit(home);
    }
    void try_all_again() {
        blocked_ = no_task;
        fresh_ = 0;
    }
    // The most that any of the machines that tasks have left has room for.
    [[nodiscard]] Room released_room(const Desk& desk) const;
    void serve_in_order(Desk& desk);
    void serve_all(Desk& desk);
    bool try_to_place(Desk& desk, TaskId task);

    FilterHosts hosts_;
    bool skip_;
    // By task: where it is, as the desk no longer knows when it tells of an end. Few are in
    // `further_`: those on machines that do not follow each other.
    std::vector<Home> homes_;
    std::unordered_map<TaskId, std::vector<Home>> further_;

    // Who was tried in vain need not be tried before something has happened that could help.
    double next_window_end_ = never;
    TaskId blocked_ = no_task;  // the head of the queue, if it was tried
    FilterQueue queue_;         // only kept where others may pass the head
    bool queue_known_ = false;
    std::size_t fresh_ = 0;            // from this place on, nobody has been tried
    std::vector<MachineId> released_;  // since the others were tried
    std::vector<Part> parts_;
};

// --- what it is told --------------------------------------------------------------------------

void FilterPolicy::submitted(const Desk& desk, TaskId task) {
    if (!skip_ || !queue_known_) return;
    // One that was interrupted goes back to its place among the others.
    if (desk.next_waiting(task) != no_task) queue_known_ = false;
    else fresh_ -= queue_.append(task, FilterRules::asked(desk, task).room, fresh_);
}

void FilterPolicy::placed(const Desk& desk, TaskId task) {
    queue_.remove(task);
    if (homes_.size() <= task) homes_.resize(std::max<std::size_t>(desk.task_count(), task + 1));
    const std::span<const Part> parts = desk.parts(task);
    if (parts.empty()) return;
    homes_[task] = {parts[0].machine, parts[0].count};
    for (const Part& part : parts.subspan(1)) further_[task].push_back({part.machine, part.count});
    for (const Part& part : parts) hosts_.update(desk, part.machine, part.count);
}

void FilterPolicy::ended(const Desk& desk, TaskId task) {
    if (task >= homes_.size() || homes_[task].count == 0) {
        // It ran before there was anybody to be told.
        machines_changed(desk);
        return;
    }
    blocked_ = no_task;
    for_each_home(task, [&](const Home& home) {
        hosts_.update(desk, home.first, home.count);
        if (skip_ && desk.waiting_count() > 0)
            for (MachineId m = home.first; m < home.first + home.count; ++m) released_.push_back(m);
    });
    homes_[task] = {};
    if (!further_.empty()) further_.erase(task);
}

// --- what it decides --------------------------------------------------------------------------

void FilterPolicy::decide(Desk& desk) {
    if (desk.now() >= next_window_end_) try_all_again();
    if (skip_) serve_all(desk);
    else serve_in_order(desk);
    const std::span<const double> ends = desk.window_ends();
    next_window_end_ = ends.empty() ? never : ends.front();
    if (desk.waiting_count() > 0 && !ends.empty()) desk.wake(next_window_end_);
}

void FilterPolicy::serve_in_order(Desk& desk) {
    while (desk.waiting_count() > 0) {
        const TaskId task = desk.first_waiting();
        if (task == blocked_) return;
        if (!try_to_place(desk, task)) {
            blocked_ = task;
            return;
        }
    }
}

// Room only shrinks while tasks are placed: who did not fit before fits only where one has left.
void FilterPolicy::serve_all(Desk& desk) {
    if (!queue_known_) {
        queue_.clear();
        for (TaskId task = desk.first_waiting(); task != no_task; task = desk.next_waiting(task))
            queue_.append(task, FilterRules::asked(desk, task).room, 0);
        queue_known_ = true;
        fresh_ = 0;
    }
    if (fresh_ > 0 && !released_.empty()) {
        // Looking at many machines again after each task would cost more than it saves.
        constexpr std::size_t many = 64;
        Room room = released_room(desk);
        for (std::size_t at = queue_.first(0, room); at < fresh_; at = queue_.first(at + 1, room))
            if (try_to_place(desk, queue_.task(at)) && released_.size() < many)
                room = released_room(desk);
    }
    constexpr Room any{never, never};
    for (std::size_t at = queue_.first(fresh_, any); at < queue_.end();
         at = queue_.first(at + 1, any))
        try_to_place(desk, queue_.task(at));
    fresh_ = queue_.end();
    released_.clear();
}

Room FilterPolicy::released_room(const Desk& desk) const {
    Room most{-never, -never};
    for (const MachineId m : released_) {
        if (!rules().takes_tasks(desk.space(), m)) continue;
        const Room room = rules().room(desk, desk.space(), m);
        most = {std::max(most.cores, room.cores), std::max(most.memory, room.memory)};
    }
    return most;
}

bool FilterPolicy::try_to_place(Desk& desk, TaskId task) {
    const FilterRules::Asked asked = FilterRules::asked(desk, task);
    const std::vector<MachineId>& chosen = hosts_.choose(desk, task, asked);
    if (chosen.empty()) return false;
    parts_.clear();
    for (const MachineId m : chosen) {
        if (!parts_.empty() && parts_.back().machine + parts_.back().count == m)
            ++parts_.back().count;
        else parts_.push_back({m, 1, asked.cores});
    }
    desk.place(task, parts_);
    return true;
}

bool FilterPolicy::possible(const Desk& desk, TaskId task) const {
    const FilterRules::Asked asked = FilterRules::asked(desk, task);
    std::size_t missing = asked.machines;
    for (MachineId m = 0; m < desk.machines().size(); ++m)
        // At the end of time, when all windows are over.
        if (rules().passes(desk, desk.empty_space(), m, task, asked, never) && --missing == 0)
            return true;
    return false;
}

}  // namespace

std::unique_ptr<Policy> make_filter(const FilterOptions& options) {
    return std::make_unique<FilterPolicy>(options);
}

}  // namespace twinloop
