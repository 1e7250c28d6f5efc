// A four-ary min-heap with at most one key per member, which can be changed in place. Members are
// small integers; unlike KeyHeap it has no stale entries, since it knows the place of each member.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernel/ordinal.hpp"

namespace twinloop {

class IndexedHeap {
  public:
    using Member = std::uint32_t;
    struct Entry {
        Entry(double key, Member member) : ordinal(ordinal_of(key)), member(member) {}
        [[nodiscard]] double key() const { return value_of(ordinal); }
        [[nodiscard]] bool before(const Entry& other) const {
            return precedes(ordinal, member, other.ordinal, other.member);
        }

        Ordinal ordinal;  // of the key
        Member member;    // equal keys are ordered by member
    };

    [[nodiscard]] bool empty() const { return heap_.empty(); }
    [[nodiscard]] const Entry& front() const { return heap_.front(); }
    [[nodiscard]] bool contains(Member member) const {
        return member < places_.size() && places_[member] != absent;
    }
    // Of a member that it contains.
    [[nodiscard]] double key_of(Member member) const { return heap_[places_[member]].key(); }

    // Adds the member, or changes its key.
    void put(Member member, double key) {
        const Entry entry(key, member);
        if (!contains(member)) {
            if (member >= places_.size()) places_.resize(member + std::size_t{1}, absent);
            heap_.push_back(entry);
            sift_up(heap_.size() - 1, entry);
            return;
        }
        const std::size_t at = places_[member];
        if (entry.ordinal < heap_[at].ordinal) {
            sift_up(at, entry);
        } else if (entry.ordinal > heap_[at].ordinal) {
            sift_down(at, entry);
        }
    }

    void remove(Member member) {
        if (!contains(member)) return;
        const std::size_t at = places_[member];
        places_[member] = absent;
        const Entry last = heap_.back();
        heap_.pop_back();
        if (at == heap_.size()) return;
        if (at > 0 && last.before(heap_[(at - 1) / arity])) {
            sift_up(at, last);
        } else {
            sift_down(at, last);
        }
    }

    // `to` takes the place of `from`; it has no key of its own.
    void rename(Member from, Member to) {
        if (!contains(from)) return;
        const double key = key_of(from);
        remove(from);
        put(to, key);
    }

    // Visits the entries with keys below the limit, in any order; a visit may lower the limit.
    template <class Visit>
    void visit_below(const double& limit, Visit&& visit_entry) const {
        const Entry* const heap = heap_.data();
        const std::size_t size = heap_.size();
        Ordinal bound = ordinal_of(limit);
        if (size == 0 || heap[0].ordinal >= bound) return;
        std::array<std::size_t, 128> open;  // NOLINT(*-member-init): written before it is read
        open[0] = 0;
        std::size_t count = 1;
        while (count > 0) {
            const std::size_t at = open[--count];
            if (heap[at].ordinal >= bound) continue;
            visit_entry(heap[at]);
            bound = ordinal_of(limit);
            const std::size_t first = at * arity + 1;
            const std::size_t last = first + arity < size ? first + arity : size;
            for (std::size_t child = first; child < last; ++child) {
                open[count] = child;
                count += heap[child].ordinal < bound;
            }
        }
    }

  private:
    static constexpr std::size_t arity = 4;
    static constexpr std::uint32_t absent = std::numeric_limits<std::uint32_t>::max();

    void set(std::size_t at, const Entry& entry) {
        heap_[at] = entry;
        places_[entry.member] = static_cast<std::uint32_t>(at);
    }

    void sift_up(std::size_t at, const Entry entry) {
        while (at > 0) {
            const std::size_t parent = (at - 1) / arity;
            if (!entry.before(heap_[parent])) break;
            set(at, heap_[parent]);
            at = parent;
        }
        set(at, entry);
    }

    void sift_down(std::size_t at, const Entry entry) {
        const Entry* const heap = heap_.data();
        const std::size_t size = heap_.size();
        std::size_t first = at * arity + 1;
        for (; first + arity <= size; first = at * arity + 1) {
            const std::size_t left = first + heap[first + 1].before(heap[first]);
            const std::size_t right = first + 2 + heap[first + 3].before(heap[first + 2]);
            const std::size_t least = heap[right].before(heap[left]) ? right : left;
            if (!heap[least].before(entry)) return set(at, entry);
            set(at, heap[least]);
            at = least;
        }
        if (first < size) {
            std::size_t least = first;
            for (std::size_t child = first + 1; child < size; ++child)
                least = heap[child].before(heap[least]) ? child : least;
            if (heap[least].before(entry)) {
                set(at, heap[least]);
                at = least;
            }
        }
        set(at, entry);
    }

    std::vector<Entry> heap_;
    std::vector<std::uint32_t> places_;  // by member
};

}  // namespace twinloop
