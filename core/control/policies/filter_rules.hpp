// The filters and weighers of a filter scheduler, applied to one machine.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "control/policies/host_index.hpp"
#include "control/policies/options.hpp"
#include "control/scheduler_state.hpp"

namespace twinloop {

class FilterRules {
  public:
    // The demand of a task on each of its machines. The slack for rounding is subtracted from the
    // room.
    struct Demand {
        Room room;
        double cores = 0.0;
        double memory = 0.0;
        double mhz = 0.0;
        double share = 1.0;  // of the task
        std::size_t machines = 1;
    };

    explicit FilterRules(const FilterOptions& options);

    [[nodiscard]] static Demand demand(const SchedulerState& scheduler, TaskId task);

    // Whether any task may start on the machine.
    [[nodiscard]] bool takes_tasks(const Space& space, MachineId machine) const {
        return space.open(machine) && space.occupants(machine) < instances_;
    }
    // The largest demand that a task may have there.
    [[nodiscard]] Room room(const SchedulerState& scheduler, const Space& space,
                            MachineId machine) const;
    // The conditions other than room: other resources, clocks, windows, queues.
    [[nodiscard]] bool accepts(const SchedulerState& scheduler, const Space& space,
                               MachineId machine, TaskId task, const Demand& demand,
                               double now) const;
    [[nodiscard]] bool passes(const SchedulerState& scheduler, const Space& space,
                              MachineId machine, TaskId task, const Demand& demand,
                              double now) const {
        return has_room(scheduler, space, machine, demand) &&
               accepts(scheduler, space, machine, task, demand, now);
    }
    [[nodiscard]] bool has_room(const SchedulerState& scheduler, const Space& space,
                                MachineId machine, const Demand& demand) const {
        return takes_tasks(space, machine) && room(scheduler, space, machine).holds(demand.room);
    }
    // How many tasks of this demand can be there at the same time, beside those that are.
    [[nodiscard]] double count_places(const SchedulerState& scheduler, const Space& space,
                                      MachineId machine, const Demand& demand) const;
    // Whether room is the only condition: `accepts` is always true.
    [[nodiscard]] bool only_room(const SchedulerState& scheduler) const {
        return scheduler.unrestricted() && !capacity_ &&
               (!resource_ || scheduler.space().resources() == 0);
    }

    // Clocks and speeds are not comparable: if one clock is unknown, all machines are weighed by
    // their speeds.
    void learn_clocks(const SchedulerState& scheduler);
    [[nodiscard]] bool knows_clocks() const { return clocks_known_; }
    // The weighers with a multiplier other than 0.
    [[nodiscard]] const std::vector<std::pair<Weigher, double>>& weighers() const {
        return weighers_;
    }
    // The value of a machine for a weigher, without the rounding errors that would break ties.
    [[nodiscard]] double value(Weigher weigher, const SchedulerState& scheduler,
                               MachineId machine) const;

    [[nodiscard]] bool overcommits() const;
    [[nodiscard]] Overcommit overcommit() const {
        return {vcpu_.value_or(never), ram_.value_or(never), resource_.value_or(never)};
    }

  private:
    double instances_ = never;
    std::optional<double> vcpu_;  // ratios of the filters that are used
    std::optional<double> ram_;
    std::optional<double> resource_;
    bool capacity_ = false;
    bool clocks_known_ = false;
    std::vector<std::pair<Weigher, double>> weighers_;
};

}  // namespace twinloop
