// Programs as bytes, and the laws that test programs check.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>

// Aborts with the law if it does not hold.
inline void require(bool holds, const char* law) {
    if (holds) return;
    std::fprintf(stderr, "the law does not hold: %s\n", law);
    std::abort();
}

inline bool near(double a, double b, double scale) {
    return a == b || std::abs(a - b) <= 1e-9 * std::max({std::abs(a), std::abs(b), scale});
}

// Reads the bytes of a program; zeros follow its end.
class Bytes {
  public:
    explicit Bytes(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
    [[nodiscard]] bool empty() const { return at_ >= bytes_.size(); }
    std::uint8_t byte() { return empty() ? 0 : bytes_[at_++]; }
    std::size_t below(std::size_t bound) { return bound ? byte() % bound : 0; }

  private:
    std::span<const std::uint8_t> bytes_;
    std::size_t at_ = 0;
};
