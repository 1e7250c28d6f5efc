// Random numbers that are the same on every machine (SplitMix64, Steele, Lea and Flood 2014; the
// distributions of the standard library differ between its implementations).
#pragma once

#include <cstdint>

namespace twinloop {

class Draw {
  public:
    explicit Draw(std::uint64_t seed) : state_(seed) {}

    std::uint64_t next() {
        std::uint64_t mixed = state_ += 0x9e3779b97f4a7c15U;
        mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9U;
        mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebU;
        return mixed ^ (mixed >> 31);
    }

    // A number below `bound`, all equally likely: numbers of the last, incomplete round are drawn
    // again.
    std::uint64_t below(std::uint64_t bound) {
        const std::uint64_t rest = (~std::uint64_t{0} % bound + 1) % bound;
        std::uint64_t drawn = next();
        while (drawn > ~std::uint64_t{0} - rest) drawn = next();
        return drawn % bound;
    }

    [[nodiscard]] std::uint64_t state() const { return state_; }
    void set_state(std::uint64_t state) { state_ = state; }

  private:
    std::uint64_t state_;
};

}  // namespace twinloop
