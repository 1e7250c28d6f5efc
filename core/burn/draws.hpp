// Random numbers from a seed.
#pragma once

#include <cstdint>

namespace twinloop::burn {

// The generator SplitMix64 of Steele, Lea and Flood (OOPSLA 2014).
class Draws {
  public:
    explicit Draws(std::uint64_t seed) : state_(seed) {}

    std::uint64_t next() {
        state_ += 0x9E3779B97F4A7C15U;
        std::uint64_t bits = state_;
        bits = (bits ^ (bits >> 30U)) * 0xBF58476D1CE4E5B9U;
        bits = (bits ^ (bits >> 27U)) * 0x94D049BB133111EBU;
        return bits ^ (bits >> 31U);
    }

    // One of 0 to count - 1, for a count of less than 2^32; the bias is below 2^-32.
    std::uint64_t below(std::uint64_t count) { return ((next() >> 32U) * count) >> 32U; }

  private:
    std::uint64_t state_;
};

}  // namespace twinloop::burn
