// Rented instances that get another number of cores of their host while they run.
#include "world/clouds.hpp"

namespace twinloop {

// Its tasks go on: they never use more cores than the instance has before and after. Where machines
// are shared, the lease changes, and with it what the other instances of the host get.
void Clouds::resize(std::size_t at, TaskId number, double cores) {
    CloudState& cloud = world_.clouds[at];
    const MachineId instance = cloud.machines[number];
    RentedInstance& mine = world_.rented[instance];
    record_period(instance, RentalEnd::resized);
    world_.rental_totals.add_period(mine, world_.now());
    mine.period = world_.now();
    // Instances that wait may fit now.
    if (cores < mine.rental.cores) cloud.call = true;
    mine.rental.cores = cores;
    world_.fleet.set_host(instance, mine.host, cores);
    if (const ResourceId lease = world_.fleet[instance].resource; lease != none) {
        world_.simulation.set_capacity(lease, world_.fleet[instance].capacity);
        if (world_.sharing == SharingMode::delay) world_.simulation.set_lease_weight(lease, cores);
    }
    world_.scheduler.resize_rented(instance, cores);
    world_.call = true;
}

}  // namespace twinloop
