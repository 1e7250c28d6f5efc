// The state of the clouds of a world: their schedulers, and the instances that are rented.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "control/scheduler_state.hpp"
#include "kernel/event_queue.hpp"
#include "platform/fleet.hpp"
#include "platform/transfers.hpp"
#include "record/logs.hpp"

namespace twinloop {

// A rented instance, by the number of its machine.
struct RentedInstance {
    // In records, numbers of machines from this one on are numbers of rentals.
    static constexpr std::uint32_t label_bit = 0x80000000U;

    std::uint32_t serial = none;  // of its rental; none: the number is not in use
    Rental rental;
    InstanceState state = InstanceState::destroyed;
    bool boots = false;  // the work of its boot has begun
    MachineId host = no_machine;
    EventId timer = none;
    TransferId transfer = none;
    ActivityId boot;    // where machines are shared
    double rate = 0.0;  // of its boot in the meter of its host
    double requested = 0.0;
    double placed = unknown;
    double ready = unknown;
    double sized = unknown;     // since when it has this number of cores
    double core_seconds = 0.0;  // with other numbers of cores
    double since = 0.0;         // of its state
    // Of a migration
    MachineId target = no_machine;
    std::uint32_t round = 0;
    bool stopped = false;  // for the last round
    double round_begun = 0.0;
    double migration_begun = 0.0;
    double stopped_at = 0.0;
    double moved_bytes = 0.0;
};

// The rentals of a run that have ended.
struct RentalTotals {
    std::size_t instances = 0;
    std::size_t refused = 0;
    std::size_t lost = 0;
    std::size_t ready = 0;
    std::size_t migrations = 0;  // completed
    Sum downtime;                // of migrations (s)
    Sum wait;                    // from the request to the end of the boot (s)
    Sum core_seconds;            // on hosts
    Sum bill;

    void add(const CloudPlan& plan, const RentedInstance& instance, double until) {
        ++instances;
        if (!std::isnan(instance.ready)) {
            ++ready;
            wait.add(instance.ready - instance.requested);
        }
        if (std::isnan(instance.placed)) return;
        core_seconds.add(instance.core_seconds + instance.rental.cores * (until - instance.sized));
        bill.add(plan.bill(instance.requested, instance.placed, until));
    }
};

struct CloudState {
    SchedulerState scheduler;         // its machines are the hosts, its tasks the instances
    EventId decision;                 // timer
    std::vector<MachineId> machines;  // of the instances, by their numbers in the scheduler
    std::uint32_t in_vain = 0;        // calls without orders while nothing else happens
    double next_start = -never;       // of an instance, by the delay between two of them
    bool call = false;                // its controller is to be called in this instant
};

}  // namespace twinloop
