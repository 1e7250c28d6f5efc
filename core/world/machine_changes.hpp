// Changes of machines during a run: failures and recoveries, switching, size, addition and removal.
#pragma once

#include <memory>
#include <span>

#include "world/state.hpp"

namespace twinloop {

class MachineChanges {
  public:
    explicit MachineChanges(WorldState& world) : world_(world) {}

    // Processes the outages that start by now.
    void begin_outages();
    void fail(MachineId machine);
    void restore(MachineId machine);
    // A machine without tasks is switched by a controller.
    void switch_machine(MachineId machine, bool on);
    void set_cores(MachineId machine, double cores);
    MachineId add(const MachineSpec& spec, std::span<const double> amounts,
                  std::shared_ptr<const PowerModel> power);
    // Interrupts its tasks as a failure does.
    void remove(MachineId machine);
    // Skips the outages that are over at the start of the run.
    void skip_outages();

  private:
    void begin_outage(const Outage& outage);
    void interrupt_tasks(MachineId machine);
    void update_meter(MachineId machine);
    void record_use(MachineId machine);

    WorldState& world_;
};

}  // namespace twinloop
