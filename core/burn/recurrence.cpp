// The workload function of G. Kecskemeti, "DISSECT-CF: a simulator to foster energy-aware
// scheduling in infrastructure clouds" (Simulation Modelling Practice and Theory 58, 2015),
// equation 15:
//
//     W(0) = 1,  W(i) = i * W(i - 1) for an even i,  W(i - 1) / i for an odd one.
//
// Every step depends on the previous one, so its cost is the latency of a multiplication or a
// division, independent of other resources of the processor. W stays in range:
// W(2k) is 2/1 * 4/3 * ... * 2k/(2k - 1), which grows like the square root of pi * k, and W(2k + 1)
// is that divided by 2k + 1. For any i below 2^53, to which a double counts exactly, both are far
// from overflow and from the subnormal numbers, which would cost more.
#include <bit>

#include "pages.hpp"
#include "work.hpp"

namespace twinloop::burn {

namespace {

// W(0): 1 for seed 0, else another number from 1 to 2, by the golden ratio.
double begin_of(std::uint64_t seed) {
    const std::uint64_t fraction = (seed * 0x9E3779B97F4A7C15U) >> 12U;
    return std::bit_cast<double>(std::bit_cast<std::uint64_t>(1.0) | fraction);
}

class Recurrence : public Work {
  public:
    explicit Recurrence(std::uint64_t seed) : value_(begin_of(seed)) {}
    std::uint64_t checksum() const override { return std::bit_cast<std::uint64_t>(value_); }

  protected:
    // Continues from W(i) and stores each value with `keep`.
    template <typename Keep>
    void go_on(std::uint64_t steps, Keep keep) {
        double value = value_;
        double next = next_;
        std::uint64_t left = steps;
        if (left > 0 && even_) {
            keep(value *= next);
            next += 1.0;
            --left;
        }
        for (; left >= 2; left -= 2) {
            keep(value /= next);
            next += 1.0;
            keep(value *= next);
            next += 1.0;
        }
        if (left > 0) {
            keep(value /= next);
            next += 1.0;
        }
        even_ = even_ != (steps % 2 == 1);
        value_ = value;
        next_ = next;
    }

  private:
    double value_;
    double next_ = 1.0;
    bool even_ = false;
};

class Cpu final : public Recurrence {
  public:
    using Recurrence::Recurrence;
    void run(std::uint64_t units) override {
        go_on(units, [](double) {});
    }
};

class Memory final : public Recurrence {
  public:
    using Recurrence::Recurrence;
    void run(std::uint64_t units) override {
        while (units > 0) {
            const std::uint64_t room = values_.size() - at_;
            const std::uint64_t steps = units < room ? units : room;
            double* place = &values_[at_];
            go_on(steps, [&place](double value) { *place++ = value; });
            // Prevents the compiler from removing the stores.
            asm volatile("" : : "r"(&values_[0]) : "memory");
            at_ = (at_ + steps) % values_.size();
            units -= steps;
        }
    }
    std::uint64_t round() const override { return values_.size(); }

  private:
    // Larger than the caches. The paper stores as many values as fit in memory; here the same
    // memory is filled repeatedly, so that the amount of work does not depend on its size.
    Pages<double> values_{(std::size_t{64} << 20U) / sizeof(double), PageSize::large};
    std::uint64_t at_ = 0;
};

}  // namespace

std::unique_ptr<Work> cpu_work(std::uint64_t seed) { return std::make_unique<Cpu>(seed); }
std::unique_ptr<Work> memory_work(std::uint64_t seed) { return std::make_unique<Memory>(seed); }

}  // namespace twinloop::burn
