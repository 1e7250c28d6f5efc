// The watts of a machine at a utilisation between 0 and 1.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernel/cost.hpp"

namespace twinloop {

enum class PowerKind : std::uint8_t {
    none,
    constant,
    linear,
    sqrt,
    square,
    cubic,
    mse,
    asymptotic,
    table
};

struct PowerModel final : CostModel {
    PowerKind kind = PowerKind::none;
    double idle = 0.0;
    double max = 0.0;
    double parameter = 0.0;  // r of mse, a of asymptotic
    bool dvfs = false;
    std::vector<double> levels;  // of a table
    std::vector<double> watts;

    // The watts of a machine that is used at a rate.
    [[nodiscard]] double rate(double used, double capacity) const override {
        return at(capacity > 0 ? used / capacity : 0.0);
    }
    [[nodiscard]] double at(double utilisation) const {
        const double u = std::clamp(utilisation, 0.0, 1.0);
        switch (kind) {
            case PowerKind::none:
                return 0.0;
            case PowerKind::constant:
                return idle;
            case PowerKind::linear:
                return idle + (max - idle) * u;
            case PowerKind::sqrt:
                return idle + (max - idle) * std::sqrt(u);
            case PowerKind::square:
                return idle + (max - idle) * (u * u);
            case PowerKind::cubic:
                return idle + (max - idle) * (u * u * u);
            case PowerKind::mse:
                return idle + (max - idle) * (2 * u - raise(u));
            case PowerKind::asymptotic:
                return idle + (max - idle) * rise(u);
            case PowerKind::table:
                return between(u);
        }
        return 0.0;
    }

  private:
    // u to the power of the parameter; the exponents of published fits without `pow`.
    [[nodiscard]] double raise(double u) const {
        if (parameter == 2.0) return u * u;
        if (parameter == 3.0) return u * u * u;
        if (parameter == 4.0) return (u * u) * (u * u);
        return std::pow(u, parameter);
    }

    [[nodiscard]] double rise(double u) const {
        const double v = dvfs ? u * u * u : u;
        if (v <= 0) return 0.0;
        return (1 + v - (parameter > 0 ? std::exp(-v / parameter) : 0.0)) / 2;
    }

    [[nodiscard]] double between(double u) const {
        const auto next = std::ranges::upper_bound(levels, u);
        if (next == levels.begin()) return watts.front();
        if (next == levels.end()) return watts.back();
        const auto i = static_cast<std::size_t>(next - levels.begin());
        return watts[i - 1] +
               (watts[i] - watts[i - 1]) / (levels[i] - levels[i - 1]) * (u - levels[i - 1]);
    }
};

inline std::shared_ptr<const PowerModel> constant_power(double watts) {
    auto model = std::make_shared<PowerModel>();
    model->kind = PowerKind::constant;
    model->idle = watts;
    return model;
}

}  // namespace twinloop
