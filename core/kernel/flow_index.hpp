// The flows of a group by the hash of what makes them equal, to find the flow that a new activity
// can join. An open-addressing table: the cost of a change does not depend on the number of flows.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernel/activity.hpp"

namespace twinloop {

// Activities with the same resources, weight, limit, kind and priority always have equal rates.
[[nodiscard]] inline bool share_equally(const Activity& a, const Activity& b) {
    return a.weight == b.weight && a.limit == b.limit && a.kind == b.kind &&
           a.priority == b.priority && std::ranges::equal(a.route.view(), b.route.view());
}

[[nodiscard]] inline std::uint32_t hash_share(const Activity& activity) {
    std::uint64_t hash = std::bit_cast<std::uint64_t>(activity.weight) ^
                         std::rotl(std::bit_cast<std::uint64_t>(activity.limit), 23) ^
                         static_cast<std::uint64_t>(activity.kind) << 40 ^
                         static_cast<std::uint64_t>(static_cast<std::uint32_t>(activity.priority));
    const auto mix = [&hash](std::uint64_t term) {
        hash = (hash ^ term) * 0x9E3779B97F4A7C15U;
        hash ^= hash >> 32;
    };
    mix(activity.route.size());
    for (const ResourceId id : activity.route.view()) mix(id);
    return static_cast<std::uint32_t>(hash);
}

class FlowIndex {
  public:
    [[nodiscard]] bool built() const { return !table_.empty(); }
    void clear() {
        table_.clear();
        size_ = 0;
    }

    void insert(std::uint32_t hash, std::uint32_t flow) {
        if (2 * (size_ + 1) > table_.size()) grow();
        place({hash, flow});
        ++size_;
    }

    // The flow of that hash which `equal` accepts, or `none`.
    template <class Equal>
    [[nodiscard]] std::uint32_t find(std::uint32_t hash, Equal&& equal) const {
        for (std::size_t at = home(hash); table_[at].flow != none; at = next(at))
            if (table_[at].hash == hash && equal(table_[at].flow)) return table_[at].flow;
        return none;
    }

    void renumber(std::uint32_t hash, std::uint32_t from, std::uint32_t to) {
        table_[position(hash, from)].flow = to;
    }

    // The entries behind the gap move up where they may, so that no marks of deletion are needed.
    void erase(std::uint32_t hash, std::uint32_t flow) {
        std::size_t gap = position(hash, flow);
        for (std::size_t at = next(gap); table_[at].flow != none; at = next(at)) {
            const std::size_t wanted = home(table_[at].hash);
            if (((at - wanted) & (table_.size() - 1)) < ((at - gap) & (table_.size() - 1)))
                continue;
            table_[gap] = table_[at];
            gap = at;
        }
        table_[gap].flow = none;
        --size_;
    }

  private:
    struct Entry {
        std::uint32_t hash = 0;
        std::uint32_t flow = none;
    };

    [[nodiscard]] std::size_t home(std::uint32_t hash) const { return hash & (table_.size() - 1); }
    [[nodiscard]] std::size_t next(std::size_t at) const { return (at + 1) & (table_.size() - 1); }
    [[nodiscard]] std::size_t position(std::uint32_t hash, std::uint32_t flow) const {
        std::size_t at = home(hash);
        while (table_[at].flow != flow) at = next(at);
        return at;
    }
    void place(Entry entry) {
        std::size_t at = home(entry.hash);
        while (table_[at].flow != none) at = next(at);
        table_[at] = entry;
    }
    void grow() {
        const std::vector<Entry> former = std::move(table_);
        table_ = std::vector<Entry>(former.empty() ? 64 : 2 * former.size());
        for (const Entry& entry : former)
            if (entry.flow != none) place(entry);
    }

    std::vector<Entry> table_;  // its size is a power of two
    std::size_t size_ = 0;
};

}  // namespace twinloop
