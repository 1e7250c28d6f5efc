// The values of a run while they are set: parts that runs share are copied before their first
// change, so that a run pays only for the values that differ from the scenario.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "world/scenario.hpp"

namespace twinloop {

class ValuesDraft {
  public:
    explicit ValuesDraft(const Scenario& scenario);

    [[nodiscard]] ModelValues& values() { return values_; }
    [[nodiscard]] ContentionRule& contention();
    // The power model of all machines: a copy of that of the first one.
    [[nodiscard]] PowerModel& common_power();
    // The power model of a group of machines.
    [[nodiscard]] PowerModel& power(std::size_t group);
    // Sets a number of all machines of a group.
    void set_machines(std::size_t group, double MachineSpec::* member, double value);
    // The states of a group of machines.
    [[nodiscard]] StateTable& state_table(std::size_t group);
    // The network; nullptr if the scenario transfers no files, so that its numbers have no effect.
    [[nodiscard]] NetworkPlan* network();
    [[nodiscard]] const Scenario& scenario() const { return scenario_; }
    [[nodiscard]] ModelValues finish() &&;

  private:
    const Scenario& scenario_;
    ModelValues values_;
    std::shared_ptr<ContentionRule> contention_;
    std::shared_ptr<PowerModel> common_power_;
    std::vector<std::shared_ptr<PowerModel>> powers_;  // by group; nullptr: not set by itself
    std::shared_ptr<std::vector<MachineSpec>> machines_;
    std::shared_ptr<StateTables> states_;
    std::shared_ptr<NetworkPlan> network_;
};

}  // namespace twinloop
