// Waiting tasks in a fixed order, in which the next one that may pass is found without a look at
// most of the others.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/request.hpp"
#include "policy/queue_blocks.hpp"

namespace twinloop {

struct Waiting {
    double key = 0.0;  // the less, the earlier its turn
    std::uint64_t arrival = 0;
    double cores = 0.0;
    double time = 0.0;
    TaskId task = no_task;
    std::uint32_t lane = 0;

    [[nodiscard]] bool before(const Waiting& other) const {
        return key < other.key || (key == other.key && arrival < other.arrival);
    }
};

// What a task must keep to if it wants to pass: it fits now, and ends by the shadow time or needs
// no more than is spare from then on.
struct Limits {
    double cores = never;
    double now = 0.0;
    double shadow = never;
    double spare = never;

    [[nodiscard]] bool accept(double asked, double time) const {
        return asked <= cores && (now + time <= shadow || asked <= spare);
    }
};

class Lane {
  public:
    using Place = SortedBlocks<Waiting>::Place;

    Lane() { add_block(0); }

    [[nodiscard]] bool empty() const { return tasks_.empty(); }
    [[nodiscard]] std::size_t size() const { return tasks_.size(); }
    void insert(const Waiting& task);
    [[nodiscard]] Place find(const Waiting& task) const { return tasks_.find(task); }
    // The place then is that of the next one.
    void erase(Place& place);
    // Moves on to the first task, from that place on, that keeps to the limits; nullptr if none.
    const Waiting* seek(Place& place, const Limits& limits);

  private:
    // Of tasks with at most 1, 2, 4... cores; the last is for any number of them.
    static constexpr std::size_t classes = 16;

    static std::size_t class_of(double cores);
    void add_block(std::size_t at);
    void lower(std::size_t block, const Waiting& task);
    void measure(std::size_t block);

    SortedBlocks<Waiting> tasks_;
    // Lower bounds by block: what it holds asks for no less. A task that leaves may leave a bound
    // too low; that costs a look at the block, after which it is exact again.
    std::vector<double> least_cores_;
    std::array<std::vector<double>, classes> least_time_;  // of tasks up to that many cores
    std::vector<std::uint8_t> loose_;
};

}  // namespace twinloop
