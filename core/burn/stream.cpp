// Memory bandwidth: the triad a = b + s * c over arrays larger than the caches, after J. D.
// McCalpin's STREAM benchmark (1995). A unit is one element.
#include <algorithm>
#include <bit>

#include "caches.hpp"
#include "draws.hpp"
#include "pages.hpp"
#include "work.hpp"

namespace twinloop::burn {

namespace {

constexpr std::size_t mebibyte = std::size_t{1} << 20U;

// Each array is as large as the last-level cache, within a limit for machines with many tasks.
std::size_t elements() {
    const std::size_t cache = last_cache_bytes();
    return std::clamp(cache > 0 ? cache : 32 * mebibyte, 16 * mebibyte, 64 * mebibyte) /
           sizeof(double);
}

class Stream final : public Work {
  public:
    explicit Stream(std::uint64_t seed) {
        Draws draws(seed);
        factor_ = 1.0 + static_cast<double>(draws.next() >> 12U) * 0x1p-52;
        for (std::size_t at = 0; at < b_.size(); ++at) {
            a_[at] = 0.0;
            b_[at] = factor_ + static_cast<double>(at);
            c_[at] = 1.0;
        }
    }

    void run(std::uint64_t units) override {
        while (units > 0) {
            const std::uint64_t end = std::min<std::uint64_t>(a_.size(), at_ + units);
            units -= end - at_;
            for (std::uint64_t at = at_; at < end; ++at) a_[at] = b_[at] + factor_ * c_[at];
            sum_ += a_[end - 1];
            asm volatile("" : : "r"(&a_[0]) : "memory");
            at_ = end % a_.size();
        }
    }

    std::uint64_t checksum() const override { return std::bit_cast<std::uint64_t>(sum_); }
    std::uint64_t round() const override { return a_.size(); }

  private:
    Pages<double> a_{elements(), PageSize::large};
    Pages<double> b_{a_.size(), PageSize::large};
    Pages<double> c_{a_.size(), PageSize::large};
    double factor_ = 1.0;
    double sum_ = 0.0;
    std::uint64_t at_ = 0;
};

}  // namespace

std::unique_ptr<Work> stream_work(std::uint64_t seed) { return std::make_unique<Stream>(seed); }

}  // namespace twinloop::burn
