// Exact quantities between events: integrals, and a compensated sum.
#pragma once

#include <algorithm>
#include <limits>

namespace twinloop {

inline constexpr double never = std::numeric_limits<double>::infinity();

// Prefetches memory, where the compiler supports it.
inline void prefetch(const void* address) {
#if defined(__GNUC__)
    __builtin_prefetch(address);
#else
    (void)address;
#endif
}

// The integral of a piecewise-constant rate. The owner of several keeps a common time for them.
struct Integral {
    double total = 0.0;
    double rate = 0.0;

    [[nodiscard]] double after(double elapsed) const { return total + elapsed * rate; }
    void advance(double elapsed) { total += elapsed * rate; }
};

// A running sum with compensation of rounding errors (Knuth's two-sum), so that adding and
// removing millions of terms of any size equals a new sum.
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
    // What was added since it was `before`, exact also where that is a small part of the sum.
    [[nodiscard]] double since(const Sum& before) const {
        return (high_ - before.high_) + (low_ - before.low_);
    }

  private:
    double high_ = 0.0;
    double low_ = 0.0;
};

// An integral whose increase between two readings is exact, whatever was added before.
struct PreciseIntegral {
    Sum total;
    double rate = 0.0;

    void advance(double elapsed) { total.add(elapsed * rate); }
    [[nodiscard]] double since(const Sum& before, double elapsed) const {
        return total.since(before) + elapsed * rate;
    }
    [[nodiscard]] Sum at(double elapsed) const {
        Sum reading = total;
        reading.add(elapsed * rate);
        return reading;
    }
};

}  // namespace twinloop
