// The machines of a run: capacity, state and energy. Machines can be added and removed during the
// run; the number of a removed machine is not used again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernel/activity.hpp"
#include "kernel/event_queue.hpp"
#include "platform/machine.hpp"
#include "platform/machine_states.hpp"
#include "platform/meter.hpp"
#include "platform/power.hpp"

namespace twinloop {

inline constexpr std::uint16_t no_cloud = 0xffff;

struct Machine {
    double speed = 1.0;     // reference core-seconds per second of a core, in this run
    double capacity = 1.0;  // reference core-seconds per second
    std::shared_ptr<const PowerModel> power;
    std::uint32_t outages = 0;    // current ones
    double restored_at = -never;  // from outside: the recoveries of earlier outages do not count
    StateId state = running_state;
    bool removed = false;
    bool has_own_power = true;   // in its state: the power of the running machine, at `utilisation`
    double utilisation = 0.0;    // by the hidden consumer, in a state other than running
    double watts = 0.0;          // in that state; 0 if it is down
    EventId transition = none;   // timer of its transitions
    ResourceId resource = none;  // where machines are shared
    bool is_instance = false;    // its capacity is a lease on a host
    // The cloud to which a host or an instance belongs, and its number in the scheduler of that
    // cloud: of a host as a machine, of an instance as a task.
    std::uint16_t cloud = no_cloud;
    std::uint32_t number = 0;

    [[nodiscard]] bool is_up() const { return outages == 0 && !removed; }
    [[nodiscard]] bool running() const { return state == running_state && is_up(); }
};

class Fleet {
  public:
    MachineId add(const MachineSpec& spec, double speed_factor,
                  std::shared_ptr<const PowerModel> power, double now);
    // An instance has the speed of its host, and its energy is part of that of the host.
    MachineId add_instance(MachineId host, double cores);
    // A rented instance with this number, which is the next one or that of an instance that is
    // gone.
    void open_rented(MachineId instance);
    // A rented instance is on a host: it uses the meter of the host.
    void set_host(MachineId instance, MachineId host, double cores);

    [[nodiscard]] std::size_t size() const { return machines_.size(); }
    [[nodiscard]] const Machine& operator[](MachineId machine) const { return machines_[machine]; }
    [[nodiscard]] Machine& operator[](MachineId machine) { return machines_[machine]; }
    // The lowest speed of all machines.
    [[nodiscard]] double slowest() const { return slowest_; }
    [[nodiscard]] bool equally_fast() const { return equally_fast_; }
    // The lowest speed of the machines of these parts.
    [[nodiscard]] double slowest_of(std::span<const Part> parts) const {
        return equally_fast_ ? slowest_ : find_slowest(parts);
    }
    [[nodiscard]] bool metered() const { return metered_; }

    // Meters, where tasks do not share.
    [[nodiscard]] Meter& meter(MachineId machine) { return meters_[machine]; }
    [[nodiscard]] const Meter& meter(MachineId machine) const { return meters_[machine]; }
    // The machine whose meter measures the tasks on this one: itself, or the host of an instance.
    [[nodiscard]] MachineId metered_by(MachineId machine) const {
        return machine < metered_by_.size() ? metered_by_[machine] : machine;
    }
    void set_start(double now) {
        for (Meter& meter : meters_) meter.since = now;
    }

  private:
    [[nodiscard]] double find_slowest(std::span<const Part> parts) const;

    std::vector<Machine> machines_;
    std::vector<Meter> meters_;
    std::vector<MachineId> metered_by_;  // empty: each machine has its own meter
    double slowest_ = never;
    bool equally_fast_ = true;
    bool metered_ = false;
};

}  // namespace twinloop
