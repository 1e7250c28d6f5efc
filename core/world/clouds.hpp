// Rented instances of clouds: from the request over its placement, the transfer of the image and
// the boot to the end. The controllers of a cloud place instances on its hosts as others place
// tasks.
#pragma once

#include "world/state.hpp"

namespace twinloop {

class Clouds {
  public:
    explicit Clouds(WorldState& world) : world_(world) {}

    // The members of the tokens of activities, beside those of tasks.
    static constexpr std::uint32_t transfer_member = 0xfffffffdU;
    static constexpr std::uint32_t boot_member = 0xfffffffcU;
    static constexpr std::uint32_t migration_member = 0xfffffffbU;

    // An order of the client to rent an instance, or to end it.
    void rent(MachineId instance, const Rental& rental);
    void release(MachineId instance);
    // An order of the provider: the instance is placed on a host, or refused.
    void allocate(std::size_t cloud, TaskId number);
    void refuse(std::size_t cloud, TaskId number);
    // An order of the provider: the instance moves to a host, on which it has a place already.
    void migrate(std::size_t cloud, TaskId number, MachineId target);
    // A store of the transfer of its image was deregistered.
    void refuse_transfer(MachineId instance);
    // The host has failed: its instances, with their tasks, are lost.
    void lose_instances(MachineId host);

    // The timer of an instance has fired; its transfer or the work of its boot has finished.
    void end_delay(MachineId instance);
    void end_transfer(MachineId instance, Ending how, const Final& figures);
    void end_boot(MachineId instance);
    void end_round(MachineId instance, Ending how, const Final& figures);

    // Hosts are shared by activities from now on.
    void begin_sharing();

  private:
    [[nodiscard]] const CloudPlan& plan(MachineId instance) const;
    [[nodiscard]] const ImagePlan& image(MachineId instance) const;
    void enter(MachineId instance, InstanceState state);
    void set_timer(MachineId instance, double time);
    void enqueue(MachineId instance);
    void begin_start(MachineId instance);
    void begin_boot(MachineId instance);
    void begin_boot_work(MachineId instance);
    void launch_boot(MachineId instance, double work, double rate);
    void stop_boot(MachineId instance);
    void set_boot_rate(MachineId instance, double rate);
    void become_ready(MachineId instance);
    void finish(MachineId instance, RentalEnd reason);
    void begin_round(MachineId instance, double bytes);
    void stop_tasks(MachineId instance);
    void continue_tasks(MachineId instance);
    void arrive(MachineId instance);
    void abandon_migration(MachineId instance);
    void record_migration(MachineId instance, bool completed);

    WorldState& world_;
};

}  // namespace twinloop
