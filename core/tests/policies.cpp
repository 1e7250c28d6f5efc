// Test of the batch policies against simple reference policies on small random logs: the same
// decisions, at the same times, on the same machines.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <numbers>
#include <optional>
#include <random>
#include <set>

#include "control/policies/options.hpp"

namespace {

using namespace twinloop;

struct Job {
    Request request;
    double run = 0.0;
};

struct Change {
    enum class Kind : std::uint8_t { leave, appear, switch_off, switch_on, add };
    double time = 0.0;
    Kind kind = Kind::leave;
    MachineId machine = 0;
    MachineSpec added;
};

struct Log {
    std::vector<MachineSpec> machines;
    std::vector<AccessWindow> windows;
    std::vector<QueueRule> queues;
    std::vector<Job> jobs;  // by submission
    std::vector<Change> changes;
    std::vector<std::pair<double, TaskId>> withdrawals;
    BatchOptions options;
};

struct Step {
    double time = 0.0;
    bool placed = true;
    TaskId task = 0;
    std::vector<std::pair<MachineId, double>> cores;
    bool operator==(const Step&) const = default;
};

// --- reference policy: recomputes everything at every decision -----------------------------------

// Free capacity by machine; in a pool all machines are one.
struct FreeCapacity {
    bool pooled = false;
    std::vector<double> cores;
    std::vector<double> memory;

    explicit FreeCapacity(const SchedulerState& scheduler) : pooled(scheduler.pooled()) {
        const Space& space = scheduler.space();
        for (MachineId m = 0; m < space.size(); ++m) {
            cores.push_back(space.open(m) ? space.cores(m) : 0.0);
            memory.push_back(space.open(m) ? space.memory(m) : 0.0);
        }
        if (pooled) {
            double sum = 0.0;
            for (const double each : cores) sum += each;
            cores = {sum};
            memory = {never};
        }
    }

    using Where = std::map<MachineId, double>;

    void move(const SchedulerState& scheduler, TaskId task, const Where& where, double sign) {
        const Request& request = scheduler.request(task);
        for (const auto& [m, c] : where) {
            cores[pooled ? 0 : m] += sign * c;
            if (!pooled) memory[m] += sign * request.memory * c / request.cores;
        }
    }

    std::optional<Where> find(const SchedulerState& scheduler, TaskId task, double from) const {
        Request request = scheduler.request(task);
        request.nodes = scheduler.needs(task).nodes;
        Where where;
        const auto allowed = [&](MachineId m) {
            return pooled || (scheduler.space().open(m) &&
                              scheduler.allowed(task, m, from, scheduler.planned_time(task)));
        };
        if (request.nodes > 0) {
            const double each = request.cores / request.nodes;
            for (MachineId m = 0; m < cores.size(); ++m)
                if (where.size() < static_cast<std::size_t>(request.nodes) && allowed(m) &&
                    cores[m] >= each - 1e-9 &&
                    memory[m] >= request.memory / request.nodes * (1 - 1e-9))
                    where[m] = each;
            if (where.size() < static_cast<std::size_t>(request.nodes)) return {};
            return where;
        }
        double missing = request.cores;
        for (MachineId m = 0; m < cores.size() && missing > 1e-9; ++m) {
            double offer = cores[m];
            if (request.memory > 0 && !pooled)
                offer =
                    std::min(offer, std::floor(memory[m] / request.memory * request.cores + 1e-6));
            offer = std::min(offer, missing);
            if (offer < 1e-9 || !allowed(m)) continue;
            where[m] = offer;
            missing -= offer;
        }
        if (missing > 1e-9) return {};
        return where;
    }

    FreeCapacity both(const FreeCapacity& other) const {
        FreeCapacity result = *this;
        for (std::size_t m = 0; m < cores.size(); ++m) {
            result.cores[m] = std::min(cores[m], other.cores[m]);
            result.memory[m] = std::min(memory[m], other.memory[m]);
        }
        return result;
    }
};

class ReferencePolicy final : public Controller {
  public:
    // `literal`: with compression the plan is kept until a task ends early.
    // `close` is set where rounding decides between two users.
    ReferencePolicy(const BatchOptions& options, bool literal, bool& close)
        : options_(options), literal_(literal), close_(&close) {}
    std::unique_ptr<Controller> clone() const override {
        return std::make_unique<ReferencePolicy>(*this);
    }

    void submitted(const SchedulerState&, TaskId) override { changed_ = true; }
    void placed(const SchedulerState& scheduler, TaskId task) override {
        history_.push_back({task, scheduler.now(), never});
        if (!deciding_) void_ = true;
    }
    void ended(const SchedulerState& scheduler, TaskId task) override {
        for (Span& span : history_)
            if (span.task == task && span.end == never) span.end = scheduler.now();
        changed_ = true;
        if (scheduler.now() < scheduler.planned_end(task)) early_ = true;
    }
    void withdrawn(const SchedulerState&, TaskId task) override {
        if (plan_.erase(task) > 0) early_ = true;
        changed_ = true;
    }
    void machine_changed(const SchedulerState&, MachineId) override { void_ = changed_ = true; }

    void decide(SchedulerState& scheduler) override {
        deciding_ = true;
        if (options_.backfill == Backfill::conservative) conservative(scheduler);
        else easy(scheduler);
        deciding_ = false;
        if (!scheduler.window_ends().empty()) scheduler.wake(scheduler.window_ends().front());
    }

  private:
    using Where = FreeCapacity::Where;
    struct Span {
        TaskId task;
        double start;
        double end;
    };
    struct Planned {
        double start = never;
        Where where;
    };

    std::int32_t owner(const SchedulerState& scheduler, TaskId task) const {
        return options_.by_group ? scheduler.request(task).group : scheduler.request(task).user;
    }

    double use(const SchedulerState& scheduler, TaskId task) const {
        double sum = 0.0;
        const double rate = std::numbers::ln2 / options_.half_life;
        for (const Span& span : history_)
            if (owner(scheduler, span.task) == owner(scheduler, task))
                sum += scheduler.request(span.task).cores / rate *
                       (std::exp(-rate * (scheduler.now() - std::min(span.end, scheduler.now()))) -
                        std::exp(-rate * (scheduler.now() - span.start)));
        return sum;
    }

    std::vector<TaskId> order(const SchedulerState& scheduler) const {
        std::vector<std::pair<double, TaskId>> keyed;
        for (TaskId t = scheduler.first_waiting(); t != no_task; t = scheduler.next_waiting(t)) {
            const Request& request = scheduler.request(t);
            double key = 0.0;
            if (options_.order == QueueOrder::shortest) key = scheduler.planned_time(t);
            if (options_.order == QueueOrder::longest) key = -scheduler.planned_time(t);
            if (options_.order == QueueOrder::priority)
                key = -(request.priority + options_.age * (scheduler.now() - request.submit));
            if (options_.order == QueueOrder::fair_share) key = use(scheduler, t);
            keyed.emplace_back(key, t);
        }
        std::ranges::stable_sort(keyed, {}, [](const auto& each) { return each.first; });
        std::vector<TaskId> result;
        for (const auto& [key, task] : keyed) result.push_back(task);
        for (std::size_t at = 1; at < keyed.size(); ++at)
            if (options_.order == QueueOrder::fair_share && keyed[at].first > 0 &&
                owner(scheduler, keyed[at].second) != owner(scheduler, keyed[at - 1].second) &&
                keyed[at].first - keyed[at - 1].first < 1e-9 * keyed[at].first)
                *close_ = true;
        return result;
    }

    static Where held(const SchedulerState& scheduler, TaskId task) {
        Where where;
        for (const Part& part : scheduler.parts(task))
            for (MachineId m = part.machine; m < part.machine + part.count; ++m)
                if (scheduler.space().open(m)) where[m] = part.cores;
        return where;
    }

    static void place(SchedulerState& scheduler, TaskId task, const Where& where) {
        std::vector<Part> parts;
        if (scheduler.pooled()) {
            scheduler.find(task, scheduler.space(), scheduler.now(), parts);
        } else {
            for (const auto& [m, cores] : where) parts.push_back({m, 1, cores});
        }
        scheduler.place(task, parts);
    }

    static bool start(SchedulerState& scheduler, TaskId task) {
        const auto where = FreeCapacity(scheduler).find(scheduler, task, scheduler.now());
        if (where) place(scheduler, task, *where);
        return where.has_value();
    }

    bool make_room(SchedulerState& scheduler, TaskId task) const {
        if (options_.preemption == Preemption::no) return false;
        std::vector<TaskId> victims;
        for (const TaskId other : scheduler.running())
            if (scheduler.request(other).priority < scheduler.request(task).priority)
                victims.push_back(other);
        std::ranges::sort(victims, [&](TaskId a, TaskId b) {
            return std::tuple(scheduler.request(a).priority, -scheduler.start_time(a),
                              scheduler.arrival(b)) < std::tuple(scheduler.request(b).priority,
                                                                 -scheduler.start_time(b),
                                                                 scheduler.arrival(a));
        });
        const auto enough = [&](const std::vector<TaskId>& chosen) {
            FreeCapacity free(scheduler);
            for (const TaskId each : chosen) free.move(scheduler, each, held(scheduler, each), 1.0);
            return free.find(scheduler, task, scheduler.now()).has_value();
        };
        std::vector<TaskId> chosen;
        for (const TaskId victim : victims) {
            chosen.push_back(victim);
            if (enough(chosen)) break;
        }
        if (!enough(chosen)) return false;
        for (std::size_t at = chosen.size(); at-- > 0;) {
            std::vector<TaskId> fewer;
            for (const TaskId each : chosen)
                if (each != chosen[at]) fewer.push_back(each);
            if (enough(fewer)) chosen = std::move(fewer);
        }
        for (const TaskId each : chosen) scheduler.preempt(each);
        return true;
    }

    std::set<double> moments(const SchedulerState& scheduler) const {
        std::set<double> times;
        for (const TaskId task : scheduler.running())
            times.insert(std::max(scheduler.now(), scheduler.planned_end(task)));
        times.insert(scheduler.window_ends().begin(), scheduler.window_ends().end());
        return times;
    }

    static FreeCapacity free_at(const SchedulerState& scheduler, double time) {
        FreeCapacity free(scheduler);
        for (const TaskId task : scheduler.running())
            if (std::max(scheduler.now(), scheduler.planned_end(task)) <= time)
                free.move(scheduler, task, held(scheduler, task), 1.0);
        return free;
    }

    // The queue after all tasks that could start in order.
    std::vector<TaskId> start_in_order(SchedulerState& scheduler) {
        for (;;) {
            std::vector<TaskId> queue = order(scheduler);
            if (queue.empty()) return queue;
            if (start(scheduler, queue.front())) continue;
            if (!make_room(scheduler, queue.front())) return queue;
            start(scheduler, queue.front());
        }
    }

    void easy(SchedulerState& scheduler) {
        std::vector<TaskId> queue = start_in_order(scheduler);
        if (queue.empty() || options_.backfill == Backfill::none) return;
        const double now = scheduler.now();
        const TaskId head = queue.front();
        queue.erase(queue.begin());
        if (options_.depth > 0 && queue.size() > options_.depth) queue.resize(options_.depth);
        double shadow = never;
        std::optional<FreeCapacity> extra;
        for (const double time : moments(scheduler)) {
            FreeCapacity free = free_at(scheduler, time);
            const auto where = free.find(scheduler, head, time);
            if (!where) continue;
            shadow = time;
            free.move(scheduler, head, *where, -1.0);
            extra = free;
            break;
        }
        for (const TaskId task : queue) {
            if (now + scheduler.planned_time(task) <= shadow) {
                start(scheduler, task);
            } else if (options_.backfill == Backfill::easy) {
                const auto where = FreeCapacity(scheduler).both(*extra).find(scheduler, task, now);
                if (!where) continue;
                place(scheduler, task, *where);
                extra->move(scheduler, task, *where, -1.0);
            }
        }
    }

    Planned earliest(const SchedulerState& scheduler, TaskId task) const {
        std::set<double> times = moments(scheduler);
        times.insert(scheduler.now());
        for (const auto& [other, planned] : plan_) {
            times.insert(planned.start);
            times.insert(planned.start + scheduler.planned_time(other));
        }
        const auto free_then = [&](double time) {
            FreeCapacity free = free_at(scheduler, time);
            for (const auto& [other, planned] : plan_)
                if (planned.start <= time && time < planned.start + scheduler.planned_time(other))
                    free.move(scheduler, other, planned.where, -1.0);
            return free;
        };
        for (const double start : times) {
            if (start < scheduler.now() || start == never) continue;
            FreeCapacity free = free_then(start);
            for (const double time : times)
                if (time > start && time < start + scheduler.planned_time(task))
                    free = free.both(free_then(time));
            if (const auto where = free.find(scheduler, task, start)) return {start, *where};
        }
        return {};
    }

    // The times of decisions matter if tasks run longer than planned, or with fair shares.
    void conservative(SchedulerState& scheduler) {
        const bool at_ends = (options_.compress || options_.preemption != Preemption::no) &&
                             options_.depth == 0 && options_.order != QueueOrder::fair_share;
        if (!at_ends) {
            plan_and_start(scheduler);
            for (const auto& [task, planned] : plan_)
                if (planned.start > scheduler.now() && planned.start < never)
                    scheduler.wake(planned.start);
            return;
        }
        if (changed_ || scheduler.now() >= next_end_) plan_and_start(scheduler);
        changed_ = false;
        next_end_ = never;
        for (const double time : moments(scheduler))
            if (time > scheduler.now()) next_end_ = std::min(next_end_, time);
        scheduler.wake(next_end_);
    }

    void plan_and_start(SchedulerState& scheduler) {
        const bool preempts = options_.preemption != Preemption::no;
        if (options_.compress || preempts) {
            const bool overdue = std::ranges::any_of(
                plan_, [&](const auto& each) { return each.second.start < scheduler.now(); });
            if (!literal_ || preempts || early_ || overdue) plan_.clear();
        } else {
            for (auto& [task, planned] : plan_)
                planned.start = std::max(planned.start, scheduler.now());
            if (early_)
                std::erase_if(plan_, [](const auto& each) { return each.second.start == never; });
        }
        if (void_) plan_.clear();
        if (plan_.empty()) start_in_order(scheduler);
        void_ = early_ = false;
        // First the tasks reserved for this time, then the tasks without a reservation.
        for (const TaskId task : order(scheduler))
            if (plan_.contains(task)) start_planned(scheduler, task);
        for (const TaskId task : order(scheduler)) {
            if (plan_.contains(task)) continue;
            if (options_.depth > 0 && plan_.size() > options_.depth) break;
            plan_[task] = earliest(scheduler, task);
            start_planned(scheduler, task);
        }
    }

    static bool possible_now(const SchedulerState& scheduler, TaskId task, const Planned& planned) {
        FreeCapacity free(scheduler);
        free.move(scheduler, task, planned.where, -1.0);
        return std::ranges::all_of(free.cores, [](double c) { return c > -1e-9; }) &&
               std::ranges::all_of(free.memory, [](double c) { return c > -1e-3; });
    }

    void start_planned(SchedulerState& scheduler, TaskId task) {
        const Planned planned = plan_[task];
        if (planned.start != scheduler.now() || !possible_now(scheduler, task, planned)) return;
        place(scheduler, task, planned.where);
        plan_.erase(task);
    }

    BatchOptions options_;
    bool literal_;
    bool* close_;
    bool deciding_ = false;
    bool early_ = false;
    bool void_ = false;
    bool changed_ = true;  // since the last decision
    double next_end_ = 0.0;
    std::map<TaskId, Planned> plan_;
    std::vector<Span> history_;
};

// --- test driver --------------------------------------------------------------------------------

// The scheduler state of a log before its start.
SchedulerState scheduler_state(const Log& log, const Controller& policy) {
    auto tasks = std::make_shared<TaskTable>();
    for (const Job& job : log.jobs) {
        Task task;
        task.request = job.request;
        tasks->add(task, {});
    }
    SchedulerState made(std::move(tasks), log.machines, {}, log.windows, log.queues,
                        policy.spreads());
    for (TaskId task = 0; task < log.jobs.size(); ++task)
        made.set_planned_time(task, log.jobs[task].request.time);
    return made;
}

void apply(const Change& change, SchedulerState& scheduler) {
    using Kind = Change::Kind;
    switch (change.kind) {
        case Kind::leave:
        case Kind::appear:
            scheduler.set_present(change.machine, change.kind == Kind::appear);
            break;
        case Kind::switch_off:
            // Only machines without tasks are switched.
            if (scheduler.space().occupants(change.machine) > 0) break;
            scheduler.set_status(change.machine, {off_state});
            break;
        case Kind::switch_on:
            scheduler.set_status(change.machine, {running_state});
            break;
        case Kind::add:
            scheduler.add_machine(change.added, {});
            break;
    }
}

std::vector<Step> run(const Log& log, std::unique_ptr<Controller> policy, long clone_at = -1) {
    SchedulerState scheduler = scheduler_state(log, *policy);
    scheduler.set_controller(policy.get());
    std::vector<Step> steps;
    std::set<std::pair<double, TaskId>> ends;
    std::map<TaskId, double> end_of;
    std::size_t next = 0;
    std::size_t next_change = 0;
    std::size_t next_withdrawal = 0;
    for (long count = 0;; ++count) {
        double now = scheduler.wake_time();
        // Fair shares are evaluated at every decision, so decisions are requested only at events.
        if (log.options.order == QueueOrder::fair_share &&
            log.options.backfill == Backfill::conservative)
            now = scheduler.window_ends().empty() ? never : scheduler.window_ends().front();
        if (!ends.empty()) now = std::min(now, ends.begin()->first);
        if (next < log.jobs.size()) now = std::min(now, log.jobs[next].request.submit);
        if (next_change < log.changes.size()) now = std::min(now, log.changes[next_change].time);
        if (next_withdrawal < log.withdrawals.size())
            now = std::min(now, log.withdrawals[next_withdrawal].first);
        if (now == never || count > 100000) break;
        scheduler.set_now(now);
        while (!ends.empty() && ends.begin()->first <= now) {
            const TaskId task = ends.begin()->second;
            ends.erase(ends.begin());
            scheduler.end(task);
        }
        while (next < log.jobs.size() && log.jobs[next].request.submit <= now)
            scheduler.submit(static_cast<TaskId>(next++));
        for (; next_change < log.changes.size() && log.changes[next_change].time <= now;
             ++next_change)
            apply(log.changes[next_change], scheduler);
        for (; next_withdrawal < log.withdrawals.size() &&
               log.withdrawals[next_withdrawal].first <= now;
             ++next_withdrawal) {
            const TaskId task = log.withdrawals[next_withdrawal].second;
            if (scheduler.phase(task) == Phase::waiting) scheduler.withdraw(task);
        }
        if (count == clone_at) {
            policy = policy->clone();
            scheduler.set_controller(policy.get());
        }
        if (!scheduler.must_decide()) {
            scheduler.clear_wake();
            continue;
        }
        for (const Order& decision : scheduler.decide()) {
            const TaskId task = decision.task;
            const bool placed = decision.kind == Order::Kind::place;
            Step step{now, placed, task, {}};
            if (placed && !scheduler.pooled())
                for (const Part& part : scheduler.parts(task))
                    for (std::uint32_t at = 0; at < part.count; ++at)
                        step.cores.emplace_back(part.machine + at, part.cores);
            steps.push_back(step);
            if (placed) {
                end_of[task] = now + log.jobs[task].run;
                ends.emplace(end_of[task], task);
            } else {
                ends.erase({end_of[task], task});
            }
        }
    }
    return steps;
}

// --- random logs --------------------------------------------------------------------------------

class Draw {
  public:
    explicit Draw(std::uint64_t seed) : random_(seed) {}
    int upto(int most) { return static_cast<int>(random_() % static_cast<unsigned>(most + 1)); }
    bool chance(int percent) { return upto(99) < percent; }
    // A time: a small integer, so that ties are common, or any value.
    double time(int most, bool whole) {
        const double fraction = static_cast<double>(random_() >> 11) * 0x1.0p-53;
        return whole ? upto(most) : upto(most) + fraction;
    }

  private:
    std::mt19937_64 random_;
};

Log random_log(std::uint64_t seed) {
    Draw draw(seed);
    Log log;
    BatchOptions& options = log.options;
    options.order = static_cast<QueueOrder>(draw.upto(4));
    if (draw.chance(40)) options.order = QueueOrder::arrival;
    options.backfill = static_cast<Backfill>(draw.upto(3));
    options.compress = options.order == QueueOrder::fair_share || draw.chance(50);
    if (draw.chance(15)) options.depth = static_cast<std::uint32_t>(1 + draw.upto(4));
    options.age = draw.chance(50) ? 0.0 : 0.25;
    options.half_life = 10.0;
    options.by_group = draw.chance(30);
    if (options.order == QueueOrder::priority && draw.chance(60))
        options.preemption = Preemption::restart;

    const bool pool = draw.chance(50);
    const int machines = pool ? 1 + draw.upto(2) : 2 + draw.upto(2);
    double total = 0.0;
    for (int at = 0; at < machines; ++at) {
        MachineSpec spec;
        spec.cores = 1 + draw.upto(4);
        if (!pool) spec.memory = 4.0 * (1 + draw.upto(4));
        total += spec.cores;
        log.machines.push_back(spec);
    }
    if (!pool && draw.chance(40)) {
        for (int count = 1 + draw.upto(1); count > 0; --count) {
            AccessWindow window;
            window.start = draw.upto(30);
            window.end = window.start + 1 + draw.upto(10);
            for (int at = 0; at < machines; ++at)
                window.machines.push_back(draw.chance(70) ? 1 : 0);
            if (draw.chance(50)) window.users.push_back(0);
            log.windows.push_back(window);
        }
    }
    if (!pool && draw.chance(20)) {
        QueueRule rule;
        for (int at = 0; at < machines; ++at) rule.machines.push_back(at == 0 ? 1 : 0);
        log.queues.push_back(rule);
    }
    // Integers would make the usage of users equal except for rounding.
    const bool whole = options.order != QueueOrder::fair_share;
    // On machines, a task that waits for an overdue task may fit elsewhere, depending on when the
    // plan is made: only a pool has a unique answer.
    const bool overruns = draw.chance(20) && (pool || options.backfill != Backfill::conservative);
    const int many = draw.chance(5) ? 200 : draw.chance(50) ? 30 : 12;
    const int span = draw.chance(50) ? 40 : 12;
    std::vector<double> submits;
    for (int count = 1 + draw.upto(many); count > 0; --count)
        submits.push_back(draw.time(span, whole));
    std::ranges::sort(submits);
    for (const double submit : submits) {
        Job job;
        Request& request = job.request;
        request.submit = submit;
        request.cores = 1 + draw.upto(static_cast<int>(total) - 1);
        if (draw.chance(50)) request.cores = 1 + draw.upto(1);
        request.cores = std::min(request.cores, total);
        job.run = draw.time(12, whole);
        request.time = draw.chance(50) ? job.run : job.run + draw.time(8, whole);
        if (overruns && draw.chance(30)) request.time = draw.time(6, whole);
        request.priority = draw.upto(3);
        request.user = draw.upto(3) - 1;
        request.group = draw.upto(2) - 1;
        // A reservation of zero length blocks no task.
        if (!pool && options.backfill == Backfill::conservative)
            request.time = std::max(request.time, 1.0);
        if (!pool && draw.chance(40)) {
            request.nodes = 1 + draw.upto(std::min(machines, 3) - 1);
            request.cores = request.nodes * (1 + draw.upto(1));
        }
        // Exact shares of memory, so that rounding has no effect.
        if (!pool && request.nodes != 3 &&
            std::has_single_bit(static_cast<unsigned>(request.cores)))
            request.memory = draw.upto(8);
        if (!log.queues.empty() && draw.chance(30)) request.queue = 0;
        log.jobs.push_back(job);
    }
    const auto policy = make_batch(options);
    const SchedulerState empty = scheduler_state(log, *policy);
    std::vector<Job> possible;
    for (TaskId task = 0; task < log.jobs.size(); ++task)
        if (policy->possible(empty, task)) possible.push_back(log.jobs[task]);
    log.jobs = std::move(possible);
    using Kind = Change::Kind;
    const auto any_machine = [&] { return static_cast<MachineId>(draw.upto(machines - 1)); };
    if (draw.chance(20)) {
        const MachineId machine = any_machine();
        const double leaves = draw.upto(20);
        log.changes.push_back({leaves, Kind::leave, machine, {}});
        log.changes.push_back({leaves + 1 + draw.upto(20), Kind::appear, machine, {}});
    }
    if (draw.chance(20)) {
        for (int count = 1 + draw.upto(4); count > 0; --count) {
            const MachineId machine = any_machine();
            const double off = draw.upto(30);
            log.changes.push_back({off, Kind::switch_off, machine, {}});
            log.changes.push_back({off + 1 + draw.upto(10), Kind::switch_on, machine, {}});
        }
    }
    if (draw.chance(20)) {
        MachineSpec added;
        added.cores = 1 + draw.upto(4);
        if (!pool) added.memory = 4.0 * (1 + draw.upto(4));
        log.changes.push_back({static_cast<double>(draw.upto(25)), Kind::add, 0, added});
    }
    std::ranges::stable_sort(log.changes, {}, [](const Change& each) { return each.time; });
    if (!log.jobs.empty() && draw.chance(20)) {
        for (int count = 0; count < 3; ++count)
            log.withdrawals.emplace_back(
                draw.upto(40),
                static_cast<TaskId>(draw.upto(static_cast<int>(log.jobs.size()) - 1)));
        std::ranges::sort(log.withdrawals);
    }
    return log;
}

void print(const char* name, const std::vector<Step>& steps) {
    std::printf("%s\n", name);
    for (const Step& step : steps) {
        std::printf("  %g %s %u", step.time, step.placed ? "place" : "preempt", step.task);
        for (const auto& [machine, cores] : step.cores) std::printf(" %u:%g", machine, cores);
        std::printf("\n");
    }
}

// The order of simultaneous decisions is not specified.
std::vector<Step> sorted(std::vector<Step> steps) {
    std::ranges::stable_sort(steps, [](const Step& a, const Step& b) {
        return std::tuple(a.time, a.task) < std::tuple(b.time, b.task);
    });
    return steps;
}

bool check(std::uint64_t seed, bool verbose) {
    const Log log = random_log(seed);
    const std::vector<Step> found = sorted(run(log, make_batch(log.options)));
    const std::vector<Step> again =
        sorted(run(log, make_batch(log.options), static_cast<long>(seed % 20)));
    bool close = false;
    std::vector<std::vector<Step>> expected{
        sorted(run(log, std::make_unique<ReferencePolicy>(log.options, false, close)))};
    if (log.options.order == QueueOrder::arrival)
        expected.push_back(
            sorted(run(log, std::make_unique<ReferencePolicy>(log.options, true, close))));
    bool same = found == again;
    for (const auto& each : expected) same = same && found == each;
    if ((same || close) && !verbose) return true;
    std::printf("log %llu: order %d backfill %d compress %d depth %u preemption %d\n",
                static_cast<unsigned long long>(seed), static_cast<int>(log.options.order),
                static_cast<int>(log.options.backfill), log.options.compress ? 1 : 0,
                log.options.depth, static_cast<int>(log.options.preemption));
    for (const MachineSpec& each : log.machines)
        std::printf("  machine %g cores %g\n", each.cores, each.memory);
    for (const AccessWindow& each : log.windows) {
        std::printf("  window %g-%g:", each.start, each.end);
        for (const auto m : each.machines) std::printf(" %d", m);
        std::printf(" users %zu\n", each.users.size());
    }
    for (const Change& each : log.changes)
        std::printf("  at %g machine %u change %d, %g cores\n", each.time, each.machine,
                    static_cast<int>(each.kind), each.added.cores);
    for (const auto& [time, task] : log.withdrawals)
        std::printf("  at %g task %u withdrawn\n", time, task);
    for (std::size_t at = 0; at < log.jobs.size(); ++at) {
        const Job& job = log.jobs[at];
        const Request& r = job.request;
        std::printf(
            "  task %zu: submit %g cores %g nodes %d memory %g time %g run %g priority %g "
            "user %d\n",
            at, r.submit, r.cores, r.nodes, r.memory, r.time, job.run, r.priority, r.user);
    }
    print("found", found);
    if (found != again) print("with a copy", again);
    for (const auto& each : expected) print("expected", each);
    return same;
}

}  // namespace

int main(int count, char** arguments) {
    if (count > 2) return check(std::strtoull(arguments[2], nullptr, 10), true) ? 0 : 1;
    const long logs = count > 1 ? std::strtol(arguments[1], nullptr, 10) : 1000;
    for (long seed = 0; seed < logs; ++seed)
        if (!check(static_cast<std::uint64_t>(seed), false)) return 1;
    std::printf("%ld passed, 0 failed\n", logs);
    return 0;
}
