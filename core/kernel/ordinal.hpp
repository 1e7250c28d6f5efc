// Doubles as integers of the same order, which are faster to compare. (-0 precedes 0.)
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace twinloop {

using Ordinal = std::int64_t;

inline constexpr Ordinal lowest_ordinal = std::numeric_limits<Ordinal>::min();  // of no number

// Negative doubles grow with their magnitude: all bits but the sign are flipped.
[[nodiscard]] constexpr Ordinal flip_negative(Ordinal bits) {
    return bits ^ static_cast<Ordinal>(static_cast<std::uint64_t>(bits >> 63) >> 1);
}
[[nodiscard]] constexpr Ordinal ordinal_of(double value) {
    return flip_negative(std::bit_cast<Ordinal>(value));
}
[[nodiscard]] constexpr double value_of(Ordinal ordinal) {
    return std::bit_cast<double>(flip_negative(ordinal));
}

// The next larger number; the argument is finite. (-0 counts as 0.)
[[nodiscard]] constexpr double next_larger(double value) {
    return value_of(ordinal_of(value + 0.0) + 1);
}

// Whether (a, b) precedes (c, d), without a branch, since the result is unpredictable. The ordinal
// of a number is not the largest integer.
[[nodiscard]] constexpr bool precedes(Ordinal a, std::uint64_t b, Ordinal c, std::uint64_t d) {
    return a < c + static_cast<Ordinal>(b < d);
}

}  // namespace twinloop
