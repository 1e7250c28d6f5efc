// The checks of orders, for controllers of any kind: one function for each kind of order, which
// returns the reason why the order cannot be carried out, or nullptr.
#pragma once

#include <cstddef>
#include <span>

#include "control/scheduler_state.hpp"

namespace twinloop {

[[nodiscard]] const char* find_place_obstacle(const SchedulerState& scheduler, TaskId task,
                                              std::span<const Part> parts,
                                              const Overcommit& overcommit);
[[nodiscard]] const char* find_preempt_obstacle(const SchedulerState& scheduler, TaskId task);
[[nodiscard]] const char* find_kill_obstacle(const SchedulerState& scheduler, TaskId task);
[[nodiscard]] const char* find_state_obstacle(const SchedulerState& scheduler, MachineId machine,
                                              StateId target);
[[nodiscard]] const char* find_reserve_obstacle(const SchedulerState& scheduler, TaskId task,
                                                double time);
// `beyond`: whether its cores may exceed the free cores of the host.
[[nodiscard]] const char* find_rent_obstacle(const SchedulerState& scheduler, MachineId host,
                                             double cores, double memory, bool beyond);
[[nodiscard]] const char* find_migrate_obstacle(const SchedulerState& scheduler, MachineId instance,
                                                MachineId host, bool beyond);
[[nodiscard]] const char* find_resize_obstacle(const SchedulerState& scheduler, MachineId instance,
                                               double cores, bool beyond);
// A client rents an instance of a cloud, and gives it back.
[[nodiscard]] const char* find_rental_obstacle(const SchedulerState& scheduler,
                                               const Rental& rental, std::uint32_t count = 1);
// Whether the spot price is above the bid, so that a request would be refused.
[[nodiscard]] bool is_outbid(const SchedulerState& scheduler, std::size_t cloud, double bid);
[[nodiscard]] const char* find_release_obstacle(const SchedulerState& scheduler,
                                                MachineId instance);
// The scheduler of a cloud moves an instance, which is a task there, to another host.
[[nodiscard]] const char* find_move_obstacle(const SchedulerState& scheduler, TaskId instance,
                                             MachineId host);
// Likewise: it changes the number of cores of an instance.
[[nodiscard]] const char* find_size_obstacle(const SchedulerState& scheduler, TaskId instance,
                                             double cores, const Overcommit& overcommit);
[[nodiscard]] const char* find_wake_obstacle(const SchedulerState& scheduler, double time);

// Whether an instance of this type can hold a task with that request.
[[nodiscard]] bool holds(const InstanceType& type, const Request& task);
// Whether the limits of the cloud and one of its hosts, if empty, allow an instance of that size.
[[nodiscard]] bool can_host(const SchedulerState& scheduler, const CloudPlan& cloud, double cores,
                            double memory, double overcommit);

}  // namespace twinloop
