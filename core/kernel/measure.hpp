// Quantities that are known exactly between events: a clock that advances at a rate, and a sum
// that forgets nothing.
#pragma once

#include <algorithm>
#include <limits>

namespace twinloop {

inline constexpr double never = std::numeric_limits<double>::infinity();

// A reading that grows linearly: the integral of a piecewise-constant rate.
class Clock {
  public:
    Clock() = default;
    Clock(double reading, double since, double rate)
        : reading_(reading), since_(since), rate_(rate) {}

    [[nodiscard]] double at(double now) const { return reading_ + (now - since_) * rate_; }
    [[nodiscard]] double rate() const { return rate_; }

    void set_rate(double now, double rate) {
        if (rate == rate_) return;  // not re-anchored: a clock of rate 1 shows the time itself
        reading_ = at(now);
        since_ = now;
        rate_ = rate;
    }

    // When the clock will show `reading`, seen from `now`.
    [[nodiscard]] double when(double reading, double now) const {
        if (rate_ == 1.0 && reading_ == since_) return std::max(reading, now);
        const double left = reading - at(now);
        if (left <= 0.0) return now;
        return rate_ > 0.0 ? now + left / rate_ : never;
    }

    // Rounding may leave the clock a hair short of the reading that is due now.
    void reach(double reading, double now) {
        if (at(now) >= reading) return;
        reading_ = reading;
        since_ = now;
    }

  private:
    double reading_ = 0.0;
    double since_ = 0.0;
    double rate_ = 0.0;
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
