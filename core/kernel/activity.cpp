#include "kernel/activity.hpp"

#include <algorithm>
#include <stdexcept>

namespace twinloop {

ActivityPool::ActivityPool(const ActivityPool& other)
    : free_(other.free_), size_(other.size_), live_(other.live_), tags_(other.tags_) {
    chunks_.reserve(other.chunks_.size());
    for (const auto& chunk : other.chunks_) {
        chunks_.push_back(std::make_unique<Activity[]>(mask + 1));
        std::copy(chunk.get(), chunk.get() + mask + 1, chunks_.back().get());
    }
}

Slot ActivityPool::take() {
    ++live_;
    if (!free_.empty()) {
        const Slot slot = free_.back();
        free_.pop_back();
        return slot;
    }
    if (size_ > slot_mask) {
        --live_;
        throw std::length_error("more than 67,108,864 activities at once");
    }
    if (size_ >> bits == chunks_.size()) chunks_.push_back(std::make_unique<Activity[]>(mask + 1));
    return size_++;
}

void ActivityPool::give_back(Slot slot) {
    Activity& activity = (*this)[slot];
    ++activity.generation;
    activity.state = State::free;
    activity.tag = 0;
    activity.token = 0;
    activity.route = {};
    if (--live_ > 0) {
        free_.push_back(slot);
    } else {
        // All are free: restart with the first slot, for sequential memory access.
        free_.clear();
        size_ = 0;
    }
}

void ActivityPool::retag(Slot slot) {
    // 2^38 tags: a day at three million starts per second.
    if (++tags_ >> (64 - slot_bits))
        throw std::length_error("more than 2^38 activities have been started");
    (*this)[slot].tag = tags_ << slot_bits | slot;
}

}  // namespace twinloop
