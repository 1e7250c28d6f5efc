// What is free on the machines: the present, or a moment that a scheduler plans for.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "control/free_index.hpp"
#include "platform/machine.hpp"

namespace twinloop {

// Rounding that adding and removing fractions of cores or bytes may leave.
inline constexpr double slack = 1e-9;

struct Needs {
    double cores = 0.0;
    double memory = 0.0;
    std::int32_t nodes = 0;
    std::span<const double> amounts;  // of each other resource
};

class Space {
  public:
    Space() = default;
    // `amounts`: of each other resource on each machine, machine by machine.
    Space(std::span<const MachineSpec> machines, std::size_t resources,
          std::vector<double> amounts);

    [[nodiscard]] std::size_t size() const { return size_; }
    [[nodiscard]] std::size_t resources() const { return resources_; }
    // Nothing but cores is ever short.
    [[nodiscard]] bool is_plain() const { return plain_; }
    // The free cores of all machines that are open; one that is overcommitted has none.
    [[nodiscard]] double total_cores() const { return total_.value(); }
    [[nodiscard]] double cores(MachineId machine) const {
        if (single_) return index_.test(machine) ? 1.0 : 0.0;
        return cores_[machine];
    }
    [[nodiscard]] double memory(MachineId machine) const {
        return single_ ? never : memory_[machine];
    }
    [[nodiscard]] double amount(MachineId machine, std::size_t resource) const {
        return amounts_[machine * resources_ + resource];
    }
    // The tasks and the instances on a machine.
    [[nodiscard]] std::uint32_t occupants(MachineId machine) const {
        if (single_) return index_.test(machine) ? 0 : 1;
        return occupants_[machine];
    }
    [[nodiscard]] bool open(MachineId machine) const { return single_ || open_[machine] != 0; }
    [[nodiscard]] bool has_closed() const { return shut_ > 0; }
    // The machines that are open and have a core or part of one free.
    [[nodiscard]] const FreeIndex& index() const { return index_; }

    // Adds a machine, open and empty.
    void add(const MachineSpec& spec, std::span<const double> amounts);
    // Tasks are placed only on open machines; the tasks of the others remain.
    void set_open(MachineId machine, bool open);
    // Another machine, which is empty, in the place of one that is closed and has no tasks.
    void replace(MachineId machine, const MachineSpec& spec);
    // Adds cores, or removes them if negative.
    void resize(MachineId machine, double more_cores);

    // Gives a machine the size and the free capacity that it has in another space, to the bit;
    // whether it is open stays as it is.
    void copy_machine(const Space& other, MachineId machine);

    void take(const Needs& needs, std::span<const Part> parts) { move(needs, parts, -1.0); }
    void give(const Needs& needs, std::span<const Part> parts) { move(needs, parts, 1.0); }

    // Where these needs can be met among the machines that `allowed` accepts, in their order;
    // false, with `parts` empty, if nowhere.
    template <class Allowed>
    bool find(const Needs& needs, Allowed&& allowed, std::vector<Part>& parts) const {
        parts.clear();
        const bool found = needs.nodes > 0 ? find_nodes(needs, allowed, parts)
                                           : find_anywhere(needs, allowed, parts);
        if (!found) parts.clear();
        return found;
    }
    bool find(const Needs& needs, std::vector<Part>& parts) const {
        if (single_ && needs.nodes == 0 && needs.cores >= 1 && is_whole(needs.cores))
            return find_singles(needs.cores, parts);
        return find(needs, [](MachineId) { return true; }, parts);
    }

    // Whether one machine has room for all of it, or for one of its nodes.
    [[nodiscard]] bool holds(MachineId machine, double cores, double memory,
                             std::span<const double> amounts, double share = 1.0) const;

    // How many cores of a task that may be anywhere a machine with this free capacity can give.
    [[nodiscard]] static double offer(const Needs& needs, double cores, double memory,
                                      std::span<const double> amounts);
    // Adds the next machine to parts in the order of the machines.
    [[gnu::always_inline]] static void append(std::vector<Part>& parts, MachineId machine,
                                              double cores) {
        if (!parts.empty()) {
            Part& last = parts.back();
            if (last.machine + last.count == machine && last.cores == cores) {
                ++last.count;
                return;
            }
        }
        parts.push_back({machine, 1, cores});
    }

  private:
    [[nodiscard]] static bool is_whole(double cores) {
        return cores < 1e9 && static_cast<double>(static_cast<std::int64_t>(cores)) == cores;
    }
    void expand();
    bool find_singles(double cores, std::vector<Part>& parts) const;
    std::span<const Part> move_singles(std::span<const Part> parts, bool taken);
    void move(const Needs& needs, std::span<const Part> parts, double sign);
    bool move_alike(const Part& part, double cores, bool taken);
    void settle(MachineId machine);
    void recount(MachineId machine, double before) {
        if (open_[machine] == 0) return;
        total_.add(std::max(0.0, cores_[machine]));
        total_.subtract(std::max(0.0, before));
    }
    [[nodiscard]] double offer(MachineId machine, const Needs& needs) const {
        return offer(needs, cores_[machine], memory_[machine],
                     std::span(amounts_).subspan(machine * resources_, resources_));
    }
    void refresh(MachineId machine) {
        const bool free = open_[machine] != 0 && cores_[machine] > slack;
        if (free != index_.test(machine)) index_.set(machine, free);
    }

    template <class Allowed>
    bool find_nodes(const Needs& needs, Allowed&& allowed, std::vector<Part>& parts) const {
        const double share = 1.0 / needs.nodes;
        const double cores = needs.cores * share;
        std::int32_t missing = needs.nodes;
        const auto fits = [&](MachineId m) {
            // The machines of the index are open.
            if (plain_) return this->cores(m) >= cores - slack;
            return holds(m, cores, needs.memory * share, needs.amounts, share);
        };
        for (MachineId first = index_.next(0); first != FreeIndex::end;) {
            const MachineId end = index_.end_of_run(first);
            for (MachineId m = first; m < end; ++m) {
                if (!fits(m) || !allowed(m)) continue;
                append(parts, m, cores);
                if (--missing == 0) return true;
            }
            first = index_.next(end);
        }
        return false;
    }

    template <class Allowed>
    bool find_anywhere(const Needs& needs, Allowed&& allowed, std::vector<Part>& parts) const {
        if (needs.cores <= slack) return find_without_cores(needs, allowed, parts);
        if (total_.value() < needs.cores - slack) return false;
        double missing = needs.cores;
        for (MachineId first = index_.next(0); first != FreeIndex::end;) {
            const MachineId end = index_.end_of_run(first);
            for (MachineId m = first; m < end; ++m) {
                const double given = std::min(missing, plain_ ? cores(m) : offer(m, needs));
                if (given <= slack || !allowed(m)) continue;
                append(parts, m, given);
                missing -= given;
                if (missing <= slack) return true;
            }
            first = index_.next(end);
        }
        return false;
    }

    // A task without cores is on the first machine that has what else it needs.
    template <class Allowed>
    bool find_without_cores(const Needs& needs, Allowed&& allowed, std::vector<Part>& parts) const {
        for (MachineId m = 0; m < size(); ++m) {
            if (!holds(m, 0.0, needs.memory, needs.amounts) || !allowed(m)) continue;
            append(parts, m, 0.0);
            return true;
        }
        return false;
    }

    std::size_t size_ = 0;
    // Every machine has one core, which is free or taken as a whole: the index is the whole state,
    // and the vectors by machine are empty.
    bool single_ = false;
    std::vector<double> cores_;
    std::vector<double> sizes_;  // cores of the empty machines
    std::vector<double> memory_;
    std::vector<double> amounts_;
    std::vector<std::uint32_t> occupants_;
    std::vector<std::uint8_t> open_;
    std::size_t resources_ = 0;
    std::size_t shut_ = 0;  // machines that are not open
    Sum total_;             // free cores of the open machines
    bool plain_ = true;
    FreeIndex index_;
};

}  // namespace twinloop
