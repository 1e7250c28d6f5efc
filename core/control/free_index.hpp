// Which machines have anything free, as bits in three levels: the next one is found in a few steps
// among 100,000.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "platform/machine.hpp"

namespace twinloop {

class FreeIndex {
  public:
    static constexpr MachineId end = std::numeric_limits<MachineId>::max();

    explicit FreeIndex(std::size_t machines = 0) { resize(machines); }

    // More machines than before; the new ones are not free.
    void resize(std::size_t machines) {
        std::size_t size = machines;
        for (auto& level : levels_) {
            size = (size + 63) / 64;
            level.resize(size, 0);
        }
    }

    void set(MachineId machine, bool free) {
        const std::uint64_t bit = std::uint64_t{1} << (machine % 64);
        std::uint64_t& word = levels_[0][machine / 64];
        const bool was = word != 0;
        word = free ? word | bit : word & ~bit;
        if (was != (word != 0)) raise(machine / 64, word != 0);
    }

    // The same for `count` machines that follow each other.
    void set_range(MachineId first, std::uint32_t count, bool free) {
        std::size_t at = first;
        const std::size_t last = at + count;
        while (at < last) {
            const std::size_t bits = std::min<std::size_t>(64 - at % 64, last - at);
            const std::uint64_t ones =
                bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
            const std::uint64_t mask = ones << (at % 64);
            std::uint64_t& word = levels_[0][at / 64];
            const bool was = word != 0;
            word = free ? word | mask : word & ~mask;
            if (was != (word != 0)) raise(at / 64, word != 0);
            at += bits;
        }
    }

    // Sets `count` machines that follow each other if none of them has that value; else nothing.
    bool flip_range(MachineId first, std::uint32_t count, bool free) {
        const std::uint32_t offset = first % 64;
        if (offset + count > 64) {
            if (!is_uniform(first, count, !free)) return false;
            set_range(first, count, free);
            return true;
        }
        const std::uint64_t mask = (~std::uint64_t{0} >> (64 - count)) << offset;
        std::uint64_t& word = levels_[0][first / 64];
        if ((word & mask) != (free ? 0 : mask)) return false;
        const std::uint64_t before = word;
        word ^= mask;
        if ((before == 0) != (word == 0)) raise(first / 64, word != 0);
        return true;
    }

    [[nodiscard]] bool test(MachineId machine) const {
        return (levels_[0][machine / 64] >> (machine % 64) & 1) != 0;
    }

    // The first one from `from` on, or `end`.
    [[nodiscard]] MachineId next(MachineId from) const {
        std::size_t at = from;
        for (std::size_t level = 0; level < levels_.size(); ++level) {
            const auto& words = levels_[level];
            const std::size_t place = at / 64;
            if (place >= words.size()) return end;
            const std::uint64_t rest = words[place] >> (at % 64);
            if (rest != 0) return descend(level, at + std::countr_zero(rest));
            at = place + 1;
        }
        const auto& top = levels_.back();
        for (std::size_t place = at; place < top.size(); ++place)
            if (top[place] != 0)
                return descend(levels_.size() - 1, place * 64 + std::countr_zero(top[place]));
        return end;
    }

    // The end of the run of consecutive ones that begins with a machine.
    [[nodiscard]] MachineId end_of_run(MachineId first) const {
        std::size_t at = first;
        for (const auto& words = levels_[0]; at / 64 < words.size();) {
            const auto ones =
                static_cast<std::size_t>(std::countr_one(words[at / 64] >> (at % 64)));
            at += ones;
            if (at % 64 != 0 || ones == 0) break;
        }
        return static_cast<MachineId>(at);
    }

  private:
    [[nodiscard]] bool is_uniform(MachineId first, std::uint32_t count, bool free) const {
        if (free) return end_of_run(first) >= first + count;
        const MachineId next_free = next(first);
        return next_free == end || next_free >= first + count;
    }

    // A word of the lowest level is no longer empty, or is now.
    void raise(std::size_t at, bool some) {
        for (std::size_t level = 1; level < levels_.size(); ++level) {
            std::uint64_t& word = levels_[level][at / 64];
            const std::uint64_t bit = std::uint64_t{1} << (at % 64);
            const bool was = word != 0;
            word = some ? word | bit : word & ~bit;
            if (was == (word != 0)) return;
            some = word != 0;
            at /= 64;
        }
    }

    [[nodiscard]] MachineId descend(std::size_t level, std::size_t at) const {
        while (level-- > 0) at = at * 64 + std::countr_zero(levels_[level][at]);
        return static_cast<MachineId>(at);
    }

    std::array<std::vector<std::uint64_t>, 3> levels_;
};

}  // namespace twinloop
