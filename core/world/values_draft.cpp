#include "world/values_draft.hpp"

#include <utility>

namespace twinloop {

ValuesDraft::ValuesDraft(const Scenario& scenario) : scenario_(scenario) {
    values_.service_factors = scenario.service_factors;
    values_.contention = scenario.contention;
}

ContentionRule& ValuesDraft::contention() {
    if (!contention_) contention_ = std::make_shared<ContentionRule>(*scenario_.contention);
    return *contention_;
}

PowerModel& ValuesDraft::common_power() {
    if (!common_power_) common_power_ = std::make_shared<PowerModel>(*scenario_.powers.at(0));
    return *common_power_;
}

PowerModel& ValuesDraft::power(std::size_t group) {
    if (powers_.empty()) powers_.resize(scenario_.group_count());
    std::shared_ptr<PowerModel>& mine = powers_.at(group);
    if (!mine) {
        const PowerModel& other =
            common_power_ ? *common_power_ : *scenario_.powers.at(scenario_.first_of_group(group));
        mine = std::make_shared<PowerModel>(other);
    }
    return *mine;
}

void ValuesDraft::set_machines(std::size_t group, double MachineSpec::* member, double value) {
    if (!machines_) machines_ = std::make_shared<std::vector<MachineSpec>>(scenario_.machines);
    for (std::size_t m = 0; m < machines_->size(); ++m)
        if (scenario_.groups[m] == group) (*machines_)[m].*member = value;
}

StateTable& ValuesDraft::state_table(std::size_t group) {
    if (!states_) states_ = std::make_shared<StateTables>(*scenario_.states);
    return states_->tables.at(states_->of_machine.at(scenario_.first_of_group(group)));
}

NetworkPlan* ValuesDraft::network() {
    if (!network_ && scenario_.network)
        network_ = std::make_shared<NetworkPlan>(*scenario_.network);
    return network_.get();
}

ModelValues ValuesDraft::finish() && {
    if (contention_) values_.contention = std::move(contention_);
    if (common_power_) values_.powers.assign(scenario_.group_count(), common_power_);
    values_.powers.resize(powers_.empty() ? values_.powers.size() : powers_.size());
    for (std::size_t group = 0; group < powers_.size(); ++group)
        if (powers_[group]) values_.powers[group] = powers_[group];
    values_.machines = std::move(machines_);
    values_.states = std::move(states_);
    values_.network = std::move(network_);
    return std::move(values_);
}

}  // namespace twinloop
