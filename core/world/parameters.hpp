// Model parameters: the numbers in which the runs of a scenario may differ.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "platform/contention.hpp"
#include "platform/machine.hpp"
#include "platform/machine_states.hpp"
#include "platform/network_plan.hpp"
#include "platform/power.hpp"

namespace twinloop {

// The values of a run.
struct ModelValues {
    double speed_factor = 1.0;
    double service_factor = 1.0;
    double startup_overhead = 0.0;
    double effective_capacity = 1.0;
    double dispatch_latency = 0.0;
    double release_latency = 0.0;
    double decision_interval = 0.0;
    double submission_cycle = 0.0;        // of a workflow manager: its negotiation
    double submission_before = 0.0;       // from ready to waiting
    double submission_after = 0.0;        // from the end of a task until its children are ready
    double submission_interval = 0.0;     // between two submissions
    std::vector<double> service_factors;  // by kind of task
    std::shared_ptr<const ContentionRule> contention;
    // By group of machines; nullptr, or no entry: as in the scenario.
    std::vector<std::shared_ptr<const PowerModel>> powers;
    std::shared_ptr<const std::vector<MachineSpec>> machines;  // nullptr: as in the scenario
    std::shared_ptr<const StateTables> states;                 // nullptr: as in the scenario
    std::shared_ptr<const NetworkPlan> network;                // nullptr: as in the scenario
};

class ValuesDraft;

// A parameter: its name in the declaration (`twinloop.scenario.parameters`), and what it sets. The
// placeholders of a name (`<kind>`, `<c>`, `<h>`, `<i>`, `<state>`) are indices: the kind of task,
// the group of machines, or the link, route or store; and the item of a table or the number of a
// state.
struct ModelParameter {
    std::string_view name;
    void (*set)(ValuesDraft& draft, std::size_t index, std::size_t item, double value);
};

// All of them: the only place that maps names to members.
[[nodiscard]] const std::vector<ModelParameter>& model_parameters();

// What each column of a row of values sets. Later columns override earlier ones.
class ValueColumns {
  public:
    // Throws std::invalid_argument if no parameter has this name.
    void add(std::string_view name, std::size_t index = 0, std::size_t item = 0);
    [[nodiscard]] std::size_t size() const { return columns_.size(); }
    void set(ValuesDraft& draft, std::size_t column, double value) const {
        const Column& each = columns_[column];
        each.parameter->set(draft, each.index, each.item, value);
    }

  private:
    struct Column {
        const ModelParameter* parameter;
        std::size_t index;
        std::size_t item;
    };
    std::vector<Column> columns_;
};

}  // namespace twinloop
