// Instances: machines whose capacity is a lease on a host. Tasks on an instance share what the host
// gives it; an instance gets at most its size, and at most what its tasks can use.
#pragma once

#include "world/state.hpp"

namespace twinloop {

// Shares the machines of a world by activities of the kernel from now on. Executions in progress
// continue; machines that nothing overloads give the same times.
void begin_sharing(WorldState& world);

class Instances {
  public:
    explicit Instances(WorldState& world) : world_(world) {}

    // Each operation needs the corresponding check of order_checks.hpp, and the first one a world
    // that shares. Memory in bytes; infinite: not limited.
    MachineId add(MachineId host, double cores, double memory);
    void resize(MachineId instance, double cores);
    // The tasks of the instance continue on the other host.
    void move(MachineId instance, MachineId host);
    // Ends an instance without tasks.
    void remove(MachineId instance);

  private:
    void begin_period(MachineId instance);
    void end_period(MachineId instance, InstanceEnd reason);
    // The weight of a lease on its host, by its size in cores.
    [[nodiscard]] double weight(double cores) const;

    WorldState& world_;
};

}  // namespace twinloop
