// What is free at a moment that a batch scheduler plans for. In a pool of cores that is a number;
// where memory, nodes or windows count, it is a space. The algorithms are written once, for either.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/desk.hpp"
#include "policy/queue_lane.hpp"

namespace twinloop {

// When a running task gives back what it holds, as planned.
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
    struct Claim {};  // any cores will do

    PoolRoom() = default;
    explicit PoolRoom(const Desk& desk) : cores_(desk.free_cores()) {}

    [[nodiscard]] double cores() const { return cores_; }
    // Whether the task could start at that time; where, if so.
    bool find(const Desk& /*desk*/, const Waiting& task, double /*from*/, Claim& /*claim*/) const {
        return task.cores <= cores_ + slack;
    }
    void give(const Desk& /*desk*/, const Release& release) { cores_ += release.cores; }
    void take(const Desk& /*desk*/, const Release& release) { cores_ -= release.cores; }
    void take(const Desk& /*desk*/, const Waiting& task, const Claim& /*claim*/) {
        cores_ -= task.cores;
    }
    // Only what is free in both.
    void meet(const PoolRoom& other) { cores_ = std::min(cores_, other.cores_); }
    // Starts the task there, unless the place is still taken.
    static bool place(Desk& desk, const Waiting& task, const Claim& claim,
                      std::vector<Part>& scratch);

  private:
    double cores_ = 0.0;
};

class SpaceRoom {
  public:
    using Claim = std::vector<Part>;

    SpaceRoom() = default;
    explicit SpaceRoom(const Desk& desk) : space_(desk.space()) {}

    [[nodiscard]] double cores() const { return space_.total_cores(); }
    bool find(const Desk& desk, const Waiting& task, double from, Claim& claim) const {
        return desk.find(task.task, space_, from, claim);
    }
    void give(const Desk& desk, const Release& release) {
        space_.give(desk.needs(release.task), desk.parts(release.task));
    }
    void take(const Desk& desk, const Release& release) {
        space_.take(desk.needs(release.task), desk.parts(release.task));
    }
    void take(const Desk& desk, const Waiting& task, const Claim& claim);
    void meet(const SpaceRoom& room);
    static bool place(Desk& desk, const Waiting& task, const Claim& claim,
                      std::vector<Part>& scratch);

  private:
    Space space_;
};

}  // namespace twinloop
