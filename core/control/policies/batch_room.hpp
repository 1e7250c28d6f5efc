// The free capacity at a time that a batch scheduler plans for. In a pool of cores that is a
// number; with memory, nodes or windows, it is a space. The algorithms are written once, for
// either.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "control/policies/queue_lane.hpp"
#include "control/scheduler_state.hpp"

namespace twinloop {

// The planned end of a running task, when its capacity is released.
struct Release {
    double end = 0.0;
    double cores = 0.0;  // on machines that are open
    TaskId task = no_task;

    [[nodiscard]] bool before(const Release& other) const {
        return end < other.end || (end == other.end && task < other.task);
    }
};

class PoolRoom {
  public:
    struct Claim {};  // any cores

    // Takes over the present state.
    void reset(const SchedulerState& scheduler) { cores_ = scheduler.free_cores(); }
    // The next searches are for this task.
    void watch(const SchedulerState& /*scheduler*/, const Waiting& /*task*/) {}

    [[nodiscard]] double cores() const { return cores_; }
    // Whether the task could start at that time; if so, on which machines.
    bool find(const SchedulerState& /*scheduler*/, const Waiting& task, double /*from*/,
              Claim& /*claim*/) const {
        return task.cores <= cores_ + slack;
    }
    void give(const SchedulerState& /*scheduler*/, const Release& release) {
        cores_ += release.cores;
    }
    void take(const SchedulerState& /*scheduler*/, const Release& release) {
        cores_ -= release.cores;
    }
    void take(const SchedulerState& /*scheduler*/, const Waiting& task, const Claim& /*claim*/) {
        cores_ -= task.cores;
    }
    // Keeps only the capacity that is also free there, if the two differ in these parts only.
    void meet(const PoolRoom& other, const Claim& /*parts*/) {
        cores_ = std::min(cores_, other.cores_);
    }
    void meet(const SchedulerState& scheduler, std::span<const Part> /*parts*/) {
        cores_ = std::min(cores_, scheduler.free_cores());
    }
    // Whether the task could start now, without reservations.
    static bool has_room(const SchedulerState& scheduler, const Waiting& task,
                         std::vector<Part>& /*scratch*/) {
        return task.cores <= scheduler.free_cores() + slack;
    }
    // Starts the task there, unless the capacity is still occupied.
    static bool place(SchedulerState& scheduler, const Waiting& task, const Claim& claim,
                      std::vector<Part>& scratch);

  private:
    double cores_ = 0.0;
};

class SpaceRoom {
  public:
    using Claim = std::vector<Part>;

    void reset(const SchedulerState& scheduler);
    void watch(const SchedulerState& scheduler, const Waiting& task);

    [[nodiscard]] double cores() const { return space_.total_cores(); }
    bool find(const SchedulerState& scheduler, const Waiting& task, double from,
              Claim& claim) const {
        if (task.task == watched_ && std::cmp_less(fitting_, needs_.nodes)) return false;
        return scheduler.find(task.task, space_, from, claim);
    }
    void give(const SchedulerState& scheduler, const Release& release);
    void take(const SchedulerState& scheduler, const Release& release) {
        take(scheduler.needs(release.task), scheduler.parts(release.task));
    }
    void take(const SchedulerState& scheduler, const Waiting& task, const Claim& claim) {
        take(scheduler.needs(task.task), claim);
    }
    void meet(const SpaceRoom& other, std::span<const Part> parts) { meet(other.space_, parts); }
    void meet(const SchedulerState& scheduler, std::span<const Part> parts) {
        meet(scheduler.space(), parts);
    }
    static bool has_room(const SchedulerState& scheduler, const Waiting& task,
                         std::vector<Part>& scratch) {
        return scheduler.find(task.task, scheduler.space(), scheduler.now(), scratch);
    }
    static bool place(SchedulerState& scheduler, const Waiting& task, const Claim& claim,
                      std::vector<Part>& scratch);

  private:
    void take(const Needs& needs, std::span<const Part> parts);
    void meet(const Space& other, std::span<const Part> parts);
    void meet(const Space& other, MachineId machine);
    [[nodiscard]] bool fits(MachineId machine) const;
    [[nodiscard]] std::size_t count_fitting(std::span<const Part> parts) const;

    Space space_;
    // The number of machines with room for one node of the watched task. It follows the changes, so
    // that most searches in vain need not look at the machines.
    TaskId watched_ = no_task;
    Needs needs_;
    std::size_t fitting_ = 0;
    std::vector<double> amounts_;
};

}  // namespace twinloop
