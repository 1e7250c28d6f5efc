// Test of the filter scheduler against its definition on random platforms, options and events:
// every decision is recomputed over all machines with integers. The argument is the number of
// programs; seeds are fixed.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "control/policies/options.hpp"
#include "control/scheduler_state.hpp"

namespace {

using namespace twinloop;

void require(bool holds, const char* law) {
    if (holds) return;
    std::fprintf(stderr, "\nthe law does not hold: %s\n", law);
    std::abort();
}

class RandomValues {
  public:
    explicit RandomValues(std::uint64_t seed) : random_(seed) {}
    std::int64_t below(std::int64_t bound) {
        return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(bound));
    }
    bool one_in(std::int64_t count) { return below(count) == 0; }
    template <class T>
    T of(std::initializer_list<T> values) {
        return values.begin()[below(static_cast<std::int64_t>(values.size()))];
    }

  private:
    std::mt19937_64 random_;
};

// Cores in quarters, memory and other resources in units, ratios in hundredths.
struct Machine {
    std::int64_t cores = 4;
    std::optional<std::int64_t> memory;
    std::vector<std::int64_t> amounts;
    std::int64_t used_cores = 0;
    std::int64_t used_memory = 0;
    std::vector<std::int64_t> used_amounts;
    std::int64_t instances = 0;
    bool present = true;
    bool off = false;
    double mhz = 0.0;
    double speed = 1.0;

    [[nodiscard]] bool is_open() const { return present && !off; }
    [[nodiscard]] MachineSpec spec() const {
        return {static_cast<double>(cores) / 4, memory ? static_cast<double>(*memory) : never,
                speed, mhz};
    }
};

// The request per machine.
struct Job {
    std::int64_t cores = 4;
    std::int64_t memory = 0;
    std::vector<std::int64_t> amounts;
    double mhz = 0.0;
    std::int64_t nodes = 1;
    std::vector<MachineId> machines;
};

class Program {
  public:
    explicit Program(std::uint64_t seed) : chance_(seed) {
        make_machines();
        make_options();
        policy_ = make_filter(options_);
        scheduler_.set_controller(policy_.get());
        require(policy_->overcommits() == is_overcommitting(),
                "overcommits() agrees with the definition");
    }

    void run(int events) {
        for (int event = 0; event < events; ++event) {
            apply_event();
            if (scheduler_.must_decide()) decide();
        }
    }

  private:
    Machine make_machine();
    void make_machines();
    void make_options();
    void apply_event();
    void submit();
    void occupy(const Job& task, std::int64_t sign);
    void decide();
    void check(TaskId id, std::span<const Part> parts);

    [[nodiscard]] bool is_overcommitting() const {
        bool single = false;
        bool limited = false;
        bool above = true;
        for (const auto& [filter, value] : options_.filters) {
            if (filter == Filter::instance_count && value <= 1) single = true;
            if (filter == Filter::vcpu) {
                limited = true;
                above = above && value > 1;
            }
        }
        return limited ? above : !single;
    }
    [[nodiscard]] static bool fits(std::int64_t asked, std::int64_t used, std::int64_t size,
                                   double ratio) {
        return asked <= size && 100 * (used + asked) <= std::lround(100 * ratio) * size;
    }
    [[nodiscard]] bool passes(const Job& task, const Machine& machine) const;
    [[nodiscard]] std::vector<MachineId> passing(TaskId id) const;
    [[nodiscard]] double value(Weigher weigher, const Machine& machine) const;
    // Best first.
    [[nodiscard]] std::vector<MachineId> ordered(const std::vector<MachineId>& machines) const;

    RandomValues chance_;
    std::vector<Machine> machines_;
    std::size_t resources_ = 0;
    bool finite_ = false;
    bool clocks_ = false;
    FilterOptions options_;
    SchedulerState scheduler_;
    std::unique_ptr<Controller> policy_;
    std::vector<Job> tasks_;
    std::set<std::pair<std::uint64_t, TaskId>> waiting_;  // by arrival
    std::vector<TaskId> running_;
    std::int64_t round_ = 0;  // the first machine of the next round
    double now_ = 0.0;
};

Machine Program::make_machine() {
    Machine machine;
    machine.cores = chance_.of<std::int64_t>({4, 8, 8, 16, 32, 10, 2400});
    if (finite_ && !chance_.one_in(12)) machine.memory = chance_.of<std::int64_t>({4, 8, 16, 64});
    if (clocks_ && !chance_.one_in(30)) machine.mhz = chance_.of({2000.0, 2600.0, 3000.0});
    machine.speed = chance_.of({1.0, 1.5});
    for (std::size_t r = 0; r < resources_; ++r)
        machine.amounts.push_back(chance_.of<std::int64_t>({0, 1, 4}));
    machine.used_amounts.assign(resources_, 0);
    return machine;
}

void Program::make_machines() {
    const std::int64_t count = chance_.one_in(8) ? 20 + chance_.below(150) : 1 + chance_.below(9);
    resources_ = chance_.one_in(3) ? static_cast<std::size_t>(1 + chance_.below(2)) : 0;
    finite_ = !chance_.one_in(4);
    clocks_ = chance_.one_in(2);
    std::vector<MachineSpec> specs;
    std::vector<double> amounts;
    for (std::int64_t m = 0; m < count; ++m) {
        machines_.push_back(make_machine());
        const Machine& machine = machines_.back();
        specs.push_back(machine.spec());
        amounts.insert(amounts.end(), machine.amounts.begin(), machine.amounts.end());
    }
    const auto some = [&] {
        std::vector<std::uint8_t> chosen(machines_.size());
        for (std::uint8_t& each : chosen) each = chance_.one_in(2) ? 1 : 0;
        return chosen;
    };
    std::vector<AccessWindow> windows;
    if (chance_.one_in(4))
        for (std::int64_t w = 1 + chance_.below(3); w > 0; --w) {
            const auto start = static_cast<double>(chance_.below(100));
            windows.push_back({start,
                               start + static_cast<double>(1 + chance_.below(60)),
                               some(),
                               {static_cast<std::int32_t>(chance_.below(3))},
                               {}});
        }
    std::vector<QueueRule> queues;
    if (chance_.one_in(4)) {
        queues.push_back({some(), chance_.one_in(2) ? 3U : ~0U, ~0U});
        queues.emplace_back();
    }
    scheduler_ = SchedulerState(std::make_shared<TaskTable>(resources_), specs, amounts, windows,
                                queues, false);
}

void Program::make_options() {
    const auto ratio = [&] { return chance_.of({1.0, 1.0, 1.0, 0.5, 1.1, 1.25, 1.5, 2.0}); };
    if (!chance_.one_in(5)) options_.filters.emplace_back(Filter::vcpu, ratio());
    if (!chance_.one_in(3)) options_.filters.emplace_back(Filter::ram, ratio());
    if (chance_.one_in(2)) options_.filters.emplace_back(Filter::resource, ratio());
    if (chance_.one_in(3)) options_.filters.emplace_back(Filter::capacity, 0.0);
    if (chance_.one_in(3))
        options_.filters.emplace_back(Filter::instance_count, chance_.of({1.0, 2.0, 3.0}));
    if (chance_.one_in(6)) options_.filters.emplace_back(Filter::vcpu, ratio());
    for (std::int64_t w = chance_.of<std::int64_t>({0, 1, 1, 1, 2, 3}); w > 0; --w)
        options_.weighers.emplace_back(chance_.of({Weigher::instance_count, Weigher::vcpu,
                                                   Weigher::vcpu, Weigher::ram, Weigher::capacity}),
                                       chance_.of({1.0, -1.0, 0.5, -2.0, 0.0}));
    if (chance_.one_in(5)) options_.subset = static_cast<std::uint32_t>(1 + chance_.below(4));
    options_.skip = chance_.one_in(2);
    options_.pick = chance_.of(
        {Pick::first, Pick::first, Pick::first, Pick::first, Pick::random, Pick::round_robin});
    options_.seed = static_cast<std::uint64_t>(chance_.below(1000));
}

// --- events -----------------------------------------------------------------------------------

void Program::apply_event() {
    const auto any = [&] {
        return static_cast<std::size_t>(chance_.below(static_cast<std::int64_t>(machines_.size())));
    };
    const std::int64_t kind = chance_.below(44);
    if (kind < 22) {
        for (std::int64_t count = 1 + chance_.below(3); count > 0; --count) submit();
    } else if (kind < 34 && !running_.empty()) {
        const auto at = chance_.below(static_cast<std::int64_t>(running_.size()));
        const TaskId id = running_[static_cast<std::size_t>(at)];
        running_.erase(running_.begin() + at);
        occupy(tasks_[id], -1);
        if (kind == 33) {
            scheduler_.preempt(id);
        } else {
            scheduler_.end(id);
        }
    } else if (kind == 34 && !waiting_.empty()) {
        auto leaving = waiting_.begin();
        std::advance(leaving, chance_.below(static_cast<std::int64_t>(waiting_.size())));
        // The decision after the last event may have placed it.
        if (scheduler_.phase(leaving->second) == Phase::waiting)
            scheduler_.withdraw(leaving->second);
    } else if (kind == 35) {
        const std::size_t m = any();
        machines_[m].present = !machines_[m].present;
        scheduler_.set_present(static_cast<MachineId>(m), machines_[m].present);
    } else if (kind == 36) {
        const std::size_t m = any();
        machines_[m].cores = chance_.of<std::int64_t>({4, 8, 12});
        scheduler_.resize(static_cast<MachineId>(m), static_cast<double>(machines_[m].cores) / 4);
    } else if (kind == 40) {
        machines_.push_back(make_machine());
        const Machine& machine = machines_.back();
        const std::vector<double> amounts(machine.amounts.begin(), machine.amounts.end());
        scheduler_.add_machine(machine.spec(), amounts);
    } else if (kind > 40) {
        // Only machines without tasks are switched.
        const std::size_t m = any();
        if (machines_[m].instances == 0) {
            machines_[m].off = !machines_[m].off;
            scheduler_.set_status(static_cast<MachineId>(m),
                                  {machines_[m].off ? off_state : running_state});
        }
    } else if (kind == 37) {
        policy_ = policy_->clone();
        scheduler_.set_controller(policy_.get());
    } else {
        now_ += static_cast<double>(chance_.below(20));
        scheduler_.set_now(now_);
    }
    waiting_.clear();
    for (TaskId id = scheduler_.first_waiting(); id != no_task; id = scheduler_.next_waiting(id))
        waiting_.emplace(scheduler_.arrival(id), id);
}

void Program::submit() {
    Job task;
    task.cores = chance_.of<std::int64_t>({4, 4, 4, 8, 8, 16, 32, 1, 2, 3, 40});
    task.memory = chance_.of<std::int64_t>({0, 1, 1, 2, 4, 8, 20});
    for (std::size_t r = 0; r < resources_; ++r)
        task.amounts.push_back(chance_.of<std::int64_t>({0, 0, 1, 2}));
    if (chance_.one_in(4)) task.mhz = chance_.of({2000.0, 2600.0, 3500.0});
    const std::int64_t nodes = chance_.one_in(4) ? 1 + chance_.below(4) : 0;
    task.nodes = std::max<std::int64_t>(nodes, 1);
    if (nodes == 0 && chance_.one_in(20)) task.cores = 0;

    Request request;
    request.cores = static_cast<double>(task.cores * task.nodes) / 4;
    request.memory = static_cast<double>(task.memory * task.nodes);
    request.time = static_cast<double>(chance_.below(40));
    request.submit = now_;
    request.mhz = task.mhz;
    request.nodes = static_cast<std::int32_t>(nodes);
    request.user = static_cast<std::int32_t>(chance_.below(4));
    request.queue = static_cast<std::int32_t>(chance_.below(3)) - 1;
    std::vector<double> amounts;
    amounts.reserve(resources_);
    for (const std::int64_t amount : task.amounts)
        amounts.push_back(static_cast<double>(amount * task.nodes));
    Task row;
    row.request = request;
    const TaskId id = scheduler_.add_task(row, amounts);
    scheduler_.set_planned_time(id, request.time);
    tasks_.push_back(task);

    std::int64_t count = 0;
    for (MachineId m = 0; m < machines_.size(); ++m) {
        Machine empty = machines_[m];
        empty.used_cores = empty.used_memory = empty.instances = 0;
        empty.used_amounts.assign(resources_, 0);
        empty.present = true;
        empty.off = false;
        if (passes(task, empty) && scheduler_.allowed(id, m, never, request.time)) ++count;
    }
    require(policy_->possible(scheduler_, id) == (count >= task.nodes),
            "a task is possible if enough empty machines pass the filters");
    scheduler_.submit(id);
}

void Program::occupy(const Job& task, std::int64_t sign) {
    for (const MachineId m : task.machines) {
        Machine& machine = machines_[m];
        machine.used_cores += sign * task.cores;
        machine.used_memory += sign * task.memory;
        for (std::size_t r = 0; r < resources_; ++r)
            machine.used_amounts[r] += sign * task.amounts[r];
        machine.instances += sign;
    }
}

// --- expected decisions -----------------------------------------------------------------------

bool Program::passes(const Job& task, const Machine& machine) const {
    return std::ranges::all_of(options_.filters, [&](const auto& each) {
        const auto& [filter, limit] = each;
        switch (filter) {
            case Filter::instance_count:
                return static_cast<double>(machine.instances) < limit;
            case Filter::vcpu:
                return fits(task.cores, machine.used_cores, machine.cores, limit);
            case Filter::ram:
                return !machine.memory ||
                       fits(task.memory, machine.used_memory, *machine.memory, limit);
            case Filter::capacity:
                return task.mhz == 0 || machine.mhz == 0 || machine.mhz >= task.mhz;
            case Filter::resource:
                for (std::size_t r = 0; r < resources_; ++r)
                    if (!fits(task.amounts[r], machine.used_amounts[r], machine.amounts[r], limit))
                        return false;
                return true;
        }
        return false;
    });
}

std::vector<MachineId> Program::passing(TaskId id) const {
    std::vector<MachineId> found;
    for (MachineId m = 0; m < machines_.size(); ++m)
        if (machines_[m].is_open() && passes(tasks_[id], machines_[m]) &&
            scheduler_.allowed(id, m, now_, scheduler_.planned_time(id)))
            found.push_back(m);
    return found;
}

double Program::value(Weigher weigher, const Machine& machine) const {
    switch (weigher) {
        case Weigher::instance_count:
            return static_cast<double>(machine.instances);
        case Weigher::vcpu: {
            std::int64_t ratio = 1000;
            for (const auto& [filter, limit] : options_.filters)
                if (filter == Filter::vcpu)
                    ratio = std::min<std::int64_t>(ratio, std::lround(100 * limit));
            if (ratio == 1000) ratio = 100;
            return static_cast<double>(ratio * machine.cores - 100 * machine.used_cores);
        }
        case Weigher::ram:
            return machine.memory ? static_cast<double>(*machine.memory - machine.used_memory)
                                  : never;
        case Weigher::capacity:
            return std::ranges::all_of(machines_, [](const auto& m) { return m.mhz > 0; })
                       ? machine.mhz
                       : machine.speed;
    }
    return 0.0;
}

std::vector<MachineId> Program::ordered(const std::vector<MachineId>& machines) const {
    std::vector<double> sums(machines_.size(), 0.0);
    for (const auto& [weigher, multiplier] : options_.weighers) {
        double low = never;
        double high = -never;
        for (const MachineId m : machines) {
            low = std::min(low, value(weigher, machines_[m]));
            high = std::max(high, value(weigher, machines_[m]));
        }
        for (const MachineId m : machines) {
            const double raw = value(weigher, machines_[m]);
            if (low == high) continue;
            if (high == never) sums[m] += raw == never ? multiplier : 0.0;
            else sums[m] += multiplier * ((raw - low) / (high - low));
        }
    }
    // A single weigher distinguishes machines that are equally far from an infinite one.
    const auto effective =
        std::ranges::count_if(options_.weighers, [](const auto& each) { return each.second != 0; });
    if (effective == 1)
        for (const auto& [weigher, multiplier] : options_.weighers)
            for (const MachineId m : machines)
                if (multiplier != 0) sums[m] = multiplier * value(weigher, machines_[m]);
    std::vector<MachineId> sorted = machines;
    std::ranges::stable_sort(sorted, [&](MachineId a, MachineId b) { return sums[a] > sums[b]; });
    return sorted;
}

void Program::check(TaskId id, std::span<const Part> parts) {
    Job& task = tasks_[id];
    task.machines.clear();
    for (const Part& part : parts) {
        require(part.cores == static_cast<double>(task.cores) / 4,
                "each machine provides the cores of one node");
        for (MachineId m = part.machine; m < part.machine + part.count; ++m)
            task.machines.push_back(m);
    }
    const auto nodes = static_cast<std::size_t>(task.nodes);
    require(task.machines.size() == nodes,
            "the number of machines is the number of requested nodes");
    std::vector<MachineId> expected = passing(id);
    require(expected.size() >= nodes, "a task is placed only if enough machines pass the filters");
    if (options_.pick == Pick::round_robin) {
        const auto first = std::ranges::lower_bound(expected, round_);
        std::ranges::rotate(expected, first);
        round_ = static_cast<std::int64_t>(expected[nodes - 1]) + 1;
        expected.resize(nodes);
    } else if (options_.pick == Pick::first) {
        expected = ordered(expected);
        expected.resize(std::min(expected.size(), nodes + options_.subset - 1));
    }
    std::ranges::sort(expected);
    require(std::ranges::includes(expected, task.machines), "the best machines are chosen");
    require(std::ranges::adjacent_find(task.machines) == task.machines.end(),
            "the machines are distinct");
}

void Program::decide() {
    // A copy makes the same decisions and does not change the original.
    SchedulerState other = scheduler_;
    const std::unique_ptr<Controller> twin = policy_->clone();
    other.set_controller(twin.get());
    const auto copied = other.decide();

    const auto decisions = scheduler_.decide();
    require(copied.size() == decisions.size(), "a copy places the same number of tasks");
    std::size_t next = 0;
    bool blocked = false;
    for (const auto& [arrival, id] : waiting_) {
        const bool placed = next < decisions.size() && decisions[next].task == id;
        if (!placed) {
            const std::size_t found = passing(id).size();
            require(blocked || found < static_cast<std::size_t>(tasks_[id].nodes),
                    "a waiting task fits nowhere, or waits behind a task that fits nowhere");
            blocked = blocked || !options_.skip;
            continue;
        }
        require(!blocked, "no task passes a waiting task, unless skipping is allowed");
        require(copied[next].task == id && std::ranges::equal(other.parts(id), scheduler_.parts(id),
                                                              [](const Part& a, const Part& b) {
                                                                  return a.machine == b.machine &&
                                                                         a.count == b.count;
                                                              }),
                "a copy chooses the same machines");
        check(id, scheduler_.parts(id));
        occupy(tasks_[id], 1);
        running_.push_back(id);
        ++next;
    }
    require(next == decisions.size(), "tasks are placed in the order of arrival, each once");
    if (scheduler_.waiting_count() > 0 && !scheduler_.window_ends().empty())
        require(scheduler_.wake_time() <= scheduler_.window_ends().front(),
                "a decision is requested at the next end of a window");
}

}  // namespace

int main(int count, char** arguments) {
    const long programs = count > 1 ? std::strtol(arguments[1], nullptr, 10) : 1000;
    for (long seed = 0; seed < programs; ++seed) {
        std::fprintf(stderr, "\rprogram %ld", seed);
        Program(static_cast<std::uint64_t>(seed)).run(150);
    }
    std::printf("\n%ld passed, 0 failed\n", programs);
    return 0;
}
