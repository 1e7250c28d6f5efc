// A scenario, compiled: all that a run needs, as columns. Many runs share one.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "kernel/efficiency.hpp"
#include "model/desk.hpp"
#include "model/power.hpp"

namespace twinloop {

// How sharing a machine makes work grow.
struct ContentionRule {
    enum class Kind : std::uint8_t { none, linear, table, kinds } kind = Kind::none;
    double slope = 0.0;
    std::vector<double> loads;  // of the table
    std::vector<double> inflations;
    std::vector<double> pressures;  // by kind of task
    std::vector<double> sensitivities;
    bool within_core = false;  // who presses: those that share a core, not all on the machine
};

// The values of a Model that one run may differ in from another.
struct Values {
    double speed_factor = 1.0;
    double service_factor = 1.0;
    double startup_overhead = 0.0;
    double effective_capacity = 1.0;
    double dispatch_latency = 0.0;
    double release_latency = 0.0;
    double decision_interval = 0.0;
    std::vector<double> service_factors;  // by kind of task
    std::shared_ptr<const ContentionRule> contention;
    std::shared_ptr<const PowerModel> power;  // of every machine; none: as the problem says
};

// How many of them every scenario has. What a scenario has beyond these follows in the row.
inline constexpr std::size_t model_values = 7;
struct FurtherValue {
    enum class What : std::uint8_t {
        service_factor,
        slope,
        inflation,
        pressure,
        sensitivity,
        idle,
        max,
        parameter
    };
    What what = What::slope;
    std::size_t index = 0;  // the kind of task, or the point of the table
};

enum class Interrupted : std::uint8_t { restart, resume, lost };

// A machine is not there. Several may overlap.
struct Down {
    MachineId machine = 0;
    double start = 0.0;
    double end = never;
};

// All of them that start before a time. A list up to a later time begins with the same ones.
struct Downs {
    std::vector<Down> list;  // by start
    double until = never;
};

// Users who submit session by session (Algorithm 1 of Madon et al., FGCS 155, 2024).
struct SessionColumns {
    std::vector<std::uint32_t> job_offsets;  // jobs of a session, in order of submission
    std::vector<TaskId> jobs;
    std::vector<double> delays;  // of each job after the start of its session
    std::vector<std::uint32_t> successor_offsets;
    std::vector<std::uint32_t> successors;
    std::vector<double> think_times;
    std::vector<std::uint32_t> dependencies;  // how many sessions each one waits for
    std::vector<double> starts;               // of those that wait for none
    [[nodiscard]] bool empty() const { return job_offsets.size() < 2; }
};

struct Problem {
    // machines
    std::vector<MachineSpec> machines;
    std::vector<std::uint32_t> power_of;  // index into `powers`
    std::vector<PowerModel> powers;
    std::size_t resources = 0;
    std::vector<double> machine_amounts;
    std::vector<Window> windows;
    std::vector<QueueRule> queues;
    std::shared_ptr<const Downs> downs = std::make_shared<Downs>();

    // tasks
    std::vector<Request> requests;  // `time` is what the user asked for; NaN: nothing
    std::vector<double> amounts;
    std::vector<double> work;
    std::vector<double> limit;
    std::vector<double> length;  // seconds of the record that it takes
    std::vector<double> speed;
    std::vector<double> deadline;
    std::vector<std::uint16_t> kind;
    std::vector<std::uint8_t> rejected;
    std::vector<std::uint32_t> fragment_offsets;
    std::vector<double> fragment_duration;
    std::vector<double> fragment_rate;
    std::vector<std::uint32_t> child_offsets;
    std::vector<TaskId> children;
    std::vector<std::uint32_t> parents;  // how many each one has

    SessionColumns sessions;
    std::vector<double> service_factors;  // by kind of task
    std::shared_ptr<const ContentionRule> contention = std::make_shared<ContentionRule>();
    std::vector<FurtherValue> further;
    bool fixed_demand = false;
    bool no_delay = false;
    bool kill = false;
    Interrupted after_failure = Interrupted::restart;
    Interrupted after_preemption = Interrupted::restart;
    double checkpoint_interval = never;
    double checkpoint_cost = 0.0;

    bool even = true;  // all machines are equally fast

    [[nodiscard]] std::size_t size() const { return requests.size(); }
    // Fills in what follows from the rest.
    void complete();
    // Whether a row may have so many values: those of every scenario, or the further ones as well.
    [[nodiscard]] bool takes(std::size_t values) const {
        return values == model_values || values == model_values + further.size();
    }
    [[nodiscard]] Values values(std::span<const double> row) const;
    [[nodiscard]] double length_of(TaskId task) const;
    // The desk of a policy at these machines, with so many times their cores, and all tasks;
    // `plan(task)` is the time that it is told of each.
    template <class Plan>
    [[nodiscard]] Desk make_desk(Policy* policy, double capacity, Plan&& plan) const {
        std::vector<MachineSpec> told = machines;
        for (MachineSpec& each : told) each.cores *= capacity;
        Desk desk(std::move(told), resources, machine_amounts, windows, queues);
        desk.set_policy(policy);
        desk.reserve_tasks(size());
        for (TaskId task = 0; task < size(); ++task) {
            Request request = requests[task];
            request.time = plan(task);
            desk.add_task(request, std::span(amounts).subspan(task * resources, resources));
        }
        return desk;
    }
    // What was asked for or, where nobody asked, how long it took in the record.
    [[nodiscard]] double requested_or_length(TaskId task) const {
        return std::isnan(requests[task].time) ? length[task] : requests[task].time;
    }
    [[nodiscard]] bool metered() const { return !powers.empty(); }
    [[nodiscard]] bool varies(TaskId task) const {
        return fragment_offsets[task + 1] > fragment_offsets[task];
    }
};

}  // namespace twinloop
