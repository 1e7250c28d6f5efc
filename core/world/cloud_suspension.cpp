// Instances that rest: their memory is saved to a store, or they are shut down, and they go on
// later, on any host of their cloud or of another one.
#include <algorithm>
#include <optional>
#include <stdexcept>
#include <utility>

#include "control/order_checks.hpp"
#include "world/clouds.hpp"
#include "world/machine_changes.hpp"
#include "world/staging.hpp"

namespace twinloop {

const char* Clouds::find_rest_obstacle(MachineId instance) const {
    const RentedInstance& mine = world_.rented[instance];
    return mine.state == InstanceState::running ? nullptr : "the instance is not running";
}

// --- suspension ---------------------------------------------------------------------------------

const char* Clouds::suspend(MachineId instance) {
    if (const char* why = find_rest_obstacle(instance)) return why;
    RentedInstance& mine = world_.rented[instance];
    const CloudPlan& cloud = plan(instance);
    const Staging staging(world_);
    const StoreId store =
        cloud.suspends_locally ? staging.local_store(mine.host) : cloud.memory_store;
    if (cloud.suspends_locally && store == none) return "its host has no store for its memory";
    // An instance that leaves the cloud takes its disk with it.
    mine.saved_bytes = mine.rental.memory + (mine.next ? image(instance).bytes : 0.0);
    mine.memory_store = store;
    if (store != none) {
        const DataStore& target = world_.staging.transfers.stores[store];
        if (!target.fits(mine.saved_bytes)) return "the store has no space for its memory";
        TransferSpec spec;
        spec.from = staging.node_of(mine.host);
        spec.to = target.spec.node;
        spec.target = store;
        spec.bytes = mine.saved_bytes;
        try {
            begin_transfer(instance, spec);
        } catch (const std::invalid_argument&) {
            return "there is no route to the store of its memory";
        }
    }
    stop_tasks(instance, InstanceState::suspend_transfer);
    // It cannot be moved meanwhile.
    world_.clouds[mine.rental.cloud].scheduler.set_starting(world_.fleet[instance].number, true);
    if (store == none) complete_suspension(instance);
    return nullptr;
}

void Clouds::complete_suspension(MachineId instance) {
    RentedInstance& mine = world_.rented[instance];
    if (mine.memory_store != none)
        world_.staging.transfers.stores[mine.memory_store].add_file(mine.saved_bytes);
    mine.has_memory = true;
    if (const std::optional<Rental> next = std::exchange(mine.next, std::nullopt)) {
        change_cloud(instance, *next);
        return;
    }
    leave_host(instance, RentalEnd::suspended);
    enter(instance, InstanceState::suspended);
}

// The store is gone: the instance goes on where it is.
void Clouds::abandon_suspension(MachineId instance) {
    RentedInstance& mine = world_.rented[instance];
    world_.simulation.cancel(world_.staging.transfers[mine.transfer].activity);
    mine.memory_store = none;
    mine.next.reset();
    world_.rental_totals.downtime.add(world_.now() - mine.stopped_at);
    world_.clouds[mine.rental.cloud].scheduler.set_starting(world_.fleet[instance].number, false);
    enter(instance, InstanceState::running);
    continue_tasks(instance);
}

bool Clouds::is_memory_in(StoreId store) const {
    return std::ranges::any_of(world_.rented, [&](const RentedInstance& each) {
        return each.serial != none && each.has_memory && each.memory_store == store;
    });
}

void Clouds::lose_memory(StoreId store) {
    for (MachineId instance = 0; instance < world_.rented.size(); ++instance) {
        const RentedInstance& mine = world_.rented[instance];
        if (mine.serial == none || !mine.has_memory || mine.memory_store != store) continue;
        MachineChanges(world_).interrupt_tasks(instance);
        finish(instance, RentalEnd::lost);
    }
}

void Clouds::forget_memory(MachineId instance) {
    RentedInstance& mine = world_.rented[instance];
    if (std::exchange(mine.has_memory, false) && mine.memory_store != none)
        world_.staging.transfers.stores[mine.memory_store].remove_file(mine.saved_bytes);
}

// --- resumption ---------------------------------------------------------------------------------

const char* Clouds::resume(MachineId instance) {
    const RentedInstance& mine = world_.rented[instance];
    if (mine.state != InstanceState::suspended && mine.state != InstanceState::shutdown)
        return "the instance is neither suspended nor shut down";
    if (enqueue(instance)) return nullptr;
    rest(instance);
    return "no host of the cloud can have it";
}

void Clouds::begin_resumption(MachineId instance) {
    const RentedInstance& mine = world_.rented[instance];
    enter(instance, InstanceState::resume_transfer);
    if (mine.memory_store == none) {
        complete_resumption(instance);
        return;
    }
    TransferSpec spec;
    spec.from = world_.staging.transfers.stores[mine.memory_store].spec.node;
    spec.to = Staging(world_).node_of(mine.host);
    spec.source = mine.memory_store;
    spec.bytes = mine.saved_bytes;
    try {
        begin_transfer(instance, spec);
    } catch (const std::invalid_argument&) {
        rest(instance);  // there is no route
    }
}

void Clouds::complete_resumption(MachineId instance) {
    forget_memory(instance);
    const RentedInstance& mine = world_.rented[instance];
    world_.rental_totals.downtime.add(world_.now() - mine.stopped_at);
    world_.clouds[mine.rental.cloud].scheduler.set_starting(world_.fleet[instance].number, false);
    enter(instance, InstanceState::running);
    continue_tasks(instance);
}

// It has got no host, or cannot use the one that it has: it rests as before.
void Clouds::rest(MachineId instance) {
    const RentedInstance& mine = world_.rented[instance];
    CloudState& cloud = world_.clouds[mine.rental.cloud];
    if (mine.host != no_machine) {
        leave_host(instance, RentalEnd::suspended);
    } else {
        const TaskId number = world_.fleet[instance].number;
        cloud.scheduler.set_now(world_.now());
        if (cloud.scheduler.phase(number) == Phase::waiting) cloud.scheduler.withdraw(number);
        cloud.scheduler.recycle(number);
        cloud.call = true;
    }
    enter(instance, mine.has_memory ? InstanceState::suspended : InstanceState::shutdown);
}

// --- another cloud ------------------------------------------------------------------------------

const char* Clouds::leave_cloud(MachineId instance, const Rental& next) {
    if (const char* why = find_rest_obstacle(instance)) return why;
    if (const char* why = find_rental_obstacle(world_.scheduler, next)) return why;
    RentedInstance& mine = world_.rented[instance];
    mine.next = next;
    const char* const why = suspend(instance);
    if (why != nullptr) mine.next.reset();
    return why;
}

// The rental in the old cloud ends and is billed there; another one of the same instance begins.
void Clouds::change_cloud(MachineId instance, const Rental& next) {
    RentedInstance& mine = world_.rented[instance];
    world_.rental_totals.bill.add(RentalTotals::price(plan(instance), mine, world_.now()));
    leave_host(instance, RentalEnd::left);
    leave_tariff(instance);
    mine.rental = next;
    world_.scheduler.change_rental(instance, mine.rental);
    mine.requested = world_.now();
    mine.placed = unknown;
    choose_tariff(instance);
    if (!enqueue(instance)) rest(instance);
}

// --- boots --------------------------------------------------------------------------------------

void Clouds::stop_for_good(MachineId instance) {
    MachineChanges(world_).interrupt_tasks(instance);
    world_.scheduler.set_present(instance, false);
    if (ClientView& view = world_.rented[instance].view; view != ClientView::given_back)
        view = ClientView::waits;
    world_.call = true;
}

const char* Clouds::reboot(MachineId instance) {
    if (const char* why = find_rest_obstacle(instance)) return why;
    stop_for_good(instance);
    world_.clouds[world_.rented[instance].rental.cloud].scheduler.set_starting(
        world_.fleet[instance].number, true);
    begin_boot(instance);
    return nullptr;
}

const char* Clouds::shut_down(MachineId instance) {
    if (const char* why = find_rest_obstacle(instance)) return why;
    stop_for_good(instance);
    world_.rented[instance].has_disk = true;
    leave_host(instance, RentalEnd::shut_down);
    enter(instance, InstanceState::shutdown);
    return nullptr;
}

}  // namespace twinloop
