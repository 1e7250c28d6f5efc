// A sorted sequence in blocks of some dozens of values each: reading is sequential in memory, and a
// change moves the values of one block only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace twinloop {

template <class T>
class SortedBlocks {
  public:
    static constexpr std::size_t capacity = 64;

    struct Place {
        std::size_t block = 0;
        std::size_t index = 0;
    };
    struct Inserted {
        std::size_t block = 0;
        bool split = false;  // the block after it is new
    };

    SortedBlocks() : blocks_(1) {}

    [[nodiscard]] bool empty() const { return size_ == 0; }
    [[nodiscard]] std::size_t size() const { return size_; }
    [[nodiscard]] std::size_t blocks() const { return blocks_.size(); }
    // Empty only if the whole sequence is empty.
    [[nodiscard]] std::span<const T> block(std::size_t at) const { return blocks_[at]; }
    [[nodiscard]] const T& front() const { return blocks_.front().front(); }

    Inserted insert(T value) {
        ++size_;
        const std::size_t at = block_of(value);
        std::vector<T>& block = blocks_[at];
        if (block.size() < capacity) {
            insert_into(block, std::move(value));
            return {at, false};
        }
        // Values appended at the end never come between others, so full blocks may stay full.
        const bool last = at + 1 == blocks_.size() && block.back().before(value);
        const auto middle = last ? block.end() : block.begin() + capacity / 2;
        std::vector<T> rest;
        rest.reserve(capacity);
        rest.assign(std::make_move_iterator(middle), std::make_move_iterator(block.end()));
        block.erase(middle, block.end());
        insert_into(last || block.back().before(value) ? rest : block, std::move(value));
        blocks_.insert(blocks_.begin() + static_cast<std::ptrdiff_t>(at) + 1, std::move(rest));
        return {at, true};
    }

    // The place of the value, or the place where it would be inserted.
    [[nodiscard]] Place find(const T& value) const {
        const std::size_t at = block_of(value);
        return {at, index_in(blocks_[at], value)};
    }
    [[nodiscard]] const T& at(Place place) const { return blocks_[place.block][place.index]; }

    // True if the block was removed with its last value.
    bool erase(Place place) {
        --size_;
        std::vector<T>& block = blocks_[place.block];
        block.erase(block.begin() + static_cast<std::ptrdiff_t>(place.index));
        if (!block.empty() || blocks_.size() == 1) return false;
        blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(place.block));
        return true;
    }

    void clear() {
        blocks_.resize(1);
        blocks_.front().clear();
        size_ = 0;
    }

    template <class Visit>
    void each(Visit&& visit) const {
        for (const std::vector<T>& block : blocks_)
            for (const T& value : block) visit(value);
    }

  private:
    static std::size_t index_in(const std::vector<T>& block, const T& value) {
        const auto found = std::ranges::partition_point(
            block, [&](const T& other) { return other.before(value); });
        return static_cast<std::size_t>(found - block.begin());
    }
    static void insert_into(std::vector<T>& block, T value) {
        const auto index = static_cast<std::ptrdiff_t>(index_in(block, value));
        block.insert(block.begin() + index, std::move(value));
    }
    // The first block that does not end before the value, or the last one.
    [[nodiscard]] std::size_t block_of(const T& value) const {
        std::size_t first = 0;
        std::size_t count = blocks_.size() - 1;
        while (count > 0) {
            const std::size_t half = count / 2;
            if (blocks_[first + half].back().before(value)) {
                first += half + 1;
                count -= half + 1;
            } else {
                count = half;
            }
        }
        return first;
    }

    std::vector<std::vector<T>> blocks_;
    std::size_t size_ = 0;
};

}  // namespace twinloop
