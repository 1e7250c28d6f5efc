// Decisions about clouds: calls of their controllers, whose tasks are instances.
#include <algorithm>
#include <stdexcept>
#include <utility>

#include "control/order_checks.hpp"
#include "world/clouds.hpp"
#include "world/machine_changes.hpp"
#include "world/world.hpp"

namespace twinloop {

bool World::is_called() const {
    return state_.call ||
           std::ranges::any_of(state_.clouds, [](const CloudState& each) { return each.call; });
}

// A client that rents is answered in the same instant; what that makes possible is decided in the
// next step.
void World::decide_all() {
    if (state_.call) decide();
    for (std::size_t cloud = 0; cloud < state_.clouds.size(); ++cloud)
        if (state_.clouds[cloud].call) decide(cloud);
}

void World::decide(std::size_t at) {
    CloudState& cloud = state_.clouds[at];
    SchedulerState& scheduler = cloud.scheduler;
    cloud.call = false;
    scheduler.set_now(now());
    // A program is also called when it has asked for it.
    const bool foreign = providers_[at]->foreign();
    const bool woken = foreign && scheduler.wake_time() <= now();
    const bool idle = !scheduler.must_decide() && !providers_[at]->decides_when_idle() && !woken;
    if (!idle) {
        acting_cloud_ = at;
        try {
            const ClientAccess access(state_.scheduler, cloud);
            scheduler.decide();
        } catch (...) {
            carry_out(at, scheduler.orders());
            throw;
        }
        acting_cloud_ = none;
        carry_out(at, scheduler.orders());
    }
    // A controller may ask for calls for ever while nothing else can happen.
    std::size_t decisions = 0;
    for (const CloudState& each : state_.clouds)
        decisions += state_.simulation.timer_set(each.decision) ? 1U : 0U;
    const bool in_vain = !idle && scheduler.orders().empty() && count_helpful() <= decisions;
    cloud.in_vain = in_vain ? cloud.in_vain + 1 : 0;
    const double wake = (idle && !foreign) || cloud.in_vain > 1000 ? never : scheduler.wake_time();
    if (wake < never) {
        state_.simulation.set_timer(cloud.decision, std::max(wake, now()));
    } else if (state_.simulation.timer_set(cloud.decision)) {
        state_.simulation.stop_timer(cloud.decision);
    }
}

void World::describe_instance(std::size_t cloud, std::uint32_t serial) {
    Clouds(state_).describe(cloud, serial);
}

void World::carry_out(std::size_t at, std::span<const Order> orders) {
    Clouds clouds(state_);
    const SchedulerState& scheduler = state_.clouds[at].scheduler;
    for (const Order& order : orders) {
        switch (order.kind) {
            case Order::Kind::place:
                clouds.allocate(at, order.task);
                break;
            case Order::Kind::kill:
                clouds.refuse(at, order.task);
                break;
            case Order::Kind::set_state: {
                const MachineId host = state_.clouds[at].hosts[order.machine];
                const MachineStatus status = scheduler.entered(order);
                state_.scheduler.set_status(host, status);
                MachineChanges(state_).enter(host, status);
                // A controller before this one may use a machine that runs at once.
                if (order.controller > 0) state_.clouds[at].call = true;
                break;
            }
            case Order::Kind::migrate:
                clouds.migrate(at, order.task, order.machine);
                break;
            case Order::Kind::resize:
                clouds.resize(at, order.task, scheduler.size(order));
                break;
            case Order::Kind::preempt:
            case Order::Kind::rent:
            case Order::Kind::release:
            case Order::Kind::reserve:
            case Order::Kind::wake:
                break;
        }
    }
}

// --- orders from outside, and notices -----------------------------------------------------------

Clouds World::clouds() { return Clouds(state_); }

MachineId World::rent(const Rental& rental, double validity) {
    if (const char* why = find_rental_obstacle(state_.scheduler, rental))
        throw std::invalid_argument(why);
    const MachineId instance = state_.scheduler.rent(rental);
    Clouds(state_).rent(instance, rental, true, validity);
    return instance;
}

std::vector<MachineId> World::rent_together(const Rental& rental, std::uint32_t count) {
    if (const char* why = find_rental_obstacle(state_.scheduler, rental, count))
        throw std::invalid_argument(why);
    std::vector<MachineId> instances;
    instances.reserve(count);
    for (std::uint32_t i = 0; i < count; ++i) instances.push_back(state_.scheduler.rent(rental));
    Clouds(state_).rent_together(instances, rental);
    return instances;
}

void World::watch(bool watched) {
    state_.watched = watched;
    // Changes are those from now on.
    note_clouds();
    state_.notices.clear();
}

void World::note_clouds() {
    for (std::uint32_t at = 0; at < state_.clouds.size(); ++at) {
        CloudState& cloud = state_.clouds[at];
        const auto queue = static_cast<double>(cloud.scheduler.waiting_count());
        double free = 0.0;
        for (MachineId host = 0; host < cloud.scheduler.machines().size(); ++host)
            if (cloud.scheduler.space().open(host)) free += cloud.scheduler.space().cores(host);
        if (queue != std::exchange(cloud.noted_queue, queue))
            state_.notices.push_back({Notice::Kind::queue, at, now(), queue});
        if (free != std::exchange(cloud.noted_free, free))
            state_.notices.push_back({Notice::Kind::capacity, at, now(), free});
    }
}

}  // namespace twinloop
