// Checkpoints: after each interval of work, a pause in which the state is written.
#pragma once

#include <algorithm>
#include <cmath>

#include "world/scenario.hpp"

namespace twinloop {

class Checkpoints {
  public:
    explicit Checkpoints(const ModelOptions& options)
        : interval_(options.checkpoint_interval), cost_(options.checkpoint_cost) {}

    [[nodiscard]] bool active() const { return interval_ < never; }
    // The pauses in work of that length; the end of the work needs none.
    [[nodiscard]] double overhead(double work) const {
        if (!active() || work <= 0) return 0.0;
        return (std::ceil(work / interval_) - 1) * cost_;
    }
    // The work within that time, which includes the pauses.
    [[nodiscard]] double work_in(double time) const {
        if (!active()) return time;
        const double cycle = interval_ + cost_;
        const double written = std::floor(time / cycle);
        return written * interval_ + std::min(time - written * cycle, interval_);
    }
    // The work that the checkpoints within that time have saved.
    [[nodiscard]] double saved_in(double time) const {
        return std::floor(time / (interval_ + cost_)) * interval_;
    }

  private:
    double interval_;
    double cost_;
};

}  // namespace twinloop
