#include "platform/contention.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace twinloop {
namespace {

class Contention final : public Efficiency {
  public:
    explicit Contention(std::shared_ptr<const ContentionRule> rule) : rule_(std::move(rule)) {}

    void evaluate(const Presence& where, std::span<KindPresence> present) const override {
        const double load = where.demand / std::max(where.capacity, 1e-300);
        if (rule_->kind == ContentionRule::Kind::kinds) {
            evaluate_kinds(load, present);
            return;
        }
        const double efficiency = 1.0 / inflation(load);
        for (KindPresence& each : present) each.efficiency = efficiency;
    }

  private:
    void evaluate_kinds(double load, std::span<KindPresence> present) const {
        double pressure = 0.0;
        double running = 0.0;
        for (const KindPresence& each : present) {
            pressure += each.running * rule_->pressures[each.kind];
            running += each.running;
        }
        // The share of the others that a task meets: all, or on average those on its core.
        double met = 1.0;
        if (rule_->within_core && running > 1) met = std::max(0.0, load - 1.0) / (running - 1.0);
        for (KindPresence& each : present) {
            const double others = std::max(0.0, pressure - rule_->pressures[each.kind]) * met;
            each.efficiency = 1.0 / (1.0 + rule_->sensitivities[each.kind] * others);
        }
    }

    [[nodiscard]] double inflation(double load) const {
        if (rule_->kind == ContentionRule::Kind::linear)
            return 1.0 + rule_->slope * std::max(0.0, load - 1.0);
        const auto& loads = rule_->loads;
        const auto& inflations = rule_->inflations;
        const auto next = std::ranges::upper_bound(loads, load);
        if (next == loads.begin()) return inflations.front();
        if (next == loads.end()) return inflations.back();
        const auto i = static_cast<std::size_t>(next - loads.begin());
        const double slope = (inflations[i] - inflations[i - 1]) / (loads[i] - loads[i - 1]);
        return inflations[i - 1] + slope * (load - loads[i - 1]);
    }

    std::shared_ptr<const ContentionRule> rule_;
};

}  // namespace

std::shared_ptr<const Efficiency> contention_efficiency(
    std::shared_ptr<const ContentionRule> rule) {
    if (rule->kind == ContentionRule::Kind::none) return nullptr;
    return std::make_shared<const Contention>(std::move(rule));
}

}  // namespace twinloop
