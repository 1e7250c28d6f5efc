// The checks of orders: one function for each kind, which returns the reason why the order cannot
// be carried out, or nullptr.
#pragma once

#include "control/scheduler_state.hpp"

namespace twinloop {

[[nodiscard]] const char* find_state_obstacle(const SchedulerState& scheduler, MachineId machine,
                                              StateId target);

}  // namespace twinloop
