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
#include "platform/cloud_plan.hpp"
#include "platform/contention.hpp"
#include "platform/machine.hpp"
#include "platform/machine_states.hpp"
#include "platform/network_plan.hpp"
#include "platform/outages.hpp"
#include "platform/power.hpp"
#include "work/file_table.hpp"
#include "work/source.hpp"
#include "work/task_table.hpp"
#include "world/parameters.hpp"

namespace twinloop {

// The fate of a task whose execution was interrupted.
enum class Interrupted : std::uint8_t { restart, resume, lost };

struct ModelOptions {
    bool fixed_demand = false;   // a faster machine does not raise the demand
    bool no_delay = false;       // shared machines do not delay tasks: work is lost
    bool kill = false;           // at the requested time
    bool decide_events = false;  // a decision after each event, not once per instant
    bool managed = false;        // a workflow manager submits the tasks
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
    std::vector<std::uint32_t> groups;  // the group of hosts of each machine; empty: all in one
    std::vector<std::shared_ptr<const PowerModel>> powers;  // by machine; empty: none
    std::vector<double> machine_amounts;                    // of other resources, by machine
    std::shared_ptr<const StateTables> states = StateTables::common();
    std::vector<AccessWindow> windows;
    std::vector<QueueRule> queues;
    std::shared_ptr<const Outages> outages = std::make_shared<Outages>();
    std::shared_ptr<TaskTable> tasks = std::make_shared<TaskTable>();
    std::shared_ptr<const Submissions> submissions = std::make_shared<Submissions>();
    // The network and the files of the tasks; nullptr: they are ignored.
    std::shared_ptr<const NetworkPlan> network;
    std::shared_ptr<const FileTable> files;
    std::shared_ptr<const CloudPlans> clouds = std::make_shared<const CloudPlans>();
    std::vector<double> service_factors;  // by kind of task
    std::shared_ptr<const ContentionRule> contention = std::make_shared<ContentionRule>();
    ValueColumns columns;  // of a row of values
    ModelOptions options;

    // Derives the rest; to be called after changes of tasks, machines or options.
    void complete();

    [[nodiscard]] std::size_t size() const { return tasks->size(); }
    [[nodiscard]] bool metered() const { return !powers.empty(); }
    // The values of a run: those of the scenario, changed by a row with these columns.
    [[nodiscard]] ModelValues values(std::span<const double> row,
                                     const ValueColumns& its_columns) const;
    [[nodiscard]] ModelValues values(std::span<const double> row) const {
        return values(row, columns);
    }
    [[nodiscard]] std::size_t group_count() const { return firsts_.size(); }
    [[nodiscard]] MachineId first_of_group(std::size_t group) const { return firsts_.at(group); }
    // The machines of a run with these values.
    [[nodiscard]] const std::vector<MachineSpec>& machines_of(const ModelValues& values) const {
        return values.machines ? *values.machines : machines;
    }
    [[nodiscard]] const NetworkPlan& network_of(const ModelValues& values) const {
        return values.network ? *values.network : *network;
    }
    // The power model of a machine; nullptr: none.
    [[nodiscard]] std::shared_ptr<const PowerModel> power_of(const ModelValues& values,
                                                             MachineId machine) const;
    // The scheduler state at the start of a run with these values.
    [[nodiscard]] SchedulerState make_scheduler_state(const Controller& controller,
                                                      const ModelValues& values) const;
    // The scheduler state of a cloud: its machines are the hosts, its tasks the instances.
    [[nodiscard]] SchedulerState make_cloud_scheduler(const CloudPlan& cloud,
                                                      const Controller& controller,
                                                      const ModelValues& values) const;
    // The requested time, or else the recorded run time.
    [[nodiscard]] double requested_or_recorded_time(TaskId task) const;
    // Whether tasks may demand more than the cores of their placement provide.
    [[nodiscard]] bool may_share(const ModelValues& values, const Controller& controller) const;

  private:
    std::vector<MachineId> firsts_;  // the first machine of each group
    double peak_spread_ = 0.0;       // highest demand per core, for tasks on any number of machines
    double peak_alone_ = 0.0;        // and for tasks on one machine
};

}  // namespace twinloop
