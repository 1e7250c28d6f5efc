// A four-ary min-heap of keys with lazy deletion: removal from the middle is free, and the heap is
// compacted when more than half of its entries are stale. The cost of a change does therefore not
// grow with the number of activities that share a resource.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "kernel/ordinal.hpp"

namespace twinloop {

class KeyHeap {
  public:
    struct Entry {
        Entry(double key, std::uint64_t tag) : ordinal(ordinal_of(key)), tag(tag) {}
        [[nodiscard]] double key() const { return value_of(ordinal); }
        [[nodiscard]] bool before(const Entry& other) const {
            return precedes(ordinal, tag, other.ordinal, other.tag);
        }

        Ordinal ordinal;    // of the key
        std::uint64_t tag;  // identifies the entry; equal keys are ordered by tag
    };

    void push(double key, std::uint64_t tag) {
        heap_.emplace_back(key, tag);
        sift_up(heap_.size() - 1);
    }

    void pop() {
        const Entry last = heap_.back();
        heap_.pop_back();
        if (heap_.empty()) return;
        // The last entry belongs near the bottom: move the hole down completely, then sift up.
        Entry* const heap = heap_.data();
        const std::size_t size = heap_.size();
        std::size_t hole = 0;
        std::size_t first = 1;
        for (; first + arity <= size; first = hole * arity + 1) {
            const std::size_t left = first + heap[first + 1].before(heap[first]);
            const std::size_t right = first + 2 + heap[first + 3].before(heap[first + 2]);
            const std::size_t least = heap[right].before(heap[left]) ? right : left;
            heap[hole] = heap[least];
            hole = least;
        }
        if (first < size) {
            const std::size_t least = least_of(first, size);
            heap[hole] = heap[least];
            hole = least;
        }
        heap[hole] = last;
        sift_up(hole);
    }

    // In bulk: entries in any order, then order() once.
    void append(double key, std::uint64_t tag) { heap_.emplace_back(key, tag); }
    void order() {
        if (heap_.size() < 2) return;
        for (std::size_t at = (heap_.size() - 2) / arity + 1; at-- > 0;) sift_down(at, heap_[at]);
    }
    [[nodiscard]] const Entry& front() const { return heap_.front(); }
    void raise_front(double key) { sift_down(0, {key, heap_.front().tag}); }

    // The smallest entry accepted by `live`, or nullptr.
    template <class Live>
    [[nodiscard]] const Entry* top(Live&& live) {
        while (!heap_.empty()) {
            if (stale_ == 0 || live(heap_.front())) return &heap_.front();
            pop();
            --stale_;
        }
        return nullptr;
    }

    // Removes an entry that `live` no longer accepts: at once if it is the smallest, otherwise when
    // it becomes so. An entry that was added again may exist twice; either of them is removed.
    template <class Live>
    void forget(const Entry& entry, Live&& live) {
        if (heap_.front().tag == entry.tag && heap_.front().ordinal == entry.ordinal) {
            pop();
            return;
        }
        ++stale_;
        if (stale_ * 2 > heap_.size() + 32) sweep(std::forward<Live>(live));
    }

    [[nodiscard]] bool empty() const { return heap_.empty(); }
    void clear() {
        heap_.clear();
        stale_ = 0;
    }
    [[nodiscard]] const std::vector<Entry>& entries() const { return heap_; }
    // Visits the entries whose key `within` accepts, in any order; `within` must accept all keys up
    // to some key. Stale entries are visited too.
    template <class Within, class Visit>
    void visit(Within&& within, Visit&& visit_entry, std::size_t at = 0) const {
        if (at >= heap_.size() || !within(heap_[at].key())) return;
        visit_entry(heap_[at]);
        for (std::size_t child = at * arity + 1; child <= at * arity + arity; ++child)
            visit(within, visit_entry, child);
    }
    // The candidates for the second smallest entry.
    [[nodiscard]] std::span<const Entry> runners_up() const {
        if (heap_.empty()) return {};
        return std::span(heap_).subspan(1, std::min(arity, heap_.size() - 1));
    }

  private:
    static constexpr std::size_t arity = 4;

    template <class Live>
    void sweep(Live&& live) {
        std::erase_if(heap_, [&](const Entry& entry) { return !live(entry); });
        // A sorted array is a heap, and duplicates are adjacent.
        std::ranges::sort(heap_, [](const Entry& a, const Entry& b) { return a.before(b); });
        std::size_t kept = 0;
        for (const Entry& entry : heap_)
            if (kept == 0 || heap_[kept - 1].tag != entry.tag) heap_[kept++] = entry;
        heap_.erase(heap_.begin() + static_cast<std::ptrdiff_t>(kept), heap_.end());
        stale_ = 0;
    }

    void sift_up(std::size_t at) {
        const Entry entry = heap_[at];
        while (at > 0) {
            const std::size_t parent = (at - 1) / arity;
            if (!entry.before(heap_[parent])) break;
            heap_[at] = heap_[parent];
            at = parent;
        }
        heap_[at] = entry;
    }

    void sift_down(std::size_t at, const Entry entry) {
        const std::size_t size = heap_.size();
        for (;;) {
            const std::size_t first = at * arity + 1;
            if (first >= size) break;
            const std::size_t least = least_of(first, first + arity < size ? first + arity : size);
            if (!heap_[least].before(entry)) break;
            heap_[at] = heap_[least];
            at = least;
        }
        heap_[at] = entry;
    }

    [[nodiscard]] std::size_t least_of(std::size_t first, std::size_t last) const {
        std::size_t least = first;
        for (std::size_t child = first + 1; child < last; ++child)
            least = heap_[child].before(heap_[least]) ? child : least;
        return least;
    }

    std::vector<Entry> heap_;
    std::size_t stale_ = 0;
};

}  // namespace twinloop
