// Executions: attempts of tasks, each a cursor over steps. A task that has machines is dispatched
// (delay), starts up (delay), reads its files (transfers), computes (one step per fragment), writes
// its files (transfers) and is released (delay); steps without duration are skipped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernel/activity.hpp"
#include "kernel/measure.hpp"
#include "platform/machine.hpp"
#include "platform/transfers.hpp"
#include "work/task_table.hpp"

namespace twinloop {

enum class Step : std::uint8_t { dispatch, startup, read, compute, write, release };

struct Execution {
    TaskId task = no_task;
    MachineId machine = no_machine;       // if it occupies exactly one
    const Fragment* fragments = nullptr;  // of the task, in the table that all runs share
    std::uint32_t fragment_count = 0;
    std::uint32_t fragment = 0;  // the current one
    EventId timer = none;
    Step step = Step::dispatch;
    bool draws = false;        // where machines are shared: it has activities
    bool until_stop = false;   // its paused timer is that of its kill
    std::uint32_t halted = 0;  // machines that it waits for because they are not running
    std::uint64_t rank = 0;    // of its timer among simultaneous ones
    double begun = 0.0;        // start of the current fragment
    double length = 0.0;       // duration of the current fragment without sharing
    double rate = 0.0;         // demand of the current fragment (reference core-seconds per second)
    double metered = 0.0;      // the rate in the meters of its machines
    double mark = 0.0;         // rate x price of these meters when that rate began
    double stop = never;       // when it is killed
    double factor = 1.0;       // seconds per recorded second
    double stretch = 1.0;      // demand per recorded demand
    double speed = 1.0;        // of its slowest machine
    double cores = 0.0;        // of its placement
    double expansion = 1.0;    // consumption per work, by the speed-up law of its task
    double work_begun = 0.0;   // start of the first fragment
    double from = 0.0;         // recorded seconds that earlier executions have completed
    double inside = 0.0;       // the same within the current fragment
    double overhead = 0.0;     // of checkpoints, at the end of the work (s)
    double demanded = 0.0;     // integral of the demand before the current fragment
    std::size_t usage = 0;     // index of its first part in the usage record
    double recorded = 0.0;     // time up to which usage is recorded, without sharing
    EventId edge = none;       // timer of the usage windows, with sharing
    double paused = never;     // since when it waits for its machines; infinite: it does not
    double left = never;       // to the end of its paused timer; infinite: not set
    double waited = 0.0;       // seconds of earlier pauses
};

// All that an execution needs to go on in another run. Times are absolute.
struct SavedExecution {
    Step step = Step::dispatch;
    bool draws = false;
    bool until_stop = false;
    bool refused = false;    // the store had no space for the present file
    bool transfers = false;  // whether a file is on its way: `transfer`
    std::uint32_t fragment = 0;
    std::uint32_t halted = 0;
    std::uint32_t files = 0;  // of the present step, that are moved or on their way
    std::uint64_t rank = 0;
    double placed = 0.0;   // when it got its machines
    double until = never;  // of its timer; infinite: not set
    double stop = never;
    double work_begun = 0.0;
    double begun = 0.0;
    double length = 0.0;
    double rate = 0.0;
    double factor = 1.0;
    double stretch = 1.0;
    double speed = 1.0;
    double from = 0.0;
    double inside = 0.0;
    double overhead = 0.0;
    double demanded = 0.0;
    double waited = 0.0;
    double paused = never;
    double left = never;
    SavedTransfer transfer;
    // On shared machines, up to now: work done, consumption, and the remaining work on each
    // machine (NaN: none); and the energy that is not yet charged to the task.
    double done = 0.0;
    double used = 0.0;
    double energy = 0.0;
    std::vector<double> remaining;
};

// The activities of an execution, one per machine.
struct Activities {
    struct Member {
        MachineId machine = 0;
        ActivityId activity;
        double recorded = 0.0;  // consumption in the usage record
        double since = 0.0;     // time of that record
    };
    std::vector<Member> members;
    std::uint32_t left = 0;  // members that have not ended
    double done = 0.0;       // of the ended members
    double used = 0.0;
    double cost = 0.0;
};

// Live executions in reusable slots.
class Executions {
  public:
    static constexpr std::uint32_t no_slot = ~0U;

    [[nodiscard]] Execution& operator[](std::uint32_t slot) { return slots_[slot]; }
    [[nodiscard]] const Execution& operator[](std::uint32_t slot) const { return slots_[slot]; }
    [[nodiscard]] Activities& activities(std::uint32_t slot) { return activities_[slot]; }
    [[nodiscard]] const Activities& activities(std::uint32_t slot) const {
        return activities_[slot];
    }

    // A slot for the task; `make_timer(slot)` is called for a new slot.
    template <class MakeTimer>
    std::uint32_t open(TaskId task, bool shared, MakeTimer&& make_timer) {
        std::uint32_t slot;
        if (free_.empty()) {
            slot = static_cast<std::uint32_t>(slots_.size());
            slots_.emplace_back().timer = make_timer(slot);
            if (shared) activities_.emplace_back();
        } else {
            slot = free_.back();
            free_.pop_back();
        }
        Execution& execution = slots_[slot];
        const EventId timer = execution.timer;
        const EventId edge = execution.edge;
        execution = {};
        execution.task = task;
        execution.timer = timer;
        execution.edge = edge;
        return slot;
    }
    // From now on, executions may have activities.
    void share() { activities_.resize(slots_.size()); }
    void close(std::uint32_t slot) {
        slots_[slot].task = no_task;
        free_.push_back(slot);
    }

  private:
    std::vector<Execution> slots_;
    std::vector<Activities> activities_;  // only where machines are shared
    std::vector<std::uint32_t> free_;
};

}  // namespace twinloop
