// Power over time, resampled from what was recorded event by event.
#pragma once

#include <span>
#include <vector>

#include "model/run.hpp"

namespace twinloop {

// Mean watts in windows of `step` seconds from the begin of the run on; the last one ends with it.
// With `machines`, a row of windows for each of them, else one for all together.
std::vector<double> power_series(const Run& run, double step, bool machines);

// How many windows there are.
std::size_t window_count(const Run& run, double step);

}  // namespace twinloop
