// A compiled scenario: everything that its runs share.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "control/access.hpp"
#include "control/scheduler_state.hpp"
#include "platform/contention.hpp"
#include "platform/machine.hpp"
#include "platform/machine_states.hpp"
#include "platform/outages.hpp"
#include "platform/power.hpp"
#include "work/source.hpp"
#include "work/task_table.hpp"

namespace twinloop {

// The model values in which the runs of a scenario may differ.
struct ModelValues {
    double speed_factor = 1.0;
    double service_factor = 1.0;
    double startup_overhead = 0.0;
    double effective_capacity = 1.0;
    double dispatch_latency = 0.0;
    double release_latency = 0.0;
    double decision_interval = 0.0;
    std::vector<double> service_factors;  // by kind of task
    std::shared_ptr<const ContentionRule> contention;
    std::shared_ptr<const PowerModel> power;  // of all machines; nullptr: as in the scenario
};

// The number of values that every scenario has; further ones follow them in a row.
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
    std::size_t index = 0;  // of the kind of task, or of the point of the table
};

// The fate of a task whose execution was interrupted.
enum class Interrupted : std::uint8_t { restart, resume, lost };

struct ModelOptions {
    bool fixed_demand = false;   // a faster machine does not raise the demand
    bool no_delay = false;       // shared machines do not delay tasks: work is lost
    bool kill = false;           // at the requested time
    bool decide_events = false;  // a decision after each event, not once per instant
    Interrupted after_failure = Interrupted::restart;
    Interrupted after_preemption = Interrupted::restart;
    std::uint32_t max_failures = ~0U;  // of a task, then it has failed
    double checkpoint_interval = never;
    double checkpoint_cost = 0.0;
    // The order of ends, changes of machines and submissions within an instant: rank of each.
    std::array<std::uint8_t, 3> instant_order = {0, 1, 2};
};

class Scenario {
  public:
    std::vector<MachineSpec> machines;
    std::vector<std::shared_ptr<const PowerModel>> powers;  // by machine; empty: none
    std::vector<double> machine_amounts;                    // of other resources, by machine
    std::shared_ptr<const StateTables> states = StateTables::common();
    std::vector<AccessWindow> windows;
    std::vector<QueueRule> queues;
    std::shared_ptr<const Outages> outages = std::make_shared<Outages>();
    std::shared_ptr<TaskTable> tasks = std::make_shared<TaskTable>();
    std::shared_ptr<const Submissions> submissions = std::make_shared<Submissions>();
    std::vector<double> service_factors;  // by kind of task
    std::shared_ptr<const ContentionRule> contention = std::make_shared<ContentionRule>();
    std::vector<FurtherValue> further;
    ModelOptions options;

    // Derives the rest; to be called after changes of tasks, machines or options.
    void complete();

    [[nodiscard]] std::size_t size() const { return tasks->size(); }
    [[nodiscard]] bool metered() const { return !powers.empty(); }
    // Whether a row may have that many values: the common ones, or all.
    [[nodiscard]] bool takes(std::size_t values) const {
        return values == model_values || values == model_values + further.size();
    }
    [[nodiscard]] ModelValues values(std::span<const double> row) const;
    // The scheduler state at the start, with so many times the cores of the machines.
    [[nodiscard]] SchedulerState make_scheduler_state(const Controller& controller,
                                                      double capacity) const;
    // The requested time, or else the recorded run time.
    [[nodiscard]] double requested_or_recorded_time(TaskId task) const;
    // Whether tasks may demand more than the cores of their placement provide.
    [[nodiscard]] bool may_share(const ModelValues& values, const Controller& controller) const;

  private:
    double peak_spread_ = 0.0;  // highest demand per core, for tasks on any number of machines
    double peak_alone_ = 0.0;   // and for tasks on one machine
};

}  // namespace twinloop
