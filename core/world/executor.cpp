#include "world/executor.hpp"

#include <algorithm>
#include <cmath>

namespace twinloop {
namespace {

bool is_transfer(Step step) { return step == Step::read || step == Step::write; }

}  // namespace

std::uint32_t Executor::open(TaskId task) {
    const std::uint32_t slot =
        world_.executions.open(task, world_.is_shared(), [&](std::uint32_t made) {
            return world_.simulation.add_timer(EventKind::step,
                                               make_token(Subject::execution, made));
        });
    world_.tasks.edit(task).slot = slot;
    return slot;
}

void Executor::set_delay(std::uint32_t slot, Step step, double until) {
    Execution& execution = world_.executions[slot];
    execution.step = step;
    execution.rank = world_.simulation.next_rank();
    world_.simulation.set_timer(execution.timer, until, execution.rank);
}

void Executor::start(TaskId task) {
    const std::uint32_t slot = open(task);
    if (world_.values.dispatch_latency > 0) {
        set_delay(slot, Step::dispatch, world_.now() + world_.values.dispatch_latency);
    } else {
        begin_execution(slot);
    }
}

void Executor::begin_execution(std::uint32_t slot) {
    Execution& execution = world_.executions[slot];
    const TaskId id = execution.task;
    TaskRun& task = world_.tasks.edit(id);
    const double now = world_.now();
    if (task.attempts == 0) task.start = now;
    task.last_start = now;
    task.last_end = unknown;
    ++task.attempts;
    const std::span<const Part> parts = world_.scheduler.parts(id);
    if (world_.records.recording.machines && !parts.empty())
        world_.records.last_machines.edit(id) =
            world_.label(std::ranges::min(parts, {}, &Part::machine).machine);
    compute_.open_usage(slot, parts);
    if (world_.options().kill) {
        const double asked = world_.task(id).request.time;
        const double spent = world_.spent.empty() ? 0.0 : world_.spent[id];
        if (!std::isnan(asked))
            execution.stop =
                now + std::max(0.0, asked - spent) * world_.scheduler.time_scale(id, parts);
    }
    if (world_.values.startup_overhead > 0) {
        set_delay(slot, Step::startup,
                  std::min(now + world_.values.startup_overhead, execution.stop));
    } else {
        begin_work(slot);
    }
}

void Executor::begin_work(std::uint32_t slot) {
    if (world_.has_files()) {
        begin_transfers(slot, Step::read);
    } else {
        compute_.begin(slot);
    }
}

void Executor::begin_transfers(std::uint32_t slot, Step step) {
    const Staging::Progress progress = staging_.begin(slot, step);
    const double stop = world_.executions[slot].stop;
    if (progress == Staging::Progress::begun && stop < never) set_delay(slot, step, stop);
    continue_transfers(slot, progress);
}

void Executor::end_transfer(std::uint32_t slot) { continue_transfers(slot, staging_.next(slot)); }

void Executor::continue_transfers(std::uint32_t slot, Staging::Progress progress) {
    const Execution& execution = world_.executions[slot];
    switch (progress) {
        case Staging::Progress::begun:
            break;
        case Staging::Progress::refused:
            // The end is an event of its own: the caller may be in the middle of a decision.
            set_delay(slot, execution.step, world_.now());
            break;
        case Staging::Progress::over:
            world_.simulation.stop_timer(execution.timer);
            if (execution.step == Step::read) {
                compute_.begin(slot);
            } else {
                end_execution(slot, Status::completed);
            }
            break;
    }
}

void Executor::end_transfers(std::uint32_t slot) {
    staging_.cancel(slot);
    staging_.release(slot);
}

void Executor::end_delay(std::uint32_t slot) {
    const Execution& execution = world_.executions[slot];
    switch (execution.step) {
        case Step::dispatch:
            begin_execution(slot);
            break;
        case Step::startup:
            if (world_.now() >= execution.stop) {
                end_execution(slot, Status::killed);
            } else {
                begin_work(slot);
            }
            break;
        case Step::read:
        case Step::write:
            end_execution(slot, staging_.is_refused(slot) ? Status::failed : Status::killed);
            break;
        case Step::compute:
            // A task that ends at the time of its kill has completed.
            if (compute_.has_ended(slot)) {
                end_compute_step(slot);
            } else {
                end_execution(slot, Status::killed);
            }
            break;
        case Step::release:
            release(slot);
            break;
    }
}

void Executor::pause(std::uint32_t slot) {
    Execution& execution = world_.executions[slot];
    execution.paused = world_.now();
    execution.left = never;
    if (world_.simulation.timer_set(execution.timer)) {
        const double end = world_.simulation.timer_time(execution.timer);
        execution.left = end - world_.now();
        execution.until_stop = end == execution.stop && end != execution.begun + execution.length;
        world_.simulation.stop_timer(execution.timer);
    }
    pause_activities(slot);
}

void Executor::pause_activities(std::uint32_t slot) {
    if (world_.executions[slot].step == Step::compute) compute_.pause(slot);
    if (world_.has_files()) staging_.pause(slot);
}

void Executor::resume(std::uint32_t slot) {
    Execution& execution = world_.executions[slot];
    const double gap = world_.now() - execution.paused;
    execution.paused = never;
    execution.waited += gap;
    execution.begun += gap;
    execution.work_begun += gap;
    execution.stop += gap;
    if (execution.left < never) {
        // The expressions of the ends to which the timers are compared when they fire.
        double end = world_.now() + execution.left;
        if (execution.until_stop) end = execution.stop;
        else if (execution.step == Step::compute) end = execution.begun + execution.length;
        world_.simulation.set_timer(execution.timer, end, execution.rank);
    }
    if (execution.step == Step::compute) compute_.resume(slot);
    if (world_.has_files()) staging_.resume(slot);
}

void Executor::change_speed(std::uint32_t slot) {
    const Execution& execution = world_.executions[slot];
    if (execution.step != Step::compute) return;
    const bool paused = execution.halted > 0;
    if (paused) resume(slot);
    compute_.begin_again(slot);
    if (paused) pause(slot);
}

void Executor::reroute(std::uint32_t slot) {
    if (!is_transfer(world_.executions[slot].step) || staging_.reroute(slot)) return;
    refuse_transfer(slot);
}

void Executor::refuse_transfer(std::uint32_t slot) {
    Execution& execution = world_.executions[slot];
    staging_.refuse(slot);
    if (execution.halted > 0) {
        execution.left = 0.0;
        execution.until_stop = false;
    } else {
        set_delay(slot, execution.step, world_.now());
    }
}

void Executor::end_shared_step(std::uint32_t slot) {
    world_.simulation.stop_timer(world_.executions[slot].timer);
    end_compute_step(slot);
}

void Executor::end_compute_step(std::uint32_t slot) {
    if (!Compute::is_last(world_.executions[slot])) {
        compute_.next(slot);
    } else if (world_.has_files()) {
        compute_.stop(slot, world_.scheduler.parts(world_.executions[slot].task));
        begin_transfers(slot, Step::write);
    } else {
        end_execution(slot, Status::completed);
    }
}

void Executor::end_execution(std::uint32_t slot, Status status) {
    const TaskId task = world_.executions[slot].task;
    const std::span<const Part> parts = world_.scheduler.parts(task);
    if (world_.has_files()) end_transfers(slot);
    compute_.stop(slot, parts);
    record(slot,
           status == Status::killed   ? Reason::killed
           : status == Status::failed ? Reason::failed
                                      : Reason::completed,
           parts);
    const bool later = world_.values.release_latency > 0;
    lifecycle_.conclude(task, status, world_.now(), !later);
    if (later) {
        world_.scheduler.set_ending(task);
        set_delay(slot, Step::release, world_.now() + world_.values.release_latency);
    } else {
        release(slot);
    }
}

void Executor::release(std::uint32_t slot) {
    const TaskId task = world_.executions[slot].task;
    const bool unseen = world_.executions[slot].step == Step::release;
    close(slot);
    world_.scheduler.end(task);
    if (unseen && world_.tasks[task].status == Status::completed) lifecycle_.free_children(task);
}

void Executor::close(std::uint32_t slot) {
    world_.tasks.edit(world_.executions[slot].task).slot = Executions::no_slot;
    world_.executions.close(slot);
    world_.call = true;
}

void Executor::record(std::uint32_t slot, Reason reason, std::span<const Part> parts) {
    const TaskId id = world_.executions[slot].task;
    TaskRun& task = world_.tasks.edit(id);
    task.last_end = world_.now();
    compute_.close_usage(slot, parts);
    world_.occupied.add(world_.scheduler.placed_cores(id, parts) *
                        (task.last_end - task.last_start));
    if (!world_.records.recording.placements) return;
    std::vector<Part> labelled;
    world_.records.placements.add(id, task.attempts - 1, world_.label(parts, labelled),
                                  task.last_start, task.last_end, reason);
}

void Executor::interrupt(TaskId id, Reason reason, Interrupted then, std::span<const Part> parts) {
    TaskRun& task = world_.tasks.edit(id);
    const std::uint32_t slot = task.slot;
    const Execution& execution = world_.executions[slot];
    world_.simulation.stop_timer(execution.timer);
    if (execution.step != Step::release) {
        const double kept = compute_.kept(slot, then);
        if (world_.has_files()) end_transfers(slot);
        compute_.stop(slot, parts);
        const bool begun = execution.step != Step::dispatch;
        if (begun) record(slot, reason, parts);
        if (begun && reason != Reason::preempted) ++task.failures;
        // A preempted task that resumes continues its requested time; otherwise that starts anew.
        if (reason != Reason::preempted || then != Interrupted::resume) {
            if (!world_.spent.empty()) world_.spent.edit(id) = 0.0;
        } else if (world_.options().kill && begun) {
            world_.spent.resize(world_.tasks.size(), 0.0);
            world_.spent.edit(id) +=
                (compute_.clock(execution) - task.last_start - execution.waited) /
                world_.scheduler.time_scale(id, parts);
        }
        world_.save_work(id, kept);
    }
    close(slot);
}

void Executor::kill(TaskId task, std::span<const Part> parts) {
    if (world_.tasks[task].slot != Executions::no_slot)
        interrupt(task, Reason::killed, Interrupted::lost, parts);
    lifecycle_.conclude(task, Status::killed, world_.now());
}

void Executor::adopt(TaskId task, std::span<const Part> parts, double since) {
    world_.scheduler.adopt(task, parts, since);
    const std::uint32_t slot = open(task);
    Execution& execution = world_.executions[slot];
    const double asked = world_.task(task).request.time;
    if (world_.options().kill && !std::isnan(asked))
        execution.stop = since + asked * world_.scheduler.time_scale(task, parts);
    compute_.open_usage(slot, parts);
    compute_.begin(slot);
}

SavedExecution Executor::save(std::uint32_t slot) const {
    const Execution& execution = world_.executions[slot];
    SavedExecution saved;
    saved.step = execution.step;
    saved.placed = world_.scheduler.start_time(execution.task);
    if (world_.simulation.timer_set(execution.timer))
        saved.until = world_.simulation.timer_time(execution.timer);
    saved.rank = execution.rank;
    saved.stop = execution.stop;
    saved.waited = execution.waited;
    saved.halted = execution.halted;
    saved.paused = execution.paused;
    saved.left = execution.left;
    saved.until_stop = execution.until_stop;
    if (execution.step == Step::compute) compute_.save(slot, saved);
    if (is_transfer(execution.step)) staging_.save(slot, saved);
    return saved;
}

void Executor::restore(TaskId task, std::span<const Part> parts, const SavedExecution& saved) {
    world_.scheduler.adopt(task, parts, saved.placed);
    const std::uint32_t slot = open(task);
    Execution& execution = world_.executions[slot];
    execution.step = saved.step;
    execution.rank = saved.rank;
    execution.stop = saved.stop;
    execution.waited = saved.waited;
    execution.halted = saved.halted;
    execution.paused = saved.paused;
    execution.left = saved.left;
    execution.until_stop = saved.until_stop;
    world_.simulation.use_rank(saved.rank);
    if (saved.until < never)
        world_.simulation.set_timer(execution.timer, saved.until, execution.rank);
    if (saved.step == Step::release) world_.scheduler.set_ending(task);
    if (saved.step == Step::compute) compute_.restore(slot, saved);
    if (is_transfer(saved.step)) staging_.restore(slot, saved);
    if (saved.paused < never) pause_activities(slot);
}

std::pair<std::uint32_t, std::uint64_t> Executor::order(std::uint32_t slot) const {
    const Step step = world_.executions[slot].step;
    if (step == Step::compute) return {0, compute_.first_tag(slot)};
    return is_transfer(step) ? staging_.order(slot) : std::pair<std::uint32_t, std::uint64_t>();
}

}  // namespace twinloop
