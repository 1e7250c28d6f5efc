// Executions from placement to release: the order of their steps, and their ends.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "world/compute.hpp"
#include "world/lifecycle.hpp"
#include "world/staging.hpp"
#include "world/state.hpp"

namespace twinloop {

class Executor {
  public:
    explicit Executor(WorldState& world)
        : world_(world), compute_(world), staging_(world), lifecycle_(world) {}

    // A task has been placed on machines.
    void start(TaskId task);
    // A task has been running on these machines before the world began.
    void adopt(TaskId task, std::span<const Part> parts, double since);
    // The execution of a task, to go on in another run, and in that run.
    [[nodiscard]] SavedExecution save(std::uint32_t slot) const;
    void restore(TaskId task, std::span<const Part> parts, const SavedExecution& saved);
    // The order in which executions are restored: that of their activities, and then that of the
    // queues of stores (`Staging::order`).
    [[nodiscard]] std::pair<std::uint32_t, std::uint64_t> order(std::uint32_t slot) const;
    // The timer of an execution has fired.
    void end_delay(std::uint32_t slot);
    // All activities of an execution have finished.
    void end_shared_step(std::uint32_t slot);
    // A machine of an execution stops to provide its capacity, or provides it again: its step, with
    // all of its times, continues where it was.
    void pause(std::uint32_t slot);
    void resume(std::uint32_t slot);
    // A machine of an execution has another speed from now on.
    void change_speed(std::uint32_t slot);
    // Its machine, an instance, has moved to another host: files take another route.
    void reroute(std::uint32_t slot);
    // There is no route for its transfer any more, or no store: the task fails.
    void refuse_transfer(std::uint32_t slot);
    // A transfer of an execution has finished.
    void end_transfer(std::uint32_t slot);
    // The task of an execution is interrupted; it has left these machines already, or will now.
    void interrupt(TaskId task, Reason reason, Interrupted then, std::span<const Part> parts);
    // A task that waits or has left these machines is killed.
    void kill(TaskId task, std::span<const Part> parts);

  private:
    [[nodiscard]] std::uint32_t open(TaskId task);
    void begin_execution(std::uint32_t slot);
    void pause_activities(std::uint32_t slot);
    void begin_work(std::uint32_t slot);
    void begin_transfers(std::uint32_t slot, Step step);
    void end_transfers(std::uint32_t slot);
    void continue_transfers(std::uint32_t slot, Staging::Progress progress);
    void end_compute_step(std::uint32_t slot);
    void end_execution(std::uint32_t slot, Status status);
    void release(std::uint32_t slot);
    void close(std::uint32_t slot);
    void set_delay(std::uint32_t slot, Step step, double until);
    void record(std::uint32_t slot, Reason reason, std::span<const Part> parts);

    WorldState& world_;
    Compute compute_;
    Staging staging_;
    Lifecycle lifecycle_;
};

}  // namespace twinloop
