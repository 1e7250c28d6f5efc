// The states of machines and the transitions between them. Every stable state other than running is
// entered from running and left to running, at once or by a transition. A machine provides its
// capacity to tasks only while it is running.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/measure.hpp"
#include "platform/machine.hpp"
#include "platform/power.hpp"

namespace twinloop {

using StateId = std::uint8_t;

inline constexpr StateId running_state = 0;
inline constexpr StateId off_state = 1;
inline constexpr StateId no_state = 0xff;

// A period of a transition in which a hidden consumer uses a constant share of the machine.
struct StatePhase {
    double seconds = 0.0;
    double utilisation = 0.0;
};

// A state of a machine that is not running. The capacity that its phases use is not provided to
// tasks, so their times are known in advance.
struct MachineState {
    bool exists = false;
    std::shared_ptr<const PowerModel> power;  // nullptr: that of the running machine
    bool keeps_tasks = false;  // of a stable state: tasks stay, and continue when it is left
    StateId enter = no_state;  // of a stable state: the transition to it; no_state: at once
    StateId leave = no_state;
    // Of a transition
    StateId from = no_state;
    StateId to = no_state;
    std::vector<StatePhase> phases;
    double duration = 0.0;

    [[nodiscard]] bool is_transition() const { return to != no_state; }
};

// The state of one machine. In a transition, `begun` is the time at which it would have begun if it
// had not started in its middle.
struct MachineStatus {
    StateId state = running_state;
    double begun = 0.0;
};

// The states of the machines of one kind. State numbers are those of `StateTables::names`.
class StateTable {
  public:
    // Running, and off without power; both are reached at once.
    StateTable();

    // Adds the state of a number, before the transitions to and from it.
    void add_state(StateId id, std::shared_ptr<const PowerModel> power, bool keeps_tasks);
    void add_transition(StateId id, StateId from, StateId to,
                        std::shared_ptr<const PowerModel> power, std::vector<StatePhase> phases);

    // Other values of a transition with a duration, or of a state with a constant power.
    void set_duration(StateId id, double seconds);
    void set_watts(StateId id, double watts);

    [[nodiscard]] bool has(StateId id) const { return id < states_.size() && states_[id].exists; }
    [[nodiscard]] const MachineState& operator[](StateId id) const { return states_[id]; }
    // The stable state in which a machine is, or will be.
    [[nodiscard]] StateId target(MachineStatus status) const {
        return states_[status.state].is_transition() ? states_[status.state].to : status.state;
    }
    // The end of the transition; infinite in a stable state.
    [[nodiscard]] double end(MachineStatus status) const {
        return states_[status.state].is_transition() ? status.begun + states_[status.state].duration
                                                     : never;
    }
    // The status after an order of a stable state that `can_change` allows. To order the state that
    // a transition comes from begins the opposite transition, of which only the share is left that
    // was completed of the other.
    [[nodiscard]] MachineStatus change(MachineStatus status, StateId target, double now) const;
    [[nodiscard]] bool can_change(MachineStatus status, StateId target) const;

    // The use by the hidden consumer, and when that changes next; infinite if it does not.
    struct Period {
        double utilisation = 0.0;
        double until = never;
    };
    [[nodiscard]] Period period(MachineStatus status, double now) const;

  private:
    // Takes a transition between its states, or none if it has no duration.
    void use_transition(StateId id);
    [[nodiscard]] StateId transition(StateId from, StateId to) const {
        return from == running_state ? states_[to].enter : states_[from].leave;
    }

    std::vector<MachineState> states_;
};

// The state tables of a platform.
struct StateTables {
    std::vector<std::string> names = {"running", "off"};  // by number, for all tables
    std::vector<StateTable> tables = std::vector<StateTable>(1);
    std::vector<std::uint16_t> of_machine;  // index of the table; machines without one have 0

    // The number of a stable state, also "on" for running; no_state if no table has it.
    [[nodiscard]] StateId find(std::string_view name) const;
    // These tables, and at the end one of instances: running, off, and suspended with their tasks.
    [[nodiscard]] std::shared_ptr<const StateTables> with_instances() const;
    // The tables of a platform without states.
    [[nodiscard]] static const std::shared_ptr<const StateTables>& common();
};

}  // namespace twinloop
