// Validation of arguments. Magnitudes are bounded so that no integral can overflow: capacity over
// weight, over time, times weight and efficiency.
#pragma once

#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <string>

namespace twinloop {

inline constexpr double largest = 1e50;
inline constexpr double smallest = 1e-50;

inline std::string text(double value) {
    char buffer[32];
    std::snprintf(buffer, sizeof buffer, "%.17g", value);
    for (int digits = 1; digits < 17; ++digits) {
        char shorter[32];
        std::snprintf(shorter, sizeof shorter, "%.*g", digits, value);
        if (std::strtod(shorter, nullptr) == value) return shorter;
    }
    return buffer;
}

[[noreturn]] inline void refuse(const std::string& what, const char* rule, double value) {
    throw std::invalid_argument(what + " must be " + rule + ", got " + text(value));
}

inline void check_not_negative(const char* what, double value) {
    if (!(std::isfinite(value) && value >= 0.0)) refuse(what, "finite and not negative", value);
    if (value > largest) refuse(what, "at most 1e50", value);
}

inline void check_positive(const char* what, double value) {
    if (!(std::isfinite(value) && value > 0.0)) refuse(what, "finite and positive", value);
    if (value > largest || value < smallest) refuse(what, "between 1e-50 and 1e50", value);
}

inline void check_limit(double value) {
    if (std::isnan(value) || value < 0.0) refuse("limit", "not negative", value);
    if (value == 0.0 || value == INFINITY) return;
    if (value > largest || value < smallest)
        refuse("limit", "0, infinite, or between 1e-50 and 1e50", value);
}

inline void check_efficiency(unsigned kind, double value) {
    if (!(value >= 0.0 && value <= largest))
        refuse("efficiency of kind " + std::to_string(kind),
               "finite and not negative, at most 1e50", value);
}

}  // namespace twinloop
