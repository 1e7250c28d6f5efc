// Periods in which machines are down. Those of one machine may overlap.
#pragma once

#include <vector>

#include "platform/machine.hpp"

namespace twinloop {

struct Outage {
    MachineId machine = 0;
    double start = 0.0;
    double end = never;
};

// All outages that start before `until`. Generating them for a later time adds more and changes
// none.
struct Outages {
    std::vector<Outage> list;  // by start
    double until = never;
};

}  // namespace twinloop
