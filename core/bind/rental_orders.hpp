// Orders about rented instances in the Python interface, and the names of instances.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "control/scheduler_state.hpp"

namespace twinloop::bind {

namespace nb = nanobind;

// The rental of a decision `Rent`, whose cloud, type, image and user are names or numbers; raises
// ValueError for an unknown name. `names` has `clouds` and `users`.
Rental rental_from(const SchedulerState& scheduler, nb::handle decision, const nb::object& names);
// The name of a rental in traces.
std::string instance_name(std::uint32_t rental);
// What has happened to an instance, as the method `instance_changed` of a policy is told.
const char* event_name(RentalEvent event);

}  // namespace twinloop::bind
