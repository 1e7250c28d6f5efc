// Changes of machines during a run: failures and recoveries, states, size, addition and removal.
#pragma once

#include <cstddef>
#include <span>

#include "world/state.hpp"

namespace twinloop {

class MachineChanges {
  public:
    explicit MachineChanges(WorldState& world) : world_(world) {}

    // Processes the outages that start by now.
    void begin_outages();
    void fail(MachineId machine);
    // Ends all outages of a machine, from outside.
    void restore(MachineId machine);
    // Ends an outage, unless the machine was restored from outside since its start.
    void recover(const Outage& outage);
    // A machine has got another state by an order; the scheduler state shows it already.
    void enter(MachineId machine, MachineStatus status);
    // The timer of a transition has fired: its next phase begins, or the state it leads to.
    void continue_transition(MachineId machine);
    // The state of a machine before the world began; the executions there are restored as they
    // were. Throws `std::invalid_argument` if it cannot be in this state now.
    void restore_state(MachineId machine, MachineStatus status);
    void set_cores(MachineId machine, double cores);
    // Sets the power of a machine after a change of its state.
    void update_meter(MachineId machine);
    // `like`: a host with the same power model, states, ports, links and store; no_machine: none.
    MachineId add(const MachineSpec& spec, std::span<const double> amounts, MachineId like);
    // Interrupts its tasks as a failure does.
    void remove(MachineId machine);
    // The executions on a machine that stops to provide its capacity wait, and go on afterwards.
    void pause_tasks(MachineId machine);
    void resume_tasks(MachineId machine);
    // Interrupts the tasks of a machine that is lost.
    void interrupt_tasks(MachineId machine);
    // Skips the outages that are over at the start of the run.
    void skip_outages();

  private:
    void begin_outage(std::size_t place);
    void come_back(MachineId machine);
    void reset_state(MachineId machine);
    // Notes the state of a machine for observers of the run.
    void note_state(MachineId machine);
    void begin_phase(MachineId machine, MachineStatus status);
    void record_use(MachineId machine);

    WorldState& world_;
};

}  // namespace twinloop
