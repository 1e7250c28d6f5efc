#include "control/order_checks.hpp"

namespace twinloop {

const char* find_state_obstacle(const SchedulerState& scheduler, MachineId machine,
                                StateId target) {
    if (!scheduler.is_present(machine)) return "the machine is down";
    const StateTable& table = scheduler.state_table(machine);
    const MachineStatus status = scheduler.status(machine);
    if (!table.has(target) || table[target].is_transition())
        return "the machine does not have this state";
    if (!table.can_change(status, target))
        return table[status.state].is_transition()
                   ? "the machine is in a transition between two other states"
                   : "the machine has to run before it can enter this state";
    // Tasks stay where they are kept: on a machine that runs, or that will run again.
    if (!table[target].keeps_tasks && scheduler.space().instances(machine) > 0)
        return "the machine has tasks";
    return nullptr;
}

}  // namespace twinloop
