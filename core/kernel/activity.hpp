// Activities and their memory pool.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "kernel/efficiency.hpp"
#include "kernel/event_queue.hpp"
#include "kernel/key_heap.hpp"
#include "kernel/measure.hpp"

namespace twinloop {

using Slot = std::uint32_t;
using ResourceId = std::uint32_t;

inline constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

// Unique identifier of an activity: slots are reused, generations are not.
struct ActivityId {
    Slot slot = none;
    std::uint32_t generation = 0;
    bool operator==(const ActivityId&) const = default;
};

enum class State : std::uint8_t { free, waiting, running, suspended };

// Constraint that determines the rate of a running activity: its own limit, the level of its
// resource, or the solution of its group, as a flow of its own or in a bundle of equal ones.
enum class Hold : std::uint8_t { nothing, limit, level, group, bundle };

// The resources of an activity; up to three are stored inline.
class Route {
  public:
    Route() = default;
    Route(const Route& other) { store(other.view()); }
    Route(Route&& other) noexcept : size_(other.size_) {
        std::memcpy(local_, other.local_, sizeof local_);
        other.size_ = 0;
    }
    Route& operator=(const Route& other) {
        if (this != &other) assign(other.view());
        return *this;
    }
    Route& operator=(Route&& other) noexcept {
        if (this != &other) {
            clear();
            size_ = other.size_;
            std::memcpy(local_, other.local_, sizeof local_);
            other.size_ = 0;
        }
        return *this;
    }
    ~Route() { clear(); }

    void assign(std::span<const ResourceId> resources) {
        clear();
        store(resources);
    }
    void clear() {
        if (size_ > kept) delete[] far();
        size_ = 0;
    }

    [[nodiscard]] std::span<const ResourceId> view() const {
        return {size_ > kept ? far() : local_, size_};
    }
    [[nodiscard]] std::uint32_t size() const { return size_; }
    [[nodiscard]] ResourceId front() const { return size_ > kept ? *far() : local_[0]; }

  private:
    static constexpr std::uint32_t kept = 3;

    void store(std::span<const ResourceId> resources) {
        size_ = static_cast<std::uint32_t>(resources.size());
        if (size_ > kept) {
            auto* to = new ResourceId[size_];
            std::memcpy(local_ + 1, &to, sizeof to);
            std::memcpy(to, resources.data(), resources.size_bytes());
        } else {
            for (std::uint32_t i = 0; i < size_; ++i) local_[i] = resources[i];
        }
    }
    [[nodiscard]] ResourceId* far() const {
        ResourceId* pointer = nullptr;
        std::memcpy(&pointer, local_ + 1, sizeof pointer);
        return pointer;
    }
    std::uint32_t size_ = 0;
    ResourceId local_[kept] = {};
};

struct Activity {
    std::uint64_t tag = 0;  // of its current run; orders simultaneous ends
    double work = 0.0;      // done so far plus remaining
    double left = 0.0;      // remaining when its constraint last changed
    double reading = 0.0;   // of its clock at that time
    double key = 0.0;       // the reading at which it ends
    double consumed = 0.0;  // capacity consumed until `joined`
    double joined = 0.0;    // time, or integral of the level, when its constraint last changed
    double limit = 0.0;
    double weight = 1.0;
    double started = 0.0;     // start time; NaN before
    std::uint64_t token = 0;  // of the client
    Route route;
    // Waiting: its event; in a group: its flow or bundle; free: the next slot.
    std::uint32_t where = none;
    std::uint32_t generation = 0;
    std::int32_t priority = 0;
    Kind kind = 0;
    State state = State::free;
    Hold hold : 4 = Hold::nothing;
    bool suspend_on_start : 4 = false;

    [[nodiscard]] double threshold() const { return limit / weight; }
};
static_assert(sizeof(Activity) <= 120);

// Cost charged to an activity.
struct Charge {
    double total = 0.0;  // until its constraint last changed
    Sum mark;            // reading of its price integral at that time; 0 without one
};

// Activities have stable addresses: chunks are never moved, and freed slots are reused.
class ActivityPool {
  public:
    ActivityPool() = default;
    ActivityPool(const ActivityPool& other);
    ActivityPool(ActivityPool&&) noexcept = default;
    ActivityPool& operator=(const ActivityPool&) = delete;
    ActivityPool& operator=(ActivityPool&&) noexcept = default;
    ~ActivityPool() = default;

    [[nodiscard]] Activity& operator[](Slot slot) { return chunks_[slot >> bits][slot & mask]; }
    [[nodiscard]] const Activity& operator[](Slot slot) const {
        return chunks_[slot >> bits][slot & mask];
    }

    // Whether the activities exceed the caches, so that prefetching pays.
    [[nodiscard]] bool is_large() const { return chunks_.size() > 16; }
    void expect(Slot slot) const {
        const Activity* activity = &(*this)[slot];
        prefetch(activity);
        prefetch(&activity->limit);
    }

    [[nodiscard]] Slot take();
    void give_back(Slot slot) {
        Activity& activity = (*this)[slot];
        ++activity.generation;
        activity.state = State::free;
        activity.tag = 0;
        activity.token = 0;
        activity.route.clear();
        if (has_charges()) charges_[slot] = {};
        if (--live_ > 0) {
            activity.where = std::exchange(free_, slot);
        } else {
            // All are free: restart with the first slot, for sequential memory access.
            free_ = none;
            size_ = 0;
        }
    }

    // Tags increase in the order in which activities start.
    void retag(Activity& activity, Slot slot) {
        if (tags_ == tags_max) refuse_tags();
        activity.tag = ++tags_ << slot_bits | slot;
    }
    [[nodiscard]] static Slot slot_of(std::uint64_t tag) {
        return static_cast<Slot>(tag & slot_mask);
    }

    // Charges exist from the first cost model on, so that simulations without one do not pay.
    void open_charges();
    [[nodiscard]] bool has_charges() const { return !charges_.empty(); }
    [[nodiscard]] Charge& charge(Slot slot) { return charges_[slot]; }
    [[nodiscard]] const Charge& charge(Slot slot) const { return charges_[slot]; }

    [[nodiscard]] std::size_t live() const { return live_; }
    [[nodiscard]] Slot slots() const { return size_; }

  private:
    static constexpr unsigned bits = 8;
    static constexpr Slot mask = (Slot{1} << bits) - 1;
    static constexpr unsigned slot_bits = 26;  // 67 million activities at once
    static constexpr std::uint64_t slot_mask = (std::uint64_t{1} << slot_bits) - 1;
    // 2^38 tags: a day at three million starts per second.
    static constexpr std::uint64_t tags_max = (std::uint64_t{1} << (64 - slot_bits)) - 1;

    [[noreturn]] static void refuse_tags();

    std::vector<std::unique_ptr<Activity[]>> chunks_;
    std::vector<Charge> charges_;  // by slot; empty without cost models
    Slot free_ = none;             // the slot that was freed last; `where` links to the one before
    Slot size_ = 0;
    std::size_t live_ = 0;
    std::uint64_t tags_ = 0;
};

// Whether an entry of a heap of ends is valid: an activity that leaves it may leave a stale entry.
struct CurrentEnd {
    const ActivityPool& pool;
    Hold hold;
    bool operator()(const KeyHeap::Entry& entry) const {
        const Activity& activity = pool[ActivityPool::slot_of(entry.tag)];
        return activity.tag == entry.tag && activity.hold == hold && activity.key == entry.key();
    }
};

}  // namespace twinloop
