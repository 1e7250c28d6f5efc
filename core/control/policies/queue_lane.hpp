// Waiting tasks in a fixed order, in which the next task within limits on cores and time is found
// without a look at most of the others.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "control/policies/queue_blocks.hpp"
#include "kernel/measure.hpp"
#include "kernel/ordinal.hpp"
#include "work/request.hpp"

namespace twinloop {

struct Waiting {
    double key = 0.0;  // tasks with lower keys come first
    std::uint64_t arrival = 0;
    double cores = 0.0;
    double time = 0.0;  // planned
    TaskId task = no_task;
    std::uint32_t lane = 0;

    [[nodiscard]] bool before(const Waiting& other) const {
        return key < other.key || (key == other.key && arrival < other.arrival);
    }
};

// Classes of core counts: below 1, [1, 1.5), [1.5, 2), [2, 3), [3, 4), [4, 6), [6, 8)... The last
// class has no upper end.
inline constexpr std::size_t core_classes = 32;

[[nodiscard]] inline std::size_t core_class(double cores) {
    if (!(cores >= 1)) return 0;
    // The exponent of a double and the first bit of its fraction.
    constexpr std::uint64_t one = std::bit_cast<std::uint64_t>(1.0) >> 51;
    const std::uint64_t half_octaves = (std::bit_cast<std::uint64_t>(cores) >> 51) - one;
    return half_octaves < core_classes - 2 ? half_octaves + 1 : core_classes - 1;
}

// A necessary condition on cores and planned time, for single tasks and for blocks of tasks.
class Limits {
  public:
    // Admits tasks with at most so many cores and at most that time.
    void allow(double cores, double time) {
        if (time == never) {
            unlimited_ = std::max(unlimited_, cores);
            return;
        }
        most_ = std::max(most_, cores);
        const Corner added{core_class(cores), time};
        std::size_t kept = 0;
        for (std::size_t at = 0; at < count_; ++at) {
            if (corners_[at].covers(added)) return;
            if (!added.covers(corners_[at])) corners_[kept++] = corners_[at];
        }
        corners_[kept++] = added;
        count_ = kept;
    }
    // Admits tasks with at most so many cores that end by `end` if they start at `start`: as
    // `start + time <= end`, of which the rounding is covered.
    void allow(double cores, double start, double end) {
        allow(cores, end < never ? next_larger(end) - start : never);
    }

    // Whether a task may be admitted that has at least so many cores and, with a class of at most
    // `k`, at least the time `shortest(k)`.
    template <class Shortest>
    [[nodiscard]] bool admit(double cores, Shortest&& shortest) const {
        if (cores <= unlimited_) return true;
        if (cores > most_) return false;
        for (std::size_t at = 0; at < count_; ++at)
            if (shortest(corners_[at].highest) <= corners_[at].longest) return true;
        return false;
    }
    [[nodiscard]] bool admit(const Waiting& task) const {
        const std::size_t own = core_class(task.cores);
        return admit(task.cores,
                     [&](std::size_t highest) { return own <= highest ? task.time : never; });
    }

  private:
    // Tasks up to a class may take that long.
    struct Corner {
        std::size_t highest;
        double longest;

        [[nodiscard]] bool covers(const Corner& other) const {
            return highest >= other.highest && longest >= other.longest;
        }
    };

    double unlimited_ = -never;  // tasks with so many cores may take any time
    double most_ = -never;       // of the corners
    // No corner covers another, so there is at most one per class. Those beyond the count are not
    // initialised, because limits are made for every search.
    std::array<Corner, core_classes> corners_;
    std::size_t count_ = 0;
};

class Lane {
  public:
    using Place = SortedBlocks<Waiting>::Place;

    Lane() : summaries_(1) {}

    [[nodiscard]] bool empty() const { return tasks_.empty(); }
    [[nodiscard]] std::size_t size() const { return tasks_.size(); }
    void insert(const Waiting& task);
    [[nodiscard]] Place find(const Waiting& task) const { return tasks_.find(task); }
    // The place is that of the next task afterwards.
    void erase(Place& place);
    [[nodiscard]] const Waiting* at(Place& place) const;
    // Moves on to the first task, from that place on, that `accept` accepts; nullptr if there is
    // none. `accept` accepts only tasks that the limits admit.
    template <class Accept>
    const Waiting* seek(Place& place, const Limits& limits, Accept&& accept) {
        for (; place.block < tasks_.blocks(); ++place.block, place.index = 0) {
            const Summary& summary = summaries_[place.block];
            if (!limits.admit(summary.cores, [&](std::size_t k) { return summary.shortest[k]; }))
                continue;
            const std::span<const Waiting> block = tasks_.block(place.block);
            const bool whole = place.index == 0;
            for (; place.index < block.size(); ++place.index)
                if (accept(block[place.index])) return &block[place.index];
            if (whole && !summary.exact) summarise(place.block);
        }
        return nullptr;
    }

  private:
    struct Summary {
        Summary() { shortest.fill(never); }
        // Lower bounds of the cores of the tasks in a block, and of their times up to each class.
        // They are exact unless tasks have left since, which costs a look at the block.
        double cores = never;
        std::array<double, core_classes> shortest;
        bool exact = true;

        void add(const Waiting& task) {
            cores = std::min(cores, task.cores);
            for (std::size_t at = core_class(task.cores); at < core_classes; ++at)
                shortest[at] = std::min(shortest[at], task.time);
        }
    };

    void summarise(std::size_t block);

    SortedBlocks<Waiting> tasks_;
    std::vector<Summary> summaries_;  // by block
};

}  // namespace twinloop
