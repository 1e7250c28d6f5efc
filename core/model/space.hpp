// What is free on the machines: the present, or a moment that a scheduler plans for.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "model/free_index.hpp"
#include "model/request.hpp"

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

    [[nodiscard]] std::size_t size() const { return cores_.size(); }
    [[nodiscard]] std::size_t resources() const { return resources_; }
    // The free cores of all machines that are open; one that is overcommitted has none.
    [[nodiscard]] double total_cores() const { return total_; }
    [[nodiscard]] double cores(MachineId machine) const { return cores_[machine]; }
    [[nodiscard]] double memory(MachineId machine) const { return memory_[machine]; }
    [[nodiscard]] double amount(MachineId machine, std::size_t resource) const {
        return amounts_[machine * resources_ + resource];
    }
    [[nodiscard]] std::uint32_t instances(MachineId machine) const { return instances_[machine]; }
    [[nodiscard]] bool open(MachineId machine) const { return open_[machine] != 0; }
    // The machines that are open and have a core or part of one free.
    [[nodiscard]] const FreeIndex& index() const { return index_; }

    // Nobody starts on a machine that is not open; what runs there still counts.
    void set_open(MachineId machine, bool open);
    // More or fewer cores than before, free or not.
    void resize(MachineId machine, double more_cores);

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
        return find(needs, [](MachineId) { return true; }, parts);
    }

    // Whether one machine has room for all of it, or for one of its nodes.
    [[nodiscard]] bool holds(MachineId machine, double cores, double memory,
                             std::span<const double> amounts, double share = 1.0) const;

  private:
    void move(const Needs& needs, std::span<const Part> parts, double sign);
    bool move_alike(const Part& part, double cores, bool taken);
    void settle(MachineId machine);
    void recount(MachineId machine, double before) {
        if (open_[machine] != 0) total_ += std::max(0.0, cores_[machine]) - std::max(0.0, before);
    }
    // How many cores of a task that may be anywhere this machine can give.
    [[nodiscard]] double offer(MachineId machine, const Needs& needs) const;
    void refresh(MachineId machine) {
        const bool free = open_[machine] != 0 && cores_[machine] > slack;
        if (free != index_.test(machine)) index_.set(machine, free);
    }

    template <class Allowed>
    bool find_nodes(const Needs& needs, Allowed&& allowed, std::vector<Part>& parts) const {
        const double share = 1.0 / needs.nodes;
        const double cores = needs.cores * share;
        std::int32_t missing = needs.nodes;
        for (MachineId m = index_.next(0); m != FreeIndex::end; m = index_.next(m + 1)) {
            if (!holds(m, cores, needs.memory * share, needs.amounts, share) || !allowed(m))
                continue;
            append(parts, m, cores);
            if (--missing == 0) return true;
        }
        return false;
    }

    template <class Allowed>
    bool find_anywhere(const Needs& needs, Allowed&& allowed, std::vector<Part>& parts) const {
        if (needs.cores <= slack) return find_without_cores(needs, allowed, parts);
        if (total_ < needs.cores - slack) return false;
        double missing = needs.cores;
        for (MachineId m = index_.next(0); m != FreeIndex::end; m = index_.next(m + 1)) {
            const double given = std::min(missing, offer(m, needs));
            if (given <= slack || !allowed(m)) continue;
            append(parts, m, given);
            missing -= given;
            if (missing <= slack) return true;
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

    static void append(std::vector<Part>& parts, MachineId machine, double cores) {
        if (!parts.empty()) {
            Part& last = parts.back();
            if (last.machine + last.count == machine && last.cores == cores) {
                ++last.count;
                return;
            }
        }
        parts.push_back({machine, 1, cores});
    }

    std::vector<double> cores_;
    std::vector<double> memory_;
    std::vector<double> amounts_;
    std::vector<std::uint32_t> instances_;
    std::vector<std::uint8_t> open_;
    std::size_t resources_ = 0;
    std::size_t shut_ = 0;  // machines that are not open
    double total_ = 0.0;
    bool plain_ = true;  // nothing but cores is ever short
    FreeIndex index_;
};

}  // namespace twinloop
