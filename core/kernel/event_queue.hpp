// The event queue of a simulation: an indexed four-ary heap, so that an event can be moved or
// removed in O(log n) without stale entries.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernel/ordinal.hpp"

namespace twinloop {

using EventId = std::uint32_t;

// Kinds of events, by default in the order in which simultaneous ones happen. Events of one kind
// happen in the order of their ranks, by default that of scheduling.
enum class EventKind : std::uint8_t {
    end,       // activities of a resource or a group reach their end
    step,      // a client's event that belongs to the ends
    capacity,  // next step of a capacity profile
    start,     // start of a delayed activity
    machine,   // a client's event that changes resources
    feed,      // the client starts due activities
    urgent,    // a client's event that precedes its timers
    timer,     // a client's timer
};
inline constexpr std::size_t event_kinds = 8;

class EventQueue {
  public:
    struct Slot {
        std::uint64_t subject = 0;
        std::uint32_t recurrence = idle;  // recurring timers of the client only
        EventKind kind = EventKind::timer;
        bool used = false;
        bool kept = false;  // it is not destroyed when it happens
    };
    static constexpr std::uint32_t idle = std::numeric_limits<std::uint32_t>::max();

    [[nodiscard]] EventId create(EventKind kind, std::uint64_t subject) {
        EventId id;
        if (free_.empty()) {
            id = static_cast<EventId>(slots_.size());
            slots_.push_back({subject, idle, kind, true, false});
            positions_.push_back(idle);
        } else {
            id = free_.back();
            free_.pop_back();
            slots_[id] = {subject, idle, kind, true, false};
        }
        return id;
    }

    void destroy(EventId id) {
        cancel(id);
        slots_[id].used = false;
        free_.push_back(id);
    }

    // `rank` orders events of equal time and kind; the default is the order of scheduling.
    void schedule(EventId id, double time) { place(id, time, sequence_++); }
    [[nodiscard]] std::uint64_t next_rank() { return sequence_++; }
    // Later ranks are higher than this one.
    void use_rank(std::uint64_t rank) { sequence_ = std::max(sequence_, rank + 1); }
    void schedule(EventId id, double time, std::uint64_t rank) { place(id, time, rank); }

    void cancel(EventId id) {
        const std::uint32_t hole = positions_[id];
        if (hole == idle) return;
        positions_[id] = idle;
        remove(hole);
    }

    // Removes and returns the next event. Events are often scheduled again right after that, so the
    // root of the heap stays open for the next one that is scheduled; it precedes all others.
    EventId take() {
        if (open_) remove(0);
        Entry& root = heap_.front();
        root.time = lowest_ordinal;
        positions_[root.id] = idle;
        open_ = true;
        return root.id;
    }

    [[nodiscard]] double next_time() const {
        const Entry* first = find_first();
        return first ? value_of(first->time) : std::numeric_limits<double>::infinity();
    }
    [[nodiscard]] EventId next() const { return find_first()->id; }
    [[nodiscard]] std::size_t size() const { return heap_.size() - (open_ ? 1 : 0); }
    [[nodiscard]] bool queued(EventId id) const { return positions_[id] != idle; }
    [[nodiscard]] double time_of(EventId id) const { return value_of(heap_[positions_[id]].time); }
    [[nodiscard]] std::uint64_t rank_of(EventId id) const {
        return heap_[positions_[id]].order & ((std::uint64_t{1} << kind_shift) - 1);
    }
    [[nodiscard]] bool used(EventId id) const { return id < slots_.size() && slots_[id].used; }
    [[nodiscard]] const Slot& operator[](EventId id) const { return slots_[id]; }
    void set_recurrence(EventId id, std::uint32_t index) { slots_[id].recurrence = index; }
    void keep(EventId id) { slots_[id].kept = true; }
    // Ranks of the kinds among simultaneous events; by default the order of their declaration.
    void set_kind_order(const std::array<std::uint8_t, event_kinds>& ranks) { ranks_ = ranks; }
    [[nodiscard]] std::size_t slot_count() const { return slots_.size(); }

  private:
    static constexpr std::size_t arity = 4;
    static constexpr unsigned kind_shift = 56;  // of the rank of the kind in the order

    struct Entry {
        Ordinal time;
        std::uint64_t order;
        EventId id;
        [[nodiscard]] bool before(const Entry& other) const {
            return precedes(time, order, other.time, other.order);
        }
    };

    void place(EventId id, double time, std::uint64_t rank) {
        const auto kind = static_cast<std::size_t>(slots_[id].kind);
        const Entry entry{ordinal_of(time), std::uint64_t{ranks_[kind]} << kind_shift | rank, id};
        std::size_t at = positions_[id];
        if (at == idle) {
            at = open_ ? 0 : heap_.size();
            if (!open_) heap_.push_back(entry);
            open_ = false;
        }
        put(at, entry);
    }

    void remove(std::size_t hole) {
        const Entry last = heap_.back();
        heap_.pop_back();
        if (hole < heap_.size()) put(hole, last);
    }

    // Fills a hole with an entry: moves the hole up or down until the heap is in order.
    void put(std::size_t hole, const Entry entry) {
        Entry* const heap = heap_.data();
        const std::size_t size = heap_.size();
        while (hole > 0) {
            const std::size_t parent = (hole - 1) / arity;
            if (!entry.before(heap[parent])) break;
            heap[hole] = heap[parent];
            positions_[heap[hole].id] = static_cast<std::uint32_t>(hole);
            hole = parent;
        }
        for (std::size_t first = hole * arity + 1; first < size; first = hole * arity + 1) {
            const std::size_t least = least_of(first, size);
            if (!heap[least].before(entry)) break;
            heap[hole] = heap[least];
            positions_[heap[hole].id] = static_cast<std::uint32_t>(hole);
            hole = least;
        }
        heap[hole] = entry;
        positions_[entry.id] = static_cast<std::uint32_t>(hole);
    }

    // The next event, or nullptr: the root, or one of its children while it is open.
    [[nodiscard]] const Entry* find_first() const {
        if (!open_) return heap_.empty() ? nullptr : heap_.data();
        return heap_.size() > 1 ? &heap_[least_of(1, heap_.size())] : nullptr;
    }

    // The least of the children of a node, of which `first` is the first.
    [[nodiscard]] std::size_t least_of(std::size_t first, std::size_t size) const {
        const Entry* const heap = heap_.data();
        const std::size_t last = std::min(first + arity, size);
        std::size_t least = first;
        for (std::size_t child = first + 1; child < last; ++child)
            if (heap[child].before(heap[least])) least = child;
        return least;
    }

    std::vector<Entry> heap_;
    std::vector<Slot> slots_;
    std::vector<std::uint32_t> positions_;  // of the events in the heap
    std::vector<EventId> free_;
    std::uint64_t sequence_ = 0;
    std::array<std::uint8_t, event_kinds> ranks_ = {0, 1, 2, 3, 4, 5, 6, 7};
    bool open_ = false;  // the root of the heap is empty
};

}  // namespace twinloop
