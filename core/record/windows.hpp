// Time in windows of equal length, of which the last may be shorter.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace twinloop {

// The number of windows in a length of time; a rounding error is no window.
inline std::size_t windows_in(double length, double step) {
    if (!(length > 0)) return 0;
    return static_cast<std::size_t>(std::max(1.0, std::ceil(length / step * (1 - 1e-12))));
}

// Calls `each(window, seconds)` for the windows from `begin` on that a period overlaps; the last
// window has no end.
template <class Each>
void spread(double begin, double step, std::size_t last, double from, double until, Each&& each) {
    auto window = static_cast<std::size_t>((from - begin) / step);
    while (from < until) {
        window = std::min(window, last);
        const double edge = window == last ? until : begin + static_cast<double>(window + 1) * step;
        const double to = std::min(until, edge);
        if (to > from) each(window, to - from);
        from = std::max(from, to);
        ++window;
    }
}

}  // namespace twinloop
