#include "model/run.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

namespace twinloop {
namespace {

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
constexpr std::uint32_t no_slot = ~0U;
constexpr unsigned slot_bits = 24;
constexpr std::uint64_t slot_mask = (std::uint64_t{1} << slot_bits) - 1;

// The first multiple of the interval from that time on. A time that is a multiple but for rounding
// is one.
double next_multiple(double time, double interval) {
    const double near = std::round(time / interval) * interval;
    if (std::abs(near - time) <= 1e-12 * std::max(std::abs(time), interval)) return time;
    return std::ceil(time / interval) * interval;
}

}  // namespace

Run::Run(std::shared_ptr<const Problem> problem, std::shared_ptr<const Downs> downs, Values values,
         std::unique_ptr<Policy> policy, Recording recording)
    : problem_(std::move(problem)), downs_(std::move(downs)), values_(std::move(values)),
      policy_(std::move(policy)), recording_(recording), source_(*problem_),
      outcomes_(problem_->size(),
                {unknown, unknown, unknown, unknown, unknown, 0.0, 0.0, 0.0, 0, {}}),
      missing_parents_(problem_->parents), slot_of_(problem_->size(), no_slot),
      down_(problem_->machines.size(), 0), open_(problem_->size()) {
    make_requests();
    const double first = source_.next_time();
    begin_ = std::isfinite(first) ? first : 0.0;
    now_ = begin_;
    desk_.set_now(now_);
    meters_.resize(problem_->machines.size());
    for (MachineId m = 0; m < meters_.size(); ++m) {
        Meter& meter = meters_[m];
        meter.capacity =
            problem_->machines[m].cores * problem_->machines[m].speed * values_.speed_factor;
        meter.since = begin_;
        note_use(m);
    }
    set_power();
    if (recording_.machines) last_machines_.assign(problem_->size(), no_machine);
    const bool counted = recording_.usage_step < never;
    if (counted) usage_.emplace(recording_.usage_step, recording_.usage_rows);
    if (may_share() && problem_->no_delay) {
        loses_ = true;
        if (counted) missed_.assign(meters_.size(), {{begin_, 0.0}});
    } else if (may_share()) {
        std::vector<double> capacities;
        capacities.reserve(meters_.size());
        for (const Meter& meter : meters_) capacities.push_back(meter.capacity);
        const bool listed = problem_->metered() || counted;
        sharing_.emplace(values_.contention, capacities, begin_, listed || recording_.use, listed);
    }
    for (TaskId task = 0; task < problem_->size(); ++task)
        // One whose parent was rejected is over already.
        if (problem_->rejected[task] != 0 && outcomes_[task].status == Status::none) {
            outcomes_[task].submit = problem_->requests[task].submit;
            conclude(task, Status::rejected, now_);
        }
}

Run::Run(const Run& other)
    : problem_(other.problem_), downs_(other.downs_), values_(other.values_),
      policy_(other.policy_->clone()), recording_(other.recording_), desk_(other.desk_),
      source_(other.source_), now_(other.now_), begin_(other.begin_), asked_(other.asked_),
      decide_at_(other.decide_at_), events_(other.events_), sequence_(other.sequence_),
      outcomes_(other.outcomes_), saved_(other.saved_), spent_(other.spent_),
      missing_parents_(other.missing_parents_), lives_(other.lives_),
      free_lives_(other.free_lives_), slot_of_(other.slot_of_), transitions_(other.transitions_),
      meters_(other.meters_), down_(other.down_), next_down_(other.next_down_),
      outran_(other.outran_), ups_(other.ups_), sharing_(other.sharing_),
      placements_(other.placements_), use_(other.use_), resizes_(other.resizes_),
      decisions_(other.decisions_), states_(other.states_), last_machines_(other.last_machines_),
      usage_(other.usage_), missed_(other.missed_), stuck_(other.stuck_), in_vain_(other.in_vain_),
      last_events_(other.last_events_), occupied_(other.occupied_), open_(other.open_),
      slowest_(other.slowest_), loses_(other.loses_) {
    desk_.set_policy(policy_.get());
}

// --- what a scheduler is told -------------------------------------------------------------------

void Run::make_requests() {
    slowest_ = never;
    for (const MachineSpec& each : problem_->machines)
        slowest_ = std::min(slowest_, each.speed * values_.speed_factor);
    desk_ = problem_->make_desk(policy_.get(), values_.effective_capacity,
                                [&](TaskId task) { return plan(task); });
}

double Run::plan(TaskId task) const {
    const double asked = problem_->requests[task].time;
    const double around = values_.dispatch_latency + values_.release_latency;
    if (problem_->kill && !std::isnan(asked)) return asked + around;
    const double stretch = problem_->fixed_demand ? 1.0 : slowest_ / problem_->speed[task];
    const double run = problem_->length[task] * (service_factor(task) / stretch);
    const double whole = run + checkpoints(run) + values_.startup_overhead;
    return (asked > whole ? asked : whole) + around;
}

bool Run::may_share() const {
    const Problem& all = *problem_;
    if (all.contention->kind != ContentionRule::Kind::none || policy_->overcommits() ||
        values_.effective_capacity > 1)
        return true;
    double fewest = never;
    for (const MachineSpec& each : all.machines) fewest = std::min(fewest, each.cores);
    for (TaskId task = 0; task < all.size(); ++task)
        if (exceeds(all.requests[task].cores, all.limit[task], all.speed[task], fewest))
            return true;
    return false;
}

bool Run::exceeds(double cores, double limit, double speed, double fewest) const {
    const double most = policy_->spreads() ? cores : std::min(cores, fewest);
    return limit > most * (problem_->fixed_demand ? slowest_ : speed) * (1 + slack);
}

// --- time ---------------------------------------------------------------------------------------

double Run::next_time() {
    if (open_ == 0) return never;
    const auto alive = [&](const KeyHeap::Entry& entry) {
        return lives_[entry.tag & slot_mask].tag == entry.tag;
    };
    double time = std::min(source_.next_time(), decide_at_);
    if (const KeyHeap::Entry* next = transitions_.top(alive)) time = std::min(time, next->key);
    if (sharing_) time = std::min(time, sharing_->next_time());
    if (!ups_.empty()) time = std::min(time, ups_.front().key);
    if (asked_) return now_;
    if (desk_.must_decide()) {
        time = std::min(time, desk_.wake_time());
        const std::span<const double> ends = desk_.window_ends();
        if (!ends.empty()) time = std::min(time, ends.front());
    }
    // Machines that go help no task that waits: with nothing else to come the run is over. So its
    // end does not depend on how many failures are known.
    if (time == never) return never;
    if (next_down_ < downs_->list.size()) time = std::min(time, downs_->list[next_down_].start);
    return std::max(time, now_);
}

bool Run::step() {
    const double time = next_time();
    outran_ = time >= downs_->until && time < never;
    if (outran_ || (usage_ && usage_->full())) return false;
    if (time == never) {
        // What is left can never run: its machines are gone for good.
        for (TaskId task = 0; open_ > 0 && task < outcomes_.size(); ++task) {
            if (outcomes_[task].status != Status::none) continue;
            if (slot_of_[task] != no_slot) {
                const std::span<const Part> mine = desk_.parts(task);
                interrupt(task, Reason::failed, Interrupted::lost,
                          std::vector<Part>(mine.begin(), mine.end()));
                desk_.end(task);
            } else {
                desk_.withdraw(task);
            }
            conclude(task, Status::failed, now_);
        }
        return false;
    }
    stuck_ = time == now_ ? stuck_ + 1 : 0;
    if (stuck_ > 1000 + 10 * outcomes_.size())
        throw std::runtime_error("keeps returning decisions at the same time without progress");
    const bool window_ends = !desk_.window_ends().empty() && desk_.window_ends().front() <= time;
    now_ = time;
    desk_.set_now(time);
    const auto alive = [&](const KeyHeap::Entry& entry) {
        return lives_[entry.tag & slot_mask].tag == entry.tag;
    };
    take_finished();
    while (const KeyHeap::Entry* next = transitions_.top(alive)) {
        if (next->key > now_) break;
        ++events_;
        transition(static_cast<std::uint32_t>(next->tag & slot_mask));
    }
    switch_machines();
    if (source_.next_time() <= now_)
        source_.submit_due(*problem_, now_, [&](TaskId task) {
            ++events_;
            submit(task);
        });
    if (desk_.wake_time() <= now_ || window_ends) asked_ = true;
    if (asked_ || decide_at_ <= now_) decide();
    if (sharing_) update(*sharing_);
    return true;
}

void Run::run_until(double time) {
    outran_ = false;
    while (next_time() <= time)
        if (!step()) return;
    outran_ = time >= downs_->until && next_time() < never;
    if (outran_) return;
    if (time > now_ && std::isfinite(time)) {
        now_ = time;
        desk_.set_now(time);
        take_finished();
    }
}

void Run::extend(std::shared_ptr<const Downs> downs) {
    downs_ = std::move(downs);
    outran_ = false;
}

void Run::schedule(std::uint32_t slot, double time) {
    Live& live = lives_[slot];
    live.tag = ++sequence_ << slot_bits | slot;
    live.due = time;
    transitions_.push(time, live.tag);
}

// --- the life of a task ------------------------------------------------------------------------

void Run::submit(TaskId task) {
    Outcome& outcome = outcomes_[task];
    // A parent of it has failed before, or it was there when the run began.
    if (outcome.status != Status::none || !std::isnan(outcome.submit)) return;
    outcome.submit = now_;
    desk_.set_submit_time(task, now_);
    if (missing_parents_[task] == 0) make_ready(task);
}

void Run::make_ready(TaskId task) {
    outcomes_[task].ready = now_;
    desk_.submit(task);
    asked_ = true;
}

void Run::decide() {
    asked_ = false;
    const bool due = decide_at_ <= now_;
    if (due) decide_at_ = never;
    if (!desk_.must_decide()) return;
    if (values_.decision_interval > 0 && !due) {
        const double next = next_multiple(now_, values_.decision_interval);
        if (next > now_) {
            decide_at_ = std::min(decide_at_, next);
            if (desk_.wake_time() <= now_) desk_.clear_wake();
            return;
        }
    }
    try {
        desk_.decide();
    } catch (...) {
        // What was decided before holds: the desk shows it already.
        carry_out(desk_.decisions());
        throw;
    }
    const std::span<const Desk::Decision> made = desk_.decisions();
    in_vain_ = made.empty() && events_ == last_events_ ? in_vain_ + 1 : 0;
    last_events_ = events_;
    if (in_vain_ > 10'000)
        throw std::runtime_error("keeps requesting wake-ups while nothing else happens: task " +
                                 std::to_string(desk_.first_waiting()) + " waits forever");
    carry_out(made);
}

void Run::carry_out(std::span<const Desk::Decision> made) {
    for (const Desk::Decision& decision : made) {
        if (recording_.decisions) log_decision(decision);
        switch (decision.kind) {
            case Desk::Decision::Kind::place:
                start(decision.task);
                break;
            case Desk::Decision::Kind::preempt:
                interrupt(decision.task, Reason::preempted, problem_->after_preemption,
                          desk_.vacated(decision));
                break;
            case Desk::Decision::Kind::kill:
                kill(decision.task, desk_.vacated(decision));
                break;
            case Desk::Decision::Kind::open:
                set_off(decision.machine, false, 1);
                break;
            case Desk::Decision::Kind::close:
                set_off(decision.machine, true, 1);
                break;
            case Desk::Decision::Kind::reserve:
                break;
        }
    }
}

std::uint32_t Run::make_live(TaskId task) {
    std::uint32_t slot;
    if (free_lives_.empty()) {
        slot = static_cast<std::uint32_t>(lives_.size());
        lives_.emplace_back();
    } else {
        slot = free_lives_.back();
        free_lives_.pop_back();
    }
    lives_[slot] = {};
    lives_[slot].task = task;
    slot_of_[task] = slot;
    return slot;
}

// The desk has let go of it already.
void Run::kill(TaskId task, std::span<const Part> parts) {
    if (slot_of_[task] != no_slot) interrupt(task, Reason::killed, Interrupted::lost, parts);
    conclude(task, Status::killed, now_);
}

void Run::start(TaskId task) {
    const std::uint32_t slot = make_live(task);
    Live& live = lives_[slot];
    if (values_.dispatch_latency > 0) {
        live.stage = Stage::dispatching;
        schedule(slot, now_ + values_.dispatch_latency);
    } else {
        begin_execution(live, slot);
    }
}

void Run::begin_execution(Live& live, std::uint32_t slot) {
    Outcome& outcome = outcomes_[live.task];
    if (outcome.attempts == 0) outcome.start = now_;
    outcome.last_start = now_;
    outcome.last_end = unknown;
    ++outcome.attempts;
    const std::span<const Part> parts = desk_.parts(live.task);
    if (recording_.machines && !parts.empty())
        last_machines_[live.task] = std::ranges::min(parts, {}, &Part::machine).machine;
    if (usage_) live.usage = usage_->open(live.task, parts, now_);
    const double asked = problem_->requests[live.task].time;
    const double spent = spent_.empty() ? 0.0 : spent_[live.task];
    if (problem_->kill && !std::isnan(asked)) live.stop = now_ + std::max(0.0, asked - spent);
    if (values_.startup_overhead > 0) {
        live.stage = Stage::starting;
        schedule(slot, std::min(now_ + values_.startup_overhead, live.stop));
    } else {
        begin_work(live, slot);
    }
}

void Run::begin_work(Live& live, std::uint32_t slot) {
    const Problem& all = *problem_;
    const TaskId task = live.task;
    live.stage = Stage::working;
    live.work_begun = now_;
    double speed = slowest_;
    if (!all.even) {
        speed = never;
        for (const Part& part : desk_.parts(task))
            for (MachineId m = part.machine; m < part.machine + part.count; ++m)
                speed = std::min(speed, all.machines[m].speed * values_.speed_factor);
    }
    live.speed = speed;
    live.stretch = all.fixed_demand ? 1.0 : speed / all.speed[task];
    live.factor = service_factor(task) / live.stretch;
    double from = saved_.empty() ? 0.0 : saved_[task];
    live.from = from;
    live.fragment = 0;
    if (all.varies(task)) {
        live.fragment = all.fragment_offsets[task];
        const std::uint32_t last = all.fragment_offsets[task + 1] - 1;
        while (live.fragment < last && from >= all.fragment_duration[live.fragment])
            from -= all.fragment_duration[live.fragment++];
    }
    if (all.checkpoint_interval < never)
        live.overhead = checkpoints((problem_->length[task] - live.from) * live.factor);
    begin_fragment(live, slot, from);
}

// Writes n - 1 checkpoints in work of n intervals: none at its end.
double Run::checkpoints(double length) const {
    if (!(problem_->checkpoint_interval < never) || length <= 0) return 0.0;
    return (std::ceil(length / problem_->checkpoint_interval) - 1) * problem_->checkpoint_cost;
}

// When the present fragment ends by itself, `from` seconds of the record into it.
double Run::begin_fragment(Live& live, double from) {
    const Problem& all = *problem_;
    const bool varies = all.varies(live.task);
    const double whole =
        varies ? all.fragment_duration[live.fragment] : problem_->length[live.task];
    const double rate = (varies ? all.fragment_rate[live.fragment] : all.limit[live.task]);
    const bool last = !varies || live.fragment + 1 == all.fragment_offsets[live.task + 1];
    live.begun = now_;
    live.inside = from;
    live.length = std::max(0.0, whole - from) * live.factor + (last ? live.overhead : 0.0);
    live.rate_here = rate * live.stretch;
    return now_ + live.length;
}

void Run::begin_fragment(Live& live, std::uint32_t slot, double from) {
    const double end = begin_fragment(live, from);
    if (sharing_) {
        if (live.rate_here > 0) {
            sharing_->start(slot, desk_.parts(live.task), desk_.request(live.task).cores,
                            live.length * live.rate_here, live.rate_here,
                            problem_->kind[live.task]);
            live.idle = false;
            if (live.stop < never) schedule(slot, live.stop);
            return;
        }
        live.idle = true;
    } else {
        set_rate(live, live.rate_here, desk_.parts(live.task));
    }
    schedule(slot, std::min(end, live.stop));
}

// The next transition of a task is the first in the queue, and due.
void Run::transition(std::uint32_t slot) {
    Live& live = lives_[slot];
    if (live.stage == Stage::working && !sharing_ && now_ < live.stop && !last_fragment(live)) {
        ++live.fragment;
        // Fragments follow each other without a gap and without adding up what rounding leaves.
        const double end = begin_fragment(live, 0.0);
        set_rate(live, live.rate_here, desk_.parts(live.task));
        live.due = std::min(end, live.stop);
        transitions_.raise_front(live.due);
        return;
    }
    transitions_.pop();
    live.tag = 0;
    switch (live.stage) {
        case Stage::dispatching:
            begin_execution(live, slot);
            break;
        case Stage::starting:
            if (now_ >= live.stop) {
                end_execution(live, slot, Status::killed);
            } else {
                begin_work(live, slot);
            }
            break;
        case Stage::working:
            // One that ends by itself at the moment when it would be killed has ended.
            if (sharing_ ? !live.idle || now_ < live.begun + live.length
                         : now_ < live.begun + live.length) {
                end_execution(live, slot, Status::killed);
            } else {
                next_fragment(live, slot);
            }
            break;
        case Stage::releasing:
            release(slot);
            break;
    }
}

bool Run::last_fragment(const Live& live) const {
    return !problem_->varies(live.task) ||
           live.fragment + 1 == problem_->fragment_offsets[live.task + 1];
}

void Run::next_fragment(Live& live, std::uint32_t slot) {
    if (last_fragment(live)) {
        end_execution(live, slot, Status::completed);
    } else {
        ++live.fragment;
        begin_fragment(live, slot, 0.0);
    }
}

void Run::take_finished() {
    if (!sharing_) return;
    finished_.clear();
    sharing_->advance(now_, finished_);
    for (const std::uint32_t slot : finished_) {
        ++events_;
        Live& live = lives_[slot];
        if (live.tag != 0) cancel(live);
        next_fragment(live, slot);
    }
}

void Run::cancel(Live& live) {
    const KeyHeap::Entry entry{live.due, live.tag};
    live.tag = 0;
    transitions_.forget(entry, [&](const KeyHeap::Entry& each) {
        return lives_[each.tag & slot_mask].tag == each.tag;
    });
}

void Run::end_execution(Live& live, std::uint32_t slot, Status status) {
    const std::span<const Part> parts = desk_.parts(live.task);
    account(live, slot, parts);
    log_execution(live, status == Status::killed ? Reason::killed : Reason::completed, parts);
    const bool later = values_.release_latency > 0;
    conclude(live.task, status, now_, !later);
    if (later) {
        live.stage = Stage::releasing;
        desk_.set_ending(live.task);
        schedule(slot, now_ + values_.release_latency);
    } else {
        release(slot);
    }
}

// The task stops drawing on its machines: what it has done, and what it is charged.
void Run::account(Live& live, std::uint32_t slot, std::span<const Part> parts) {
    if (live.stage != Stage::working) return;
    Outcome& outcome = outcomes_[live.task];
    const double work = work_between(live.task, live.from, reached(live, slot));
    outcome.done += work;
    if (sharing_) {
        Sharing& sharing = *sharing_;
        if (!live.idle) sharing.stop(slot);
        update(sharing);
        outcome.energy += sharing.take_energy(slot);
        outcome.used += sharing.take_used(slot) / live.speed;
    } else {
        outcome.used += (work + writing(live, slot) * live.rate_here) / live.speed;
        set_rate(live, 0.0, parts);
    }
}

void Run::release(std::uint32_t slot) {
    const TaskId task = lives_[slot].task;
    const bool unsaid = lives_[slot].stage == Stage::releasing;
    free_slot(slot);
    desk_.end(task);
    if (unsaid && outcomes_[task].status == Status::completed) free_children(task);
}

void Run::free_slot(std::uint32_t slot) {
    slot_of_[lives_[slot].task] = no_slot;
    lives_[slot].task = no_task;
    free_lives_.push_back(slot);
    asked_ = true;
}

// Seconds here for which the task has drawn on its machines, at its own rate.
double Run::effort(const Live& live, std::uint32_t slot) const {
    if (!sharing_) return now_ - live.work_begun;
    const double before = passed(live) + live.inside - live.from;
    const double here = live.idle ? now_ - live.begun : sharing_->done(slot) / live.rate_here;
    return before * live.factor + here;
}

// What is left of so many seconds when those that went into checkpoints are taken away.
double Run::without_checkpoints(double length) const {
    const double interval = problem_->checkpoint_interval;
    if (!(interval < never)) return length;
    const double cycle = interval + problem_->checkpoint_cost;
    const double written = std::floor(length / cycle);
    return written * interval + std::min(length - written * cycle, interval);
}

// Seconds that have gone into checkpoints. Where demand varies, these come at the end.
double Run::writing(const Live& live, std::uint32_t slot) const {
    if (!last_fragment(live)) return 0.0;
    if (problem_->varies(live.task))
        return std::max(0.0, now_ - live.begun - (live.length - live.overhead));
    const double spent = effort(live, slot);
    return spent - without_checkpoints(spent);
}

// Seconds of the record that the task has got to.
double Run::reached(const Live& live, std::uint32_t slot) const {
    if (live.stage != Stage::working) return saved_.empty() ? 0.0 : saved_[live.task];
    if (!problem_->varies(live.task)) {
        const double all = problem_->length[live.task];
        const double spent = effort(live, slot);
        if (spent >= live.length) return all;
        return std::min(all, live.from + without_checkpoints(spent) / live.factor);
    }
    const double whole = problem_->fragment_duration[live.fragment];
    double elapsed = now_ - live.begun;
    if (sharing_ && !live.idle) elapsed = sharing_->done(slot) / live.rate_here;
    // What comes at the end of the work for its checkpoints is not part of it.
    const double here =
        live.length > 0 && elapsed >= live.length ? whole : live.inside + elapsed / live.factor;
    return passed(live) + std::min(here, whole);
}

// Seconds of the record before the present fragment.
double Run::passed(const Live& live) const {
    double seconds = 0.0;
    if (problem_->varies(live.task))
        for (std::uint32_t i = problem_->fragment_offsets[live.task]; i < live.fragment; ++i)
            seconds += problem_->fragment_duration[i];
    return seconds;
}

// What is kept of a task that is interrupted.
double Run::kept(const Live& live, std::uint32_t slot, Interrupted then) const {
    if (then != Interrupted::resume) return 0.0;
    const double got = reached(live, slot);
    if (!(problem_->checkpoint_interval < never) || live.stage != Stage::working) return got;
    const double cycle = problem_->checkpoint_interval + problem_->checkpoint_cost;
    const double written = std::floor(effort(live, slot) / cycle);
    return std::min(got, live.from + written * problem_->checkpoint_interval / live.factor);
}

double Run::work_between(TaskId task, double from, double to) const {
    const Problem& all = *problem_;
    if (!all.varies(task)) {
        const double whole = problem_->length[task];
        const double share = whole > 0 ? (to - from) / whole : 1.0;
        return (share == 1.0 ? all.work[task] : all.work[task] * share) * service_factor(task);
    }
    double at = 0.0;
    double work = 0.0;
    for (std::uint32_t i = all.fragment_offsets[task]; i < all.fragment_offsets[task + 1]; ++i) {
        const double length = all.fragment_duration[i];
        const double covered = std::min(at + length, to) - std::max(at, from);
        if (covered > 0) work += covered * all.fragment_rate[i];
        at += length;
    }
    return work * service_factor(task);
}

void Run::interrupt(TaskId task, Reason reason, Interrupted then, std::span<const Part> parts) {
    const std::uint32_t slot = slot_of_[task];
    Live& live = lives_[slot];
    const bool over = live.stage == Stage::releasing;
    if (live.tag != 0) cancel(live);
    if (!over) {
        const double left = kept(live, slot, then);
        account(live, slot, parts);
        if (live.stage != Stage::dispatching) log_execution(live, reason, parts);
        // A task that was preempted and goes on where it was has no more time than before; after a
        // failure, or from nothing, it has all of it again.
        if (reason != Reason::preempted || then != Interrupted::resume) {
            if (!spent_.empty()) spent_[task] = 0.0;
        } else if (problem_->kill && live.stage != Stage::dispatching) {
            spent_.resize(outcomes_.size(), 0.0);
            spent_[task] += now_ - outcomes_[task].last_start;
        }
        keep(task, left);
    }
    free_slot(slot);
}

// Those that waited for a task which has completed wait for one less.
void Run::free_children(TaskId task) {
    const Problem& all = *problem_;
    for (std::uint32_t i = all.child_offsets[task]; i < all.child_offsets[task + 1]; ++i) {
        const TaskId child = all.children[i];
        if (outcomes_[child].status != Status::none) continue;
        if (--missing_parents_[child] == 0 && !std::isnan(outcomes_[child].submit))
            make_ready(child);
    }
}

void Run::conclude(TaskId task, Status status, double at, bool seen) {
    const Problem& all = *problem_;
    // Those that can never run follow, and those that wait for them: a list, for chains are long.
    std::vector<std::pair<TaskId, Status>> more;
    for (;;) {
        Outcome& outcome = outcomes_[task];
        if (outcome.status == Status::none) {
            outcome.status = status;
            if (std::isnan(outcome.submit)) outcome.submit = all.requests[task].submit;
            if (status == Status::completed || status == Status::killed || status == Status::lost)
                outcome.end = at;
            --open_;
            source_.ended(all, task, at);
            if (status == Status::completed) {
                if (seen) free_children(task);
            } else {
                const Status theirs =
                    status == Status::rejected ? Status::rejected : Status::failed;
                for (std::uint32_t i = all.child_offsets[task]; i < all.child_offsets[task + 1];
                     ++i)
                    if (outcomes_[all.children[i]].status == Status::none)
                        more.emplace_back(all.children[i], theirs);
            }
        }
        if (more.empty()) return;
        std::tie(task, status) = more.back();
        more.pop_back();
    }
}

// --- machines ----------------------------------------------------------------------------------

void Run::switch_machines() {
    const auto& downs = downs_->list;
    for (; next_down_ < downs.size() && downs[next_down_].start <= now_; ++next_down_) {
        ++events_;
        go_down(downs[next_down_]);
    }
    while (!ups_.empty() && ups_.front().key <= now_) {
        const auto machine = static_cast<MachineId>(ups_.front().tag);
        ups_.pop();
        ++events_;
        // Somebody may have brought it back before.
        if (down_[machine] > 0) restore(machine);
    }
}

void Run::go_down(const Down& down) {
    fail(down.machine);
    if (down.end < never) ups_.push(down.end, down.machine);
}

void Run::fail(MachineId machine) {
    if (down_[machine]++ > 0) return;
    desk_.set_open(machine, false);
    const std::vector<TaskId> running(desk_.running().begin(), desk_.running().end());
    for (const TaskId task : running) {
        const std::span<const Part> parts = desk_.parts(task);
        if (std::ranges::none_of(parts, [&](const Part& part) {
                return machine >= part.machine && machine < part.machine + part.count;
            }))
            continue;
        const bool over = outcomes_[task].status != Status::none;
        const Interrupted then = problem_->after_failure;
        const std::vector<Part> mine(parts.begin(), parts.end());
        interrupt(task, then == Interrupted::lost ? Reason::lost : Reason::failed, then, mine);
        desk_.end(task);
        if (over) continue;
        if (then == Interrupted::lost) {
            conclude(task, Status::lost, now_);
        } else {
            desk_.submit(task);
        }
    }
    set_off(machine, true, 0);
    asked_ = true;
}

void Run::restore(MachineId machine) {
    if (down_[machine] == 0) throw std::invalid_argument("the machine is not down");
    if (--down_[machine] > 0) return;
    desk_.set_open(machine, true);
    set_off(machine, false, 0);
    asked_ = true;
}

void Run::set_off(MachineId machine, bool off, std::uint8_t kind) {
    if (off) {
        states_.machine.push_back(machine);
        states_.start.push_back(now_);
        states_.end.push_back(unknown);
        states_.kind.push_back(kind);
    } else {
        for (std::size_t i = states_.machine.size(); i-- > 0;)
            if (states_.machine[i] == machine && states_.kind[i] == kind) {
                states_.end[i] = now_;
                break;
            }
    }
    advance_meter(machine);
    // Switched off and gone are two things: it draws power again when neither holds.
    meters_[machine].off = off || !desk_.space().open(machine);
    note_use(machine);
}

void Run::set_rate(Live& live, double rate, std::span<const Part> parts) {
    if (usage_) note_drawn(*usage_, live, parts);
    if (!problem_->metered() && !recording_.use && !loses_) {
        live.rate = rate;
        return;
    }
    const double cores = desk_.request(live.task).cores;
    double charged = 0.0;
    double mark = 0.0;
    double lost = 0.0;
    double lost_mark = 0.0;
    for (const Part& part : parts) {
        const double share = part.share_of(cores);
        for (MachineId m = part.machine; m < part.machine + part.count; ++m) {
            Meter& meter = meters_[m];
            advance_meter(m);
            charged += live.rate * share * meter.charge;
            mark += rate * share * meter.charge;
            lost += live.rate * share * meter.missing;
            lost_mark += rate * share * meter.missing;
            meter.used.add((rate - live.rate) * share);
            if (recording_.use) note_use(m);
        }
    }
    Outcome& outcome = outcomes_[live.task];
    outcome.energy += charged - live.mark;
    if (loses_) {
        outcome.done -= lost - live.lost_mark;
        outcome.used -= (lost - live.lost_mark) / live.speed;
    }
    live.mark = mark;
    live.lost_mark = lost_mark;
    live.rate = rate;
}

void Run::advance_meter(MachineId machine) {
    Meter& meter = meters_[machine];
    if (meter.advance(now_) && !missed_.empty()) missed_[machine].push_back({now_, meter.missing});
}

void Run::update(Sharing& sharing) {
    sharing.update(
        meters_, now_, [&](MachineId machine) { note_use(machine); },
        [&](std::uint32_t slot, std::uint32_t place, double rate, double since) {
            if (!usage_) return;
            const Live& live = lives_[slot];
            usage_->add(live.usage + place, rate / live.speed, since, now_);
        });
}

// What the task has drawn since its rate last changed goes to its windows.
void Run::note_drawn(UsageLog& usage, Live& live, std::span<const Part> parts) {
    const double since = std::exchange(live.since, now_);
    if (live.rate == 0) return;
    const double cores = desk_.request(live.task).cores;
    std::size_t row = live.usage;
    for (const Part& part : parts) {
        const double rate = live.rate * part.share_of(cores) / live.speed;
        for (MachineId m = part.machine; m < part.machine + part.count; ++m, ++row) {
            if (missed_.empty()) {
                usage.add(row, rate, since, now_);
                continue;
            }
            advance_meter(m);
            const auto& points = missed_[m];
            auto next = std::ranges::upper_bound(points, since, {}, &Missed::t);
            for (; next != points.end(); ++next) {
                const Missed& last = *std::prev(next);
                const double given = 1 - (next->missing - last.missing) / (next->t - last.t);
                usage.add(row, rate * given, std::max(last.t, since), next->t);
            }
        }
    }
}

void Run::set_power() {
    if (!problem_->metered()) return;
    for (MachineId m = 0; m < meters_.size(); ++m) meters_[m].power = &power_of(m);
}

void Run::note_use(MachineId machine) {
    if (!recording_.use) return;
    const Meter& meter = meters_[machine];
    const double used = meter.off ? unknown : std::clamp(meter.used.value(), 0.0, meter.capacity);
    use_.machine.push_back(machine);
    use_.t.push_back(now_);
    use_.used.push_back(used);
}

double Run::energy(MachineId machine) const {
    Meter meter = meters_[machine];
    meter.advance(now_);
    return meter.energy;
}

double Run::energy_of(TaskId task) const {
    const double charged = outcomes_[task].energy;
    const std::uint32_t slot = slot_of_[task];
    if (slot == no_slot || lives_[slot].stage != Stage::working) return charged;
    const auto charge = [&](MachineId machine) {
        Meter meter = meters_[machine];
        meter.advance(now_);
        return meter.charge;
    };
    if (sharing_) return charged + sharing_->energy(slot, charge);
    const Live& live = lives_[slot];
    const double cores = desk_.request(task).cores;
    double since = -live.mark;
    for (const Part& part : desk_.parts(task))
        for (MachineId m = part.machine; m < part.machine + part.count; ++m)
            since += live.rate * part.share_of(cores) * charge(m);
    return charged + since;
}

double Run::progress(TaskId task) const {
    if (outcomes_[task].status == Status::completed) return 1.0;
    const double whole = problem_->length[task];
    const std::uint32_t slot = slot_of_[task];
    if (slot == no_slot) return saved_.empty() || whole <= 0 ? 0.0 : saved_[task] / whole;
    return whole > 0 ? reached(lives_[slot], slot) / whole : 1.0;
}

// --- logs --------------------------------------------------------------------------------------

void Run::log_execution(const Live& live, Reason reason, std::span<const Part> parts) {
    Outcome& outcome = outcomes_[live.task];
    outcome.last_end = now_;
    if (usage_) usage_->close(live.usage, parts, now_);
    occupied_.add(desk_.request(live.task).cores * (now_ - outcome.last_start));
    if (!recording_.placements) return;
    for (const Part& part : parts) {
        placements_.task.push_back(live.task);
        placements_.attempt.push_back(outcome.attempts - 1);
        placements_.machine.push_back(part.machine);
        placements_.count.push_back(part.count);
        placements_.cores.push_back(part.cores);
        placements_.start.push_back(outcome.last_start);
        placements_.end.push_back(now_);
        placements_.reason.push_back(static_cast<std::uint8_t>(reason));
    }
}

void Run::log_decision(const Desk::Decision& decision) {
    decisions_.t.push_back(now_);
    decisions_.kind.push_back(static_cast<std::uint8_t>(decision.kind));
    decisions_.task.push_back(decision.task);
    MachineId machine = decision.machine;
    if (decision.kind == Desk::Decision::Kind::place && !desk_.parts(decision.task).empty())
        machine = desk_.parts(decision.task).front().machine;
    decisions_.machine.push_back(machine);
}

// --- changes from outside ----------------------------------------------------------------------

Problem& Run::own() {
    // Other runs may share the problem: this one goes on with a copy of its own.
    if (problem_.use_count() > 1) {
        problem_ = std::make_shared<Problem>(*problem_);
        set_power();
    }
    return const_cast<Problem&>(*problem_);
}

TaskId Run::inject(const Request& request, std::span<const double> amounts, double work,
                   double limit, std::uint16_t kind) {
    // Whether machines are shared was decided by the tasks that were known when the run began.
    if (!sharing_ && !loses_ && exceeds(request.cores, limit, 1.0, never))
        throw std::invalid_argument("needs a higher rate than the slowest machine provides");
    Problem& all = own();
    const auto task = static_cast<TaskId>(all.size());
    all.requests.push_back(request);
    all.amounts.insert(all.amounts.end(), amounts.begin(), amounts.end());
    all.work.push_back(work);
    all.limit.push_back(limit);
    all.speed.push_back(1.0);
    all.deadline.push_back(never);
    all.kind.push_back(kind);
    all.rejected.push_back(0);
    all.fragment_offsets.push_back(all.fragment_offsets.back());
    all.child_offsets.push_back(all.child_offsets.back());
    all.parents.push_back(0);
    all.length.push_back(all.length_of(task));
    outcomes_.push_back({unknown, unknown, unknown, unknown, unknown, 0.0, 0.0, 0.0, 0, {}});
    if (!saved_.empty()) saved_.push_back(0.0);
    if (!spent_.empty()) spent_.push_back(0.0);
    missing_parents_.push_back(0);
    slot_of_.push_back(no_slot);
    Request planned = request;
    planned.time = plan(task);
    desk_.add_task(planned, amounts);
    ++open_;
    if (!policy_->possible(desk_, task)) {
        all.rejected.back() = 1;
        outcomes_.back().submit = request.submit;
        conclude(task, Status::rejected, now_);
    } else {
        source_.add(all, task);
    }
    return task;
}

void Run::set_cores(MachineId machine, double cores) {
    desk_.resize(machine, cores * values_.effective_capacity);
    Meter& meter = meters_[machine];
    advance_meter(machine);
    meter.capacity = cores * problem_->machines[machine].speed * values_.speed_factor;
    if (sharing_) sharing_->set_capacity(machine, meter.capacity, now_);
    resizes_.push_back({use_.t.size(), machine, meter.capacity});
    note_use(machine);
    asked_ = true;
}

void Run::begin_at(double time) {
    now_ = begin_ = time;
    desk_.set_now(time);
    for (Meter& meter : meters_) meter.since = time;
    for (auto& points : missed_) points = {{time, 0.0}};
    std::ranges::fill(use_.t, time);
    take_finished();
    const auto& downs = downs_->list;
    for (; next_down_ < downs.size() && downs[next_down_].start <= time; ++next_down_) {
        if (downs[next_down_].end > time) go_down(downs[next_down_]);
    }
}

void Run::adopt(TaskId task, const Outcome& known) {
    Outcome& outcome = outcomes_[task];
    outcome.submit = known.submit;
    desk_.set_submit_time(task, known.submit);
    outcome.ready = known.ready;
    outcome.start = known.start;
    outcome.last_start = known.last_start;
    outcome.attempts = known.attempts;
    // One that failed because a parent did is over with that parent.
    if (known.status == Status::none || outcome.status != Status::none) return;
    conclude(task, known.status, std::isnan(known.end) ? now_ : known.end);
    outcome.end = known.end;
}

void Run::keep(TaskId task, double seconds) {
    if (seconds <= 0 && saved_.empty()) return;
    saved_.resize(outcomes_.size(), 0.0);
    saved_[task] = seconds;
}

void Run::adopt_waiting(TaskId task, double done_share) {
    keep(task, done_share * problem_->length[task]);
    missing_parents_[task] = 0;
    desk_.submit(task);
    asked_ = true;
}

void Run::adopt_held(TaskId task) {
    if (missing_parents_[task] > 0) return;
    desk_.submit(task);
    asked_ = true;
}

void Run::adopt_running(TaskId task, std::span<const Part> parts, double done_share) {
    keep(task, done_share * problem_->length[task]);
    missing_parents_[task] = 0;
    const double start = outcomes_[task].last_start;
    desk_.adopt(task, parts, start);
    const std::uint32_t slot = make_live(task);
    Live& live = lives_[slot];
    const double asked = problem_->requests[task].time;
    if (problem_->kill && !std::isnan(asked)) live.stop = start + asked;
    if (usage_) live.usage = usage_->open(task, parts, now_);
    begin_work(live, slot);
}

}  // namespace twinloop
