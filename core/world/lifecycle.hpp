// The life of tasks from submission to end, apart from their executions.
#pragma once

#include <span>

#include "world/state.hpp"

namespace twinloop {

class Lifecycle {
  public:
    explicit Lifecycle(WorldState& world) : world_(world) {}

    // A task is submitted now, unless it has ended or was submitted before.
    void submit(TaskId task);
    // A task ends with that status; tasks that can never run end with it. `seen`: the scheduler
    // knows of it already, so that the children of a completed task may start.
    void conclude(TaskId task, Status status, double at, bool seen = true);
    // The children of a completed task wait for one task less, as soon as a workflow manager, if
    // there is one, has learnt of its end.
    void free_children(TaskId task);
    // The workflow manager has handed over jobs that are due now, or learns of ends that are.
    void end_submissions();
    void report_ends();
    // A task that was added depends on others. Returns the status with which it ends because one of
    // them has ended and did not complete; otherwise none.
    Status add_parents(TaskId child, std::span<const TaskId> parents);

    // The run time that the scheduler plans with.
    [[nodiscard]] double plan(TaskId task) const;

  private:
    // A task may start from now on.
    void make_ready(TaskId task);
    void submit_job(TaskId task);
    void free_now(TaskId task);
    void set_timer(EventId timer, const DelayedTasks& delayed);
    bool end(TaskId task, Status status, double at);
    void conclude_children(TaskId task, Status status, double at);
    [[nodiscard]] Status status_of_child(TaskId child, Status parent) const;

    WorldState& world_;
};

}  // namespace twinloop
