// The state of the clouds of a world: their schedulers, and the instances that are rented.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "control/scheduler_state.hpp"
#include "kernel/event_queue.hpp"
#include "platform/fleet.hpp"
#include "platform/transfers.hpp"
#include "record/logs.hpp"

namespace twinloop {

// What a client asks the controller of a cloud to do with an instance.
enum class InstanceRequest : std::uint8_t { run, terminate, suspend, resume, reboot, describe };

// A message between the client and the controller of a cloud that is on its way.
struct CloudMessage {
    MachineId instance = no_machine;
    std::uint32_t serial = none;  // of the rental: the number of the instance is used again
    std::uint16_t cloud = 0;
    InstanceRequest request = InstanceRequest::run;
    bool answers = false;  // from the controller to the client
    // Of an answer: what has happened to the instance, or its state
    RentalEvent event = RentalEvent::ready;
    InstanceState state = InstanceState::destroyed;
    double asked = unknown;     // of a description: the time of the request
    double answered = unknown;  // and that of the answer
    TransferId transfer = none;
};

struct CloudMessages {
    std::vector<CloudMessage> slots;
    std::vector<std::uint32_t> free;

    [[nodiscard]] std::size_t live() const { return slots.size() - free.size(); }
};

// What the client of a rented instance knows of it. Informed: the answer has come while the
// instance was stopped by a migration.
enum class ClientView : std::uint8_t { waits, informed, open, given_back };

// A rented instance, by the number of its machine.
struct RentedInstance {
    // In records, numbers of machines from this one on are numbers of rentals.
    static constexpr std::uint32_t label_bit = 0x80000000U;

    std::uint32_t serial = none;  // of its rental; none: the number is not in use
    Rental rental;
    bool is_reserved = false;  // it has the price of reserved instances
    InstanceState state = InstanceState::destroyed;
    bool boots = false;  // the work of its boot has begun
    bool fails = false;  // at the end of the delay of its boot
    ClientView view = ClientView::waits;
    MachineId host = no_machine;
    EventId timer = none;
    TransferId transfer = none;
    ActivityId boot;    // where machines are shared
    double rate = 0.0;  // of its boot in the meter of its host
    double requested = 0.0;
    double placed = unknown;  // for the first time
    double ready = unknown;   // likewise
    double wait = unknown;    // from the request until then
    double since = 0.0;       // of its state
    double period = unknown;  // since when it is on its present host
    bool is_later = false;    // periods before this one are recorded
    // By order from outside, see `CloudService` in Python.
    bool from_outside = false;
    bool is_held = false;         // an allocation that expires unless it is used
    double validity = never;      // of that (s)
    std::uint32_t group = none;   // of instances that start together
    bool has_memory = false;      // it was suspended: its memory is in a store
    StoreId memory_store = none;  // none: in no store
    double saved_bytes = 0.0;     // in that store
    bool has_disk = false;        // it was shut down: its disk is on its last host
    MachineId last_host = no_machine;
    std::optional<Rental> next;  // in another cloud, to which it moves when it is suspended
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
    std::size_t interrupted = 0;
    std::size_t ready = 0;
    std::size_t migrations = 0;  // completed
    Sum downtime;                // of migrations (s)
    Sum wait;                    // from the request to the end of the boot (s)
    Sum core_seconds;            // on hosts
    Sum bill;
    Sum transfers;  // price of the data of tasks

    // A rental ends, or its figures up to that time are asked for.
    void add(const CloudPlan& plan, const RentedInstance& instance, double until,
             RentalEnd reason = RentalEnd::none) {
        ++instances;
        if (!std::isnan(instance.wait)) {
            ++ready;
            wait.add(instance.wait);
        }
        add_period(instance, until);
        bill.add(price(plan, instance, until, reason));
    }
    // The instance leaves its host.
    void add_period(const RentedInstance& instance, double until) {
        if (!std::isnan(instance.period))
            core_seconds.add(instance.rental.cores * (until - instance.period));
    }
    // One that had no host, or was refused before it could be used, costs nothing.
    [[nodiscard]] static double price(const CloudPlan& plan, const RentedInstance& instance,
                                      double until, RentalEnd reason = RentalEnd::none) {
        const BillingPlan& billing = plan.billing;
        const bool unused = reason == RentalEnd::refused && std::isnan(instance.wait);
        if (!billing.used() || std::isnan(instance.placed) || unused) return 0.0;
        const Rental& rental = instance.rental;
        const double begin = billing.from_request ? instance.requested : instance.placed;
        double units = billing.begun_units(until - begin);
        if (reason == RentalEnd::interrupted && !billing.spot.bills_interrupted)
            units = billing.complete_units(until - begin);
        if (rental.is_spot())
            return round_price(billing.spot.sum(begin, billing.unit, units, rental.bid));
        const double price =
            instance.is_reserved ? billing.reserved_price : plan.types[rental.type].price;
        return round_price(price * units);
    }
};

// Instances that start when all of them have a host; one that is refused ends the others.
struct InstanceGroup {
    std::vector<MachineId> members;
    std::size_t waiting = 0;  // for a host
};

// Whether an instance is in a state that ends by itself.
[[nodiscard]] constexpr bool is_passing(InstanceState state) {
    switch (state) {
        case InstanceState::running:
        case InstanceState::suspended:
        case InstanceState::shutdown:
        case InstanceState::destroyed:
            return false;
        default:
            return true;
    }
}

struct CloudState {
    SchedulerState scheduler;         // its machines are the hosts, its tasks the instances
    EventId decision;                 // timer
    std::vector<MachineId> machines;  // of the instances, by their numbers in the scheduler
    std::vector<MachineId> hosts;     // by their numbers in the scheduler
    std::uint32_t in_vain = 0;        // calls without orders while nothing else happens
    double next_start = -never;       // of an instance, by the delay between two of them
    EventId price = none;             // timer of the next spot price
    std::uint32_t reserved = 0;       // instances with the price of reserved ones
    std::uint32_t bidding = 0;        // instances at spot prices
    double least_bid = never;         // of these, or lower
    bool call = false;                // its controller is to be called in this instant
    std::uint32_t booting = 0;        // instances in startup
    std::uint64_t draws = 0;          // random numbers so far
    double noted_queue = 0.0;         // instances in the queue, in the last notice
    double noted_free = 0.0;          // free cores, likewise
};

// While it exists, the scheduler of a cloud can see how much of an instance is used.
class ClientAccess {
  public:
    ClientAccess(const SchedulerState& client, CloudState& cloud) : cloud_(cloud) {
        cloud_.scheduler.set_client(&client, cloud.machines);
    }
    ClientAccess(const ClientAccess&) = delete;
    ClientAccess& operator=(const ClientAccess&) = delete;
    ClientAccess(ClientAccess&&) = delete;
    ClientAccess& operator=(ClientAccess&&) = delete;
    ~ClientAccess() { cloud_.scheduler.set_client(nullptr, {}); }

  private:
    CloudState& cloud_;
};

}  // namespace twinloop
