// The event queue of a simulation: an indexed four-ary heap, so that an event can be moved or
// removed in O(log n) without stale entries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace twinloop {

using EventId = std::uint32_t;

// Order of simultaneous events; events of one kind happen in the order of scheduling.
enum class EventKind : std::uint8_t {
    end,       // activities of a resource or a group reach their end
    capacity,  // next step of a capacity profile
    start,     // start of a delayed activity
    feed,      // the client starts due activities
    urgent,    // a client's event that precedes its timers
    timer,     // a client's timer
};

class EventQueue {
  public:
    struct Slot {
        std::uint64_t subject = 0;
        std::uint32_t position = idle;
        std::uint32_t recurrence = idle;  // recurring timers of the client only
        EventKind kind = EventKind::timer;
        bool used = false;
    };
    static constexpr std::uint32_t idle = std::numeric_limits<std::uint32_t>::max();

    [[nodiscard]] EventId create(EventKind kind, std::uint64_t subject) {
        EventId id;
        if (free_.empty()) {
            id = static_cast<EventId>(slots_.size());
            slots_.push_back({subject, idle, idle, kind, true});
        } else {
            id = free_.back();
            free_.pop_back();
            slots_[id] = {subject, idle, idle, kind, true};
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
    void schedule(EventId id, double time, std::uint64_t rank) { place(id, time, rank); }

    void cancel(EventId id) {
        if (slots_[id].position == idle) return;
        close();
        const std::uint32_t hole = slots_[id].position;
        slots_[id].position = idle;
        remove(hole);
    }

    // Removes and returns the next event.
    EventId take() {
        close();
        const EventId id = heap_.front().id;
        slots_[id].position = idle;
        open_ = true;
        return id;
    }

    [[nodiscard]] bool empty() {
        close();
        return heap_.empty();
    }
    [[nodiscard]] double next_time() {
        close();
        return heap_.empty() ? std::numeric_limits<double>::infinity() : heap_.front().time;
    }
    [[nodiscard]] EventId next() {
        close();
        return heap_.front().id;
    }
    [[nodiscard]] std::size_t size() {
        close();
        return heap_.size();
    }
    [[nodiscard]] bool queued(EventId id) const { return slots_[id].position != idle; }
    [[nodiscard]] double time_of(EventId id) const { return heap_[slots_[id].position].time; }
    [[nodiscard]] bool used(EventId id) const { return id < slots_.size() && slots_[id].used; }
    [[nodiscard]] const Slot& operator[](EventId id) const { return slots_[id]; }
    void set_recurrence(EventId id, std::uint32_t index) { slots_[id].recurrence = index; }
    [[nodiscard]] std::size_t slot_count() const { return slots_.size(); }

  private:
    static constexpr std::uint32_t arity = 4;

    struct Entry {
        double time;
        std::uint64_t order;
        EventId id;
        [[nodiscard]] bool before(const Entry& other) const {
            return time < other.time || (time == other.time && order < other.order);
        }
    };

    void place(EventId id, double time, std::uint64_t rank) {
        const Slot& slot = slots_[id];
        const Entry entry{time, static_cast<std::uint64_t>(slot.kind) << 56 | rank, id};
        if (slot.position != idle) {
            close();
            if (entry.before(heap_[slot.position])) {
                rise(slot.position, entry);
            } else {
                sink(slot.position, entry);
            }
        } else if (open_) {
            open_ = false;
            sink(0, entry);
        } else {
            heap_.push_back(entry);
            rise(static_cast<std::uint32_t>(heap_.size() - 1), entry);
        }
    }

    // Events are often rescheduled right after removal: the root stays open until the next access.
    void close() {
        if (!open_) return;
        open_ = false;
        remove(0);
    }

    void remove(std::uint32_t hole) {
        const Entry last = heap_.back();
        heap_.pop_back();
        if (hole == heap_.size()) return;
        if (hole > 0 && last.before(heap_[(hole - 1) / arity])) {
            rise(hole, last);
        } else {
            sink(hole, last);
        }
    }

    void rise(std::uint32_t at, const Entry entry) {
        while (at > 0) {
            const std::uint32_t parent = (at - 1) / arity;
            if (!entry.before(heap_[parent])) break;
            put(at, heap_[parent]);
            at = parent;
        }
        put(at, entry);
    }

    void sink(std::uint32_t at, const Entry entry) {
        const auto size = static_cast<std::uint32_t>(heap_.size());
        for (;;) {
            const std::uint32_t first = at * arity + 1;
            if (first >= size) break;
            const std::uint32_t last = first + arity < size ? first + arity : size;
            std::uint32_t least = first;
            for (std::uint32_t child = first + 1; child < last; ++child)
                if (heap_[child].before(heap_[least])) least = child;
            if (!heap_[least].before(entry)) break;
            put(at, heap_[least]);
            at = least;
        }
        put(at, entry);
    }

    void put(std::uint32_t at, const Entry& entry) {
        heap_[at] = entry;
        slots_[entry.id].position = at;
    }

    std::vector<Entry> heap_;
    std::vector<Slot> slots_;
    std::vector<EventId> free_;
    std::uint64_t sequence_ = 0;
    bool open_ = false;  // the root of the heap is empty
};

}  // namespace twinloop
