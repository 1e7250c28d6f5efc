// The use and the energy of a machine whose tasks do not share, exact between changes. Where tasks
// share, the resource of the kernel keeps the same integrals.
#pragma once

#include <cstdint>

#include "kernel/measure.hpp"
#include "platform/power.hpp"

namespace twinloop {

struct Meter {
    const PowerModel* power = nullptr;  // nullptr: not running, or not metered
    double watts = 0.0;                 // then
    double capacity = 1.0;              // reference core-seconds per second
    double since = 0.0;
    double energy = 0.0;      // J
    double price = 0.0;       // integral of power per use: the charge of a task with a use of 1
    Sum used;                 // reference core-seconds per second
    std::uint32_t users = 0;  // executions that use it

    // An execution changes its use. Without users no charge is in progress: the sum and the price
    // begin anew, so that no rounding error of earlier tasks reaches later ones.
    void change(double from, double to) {
        used.subtract(from);
        used.add(to);
        users += static_cast<std::uint32_t>(to > 0) - static_cast<std::uint32_t>(from > 0);
        if (users > 0) return;
        used.clear();
        price = 0.0;
    }
    void advance(double now) {
        const double elapsed = now - since;
        if (elapsed <= 0) return;
        since = now;
        if (power == nullptr) {
            energy += watts * elapsed;
            return;
        }
        const double use = used.value();
        const double joules = power->at(capacity > 0 ? use / capacity : 0.0) * elapsed;
        energy += joules;
        if (use > 0) price += joules / use;
    }
};

}  // namespace twinloop
