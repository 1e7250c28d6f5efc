// Power over time, resampled from the record of use.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "world/world.hpp"

namespace twinloop {

// Mean watts in windows of `step` seconds from the start of the run; the last one ends with the
// run. With `machines` a row of windows per machine, otherwise one row for all of them together.
std::vector<double> power_series(const World& world, double step, bool machines);

// The number of these windows.
std::size_t window_count(const World& world, double step);

// The loads of the machines in each window of a run, and their durations: enough to compute the
// power under other power models without another run.
class LoadProfile {
  public:
    // `by_group`: the loads of each group of machines apart, for a power model per group.
    LoadProfile(const World& world, double step, bool by_group);

    [[nodiscard]] std::size_t windows() const { return lengths_.size(); }
    [[nodiscard]] std::size_t groups() const { return groups_.size(); }
    // Mean watts of all machines together in each window, under a power model per group.
    void watts(std::span<const std::shared_ptr<const PowerModel>> models,
               std::span<double> means) const;

  private:
    // The loads of a group of machines.
    struct Group {
        std::vector<double> on;  // machine-seconds with the power model, by window
        // Periods of constant use, by window. Many have the same use, so that a power model is
        // evaluated once per level of use, not once per period.
        std::vector<std::size_t> offsets;
        std::vector<std::uint32_t> level_of;
        std::vector<double> seconds;
        std::vector<double> levels;

        void add_joules(const PowerModel& model, std::span<double> joules) const;
    };

    std::vector<double> lengths_;    // of the windows (s)
    std::vector<double> in_states_;  // energy in states with a power of their own (J)
    std::vector<Group> groups_;
};

}  // namespace twinloop
