#include "platform/machine_states.hpp"

#include <algorithm>
#include <utility>

namespace twinloop {

StateTable::StateTable() {
    add_state(running_state, nullptr, true);
    add_state(off_state, std::make_shared<PowerModel>(), false);
}

void StateTable::add_state(StateId id, std::shared_ptr<const PowerModel> power, bool keeps_tasks) {
    if (id >= states_.size()) states_.resize(id + std::size_t{1});
    states_[id].exists = true;
    states_[id].power = std::move(power);
    states_[id].keeps_tasks = keeps_tasks;
}

void StateTable::add_transition(StateId id, StateId from, StateId to,
                                std::shared_ptr<const PowerModel> power,
                                std::vector<StatePhase> phases) {
    add_state(id, std::move(power), true);
    MachineState& state = states_[id];
    state.from = from;
    state.to = to;
    state.phases = std::move(phases);
    for (const StatePhase& phase : state.phases) state.duration += phase.seconds;
    use_transition(id);
}

void StateTable::use_transition(StateId id) {
    const MachineState& state = states_[id];
    const StateId used = state.duration > 0 ? id : no_state;
    if (state.from == running_state) states_[state.to].enter = used;
    else states_[state.from].leave = used;
}

void StateTable::set_duration(StateId id, double seconds) {
    states_.at(id).phases = {{seconds, 0.0}};
    states_[id].duration = seconds;
    use_transition(id);
}

void StateTable::set_watts(StateId id, double watts) {
    auto power = std::make_shared<PowerModel>(*states_.at(id).power);
    power->idle = watts;
    states_[id].power = std::move(power);
}

bool StateTable::can_change(MachineStatus status, StateId target) const {
    const MachineState& state = states_[status.state];
    if (state.is_transition()) return target == state.from || target == state.to;
    return status.state == target || status.state == running_state || target == running_state;
}

MachineStatus StateTable::change(MachineStatus status, StateId target, double now) const {
    const MachineState& state = states_[status.state];
    const StateId from = state.is_transition() ? state.to : status.state;
    if (from == target) return status;
    const StateId next = transition(from, target);
    if (next == no_state) return {target, now};
    if (!state.is_transition()) return {next, now};
    const double share = std::clamp((now - status.begun) / state.duration, 0.0, 1.0);
    if (!(share > 0)) return {target, now};
    return {next, now - (1.0 - share) * states_[next].duration};
}

StateTable::Period StateTable::period(MachineStatus status, double now) const {
    const MachineState& state = states_[status.state];
    if (!state.is_transition()) return {};
    // The same sums at every call, so that a phase that ends now has ended.
    double end = status.begun;
    for (std::size_t i = 0; i + 1 < state.phases.size(); ++i) {
        end += state.phases[i].seconds;
        if (end > now) return {state.phases[i].utilisation, end};
    }
    return {state.phases.back().utilisation, status.begun + state.duration};
}

StateId StateTables::find(std::string_view name) const {
    if (name == "on") return running_state;
    const auto found = std::ranges::find(names, name);
    const auto id = static_cast<StateId>(found - names.begin());
    if (found == names.end() || std::ranges::none_of(tables, [id](const StateTable& each) {
            return each.has(id) && !each[id].is_transition();
        }))
        return no_state;
    return id;
}

std::shared_ptr<const StateTables> StateTables::with_instances() const {
    auto all = std::make_shared<StateTables>(*this);
    const auto found = std::ranges::find(names, "suspended");
    const auto suspended = static_cast<StateId>(found - names.begin());
    if (found == names.end()) all->names.emplace_back("suspended");
    all->tables.emplace_back().add_state(suspended, nullptr, true);
    return all;
}

const std::shared_ptr<const StateTables>& StateTables::common() {
    static const auto tables = std::make_shared<const StateTables>();
    return tables;
}

}  // namespace twinloop
