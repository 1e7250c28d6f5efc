#include "kernel/activity.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace twinloop {

ActivityPool::ActivityPool(const ActivityPool& other)
    : charges_(other.charges_), free_(other.free_), size_(other.size_), live_(other.live_),
      tags_(other.tags_) {
    chunks_.reserve(other.chunks_.size());
    for (const auto& chunk : other.chunks_) {
        chunks_.push_back(std::make_unique<Activity[]>(mask + 1));
        std::copy(chunk.get(), chunk.get() + mask + 1, chunks_.back().get());
    }
}

Slot ActivityPool::take() {
    ++live_;
    if (free_ != none) return std::exchange(free_, (*this)[free_].where);
    if (size_ > slot_mask) {
        --live_;
        throw std::length_error("more than 67,108,864 activities at once");
    }
    if (size_ >> bits == chunks_.size()) {
        chunks_.push_back(std::make_unique<Activity[]>(mask + 1));
        if (has_charges()) charges_.resize(chunks_.size() << bits);
    }
    return size_++;
}

void ActivityPool::open_charges() {
    charges_.resize(std::max<std::size_t>(chunks_.size(), 1) << bits);
}

void ActivityPool::refuse_tags() {
    throw std::length_error("more than 2^38 activities have been started");
}

}  // namespace twinloop
