// Pointer chasing over cache lines in a random order, which prefetchers cannot predict. Other
// processes on the same core or cache evict its lines and slow it down. A unit is one line.
#include <utility>

#include "caches.hpp"
#include "draws.hpp"
#include "pages.hpp"
#include "work.hpp"

namespace twinloop::burn {

namespace {

struct alignas(64) Line {
    Line* next;
};

// Twice the size of the L2 cache of a core, so that the work depends on that cache and on the next
// level.
std::size_t lines() {
    const std::size_t cache = cache_bytes(2);
    return 2 * (cache > 0 ? cache : std::size_t{512} << 10U) / sizeof(Line);
}

class Cache final : public Work {
  public:
    explicit Cache(std::uint64_t seed) {
        // One cycle through all lines by Sattolo's algorithm (1986): a shuffle that exchanges each
        // line with an earlier one, never with itself.
        for (std::size_t at = 0; at < lines_.size(); ++at) lines_[at].next = &lines_[at];
        Draws draws(seed);
        for (std::size_t at = lines_.size() - 1; at > 0; --at) {
            std::swap(lines_[at].next, lines_[draws.below(at)].next);
        }
    }

    void run(std::uint64_t units) override {
        Line* here = here_;
        for (; units > 0; --units) here = here->next;
        here_ = here;
    }

    std::uint64_t checksum() const override {
        return static_cast<std::uint64_t>(here_ - &lines_[0]);
    }
    std::uint64_t round() const override { return lines_.size(); }

  private:
    Pages<Line> lines_{lines()};
    Line* here_ = &lines_[0];
};

}  // namespace

std::unique_ptr<Work> cache_work(std::uint64_t seed) { return std::make_unique<Cache>(seed); }

}  // namespace twinloop::burn
