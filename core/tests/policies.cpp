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

#include "policy/options.hpp"

namespace {

using namespace twinloop;

struct Job {
    Request request;
    double run = 0.0;
};

struct Change {
    double time = 0.0;
    MachineId machine = 0;
    bool open = false;
};

struct Log {
    std::vector<MachineSpec> machines;
    std::vector<Window> windows;
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

    explicit FreeCapacity(const Desk& desk) : pooled(desk.pooled()) {
        const Space& space = desk.space();
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

    void move(const Desk& desk, TaskId task, const Where& where, double sign) {
        const Request& request = desk.request(task);
        for (const auto& [m, c] : where) {
            cores[pooled ? 0 : m] += sign * c;
            if (!pooled) memory[m] += sign * request.memory * c / request.cores;
        }
    }

    std::optional<Where> find(const Desk& desk, TaskId task, double from) const {
        const Request& request = desk.request(task);
        Where where;
        const auto allowed = [&](MachineId m) {
            return pooled || (desk.space().open(m) && desk.allowed(task, m, from, request.time));
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

class ReferencePolicy final : public Policy {
  public:
    // `literal`: with compression the plan is kept until a task ends early.
    // `close` is set where rounding decides between two users.
    ReferencePolicy(const BatchOptions& options, bool literal, bool& close)
        : options_(options), literal_(literal), close_(&close) {}
    std::unique_ptr<Policy> clone() const override {
        return std::make_unique<ReferencePolicy>(*this);
    }

    void placed(const Desk& desk, TaskId task) override {
        history_.push_back({task, desk.now(), never});
        if (!deciding_) void_ = true;
    }
    void ended(const Desk& desk, TaskId task) override {
        for (Span& span : history_)
            if (span.task == task && span.end == never) span.end = desk.now();
        if (desk.now() < desk.running(task).planned_end) early_ = true;
    }
    void withdrawn(const Desk&, TaskId task) override {
        if (plan_.erase(task) > 0) early_ = true;
    }
    void machines_changed(const Desk&) override { void_ = true; }

    void decide(Desk& desk) override {
        deciding_ = true;
        if (options_.backfill == Backfill::conservative) conservative(desk);
        else easy(desk);
        deciding_ = false;
        if (!desk.window_ends().empty()) desk.wake(desk.window_ends().front());
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

    std::int32_t owner(const Desk& desk, TaskId task) const {
        return options_.by_group ? desk.request(task).group : desk.request(task).user;
    }

    double use(const Desk& desk, TaskId task) const {
        double sum = 0.0;
        const double rate = std::numbers::ln2 / options_.half_life;
        for (const Span& span : history_)
            if (owner(desk, span.task) == owner(desk, task))
                sum += desk.request(span.task).cores / rate *
                       (std::exp(-rate * (desk.now() - std::min(span.end, desk.now()))) -
                        std::exp(-rate * (desk.now() - span.start)));
        return sum;
    }

    std::vector<TaskId> order(const Desk& desk) const {
        std::vector<std::pair<double, TaskId>> keyed;
        for (TaskId t = desk.first_waiting(); t != no_task; t = desk.next_waiting(t)) {
            const Request& request = desk.request(t);
            double key = 0.0;
            if (options_.order == Order::shortest) key = request.time;
            if (options_.order == Order::longest) key = -request.time;
            if (options_.order == Order::priority)
                key = -(request.priority + options_.age * (desk.now() - request.submit));
            if (options_.order == Order::fair_share) key = use(desk, t);
            keyed.emplace_back(key, t);
        }
        std::ranges::stable_sort(keyed, {}, [](const auto& each) { return each.first; });
        std::vector<TaskId> result;
        for (const auto& [key, task] : keyed) result.push_back(task);
        for (std::size_t at = 1; at < keyed.size(); ++at)
            if (options_.order == Order::fair_share && keyed[at].first > 0 &&
                owner(desk, keyed[at].second) != owner(desk, keyed[at - 1].second) &&
                keyed[at].first - keyed[at - 1].first < 1e-9 * keyed[at].first)
                *close_ = true;
        return result;
    }

    static Where held(const Desk& desk, TaskId task) {
        Where where;
        for (const Part& part : desk.parts(task))
            for (MachineId m = part.machine; m < part.machine + part.count; ++m)
                if (desk.space().open(m)) where[m] = part.cores;
        return where;
    }

    static void place(Desk& desk, TaskId task, const Where& where) {
        std::vector<Part> parts;
        if (desk.pooled()) {
            desk.find(task, desk.space(), desk.now(), parts);
        } else {
            for (const auto& [m, cores] : where) parts.push_back({m, 1, cores});
        }
        desk.place(task, parts);
    }

    static bool start(Desk& desk, TaskId task) {
        const auto where = FreeCapacity(desk).find(desk, task, desk.now());
        if (where) place(desk, task, *where);
        return where.has_value();
    }

    bool make_room(Desk& desk, TaskId task) const {
        if (options_.preemption == Preemption::no) return false;
        std::vector<TaskId> victims;
        for (const TaskId other : desk.running())
            if (desk.request(other).priority < desk.request(task).priority)
                victims.push_back(other);
        std::ranges::sort(victims, [&](TaskId a, TaskId b) {
            return std::tuple(desk.request(a).priority, -desk.running(a).start, desk.arrival(b)) <
                   std::tuple(desk.request(b).priority, -desk.running(b).start, desk.arrival(a));
        });
        const auto enough = [&](const std::vector<TaskId>& chosen) {
            FreeCapacity free(desk);
            for (const TaskId each : chosen) free.move(desk, each, held(desk, each), 1.0);
            return free.find(desk, task, desk.now()).has_value();
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
        for (const TaskId each : chosen) desk.preempt(each);
        return true;
    }

    std::set<double> moments(const Desk& desk) const {
        std::set<double> times;
        for (const TaskId task : desk.running())
            times.insert(std::max(desk.now(), desk.running(task).planned_end));
        times.insert(desk.window_ends().begin(), desk.window_ends().end());
        return times;
    }

    static FreeCapacity free_at(const Desk& desk, double time) {
        FreeCapacity free(desk);
        for (const TaskId task : desk.running())
            if (std::max(desk.now(), desk.running(task).planned_end) <= time)
                free.move(desk, task, held(desk, task), 1.0);
        return free;
    }

    // The queue after all tasks that could start in order.
    std::vector<TaskId> start_in_order(Desk& desk) {
        for (;;) {
            std::vector<TaskId> queue = order(desk);
            if (queue.empty()) return queue;
            if (start(desk, queue.front())) continue;
            if (!make_room(desk, queue.front())) return queue;
            start(desk, queue.front());
        }
    }

    void easy(Desk& desk) {
        std::vector<TaskId> queue = start_in_order(desk);
        if (queue.empty() || options_.backfill == Backfill::none) return;
        const double now = desk.now();
        const TaskId head = queue.front();
        queue.erase(queue.begin());
        if (options_.depth > 0 && queue.size() > options_.depth) queue.resize(options_.depth);
        double shadow = never;
        std::optional<FreeCapacity> extra;
        for (const double time : moments(desk)) {
            FreeCapacity free = free_at(desk, time);
            const auto where = free.find(desk, head, time);
            if (!where) continue;
            shadow = time;
            free.move(desk, head, *where, -1.0);
            extra = free;
            break;
        }
        for (const TaskId task : queue) {
            if (now + desk.request(task).time <= shadow) {
                start(desk, task);
            } else if (options_.backfill == Backfill::easy) {
                const auto where = FreeCapacity(desk).both(*extra).find(desk, task, now);
                if (!where) continue;
                place(desk, task, *where);
                extra->move(desk, task, *where, -1.0);
            }
        }
    }

    Planned earliest(const Desk& desk, TaskId task) const {
        std::set<double> times = moments(desk);
        times.insert(desk.now());
        for (const auto& [other, planned] : plan_) {
            times.insert(planned.start);
            times.insert(planned.start + desk.request(other).time);
        }
        const auto free_then = [&](double time) {
            FreeCapacity free = free_at(desk, time);
            for (const auto& [other, planned] : plan_)
                if (planned.start <= time && time < planned.start + desk.request(other).time)
                    free.move(desk, other, planned.where, -1.0);
            return free;
        };
        for (const double start : times) {
            if (start < desk.now() || start == never) continue;
            FreeCapacity free = free_then(start);
            for (const double time : times)
                if (time > start && time < start + desk.request(task).time)
                    free = free.both(free_then(time));
            if (const auto where = free.find(desk, task, start)) return {start, *where};
        }
        return {};
    }

    void conservative(Desk& desk) {
        const bool preempts = options_.preemption != Preemption::no;
        if (options_.compress || preempts) {
            const bool overdue = std::ranges::any_of(
                plan_, [&](const auto& each) { return each.second.start < desk.now(); });
            if (!literal_ || preempts || early_ || overdue) plan_.clear();
        } else {
            for (auto& [task, planned] : plan_) planned.start = std::max(planned.start, desk.now());
            if (early_)
                std::erase_if(plan_, [](const auto& each) { return each.second.start == never; });
        }
        if (void_) plan_.clear();
        if (plan_.empty()) start_in_order(desk);
        void_ = early_ = false;
        // First the tasks reserved for this time, then the tasks without a reservation.
        for (const TaskId task : order(desk))
            if (plan_.contains(task)) start_planned(desk, task);
        for (const TaskId task : order(desk)) {
            if (plan_.contains(task)) continue;
            if (options_.depth > 0 && plan_.size() > options_.depth) break;
            plan_[task] = earliest(desk, task);
            start_planned(desk, task);
        }
        for (const auto& [task, planned] : plan_)
            if (planned.start > desk.now() && planned.start < never) desk.wake(planned.start);
    }

    static bool possible_now(const Desk& desk, TaskId task, const Planned& planned) {
        FreeCapacity free(desk);
        free.move(desk, task, planned.where, -1.0);
        return std::ranges::all_of(free.cores, [](double c) { return c > -1e-9; }) &&
               std::ranges::all_of(free.memory, [](double c) { return c > -1e-3; });
    }

    void start_planned(Desk& desk, TaskId task) {
        const Planned planned = plan_[task];
        if (planned.start != desk.now() || !possible_now(desk, task, planned)) return;
        place(desk, task, planned.where);
        plan_.erase(task);
    }

    BatchOptions options_;
    bool literal_;
    bool* close_;
    bool deciding_ = false;
    bool early_ = false;
    bool void_ = false;
    std::map<TaskId, Planned> plan_;
    std::vector<Span> history_;
};

// --- test driver --------------------------------------------------------------------------------

std::vector<Step> run(const Log& log, std::unique_ptr<Policy> policy, long clone_at = -1) {
    Desk desk(log.machines, 0, {}, log.windows, log.queues);
    desk.set_policy(policy.get());
    std::vector<Step> steps;
    std::set<std::pair<double, TaskId>> ends;
    std::map<TaskId, double> end_of;
    for (const Job& job : log.jobs) desk.add_task(job.request, {});
    std::size_t next = 0;
    std::size_t next_change = 0;
    std::size_t next_withdrawal = 0;
    for (long count = 0;; ++count) {
        double now = desk.wake_time();
        // Fair shares are evaluated at every decision, so decisions are requested only at events.
        if (log.options.order == Order::fair_share &&
            log.options.backfill == Backfill::conservative)
            now = desk.window_ends().empty() ? never : desk.window_ends().front();
        if (!ends.empty()) now = std::min(now, ends.begin()->first);
        if (next < log.jobs.size()) now = std::min(now, log.jobs[next].request.submit);
        if (next_change < log.changes.size()) now = std::min(now, log.changes[next_change].time);
        if (next_withdrawal < log.withdrawals.size())
            now = std::min(now, log.withdrawals[next_withdrawal].first);
        if (now == never || count > 100000) break;
        desk.set_now(now);
        while (!ends.empty() && ends.begin()->first <= now) {
            const TaskId task = ends.begin()->second;
            ends.erase(ends.begin());
            desk.end(task);
        }
        while (next < log.jobs.size() && log.jobs[next].request.submit <= now)
            desk.submit(static_cast<TaskId>(next++));
        for (; next_change < log.changes.size() && log.changes[next_change].time <= now;
             ++next_change)
            desk.set_open(log.changes[next_change].machine, log.changes[next_change].open);
        for (; next_withdrawal < log.withdrawals.size() &&
               log.withdrawals[next_withdrawal].first <= now;
             ++next_withdrawal) {
            const TaskId task = log.withdrawals[next_withdrawal].second;
            if (desk.phase(task) == Phase::waiting) desk.withdraw(task);
        }
        if (count == clone_at) {
            policy = policy->clone();
            desk.set_policy(policy.get());
        }
        if (!desk.must_decide()) {
            desk.clear_wake();
            continue;
        }
        for (const Desk::Decision& decision : desk.decide()) {
            const TaskId task = decision.task;
            const bool placed = decision.kind == Desk::Decision::Kind::place;
            Step step{now, placed, task, {}};
            if (placed && !desk.pooled())
                for (const Part& part : desk.parts(task))
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
    options.order = static_cast<Order>(draw.upto(4));
    if (draw.chance(40)) options.order = Order::arrival;
    options.backfill = static_cast<Backfill>(draw.upto(3));
    options.compress = options.order == Order::fair_share || draw.chance(50);
    if (draw.chance(15)) options.depth = static_cast<std::uint32_t>(1 + draw.upto(4));
    options.age = draw.chance(50) ? 0.0 : 0.25;
    options.half_life = 10.0;
    options.by_group = draw.chance(30);
    if (options.order == Order::priority && draw.chance(60))
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
            Window window;
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
    const bool whole = options.order != Order::fair_share;
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
    Desk empty(log.machines, 0, {}, log.windows, log.queues);
    const auto policy = make_batch(options);
    for (const Job& job : log.jobs) empty.add_task(job.request, {});
    std::vector<Job> possible;
    for (TaskId task = 0; task < log.jobs.size(); ++task)
        if (policy->possible(empty, task)) possible.push_back(log.jobs[task]);
    log.jobs = std::move(possible);
    if (draw.chance(20)) {
        const auto machine = static_cast<MachineId>(draw.upto(machines - 1));
        const double closes = draw.upto(20);
        log.changes.push_back({closes, machine, false});
        log.changes.push_back({closes + 1 + draw.upto(20), machine, true});
    }
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
    if (log.options.order == Order::arrival)
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
    for (const Window& each : log.windows) {
        std::printf("  window %g-%g:", each.start, each.end);
        for (const auto m : each.machines) std::printf(" %d", m);
        std::printf(" users %zu\n", each.users.size());
    }
    for (const Change& each : log.changes)
        std::printf("  at %g machine %u %s\n", each.time, each.machine,
                    each.open ? "opens" : "closes");
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
