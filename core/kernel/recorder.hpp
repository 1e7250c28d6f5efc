// Native observer that records the rate of every resource over time as columns.
#pragma once

#include <vector>

#include "kernel/simulation.hpp"

namespace twinloop {

class RateRecorder final : public Observer {
  public:
    void rate_changed(ResourceId resource, double now, double rate) override {
        times.push_back(now);
        resources.push_back(resource);
        rates.push_back(rate);
    }

    std::vector<double> times;
    std::vector<ResourceId> resources;
    std::vector<double> rates;
};

}  // namespace twinloop
