// Machines in order of preference, searched by their room. They are sorted into classes by whole
// cores of room; each class is a treap in order of preference with the most room below each node.
// The best machine with room for a task is found in O(log machines) per class.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "platform/machine.hpp"

namespace twinloop {

// The room on one machine, or the demand of a task on one.
struct Room {
    double cores = 0.0;
    double memory = 0.0;

    [[nodiscard]] bool holds(const Room& demand) const {
        return cores >= demand.cores && memory >= demand.memory;
    }
    bool operator==(const Room&) const = default;
};

class HostIndex {
  public:
    // A place in the order: the lowest key is the best, and among equal keys the first machine.
    struct Place {
        double key = -never;
        MachineId machine = 0;

        bool operator==(const Place&) const = default;
        [[nodiscard]] bool before(const Place& other) const {
            return key != other.key ? key < other.key : machine < other.machine;
        }
    };
    static constexpr Place nowhere{never, no_machine};

    // `most_room_first`: machines with low keys mostly have much room.
    explicit HostIndex(std::size_t machines = 0, bool most_room_first = false);

    [[nodiscard]] std::size_t size() const { return nodes_.size(); }
    // More machines than before; the new ones are in no class.
    void resize(std::size_t machines);
    // Puts the machine at this place, also if it had another one.
    void put(MachineId machine, double key, const Room& room);
    void remove(MachineId machine);

    // The best machine not before `from` that has room for the demand and that `accept` accepts, or
    // `nowhere`.
    template <class Accept>
    [[nodiscard]] Place best(const Room& demand, const Place& from, Accept&& accept) const {
        Place found = nowhere;
        const std::size_t lowest = class_of(demand.cores);
        const auto visit = [&](std::size_t at) {
            const Class& each = classes_[at];
            if (!each.front.before(found)) return;
            const MachineId machine = search(each.root, {demand, from, found}, accept);
            if (machine != no_machine) found = {nodes_[machine].key, machine};
        };
        if (most_room_first_) for_each_class_down(lowest, visit);
        else for_each_class_up(lowest, visit);
        return found;
    }

  private:
    static constexpr std::size_t class_count = 256;

    struct Node {
        double key = 0.0;
        Room room;
        Room most;  // of this node and all below
        MachineId left = no_machine;
        MachineId right = no_machine;
        std::uint32_t rank = 0;            // decreases from the root down
        std::uint16_t kind = class_count;  // its class; `class_count`: none
    };
    struct Class {
        MachineId root = no_machine;
        Place front = nowhere;
    };
    struct Query {
        const Room& demand;
        const Place& from;
        const Place& bound;  // only places before it are searched
    };

    [[nodiscard]] static std::size_t class_of(double cores) {
        if (!(cores > 0)) return 0;
        return cores < class_count - 1 ? static_cast<std::size_t>(cores) : class_count - 1;
    }
    [[nodiscard]] Place place(MachineId machine) const { return {nodes_[machine].key, machine}; }

    template <class Visit>
    void for_each_class_up(std::size_t lowest, Visit&& visit) const {
        std::uint64_t mask = ~std::uint64_t{0} << (lowest % 64);
        for (std::size_t word = lowest / 64; word < filled_.size(); ++word, mask = ~0ULL)
            for (std::uint64_t rest = filled_[word] & mask; rest != 0; rest &= rest - 1)
                visit(word * 64 + static_cast<std::size_t>(std::countr_zero(rest)));
    }
    template <class Visit>
    void for_each_class_down(std::size_t lowest, Visit&& visit) const {
        for (std::size_t word = filled_.size(); word-- > lowest / 64;) {
            std::uint64_t rest = filled_[word];
            if (word == lowest / 64) rest &= ~std::uint64_t{0} << (lowest % 64);
            while (rest != 0) {
                const auto bit = static_cast<std::size_t>(63 - std::countl_zero(rest));
                visit(word * 64 + bit);
                rest ^= std::uint64_t{1} << bit;
            }
        }
    }

    template <class Accept>
    [[nodiscard]] MachineId search(MachineId at, const Query& query, Accept&& accept) const {
        while (at != no_machine && nodes_[at].most.holds(query.demand)) {
            const Node& node = nodes_[at];
            const Place here = place(at);
            if (!here.before(query.from)) {
                const MachineId found = search(node.left, query, accept);
                if (found != no_machine) return found;
                if (!here.before(query.bound)) return no_machine;
                if (node.room.holds(query.demand) && accept(at)) return at;
            }
            at = node.right;
        }
        return no_machine;
    }

    void insert(MachineId& root, MachineId machine);
    MachineId erase(MachineId root, MachineId machine);
    void split(MachineId root, const Place& at, MachineId& left, MachineId& right);
    MachineId merge(MachineId left, MachineId right);
    void sum_up(MachineId machine);

    std::vector<Node> nodes_;  // by machine
    std::vector<Class> classes_;
    std::array<std::uint64_t, class_count / 64> filled_{};
    bool most_room_first_ = false;
};

}  // namespace twinloop
