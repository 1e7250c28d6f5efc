// The prices of a cloud: of units of time of its instances, and of the data of their tasks.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernel/measure.hpp"

namespace twinloop {

// A price to 15 significant digits: products and sums of decimal prices have no rounding noise.
[[nodiscard]] inline double round_price(double price) {
    // Powers of ten up to 1e22 are exact, and so are integers below 1e15: only the division rounds.
    double scale = 1.0;
    while (price * scale < 1e14 && scale < 1e22) scale *= 10.0;
    return price * scale < 1e15 ? std::round(price * scale) / scale : price;
}

// The price of a unit of time over time, for instances with a bid.
struct SpotPrices {
    std::vector<double> times;      // increasing
    std::vector<double> prices;     // from each time on; the first one also holds before
    bool bills_interrupted = true;  // the unit in which the provider takes an instance back

    [[nodiscard]] bool used() const { return !times.empty(); }
    [[nodiscard]] double at(double time) const {
        const auto next = std::ranges::upper_bound(times, time);
        return next == times.begin() ? prices.front() : prices[next - times.begin() - 1];
    }
    [[nodiscard]] double next_change(double time) const {
        const auto next = std::ranges::upper_bound(times, time);
        return next == times.end() ? never : *next;
    }
    // The sum of the prices at the begins of so many units, each at most `bid`.
    [[nodiscard]] double sum(double begin, double unit, double units, double bid) const {
        Sum total;
        for (double first = 0.0; first < units;) {
            const double time = begin + first * unit;
            const double change = next_change(time);
            // The first unit that does not begin before the change.
            double last = units;
            if (change < begin + units * unit) {
                last = std::max(first + 1, std::ceil((change - begin) / unit));
                while (last > first + 1 && begin + (last - 1) * unit >= change) --last;
                while (begin + last * unit < change) ++last;
                last = std::min(last, units);
            }
            total.add(std::min(at(time), bid) * (last - first));
            first = last;
        }
        return total.value();
    }
};

struct BillingPlan {
    double unit = never;         // s; every begun one is billed; infinite: none
    bool from_request = true;    // otherwise from the allocation of its host
    std::uint32_t reserved = 0;  // instances at once with their own price of a unit
    double reserved_price = 0.0;
    double upfront = 0.0;  // of each reserved instance, used or not
    bool has_transfers = false;
    double transfer_in = 0.0;   // of a byte that enters a shared store
    double transfer_out = 0.0;  // of a byte that leaves one
    SpotPrices spot;

    [[nodiscard]] bool used() const { return unit < never; }
    // Rounding of times must not begin another unit.
    [[nodiscard]] double begun_units(double time) const {
        return std::max(1.0, std::ceil(time / unit - 1e-9));
    }
    [[nodiscard]] double complete_units(double time) const {
        return std::floor(time / unit + 1e-9);
    }
};

}  // namespace twinloop
