// The use and the energy of one machine, exact from event to event.
#pragma once

#include "kernel/measure.hpp"
#include "model/power.hpp"

namespace twinloop {

struct Meter {
    const PowerModel* power = nullptr;
    double capacity = 1.0;  // reference core-seconds per second
    double since = 0.0;
    double energy = 0.0;  // J
    // Integral of the power over the use: what a task with a use of 1 has been charged so far.
    double charge = 0.0;
    // Integral of the part of the use that the machine could not give.
    double missing = 0.0;
    Sum used;
    bool off = false;

    [[nodiscard]] double watts() const {
        if (off || power == nullptr) return 0.0;
        return power->at(capacity > 0 ? used.value() / capacity : 0.0);
    }
    // Adds up until now; true if time has passed.
    bool advance(double now) {
        const double elapsed = now - since;
        if (elapsed <= 0) return false;
        const double joules = watts() * elapsed;
        energy += joules;
        const double use = used.value();
        if (use > 0) charge += joules / use;
        if (use > capacity) missing += (1 - capacity / use) * elapsed;
        since = now;
        return true;
    }
};

}  // namespace twinloop
