// Time in windows of equal length, of which the last may be shorter.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace twinloop {

// The number of windows in a length of time; a rounding error is no window.
inline std::size_t windows_in(double length, double step) {
    if (!(length > 0)) return 0;
    return static_cast<std::size_t>(std::max(1.0, std::ceil(length / step * (1 - 1e-12))));
}

// Calls `each(window, seconds)` for the windows from `begin` on that a period overlaps; the last
// window has no end. `window`: one that does not begin after the period; then its last one.
template <class Each>
void spread(double begin, double step, std::size_t last, std::size_t& window, double from,
            double until, Each&& each) {
    if (!(from < until)) return;
    // Signed integers are faster to convert.
    const auto start_of = [=](std::size_t place) {
        return begin + static_cast<double>(static_cast<std::int64_t>(place)) * step;
    };
    while (window < last && start_of(window + 1) <= from) ++window;
    const double places = (until - begin) / step;
    std::size_t final = places < static_cast<double>(last)
                            ? std::max(window, static_cast<std::size_t>(places))
                            : last;
    while (final > window && start_of(final) >= until) --final;
    if (window == final) {
        each(window, until - from);
        return;
    }
    each(window, start_of(window + 1) - from);
    while (++window < final) each(window, step);
    each(final, until - start_of(final));
}

template <class Each>
void spread(double begin, double step, std::size_t last, double from, double until, Each&& each) {
    auto window = std::min(last, static_cast<std::size_t>((from - begin) / step));
    spread(begin, step, last, window, from, until, each);
}

}  // namespace twinloop
