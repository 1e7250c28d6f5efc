// Rented instances of clouds: from the request over its placement, the transfer of the image and
// the boot to the end. The controllers of a cloud place instances on its hosts as others place
// tasks.
#pragma once

#include <span>

#include "world/state.hpp"

namespace twinloop {

class Clouds {
  public:
    explicit Clouds(WorldState& world) : world_(world) {}

    // The members of the tokens of activities, beside those of tasks.
    static constexpr std::uint32_t transfer_member = 0xfffffffdU;
    static constexpr std::uint32_t boot_member = 0xfffffffcU;
    static constexpr std::uint32_t migration_member = 0xfffffffbU;
    static constexpr std::uint32_t message_member = 0xfffffffaU;

    // An order of the client to rent an instance, or to end it. `validity`: it only gets a host,
    // and gives it back after that time (s) unless it is used.
    void rent(MachineId instance, const Rental& rental, bool from_outside = false,
              double validity = unknown);
    // Equal instances that start together.
    void rent_together(std::span<const MachineId> instances, const Rental& rental);
    void release(MachineId instance);
    // A question of the client for the state of an instance, by the serial number of its rental.
    void describe(std::size_t cloud, std::uint32_t serial);
    // An order of the provider: the instance is placed on a host, or refused.
    void allocate(std::size_t cloud, TaskId number);
    void refuse(std::size_t cloud, TaskId number);
    // An order of the provider: the instance moves to a host, on which it has a place already.
    void migrate(std::size_t cloud, TaskId number, MachineId target);
    // An order of the provider: the instance has another number of cores of its host.
    void resize(std::size_t cloud, TaskId number, double cores);
    // A store of the transfer of its image was deregistered.
    void refuse_transfer(MachineId instance);
    // The memory of suspended instances in a store that is gone.
    [[nodiscard]] bool is_memory_in(StoreId store) const;
    void lose_memory(StoreId store);
    // The host has failed: its instances, with their tasks, are lost.
    void lose_instances(MachineId host);
    // Spot instances whose bids are lower than the new price end.
    void change_price(std::size_t at);
    // A transfer of a file of a task has ended, between its machine and a store.
    void charge_transfer(MachineId machine, StoreId store, bool reads, double bytes);

    // Orders from outside. Each returns the reason why it is not possible; nullptr if it is done.
    // `violent`: its tasks are interrupted as by a failure; otherwise it must have none.
    const char* terminate(MachineId instance, bool violent);
    // Suspend, resume or reboot: by a message where the cloud has them, which is always possible.
    const char* request(MachineId instance, InstanceRequest request);
    // Its tasks stop, its memory goes to a store, and it leaves its host. It continues on any host.
    const char* suspend(MachineId instance);
    const char* resume(MachineId instance);
    // Its tasks are interrupted; it boots again, at once or, on any host, when it is resumed.
    const char* reboot(MachineId instance);
    const char* shut_down(MachineId instance);
    const char* migrate_to(MachineId instance, MachineId host);
    const char* resize_to(MachineId instance, double cores);
    // It is suspended, and resumed in another cloud.
    const char* leave_cloud(MachineId instance, const Rental& next);
    // An allocation that expires is used: the instance starts.
    const char* use(MachineId instance);
    // A host without cloud joins one, or leaves it; `violent`: its instances are lost.
    const char* register_host(MachineId host, std::size_t cloud);
    const char* deregister_host(MachineId host, bool violent);

    // The timer of an instance has fired; its transfer or the work of its boot has finished.
    void end_delay(MachineId instance);
    void end_transfer(MachineId instance, Ending how, const Final& figures);
    void end_boot(MachineId instance);
    void end_round(MachineId instance, Ending how, const Final& figures);
    void end_message(std::uint32_t id, Ending how);

    // Hosts are shared by activities from now on.
    void begin_sharing();

  private:
    [[nodiscard]] const CloudPlan& plan(MachineId instance) const;
    [[nodiscard]] const ImagePlan& image(MachineId instance) const;
    void enter(MachineId instance, InstanceState state);
    void set_timer(MachineId instance, double time);
    void stop_timer(MachineId instance);
    [[nodiscard]] bool is_outbid(MachineId instance) const;
    void choose_tariff(MachineId instance);
    void leave_tariff(MachineId instance);
    bool enqueue(MachineId instance);
    [[nodiscard]] bool is_served(MachineId instance, TaskId number) const;
    void occupy(MachineId instance, MachineId host);
    void leave_host(MachineId instance, RentalEnd reason);
    void record_period(MachineId instance, RentalEnd reason);
    void start(MachineId instance);
    // Requests to the controller and answers to the client, which are messages where the cloud has
    // them.
    void send(MachineId instance, InstanceRequest request);
    void answer(MachineId instance, std::uint32_t serial, RentalEvent event);
    void carry_out(MachineId instance, InstanceRequest request);
    void inform(MachineId instance, RentalEvent event);
    void answer_description(CloudMessage message);
    void record_description(const CloudMessage& message);
    void begin_message(CloudMessage message);
    void accept(MachineId instance);
    void open_to_client(MachineId instance);
    void begin_start(MachineId instance);
    void begin_boot(MachineId instance);
    void boot_for(MachineId instance, double time);
    [[nodiscard]] double known_boot(MachineId instance) const;
    [[nodiscard]] double boot_delay(MachineId instance);
    void end_boot_delay(MachineId instance);
    void begin_boot_work(MachineId instance);
    double draw(std::size_t cloud);
    double draw_from(std::size_t cloud, const std::vector<double>& values);
    void launch_boot(MachineId instance, double work, double rate);
    void stop_boot(MachineId instance);
    void set_boot_rate(MachineId instance, double rate);
    void become_ready(MachineId instance);
    void finish(MachineId instance, RentalEnd reason);
    void begin_round(MachineId instance, double bytes);
    void stop_tasks(MachineId instance, InstanceState state);
    void continue_tasks(MachineId instance);
    void arrive(MachineId instance);
    void abandon_migration(MachineId instance);
    void record_migration(MachineId instance, bool completed);
    [[nodiscard]] const char* find_rest_obstacle(MachineId instance) const;
    void begin_transfer(MachineId instance, TransferSpec spec);
    void complete_suspension(MachineId instance);
    void abandon_suspension(MachineId instance);
    void change_cloud(MachineId instance, const Rental& next);
    void begin_resumption(MachineId instance);
    void complete_resumption(MachineId instance);
    void rest(MachineId instance);
    void forget_memory(MachineId instance);
    void stop_for_good(MachineId instance);
    void open(MachineId instance, const Rental& rental, bool from_outside, double validity);
    // The members of a group that wait are placed together.
    void tell_group(std::uint32_t group);
    void start_group(std::uint32_t group);
    void leave_group(MachineId instance, RentalEnd reason);

    WorldState& world_;
};

}  // namespace twinloop
