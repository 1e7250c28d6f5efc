// Decisions about clouds: calls of their controllers, whose tasks are instances.
#include <algorithm>

#include "world/clouds.hpp"
#include "world/machine_changes.hpp"
#include "world/world.hpp"

namespace twinloop {
namespace {

// While the controllers of a cloud decide, they can see how much of an instance is used.
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

}  // namespace

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

void World::carry_out(std::size_t at, std::span<const Order> orders) {
    Clouds clouds(state_);
    const SchedulerState& scheduler = state_.clouds[at].scheduler;
    const CloudPlan& plan = (*state_.scenario->clouds)[at];
    for (const Order& order : orders) {
        switch (order.kind) {
            case Order::Kind::place:
                clouds.allocate(at, order.task);
                break;
            case Order::Kind::kill:
                clouds.refuse(at, order.task);
                break;
            case Order::Kind::set_state: {
                const MachineId host = plan.hosts[order.machine];
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

}  // namespace twinloop
