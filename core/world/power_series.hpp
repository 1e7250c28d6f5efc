// Power over time, resampled from the record of use.
#pragma once

#include <cstdint>
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
// power under another power model without another run.
class LoadProfile {
  public:
    LoadProfile(const World& world, double step);

    [[nodiscard]] std::size_t windows() const { return lengths_.size(); }
    // Mean watts of all machines together in each window, if all have this power model.
    void watts(const PowerModel& model, std::span<double> means) const;

  private:
    std::vector<double> lengths_;    // of the windows (s)
    std::vector<double> on_;         // machine-seconds in which machines had this power model
    std::vector<double> in_states_;  // energy in states with a power of their own (J)
    // Periods of constant use, by window. Many have the same use, so that a power model is
    // evaluated once per level of use, not once per period.
    std::vector<std::size_t> offsets_;
    std::vector<std::uint32_t> level_of_;
    std::vector<double> seconds_;
    std::vector<double> levels_;
};

}  // namespace twinloop
