// The cost of a resource over time, such as its energy, and the charges of its activities.
//
// Use is priced: while activities draw on a resource, each is charged cost rate / total rate per
// unit of its own rate, so that the charges add up to the cost. The cost of an idle resource is
// charged to no activity.
#pragma once

#include <cmath>

#include "kernel/checks.hpp"

namespace twinloop {

class CostModel {
  public:
    virtual ~CostModel() = default;
    // Cost per second while `used` of the capacity is in use: finite.
    [[nodiscard]] virtual double rate(double used, double capacity) const = 0;

  protected:
    CostModel() = default;
    CostModel(const CostModel&) = default;
    CostModel& operator=(const CostModel&) = default;
};

struct CostRate {
    double total = 0.0;
    double price = 0.0;  // per unit of rate in use; 0 if that is below the smallest limit
};

[[nodiscard]] inline CostRate cost_rate(const CostModel& model, double used, double capacity) {
    const double total = model.rate(used, capacity);
    if (!std::isfinite(total)) refuse("cost rate", "finite", total);
    return {total, used >= smallest ? total / used : 0.0};
}

}  // namespace twinloop
