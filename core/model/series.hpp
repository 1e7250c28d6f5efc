// Power over time, resampled from what was recorded event by event.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/run.hpp"

namespace twinloop {

// Mean watts in windows of `step` seconds from the begin of the run on; the last one ends with it.
// With `machines`, a row of windows for each of them, else one for all together.
std::vector<double> power_series(const Run& run, double step, bool machines);

// How many windows there are.
std::size_t window_count(const Run& run, double step);

// How long machines were used how much in each window of a run: what is needed to say what they
// would have drawn under another power model, without running again.
class LoadProfile {
  public:
    LoadProfile(const Run& run, double step);

    [[nodiscard]] std::size_t windows() const { return lengths_.size(); }
    // Mean watts of all machines together in each window, if all had this power model.
    void watts(const PowerModel& model, std::span<double> means) const;

  private:
    std::vector<double> lengths_;  // of the windows (s)
    std::vector<double> on_;       // machine-seconds that machines were there for
    // Periods of constant use, those of a window after each other. Many have the same use, so that
    // a power model is asked for each level of use, not for each period.
    std::vector<std::size_t> offsets_;
    std::vector<std::uint32_t> level_of_;
    std::vector<double> seconds_;
    std::vector<double> levels_;
};

}  // namespace twinloop
