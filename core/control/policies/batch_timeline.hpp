// The free capacity from now on, if all tasks keep to their plans: with the releases of the running
// tasks and the reservations of waiting tasks. A task that runs longer than planned counts as
// ending now.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "control/policies/batch_profile.hpp"
#include "control/policies/batch_room.hpp"
#include "control/policies/queue_blocks.hpp"
#include "control/scheduler_state.hpp"

namespace twinloop {

template <class Room>
class Timeline;

// The cores of a pool.
template <>
class Timeline<PoolRoom> {
  public:
    using Claim = PoolRoom::Claim;

    // Drops all reservations and starts now.
    void reset(const SchedulerState& scheduler, const SortedBlocks<Release>& releases);
    // Drops the past.
    void advance(double now) { cores_.advance(now); }
    // A task has ended before its planned end.
    void release_early(const SchedulerState& scheduler, const Release& release) {
        cores_.add(scheduler.now(), release.end, release.cores);
    }
    // Reservations may overlap, because tasks were delayed.
    void allow_overlap() {}

    // Limits that admit all tasks that could start before `until` by their cores, up to `most`.
    [[nodiscard]] Limits limits(double now, double until, double most) const {
        return cores_.limits(now, until, most);
    }
    // The earliest time from now on at which there is room for the task for its planned time;
    // `never` if there is none before `until`.
    double earliest(const SchedulerState& scheduler, const Waiting& task, double until,
                    Claim& /*claim*/) {
        return cores_.earliest(scheduler.now(), task.cores - slack, task.time, until);
    }
    void reserve(const SchedulerState& /*scheduler*/, const Waiting& task, double start,
                 const Claim& /*claim*/) {
        cores_.add(start, start + task.time, -task.cores);
    }
    void cancel(const SchedulerState& scheduler, const Waiting& task, double start,
                const Claim& /*claim*/) {
        const double begin = std::max(start, scheduler.now());
        const double end = start + task.time;
        if (begin < end) cores_.add(begin, end, task.cores);
    }

  private:
    Profile cores_;
};

// The capacity of each machine.
template <>
class Timeline<SpaceRoom> {
  public:
    using Claim = SpaceRoom::Claim;

    void reset(const SchedulerState& scheduler, const SortedBlocks<Release>& releases);
    void advance(double now) { cores_.advance(now); }
    void release_early(const SchedulerState& scheduler, const Release& release);
    void allow_overlap() { overlap_ = true; }

    [[nodiscard]] Limits limits(double now, double until, double most) const {
        return cores_.limits(now, until, most);
    }
    double earliest(const SchedulerState& scheduler, const Waiting& task, double until,
                    Claim& claim);
    void reserve(const SchedulerState& scheduler, const Waiting& task, double start,
                 const Claim& claim);
    void cancel(const SchedulerState& scheduler, const Waiting& task, double start,
                const Claim& claim);

  private:
    // A search for the earliest start of a task.
    struct Search {
        const Waiting& task;
        Needs needs;
        double until;
    };

    template <class Visit>
    void for_each_share(const Needs& needs, std::span<const Part> parts, Visit&& visit);
    [[nodiscard]] double earliest_by_cores(const Search& search, double from) const;
    double earliest_nodes(const SchedulerState& scheduler, const Search& search, Claim& claim);
    [[nodiscard]] double earliest_on(const SchedulerState& scheduler, const Search& search,
                                     MachineId machine, double from) const;
    double earliest_anywhere(const SchedulerState& scheduler, const Search& search, Claim& claim);
    bool find_anywhere(const SchedulerState& scheduler, const Search& search, double start,
                       Claim& claim);
    [[nodiscard]] bool holds_other_resources(const Needs& needs) const;

    Profile cores_;              // of all machines together
    std::vector<Profile> free_;  // by machine and kind: cores, memory, each other resource
    std::size_t kinds_ = 1;
    bool overlap_ = false;        // some machine has fewer cores reserved than its reservations say
    std::vector<double> least_;   // by kind: amounts of a search
    std::vector<double> starts_;  // by machine: the earliest start of the searched task
    std::vector<double> sorted_;
};

}  // namespace twinloop
