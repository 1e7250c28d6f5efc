#include "policy/queue_lane.hpp"

#include <algorithm>
#include <cmath>

#include "model/space.hpp"

namespace twinloop {

std::size_t Lane::class_of(double cores) {
    // Limits carry the slack of comparisons: four cores and a slack are still four.
    const double exact = cores - 2 * slack;
    if (!(exact > 1)) return 0;
    if (exact > 1e9) return classes - 1;
    int exponent = 0;
    const double mantissa = std::frexp(exact, &exponent);
    const int power = mantissa == 0.5 ? exponent - 1 : exponent;
    return std::min(static_cast<std::size_t>(power), classes - 1);
}

void Lane::add_block(std::size_t at) {
    const auto offset = static_cast<std::ptrdiff_t>(at);
    least_cores_.insert(least_cores_.begin() + offset, never);
    for (auto& times : least_time_) times.insert(times.begin() + offset, never);
    loose_.insert(loose_.begin() + offset, 0);
}

void Lane::lower(std::size_t block, const Waiting& task) {
    least_cores_[block] = std::min(least_cores_[block], task.cores);
    for (std::size_t k = class_of(task.cores); k < classes; ++k)
        least_time_[k][block] = std::min(least_time_[k][block], task.time);
}

void Lane::measure(std::size_t block) {
    least_cores_[block] = never;
    std::array<double, classes> least{};
    least.fill(never);
    for (const Waiting& task : tasks_.block(block)) {
        least_cores_[block] = std::min(least_cores_[block], task.cores);
        double& own = least[class_of(task.cores)];
        own = std::min(own, task.time);
    }
    double so_far = never;
    for (std::size_t k = 0; k < classes; ++k)
        least_time_[k][block] = so_far = std::min(so_far, least[k]);
    loose_[block] = 0;
}

void Lane::insert(const Waiting& task) {
    const auto [block, split] = tasks_.insert(task);
    if (split) {
        add_block(block + 1);
        measure(block);
        measure(block + 1);
    } else {
        lower(block, task);
    }
}

void Lane::erase(Place& place) {
    if (tasks_.erase(place)) {
        const auto offset = static_cast<std::ptrdiff_t>(place.block);
        least_cores_.erase(least_cores_.begin() + offset);
        for (auto& times : least_time_) times.erase(times.begin() + offset);
        loose_.erase(loose_.begin() + offset);
        place.index = 0;
    } else {
        loose_[place.block] = 1;
    }
}

const Waiting* Lane::seek(Place& place, const Limits& limits) {
    const std::size_t blocks = tasks_.blocks();
    const double* const times = least_time_[class_of(limits.cores)].data();
    const double* const cores = least_cores_.data();
    for (; place.block < blocks; ++place.block, place.index = 0) {
        const std::size_t at = place.block;
        const bool none = cores[at] > limits.cores ||
                          (limits.now + times[at] > limits.shadow && cores[at] > limits.spare);
        if (none) continue;
        const std::span<const Waiting> block = tasks_.block(at);
        const bool whole = place.index == 0;
        for (; place.index < block.size(); ++place.index) {
            const Waiting& task = block[place.index];
            if (limits.accept(task.cores, task.time)) return &task;
        }
        if (whole && loose_[at] != 0) measure(at);
    }
    return nullptr;
}

}  // namespace twinloop
