// Parsing of numbers on the command line.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>

namespace twinloop::burn {

// The largest amount of work: integers up to this are exact in a double.
inline constexpr double most_units = 0x1p53;

// A finite number, 0 or more.
inline std::optional<double> number_of(const std::string& text) {
    if (text.empty() || text.find_first_not_of("0123456789.eE+-") != std::string::npos) return {};
    char* end = nullptr;
    const double found = std::strtod(text.c_str(), &end);
    if (*end != '\0' || !std::isfinite(found) || std::signbit(found)) return {};
    return found;
}

// A whole number from 0 up to 2^53, also written as 1e9.
inline std::optional<std::uint64_t> count_of(const std::string& text) {
    const auto found = number_of(text);
    if (!found || *found != std::floor(*found) || *found > most_units) return {};
    return static_cast<std::uint64_t>(*found);
}

}  // namespace twinloop::burn
