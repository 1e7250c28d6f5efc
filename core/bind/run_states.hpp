// The state of a run as values of Python, from which another run of the scenario goes on.
#pragma once

#include <nanobind/nanobind.h>

#include "world/world.hpp"

namespace twinloop::bind {

namespace nb = nanobind;

// All that a run needs to go on beside its outcomes.
nb::dict save_run(const World& run);

// The parts of it, for the functions of `World` that restore them. A value of a wrong type raises
// an error.
SavedExecution execution_from(const nb::dict& row);
World::Known known_from(const nb::dict& row);
World::KnownMachine machine_from(const SchedulerState& scheduler, const nb::dict& row);
World::Decisions decisions_from(const nb::dict& row);

}  // namespace twinloop::bind
