// The idle cores of the machines of each cluster: their sum, the most on one machine, and the first
// machine with a given number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "control/scheduler_state.hpp"

namespace twinloop {

// A binary tree over the machines of each cluster, in the order of the platform: a change costs
// O(log machines). Machines that are not open have no idle cores.
class IdleCores {
  public:
    void build(const SchedulerState& scheduler, const WorkflowTables& tables);
    // Whether all machines are known.
    [[nodiscard]] bool is_complete(const SchedulerState& scheduler) const {
        return places_.size() == scheduler.machines().size();
    }
    void update(const SchedulerState& scheduler, MachineId machine);

    [[nodiscard]] std::size_t clusters() const { return clusters_.size(); }
    [[nodiscard]] std::uint32_t cluster_of(MachineId machine) const {
        return places_[machine].cluster;
    }
    [[nodiscard]] std::span<const MachineId> machines(std::size_t cluster) const {
        return clusters_[cluster].machines;
    }
    // The speed of the fastest machine of a cluster.
    [[nodiscard]] double speed(std::size_t cluster) const { return clusters_[cluster].speed; }
    [[nodiscard]] double sum(std::size_t cluster) const { return clusters_[cluster].sums[1]; }
    // The most idle cores on one machine; negative if no machine is open.
    [[nodiscard]] double most(std::size_t cluster) const { return clusters_[cluster].most[1]; }
    // The first machine with at least so many idle cores; `most` has to be as much.
    [[nodiscard]] MachineId first(std::size_t cluster, double cores) const;

  private:
    struct Cluster {
        std::vector<MachineId> machines;
        double speed = 0.0;
        std::size_t leaves = 1;  // a power of two
        std::vector<double> sums;
        std::vector<double> most;
    };
    struct Place {
        std::uint32_t cluster = 0;
        std::uint32_t leaf = 0;
    };
    void set(const SchedulerState& scheduler, MachineId machine);

    std::vector<Cluster> clusters_;
    std::vector<Place> places_;  // by machine
};

}  // namespace twinloop
