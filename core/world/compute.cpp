#include "world/compute.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernel/ordinal.hpp"
#include "world/checkpoints.hpp"

namespace twinloop {

// --- steps --------------------------------------------------------------------------------------

// What follows from the placement and from the table of tasks.
inline void Compute::set_table(Execution& execution, const Task& task) {
    const std::span<const Part> parts = world_.scheduler.parts(execution.task);
    execution.cores = world_.scheduler.placed_cores(execution.task, parts);
    if (task.moldable)
        execution.expansion = execution.cores / task.request.cores *
                              world_.scheduler.time_scale(execution.task, parts);
    // Rounding of fractional cores may leave a share that is not 1.
    if (parts.size() == 1 && parts.front().count == 1 && parts.front().cores == execution.cores)
        execution.machine = parts.front().machine;
    if (task.fragments == 0) return;
    execution.fragments = world_.scheduler.tasks().fragments(execution.task).data();
    execution.fragment_count = task.fragments;
}

void Compute::begin(std::uint32_t slot) {
    Execution& execution = world_.executions[slot];
    const Task& task = world_.task(execution.task);
    execution.step = Step::compute;
    execution.work_begun = world_.now();
    set_table(execution, task);
    execution.speed = world_.fleet.slowest_of(world_.scheduler.parts(execution.task));
    execution.stretch = world_.stretch(task, execution.speed);
    execution.factor = world_.time_factor(task, execution.stretch);
    if (task.moldable) {
        // Each core is used as on the requested cores, for another time.
        execution.stretch *= execution.cores / task.request.cores;
        execution.factor *=
            world_.scheduler.time_scale(execution.task, world_.scheduler.parts(execution.task));
    }
    double from = world_.saved.empty() ? 0.0 : world_.saved[execution.task];
    execution.from = from;
    execution.fragment = 0;
    if (task.fragments > 0)
        while (!is_last(execution) && from >= execution.fragments[execution.fragment].duration)
            from -= execution.fragments[execution.fragment++].duration;
    const Checkpoints checkpoints(world_.options());
    if (checkpoints.active())
        execution.overhead =
            checkpoints.overhead((task.length - execution.from) * execution.factor);
    begin_fragment(slot, from, true);
}

void Compute::save(std::uint32_t slot, SavedExecution& saved) const {
    const Execution& execution = world_.executions[slot];
    saved.draws = execution.draws;
    saved.fragment = execution.fragment;
    saved.work_begun = execution.work_begun;
    saved.begun = execution.begun;
    saved.length = execution.length;
    saved.rate = execution.rate;
    saved.factor = execution.factor;
    saved.stretch = execution.stretch;
    saved.speed = execution.speed;
    saved.from = execution.from;
    saved.inside = execution.inside;
    saved.overhead = execution.overhead;
    saved.demanded = execution.demanded;
    saved.energy = energy(slot);
    if (!world_.is_shared()) return;
    const Activities& activities = world_.executions.activities(slot);
    saved.used = activities.used;
    if (!execution.draws) return;
    // Without delay, the work of an activity has no end.
    if (world_.sharing == SharingMode::delay) saved.done = done(slot);
    for (const Activities::Member& each : activities.members) {
        const bool alive = world_.simulation.alive(each.activity);
        if (alive) saved.used += world_.simulation.consumed(each.activity);
        saved.remaining.push_back(alive ? world_.simulation.remaining(each.activity) : unknown);
    }
}

void Compute::restore(std::uint32_t slot, const SavedExecution& saved) {
    Execution& execution = world_.executions[slot];
    set_table(execution, world_.task(execution.task));
    execution.draws = saved.draws;
    execution.fragment = saved.fragment;
    execution.work_begun = saved.work_begun;
    execution.begun = saved.begun;
    execution.length = saved.length;
    execution.rate = saved.rate;
    execution.factor = saved.factor;
    execution.stretch = saved.stretch;
    execution.speed = saved.speed;
    execution.from = saved.from;
    execution.inside = saved.inside;
    execution.overhead = saved.overhead;
    execution.demanded = saved.demanded;
    if (!world_.is_shared()) {
        world_.tasks.edit(execution.task).energy += saved.energy;
        set_rate(execution, execution.rate);
        return;
    }
    Activities& activities = world_.executions.activities(slot);
    activities = {};
    activities.done = saved.done;
    activities.used = saved.used;
    activities.cost = saved.energy;
    std::size_t place = 0;
    for (const Part& part : world_.scheduler.parts(execution.task))
        for (MachineId m = part.machine; m < part.machine + part.count; ++m) {
            if (place == saved.remaining.size()) return;
            const double work = saved.remaining[place++];
            if (std::isnan(work)) continue;
            activities.members.push_back({m, launch(slot, part, m, work), 0.0, world_.now()});
            ++activities.left;
        }
}

SavedExecution Compute::save_unshared(std::uint32_t slot) {
    Execution& execution = world_.executions[slot];
    set_rate(execution, 0.0);
    SavedExecution saved;
    save(slot, saved);
    const bool no_delay = world_.options().no_delay;
    const double elapsed = clock(execution) - execution.begun;
    saved.draws = no_delay || execution.rate > 0;
    saved.until = saved.draws && !no_delay
                      ? execution.stop
                      : std::min(execution.begun + execution.length, execution.stop);
    saved.done = elapsed * execution.rate;
    saved.used = no_delay ? saved.done
                          : work_between(execution.task, execution.from, reached(slot)) *
                                    execution.expansion +
                                checkpointing(slot) * execution.rate;
    if (!saved.draws) return saved;
    const double work =
        no_delay ? never : std::max(0.0, execution.length - elapsed) * execution.rate;
    for (const Part& part : world_.scheduler.parts(execution.task))
        saved.remaining.insert(saved.remaining.end(), part.count,
                               work * part.share_of(execution.cores));
    return saved;
}

void Compute::begin_again(std::uint32_t slot) {
    Execution& execution = world_.executions[slot];
    const double got = reached(slot);
    stop(slot, world_.scheduler.parts(execution.task));
    execution.draws = false;
    execution.demanded = 0.0;
    world_.simulation.stop_timer(execution.timer);
    world_.save_work(execution.task, got);
    begin(slot);
}

std::uint64_t Compute::first_tag(std::uint32_t slot) const {
    if (!world_.executions[slot].draws) return 0;
    for (const Activities::Member& each : world_.executions.activities(slot).members)
        if (world_.simulation.alive(each.activity))
            return world_.simulation.activity(each.activity).tag;
    return 0;
}

void Compute::next(std::uint32_t slot) {
    ++world_.executions[slot].fragment;
    begin_fragment(slot, 0.0, false);
}

// `from`: recorded seconds of the fragment that earlier executions have completed.
void Compute::begin_fragment(std::uint32_t slot, double from, bool first) {
    Execution& execution = world_.executions[slot];
    Fragment fragment;
    if (execution.fragment_count > 0) {
        fragment = execution.fragments[execution.fragment];
        // Other executions run before the next fragment of this one.
        prefetch(execution.fragments +
                 std::min(execution.fragment + 4, execution.fragment_count - 1));
    } else {
        const Task& task = world_.task(execution.task);
        fragment = {task.length, task.limit};
    }
    const double now = world_.now();
    if (world_.sharing == SharingMode::no_delay && execution.draws)
        execution.demanded += execution.rate * (now - execution.begun);
    execution.begun = now;
    execution.inside = from;
    execution.length = std::max(0.0, fragment.duration - from) * execution.factor +
                       (is_last(execution) ? execution.overhead : 0.0);
    execution.rate = fragment.rate * execution.stretch;
    const double end = std::min(now + execution.length, execution.stop);
    switch (world_.sharing) {
        case SharingMode::exclusive:
            set_rate(execution, execution.rate);
            set_timer(execution, end, !first);
            break;
        case SharingMode::no_delay:
            if (execution.draws) {
                set_limits(slot);
            } else {
                start_activities(slot, never);
            }
            set_timer(execution, end, !first);
            break;
        case SharingMode::delay:
            // A step without work has a timer, so that it ends before machines change.
            execution.draws = execution.rate > 0 && execution.length > 0;
            if (execution.draws) start_activities(slot, execution.length * execution.rate);
            if (!execution.draws) {
                set_timer(execution, end, false);
            } else if (execution.stop < never) {
                set_timer(execution, execution.stop, false);
            }
            break;
    }
}

bool Compute::has_ended(std::uint32_t slot) const {
    const Execution& execution = world_.executions[slot];
    // The timer of an execution that draws on shared machines is that of its kill.
    if (world_.sharing == SharingMode::delay && execution.draws) return false;
    return world_.now() >= execution.begun + execution.length;
}

void Compute::set_timer(Execution& execution, double time, bool keep_rank) {
    // Among simultaneous ends, consecutive fragments keep the rank of the first.
    if (!keep_rank) execution.rank = world_.simulation.next_rank();
    world_.simulation.set_timer(execution.timer, time, execution.rank);
}

void Compute::pause(std::uint32_t slot) {
    Execution& execution = world_.executions[slot];
    if (!world_.is_shared()) {
        set_rate(execution, 0.0);
    } else if (execution.draws) {
        for (const Activities::Member& each : world_.executions.activities(slot).members)
            if (world_.simulation.alive(each.activity)) world_.simulation.suspend(each.activity);
    }
}

void Compute::resume(std::uint32_t slot) {
    Execution& execution = world_.executions[slot];
    if (!world_.is_shared()) {
        set_rate(execution, execution.rate);
    } else if (execution.draws) {
        for (const Activities::Member& each : world_.executions.activities(slot).members)
            if (world_.simulation.alive(each.activity)) world_.simulation.resume(each.activity);
    }
}

void Compute::stop(std::uint32_t slot, std::span<const Part> parts) {
    Execution& execution = world_.executions[slot];
    if (execution.step != Step::compute) return;
    TaskRun& task = world_.tasks.edit(execution.task);
    const double work = work_between(execution.task, execution.from, reached(slot));
    task.done += work;
    if (world_.sharing == SharingMode::exclusive) {
        task.used +=
            (work * execution.expansion + checkpointing(slot) * execution.rate) / execution.speed;
        set_rate(execution, 0.0, parts);
        return;
    }
    const double pauses = checkpointing(slot) * execution.rate;
    cancel_activities(slot);
    Activities& activities = world_.executions.activities(slot);
    const double used = std::exchange(activities.used, 0.0);
    task.energy += std::exchange(activities.cost, 0.0);
    if (world_.sharing == SharingMode::delay) {
        task.used += used / execution.speed;
        return;
    }
    const double demanded =
        execution.demanded + execution.rate * (clock(execution) - execution.begun);
    const double lost = demanded - used;
    // Of the work and of the pauses for checkpoints, the same share is lost.
    const double consumed = work * execution.expansion;
    task.done -= (pauses > 0 ? lost * consumed / (consumed + pauses) : lost) / execution.expansion;
    task.used += (consumed + pauses - lost) / execution.speed;
}

// --- shared machines ----------------------------------------------------------------------------

// The work and the limit of an activity follow the cores on its machine. So does its weight, except
// without delay, where all tasks on a machine have equal claims.
void Compute::start_activities(std::uint32_t slot, double work) {
    Execution& execution = world_.executions[slot];
    Activities& activities = world_.executions.activities(slot);
    activities.members.clear();
    activities.left = 0;
    activities.done = 0.0;
    execution.draws = true;
    for (const Part& part : world_.scheduler.parts(execution.task)) {
        const double share = part.share_of(execution.cores);
        for (MachineId m = part.machine; m < part.machine + part.count; ++m) {
            activities.members.push_back(
                {m, launch(slot, part, m, work * share), 0.0, world_.now()});
            ++activities.left;
        }
    }
}

// Starts the next activity of an execution.
ActivityId Compute::launch(std::uint32_t slot, const Part& part, MachineId machine, double work) {
    const Execution& execution = world_.executions[slot];
    const Task& task = world_.task(execution.task);
    const bool weighted = world_.sharing == SharingMode::delay;
    ActivitySpec spec;
    spec.work = work;
    spec.limit = execution.rate * part.share_of(execution.cores);
    spec.weight = weighted && part.cores > 0 ? part.cores : 1.0;
    spec.kind = task.kind;
    spec.start = world_.now();
    spec.token = (static_cast<std::uint64_t>(slot) << 32 |
                  world_.executions.activities(slot).members.size()) +
                 1;
    const ResourceId route[] = {world_.resource_of(machine)};
    return world_.simulation.launch(spec, route);
}

void Compute::set_limits(std::uint32_t slot) {
    const Execution& execution = world_.executions[slot];
    std::size_t place = 0;
    for (const Part& part : world_.scheduler.parts(execution.task))
        for (std::uint32_t i = 0; i < part.count; ++i)
            world_.simulation.set_limit(
                world_.executions.activities(slot).members[place++].activity,
                execution.rate * part.share_of(execution.cores));
}

void Compute::cancel_activities(std::uint32_t slot) {
    if (!world_.executions[slot].draws) return;
    // Each cancellation calls `end_activity`.
    const Activities& activities = world_.executions.activities(slot);
    for (std::size_t i = 0; i < activities.members.size(); ++i)
        if (world_.simulation.alive(activities.members[i].activity))
            world_.simulation.cancel(activities.members[i].activity);
}

bool Compute::end_activity(std::uint32_t slot, std::uint32_t member, Ending how,
                           const Final& figures) {
    Activities& activities = world_.executions.activities(slot);
    activities.done += figures.done;
    activities.used += figures.consumed;
    activities.cost += figures.cost;
    if (world_.records.usage) record_member(*world_.records.usage, slot, member, figures.consumed);
    return --activities.left == 0 && how == Ending::finished;
}

double Compute::done(std::uint32_t slot) const {
    const Activities& activities = world_.executions.activities(slot);
    double total = activities.done;
    for (const Activities::Member& each : activities.members)
        if (world_.simulation.alive(each.activity))
            total += world_.simulation.work_done(each.activity);
    return total;
}

// --- exclusive machines -------------------------------------------------------------------------

// The common case of the following.
void Compute::meter_single_rate(Execution& execution, double rate) {
    const MachineId metered = world_.fleet.metered_by(execution.machine);
    Meter& meter = world_.fleet.meter(metered);
    meter.advance(world_.now());
    world_.tasks.edit(execution.task).energy += execution.metered * meter.price - execution.mark;
    execution.mark = rate * meter.price;
    meter.change(execution.metered, rate);
    execution.metered = rate;
    if (world_.records.recording.use) world_.record_use(metered);
}

void Compute::meter_rate(Execution& execution, double rate, std::span<const Part> parts) {
    if (world_.records.usage) record_exclusive(*world_.records.usage, execution, parts);
    const bool recorded = world_.records.recording.use;
    if (!world_.fleet.metered() && !recorded) {
        execution.metered = rate;
        return;
    }
    const double now = world_.now();
    double charged = 0.0;
    double mark = 0.0;
    for (const Part& part : parts) {
        const double share = part.share_of(execution.cores);
        for (MachineId m = part.machine; m < part.machine + part.count; ++m) {
            const MachineId metered = world_.fleet.metered_by(m);
            Meter& meter = world_.fleet.meter(metered);
            meter.advance(now);
            charged += execution.metered * share * meter.price;
            mark += rate * share * meter.price;
            meter.change(execution.metered * share, rate * share);
            if (recorded) world_.record_use(metered);
        }
    }
    world_.tasks.edit(execution.task).energy += charged - execution.mark;
    execution.mark = mark;
    execution.metered = rate;
}

double Compute::energy(std::uint32_t slot) const {
    const Execution& execution = world_.executions[slot];
    if (execution.step != Step::compute) return 0.0;
    if (world_.is_shared()) {
        const Activities& activities = world_.executions.activities(slot);
        double total = activities.cost;
        for (const Activities::Member& each : activities.members)
            if (world_.simulation.alive(each.activity))
                total += world_.simulation.cost(each.activity);
        return total;
    }
    if (!world_.fleet.metered()) return 0.0;
    double total = -execution.mark;
    for (const Part& part : world_.scheduler.parts(execution.task))
        for (MachineId m = part.machine; m < part.machine + part.count; ++m) {
            Meter meter = world_.fleet.meter(world_.fleet.metered_by(m));
            meter.advance(world_.now());
            total += execution.metered * part.share_of(execution.cores) * meter.price;
        }
    return total;
}

// --- progress -----------------------------------------------------------------------------------

// Seconds for which the execution has drawn on its machines at its own rate.
double Compute::effort(std::uint32_t slot) const {
    const Execution& execution = world_.executions[slot];
    if (world_.sharing != SharingMode::delay) return clock(execution) - execution.work_begun;
    const double before = passed(execution) + execution.inside - execution.from;
    const double here =
        execution.draws ? done(slot) / execution.rate : clock(execution) - execution.begun;
    return before * execution.factor + here;
}

// Seconds spent on checkpoints; where demand varies, these come at the end.
double Compute::checkpointing(std::uint32_t slot) const {
    const Execution& execution = world_.executions[slot];
    if (execution.overhead == 0.0 || !is_last(execution)) return 0.0;
    if (world_.task(execution.task).fragments > 0)
        return std::max(
            0.0, clock(execution) - execution.begun - (execution.length - execution.overhead));
    const double spent = effort(slot);
    return spent - Checkpoints(world_.options()).work_in(spent);
}

double Compute::reached(std::uint32_t slot) const {
    const Execution& execution = world_.executions[slot];
    if (execution.step == Step::write) return world_.task(execution.task).length;
    if (execution.step != Step::compute)
        return world_.saved.empty() ? 0.0 : world_.saved[execution.task];
    const Task& task = world_.task(execution.task);
    if (task.fragments == 0) {
        const double spent = effort(slot);
        if (spent >= execution.length) return task.length;
        return std::min(task.length, execution.from + Checkpoints(world_.options()).work_in(spent) /
                                                          execution.factor);
    }
    const double whole = execution.fragments[execution.fragment].duration;
    double elapsed = clock(execution) - execution.begun;
    if (world_.sharing == SharingMode::delay && execution.draws)
        elapsed = done(slot) / execution.rate;
    // The checkpoints at the end of the work are not part of it.
    const double here = execution.length > 0 && elapsed >= execution.length
                            ? whole
                            : execution.inside + elapsed / execution.factor;
    return passed(execution) + std::min(here, whole);
}

// Recorded seconds before the current fragment.
double Compute::passed(const Execution& execution) {
    double seconds = 0.0;
    for (std::uint32_t i = 0; i < execution.fragment; ++i)
        seconds += execution.fragments[i].duration;
    return seconds;
}

double Compute::kept(std::uint32_t slot, Interrupted then) const {
    if (then != Interrupted::resume) return 0.0;
    const Execution& execution = world_.executions[slot];
    const double got = reached(slot);
    const Checkpoints checkpoints(world_.options());
    if (!checkpoints.active() || execution.step != Step::compute) return got;
    return std::min(got, execution.from + checkpoints.saved_in(effort(slot)) / execution.factor);
}

double Compute::work_between(TaskId id, double from, double to) const {
    const Task& task = world_.task(id);
    if (task.fragments == 0) {
        const bool whole = to - from == task.length || !(task.length > 0);
        const double share = whole ? 1.0 : (to - from) / task.length;
        return (share == 1.0 ? task.work : task.work * share) * world_.service_factor(task);
    }
    double at = 0.0;
    double work = 0.0;
    for (const Fragment& each : world_.scheduler.tasks().fragments(id)) {
        const double covered = std::min(at + each.duration, to) - std::max(at, from);
        if (covered > 0) work += covered * each.rate;
        at += each.duration;
    }
    return work * world_.service_factor(task);
}

// --- the usage record ---------------------------------------------------------------------------

void Compute::open_usage(std::uint32_t slot, std::span<const Part> parts) {
    if (!world_.records.usage) return;
    Execution& execution = world_.executions[slot];
    std::vector<Part> labelled;
    execution.usage =
        world_.records.usage->open(execution.task, world_.label(parts, labelled), world_.now());
    execution.recorded = world_.now();
    open_windows(slot);
}

void Compute::open_windows(std::uint32_t slot) {
    if (!world_.records.usage || !world_.is_shared()) return;
    Execution& execution = world_.executions[slot];
    if (execution.edge == none)
        execution.edge =
            world_.simulation.add_timer(EventKind::timer, make_token(Subject::usage, slot));
    set_window_timer(*world_.records.usage, execution);
}

void Compute::set_window_timer(const UsageLog& usage, const Execution& execution) {
    const double start = usage.rows()[execution.usage].start;
    const double step = usage.step();
    double window = std::floor((world_.now() - start) / step) + 1;
    if (start + window * step <= world_.now()) ++window;
    // A window shorter than the resolution of the time must not stop the clock.
    world_.simulation.set_timer(execution.edge,
                                std::max(start + window * step, next_larger(world_.now())));
    ++world_.usage_timers;
}

void Compute::close_usage(std::uint32_t slot, std::span<const Part> parts) {
    if (!world_.records.usage) return;
    const Execution& execution = world_.executions[slot];
    if (world_.is_shared() && world_.simulation.timer_set(execution.edge)) {
        world_.simulation.stop_timer(execution.edge);
        --world_.usage_timers;
    }
    world_.records.usage->close(execution.usage, parts, world_.now());
}

void Compute::record_window(std::uint32_t slot) {
    --world_.usage_timers;
    if (!world_.records.usage) return;
    UsageLog& usage = *world_.records.usage;
    const Execution& execution = world_.executions[slot];
    if (execution.step == Step::compute && execution.draws) {
        const Activities& activities = world_.executions.activities(slot);
        for (std::uint32_t i = 0; i < activities.members.size(); ++i)
            if (world_.simulation.alive(activities.members[i].activity))
                record_member(usage, slot, i,
                              world_.simulation.consumed(activities.members[i].activity));
    }
    set_window_timer(usage, execution);
}

// The consumption since the last record lies within one window.
void Compute::record_member(UsageLog& usage, std::uint32_t slot, std::uint32_t member,
                            double consumed) {
    const Execution& execution = world_.executions[slot];
    Activities::Member& each = world_.executions.activities(slot).members[member];
    const double elapsed = world_.now() - each.since;
    if (elapsed <= 0) return;
    const double rate = (consumed - each.recorded) / elapsed / execution.speed;
    usage.add(execution.usage + member, rate, each.since, world_.now());
    each.recorded = consumed;
    each.since = world_.now();
}

void Compute::record_exclusive(UsageLog& usage, Execution& execution, std::span<const Part> parts) {
    const double since = std::exchange(execution.recorded, world_.now());
    if (execution.metered == 0) return;
    std::size_t row = execution.usage;
    for (const Part& part : parts) {
        const double rate = execution.metered * part.share_of(execution.cores) / execution.speed;
        for (std::uint32_t i = 0; i < part.count; ++i) usage.add(row++, rate, since, world_.now());
    }
}

}  // namespace twinloop
