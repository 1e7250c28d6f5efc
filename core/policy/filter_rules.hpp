// What the filters and weighers of a filter scheduler say of one machine.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "model/desk.hpp"
#include "policy/host_index.hpp"
#include "policy/options.hpp"

namespace twinloop {

class FilterRules {
  public:
    // What a task asks of each of its machines. The room has the slack for rounding taken off.
    struct Asked {
        Room room;
        double cores = 0.0;
        double mhz = 0.0;
        double share = 1.0;  // of the task
        std::size_t machines = 1;
    };

    explicit FilterRules(const FilterOptions& options);

    [[nodiscard]] static Asked asked(const Desk& desk, TaskId task);

    // Whether a task may start there at all.
    [[nodiscard]] bool takes_tasks(const Space& space, MachineId machine) const {
        return space.open(machine) && space.instances(machine) < instances_;
    }
    // For how much, at most, a task may ask there.
    [[nodiscard]] Room room(const Desk& desk, const Space& space, MachineId machine) const;
    // All that is not a matter of the room: other resources, clocks, windows, queues.
    [[nodiscard]] bool accepts(const Desk& desk, const Space& space, MachineId machine, TaskId task,
                               const Asked& asked, double now) const;
    [[nodiscard]] bool passes(const Desk& desk, const Space& space, MachineId machine, TaskId task,
                              const Asked& asked, double now) const {
        return takes_tasks(space, machine) && room(desk, space, machine).holds(asked.room) &&
               accepts(desk, space, machine, task, asked, now);
    }
    // Whether room is all that counts: `accepts` would accept everything.
    [[nodiscard]] bool only_room(const Desk& desk) const {
        return desk.unrestricted() && !capacity_ && (!resource_ || desk.space().resources() == 0);
    }

    // Clocks and speeds do not compare: one clock that is unknown leaves the speeds for all.
    void learn_clocks(const Desk& desk);
    // Those that make a difference.
    [[nodiscard]] const std::vector<std::pair<Weigher, double>>& weighers() const {
        return weighers_;
    }
    // What a weigher sees, free of the rounding that would break ties.
    [[nodiscard]] double value(Weigher weigher, const Desk& desk, MachineId machine) const;

    [[nodiscard]] bool overcommits() const;

  private:
    double instances_ = never;
    std::optional<double> vcpu_;  // the ratios, where there is such a filter
    std::optional<double> ram_;
    std::optional<double> resource_;
    bool capacity_ = false;
    bool clocks_known_ = false;
    std::vector<std::pair<Weigher, double>> weighers_;
};

}  // namespace twinloop
