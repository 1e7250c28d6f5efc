// Quantities that are known exactly between events: an integral, and a sum that forgets nothing.
#pragma once

#include <algorithm>
#include <limits>

namespace twinloop {

inline constexpr double never = std::numeric_limits<double>::infinity();

// Asks for memory that is about to be read, where the compiler knows how.
inline void prefetch(const void* address) {
#if defined(__GNUC__)
    __builtin_prefetch(address);
#else
    (void)address;
#endif
}

// The integral of a piecewise-constant rate. Who owns several keeps one time for all of them.
struct Integral {
    double total = 0.0;
    double rate = 0.0;

    [[nodiscard]] double after(double elapsed) const { return total + elapsed * rate; }
    void advance(double elapsed) { total += elapsed * rate; }
};

// A running sum with its rounding error carried along (Knuth's two-sum), so that adding and
// removing millions of terms of any size leaves what a fresh sum would give.
class Sum {
  public:
    void add(double term) {
        const double total = high_ + term;
        const double shadow = total - high_;
        low_ += (high_ - (total - shadow)) + (term - shadow);
        high_ = total;
    }
    void subtract(double term) { add(-term); }
    void clear() { high_ = low_ = 0.0; }
    [[nodiscard]] double value() const { return high_ + low_; }

  private:
    double high_ = 0.0;
    double low_ = 0.0;
};

}  // namespace twinloop
