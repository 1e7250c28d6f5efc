// What will be free from when on, if everybody keeps to the plan.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "model/desk.hpp"
#include "policy/batch_room.hpp"
#include "policy/queue_blocks.hpp"

namespace twinloop {

template <class Room>
class Timeline {
  public:
    using Claim = typename Room::Claim;

    // From now on, with nothing but what runs. Who has outstayed the plan counts as ending now.
    void reset(const Desk& desk, const SortedBlocks<Release>& releases) {
        steps_.clear();
        first_ = 0;
        steps_.push_back({desk.now(), Room(desk)});
        releases.each([&](const Release& release) {
            const double end = std::max(release.end, desk.now());
            if (end == never) return;
            if (end > steps_.back().time) steps_.push_back({end, steps_.back().room});
            steps_.back().room.give(desk, release);
        });
    }

    // Forgets what is over.
    void advance(double now) {
        first_ = present(now);
        if (first_ < 64 || first_ < steps_.size() / 2) return;
        steps_.erase(steps_.begin(), steps_.begin() + static_cast<std::ptrdiff_t>(first_));
        first_ = 0;
    }

    // The earliest time from now on at which there is room for the task for as long as it is
    // planned to take; `never` if there is none.
    double earliest(const Desk& desk, const Waiting& task, Claim& claim) const;

    void take(const Desk& desk, const Waiting& task, double start, const Claim& claim) {
        const std::size_t begin = split(start);
        const std::size_t end = split(start + task.time);
        for (std::size_t at = begin; at < end; ++at) steps_[at].room.take(desk, task, claim);
    }

  private:
    struct Step {
        double time = 0.0;
        Room room;
    };

    // The step of that moment; it may be newer than the first, as tasks were planned to start now.
    [[nodiscard]] std::size_t present(double now) const {
        std::size_t at = first_;
        while (at + 1 < steps_.size() && steps_[at + 1].time <= now) ++at;
        return at;
    }
    // The first step from which on there are cores enough for the task, if it starts no earlier.
    [[nodiscard]] std::size_t past_shortage(std::size_t at, double start,
                                            const Waiting& task) const {
        for (std::size_t step = at; step < steps_.size(); ++step) {
            if (step > at && steps_[step].time >= start + task.time) break;
            if (steps_[step].room.cores() >= task.cores - slack) continue;
            at = step + 1;
            if (at < steps_.size()) start = steps_[at].time;
        }
        return at;
    }
    // The step that starts at that time, made if need be.
    std::size_t split(double time) {
        if (time == never) return steps_.size();
        const auto begin = steps_.begin() + static_cast<std::ptrdiff_t>(first_);
        const auto found = std::lower_bound(
            begin, steps_.end(), time, [](const Step& step, double t) { return step.time < t; });
        const auto at = static_cast<std::size_t>(found - steps_.begin());
        if (found != steps_.end() && found->time == time) return at;
        // The first step began in the past: what is before it, nobody asks for.
        const Room room = steps_[at > first_ ? at - 1 : first_].room;
        steps_.insert(found, {time, room});
        return at;
    }

    std::vector<Step> steps_;
    std::size_t first_ = 0;
};

template <>
double Timeline<PoolRoom>::earliest(const Desk& desk, const Waiting& task, Claim& claim) const;
template <>
double Timeline<SpaceRoom>::earliest(const Desk& desk, const Waiting& task, Claim& claim) const;

}  // namespace twinloop
