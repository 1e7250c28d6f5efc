#include "world/lifecycle.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>
#include <vector>

#include "world/checkpoints.hpp"

namespace twinloop {

double Lifecycle::plan(TaskId id) const {
    const Task& task = world_.task(id);
    const ModelValues& values = world_.values;
    const double asked = task.request.time;
    const double around = values.dispatch_latency + values.release_latency;
    if (world_.options().kill && !std::isnan(asked)) return asked + around;
    const double stretch = world_.stretch(task, world_.fleet.slowest());
    const double run = task.length * world_.time_factor(task, stretch);
    const double whole =
        run + Checkpoints(world_.options()).overhead(run) + values.startup_overhead;
    return (asked > whole ? asked : whole) + around;
}

void Lifecycle::submit(TaskId id) {
    TaskRun& task = world_.tasks.edit(id);
    if (task.status != Status::none || !std::isnan(task.submit)) return;
    task.submit = world_.now();
    if (task.missing_parents == 0 && !world_.asks_for_possible && !world_.delays_jobs()) {
        task.ready = task.submit;
        world_.scheduler.submit(id, plan(id));
        world_.call = true;
        return;
    }
    world_.scheduler.set_times(id, task.submit, plan(id));
    if (task.missing_parents == 0) make_ready(id);
}

void Lifecycle::make_ready(TaskId id) {
    if (world_.asks_for_possible && !world_.scheduler.is_possible(id)) {
        conclude(id, Status::rejected, world_.now());
        return;
    }
    world_.tasks.edit(id).ready = world_.now();
    if (world_.delays_jobs()) {
        submit_job(id);
    } else {
        world_.scheduler.submit(id);
        world_.call = true;
    }
}

// The workflow manager hands over one job after the other; each then takes its time by itself.
void Lifecycle::submit_job(TaskId id) {
    ManagerState& manager = world_.manager;
    manager.free_at = std::max(world_.now(), manager.free_at) + world_.values.submission_interval;
    manager.submitted.add(id, manager.free_at + world_.values.submission_before);
    set_timer(manager.submission, manager.submitted);
}

void Lifecycle::set_timer(EventId timer, const DelayedTasks& delayed) {
    if (delayed.empty()) world_.simulation.stop_timer(timer);
    else world_.simulation.set_timer(timer, std::max(delayed.next_time(), world_.now()));
}

void Lifecycle::end_submissions() {
    ManagerState& manager = world_.manager;
    while (manager.submitted.next_time() <= world_.now()) {
        const TaskId id = manager.submitted.take();
        if (world_.tasks[id].status != Status::none) continue;
        ++world_.events;
        world_.scheduler.submit(id);
        world_.call = true;
    }
    set_timer(manager.submission, manager.submitted);
}

void Lifecycle::report_ends() {
    ManagerState& manager = world_.manager;
    while (manager.ended.next_time() <= world_.now()) {
        ++world_.events;
        free_now(manager.ended.take());
    }
    set_timer(manager.end, manager.ended);
}

void Lifecycle::free_children(TaskId id) {
    const double delay = world_.options().managed ? world_.values.submission_after : 0.0;
    if (!(delay > 0)) {
        free_now(id);
    } else if (world_.scheduler.tasks().has_children(id)) {
        world_.manager.ended.add(id, world_.now() + delay);
        set_timer(world_.manager.end, world_.manager.ended);
    }
}

void Lifecycle::free_now(TaskId id) {
    world_.scheduler.tasks().each_child(id, [&](TaskId child) {
        if (world_.tasks[child].status != Status::none) return;
        TaskRun& task = world_.tasks.edit(child);
        if (--task.missing_parents == 0 && !std::isnan(task.submit)) make_ready(child);
    });
}

Status Lifecycle::add_parents(TaskId child, std::span<const TaskId> parents) {
    Status status = Status::none;
    for (const TaskId parent : parents) {
        world_.scheduler.add_child(parent, child);
        const TaskRun& mine = world_.tasks[parent];
        // The scheduler may not know yet that a task has completed.
        if (mine.status == Status::none ||
            (mine.status == Status::completed &&
             (mine.slot != Executions::no_slot || world_.manager.ended.has(parent)))) {
            ++world_.tasks.edit(child).missing_parents;
        } else if (mine.status != Status::completed && status != Status::rejected) {
            status = mine.status == Status::rejected ? Status::rejected : Status::failed;
        }
    }
    return status;
}

// The status of a child of a task that ended with that status, and did not complete.
Status Lifecycle::status_of_child(TaskId child, Status parent) const {
    if (parent == Status::rejected) return Status::rejected;
    const bool submitted = !std::isnan(world_.tasks[child].submit);
    return parent == Status::cancelled && !submitted ? Status::cancelled : Status::failed;
}

// Records the end of a task; false if it has ended before.
inline bool Lifecycle::end(TaskId id, Status status, double at) {
    TaskRun& task = world_.tasks.edit(id);
    if (task.status != Status::none) return false;
    task.status = status;
    task.ended_as = ++world_.ended;
    if (std::isnan(task.submit)) task.submit = world_.task(id).request.submit;
    if (status == Status::completed || status == Status::killed || status == Status::lost)
        task.end = at;
    --world_.open;
    // A source learns of a task that was rejected before the run when it submits it.
    if (world_.submitter.has_source() &&
        !(world_.task(id).rejected && id < world_.scenario->size()) &&
        world_.submitter.record_end(id, at, status))
        world_.set_submission_timer();
    return true;
}

void Lifecycle::conclude(TaskId id, Status status, double at, bool seen) {
    if (!end(id, status, at) || !world_.scheduler.tasks().has_children(id)) return;
    if (status != Status::completed) {
        conclude_children(id, status, at);
    } else if (seen) {
        free_children(id);
    }
}

// The children of a task that did not complete can never run, nor can theirs.
void Lifecycle::conclude_children(TaskId id, Status status, double at) {
    // A list instead of recursion, because chains of tasks are long.
    std::vector<std::pair<TaskId, Status>> more;
    for (;;) {
        world_.scheduler.tasks().each_child(id, [&, status = status](TaskId child) {
            if (world_.tasks[child].status == Status::none)
                more.emplace_back(child, status_of_child(child, status));
        });
        do {
            if (more.empty()) return;
            std::tie(id, status) = more.back();
            more.pop_back();
        } while (!end(id, status, at));
    }
}

}  // namespace twinloop
