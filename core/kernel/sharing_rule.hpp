// Sharing rules: division of the capacities of a group among its flows.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "kernel/group.hpp"

namespace twinloop {

class SharingRule {
  public:
    virtual ~SharingRule() = default;

    // Calls `group.fix(flow, rate)` once for every flow, with the rate of each of its equal
    // activities, adds their total to `used` of its links, and sets the level of the saturated
    // links.
    virtual void assign(Group& group, const ActivityPool& pool) const = 0;

    // True if on a single resource the rule gives rate = min(limit, weight x level): such a
    // resource needs no solving and is shared by virtual time.
    [[nodiscard]] virtual bool levels_single_resources() const { return false; }

  protected:
    SharingRule() = default;
    SharingRule(const SharingRule&) = default;
    SharingRule& operator=(const SharingRule&) = default;
};

// Weighted max-min fairness by progressive filling.
class MaxMin final : public SharingRule {
  public:
    void assign(Group& group, const ActivityPool& pool) const override;
    [[nodiscard]] bool levels_single_resources() const override { return true; }
};

// Strict priority: higher priorities are served first; equal priorities share max-min.
class StrictPriority final : public SharingRule {
  public:
    void assign(Group& group, const ActivityPool& pool) const override;
};

// By name: "max-min" or "strict-priority".
[[nodiscard]] std::shared_ptr<const SharingRule> sharing_rule(std::string_view name);

}  // namespace twinloop
