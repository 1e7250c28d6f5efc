// The free amount of one resource over time, as planned.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "control/policies/queue_lane.hpp"

namespace twinloop {

class Profile {
  public:
    // Starts at that time with an amount that is free for ever.
    void reset(double now, double amount);
    // Adds an amount from `time` on, which is not before any other change.
    void append(double time, double amount);
    // Adds an amount between two times, or removes it if negative.
    void add(double begin, double end, double amount);
    // Drops the past.
    void advance(double now);

    // The earliest start from `from` on with at least that amount for that time; `never` if there
    // is none before `until`.
    [[nodiscard]] double earliest(double from, double least, double time, double until) const;
    // The lowest amount from `begin` on, before `end`.
    [[nodiscard]] double lowest(double begin, double end) const;
    // The first change after that time; `never` if there is none.
    [[nodiscard]] double next_change(double after) const;
    // For an amount of cores: limits that admit all tasks that could start from `now` on before
    // `until`, on at most `most` cores.
    [[nodiscard]] Limits limits(double now, double until, double most) const;

  private:
    struct Step {
        double time = 0.0;
        double amount = 0.0;
    };

    // The step at that time.
    [[nodiscard]] std::size_t step(double time) const {
        const auto begin = steps_.begin() + static_cast<std::ptrdiff_t>(first_);
        // Most searches start at the first step.
        if (begin + 1 == steps_.end() || begin[1].time > time) return first_;
        const auto after =
            std::upper_bound(begin + 1, steps_.end(), time,
                             [](double t, const Step& each) { return t < each.time; });
        return static_cast<std::size_t>(after - steps_.begin()) - 1;
    }
    // The step that starts at that time, made if need be.
    std::size_t split(double time);

    std::vector<Step> steps_;
    std::size_t first_ = 0;  // the steps before it are in the past
};

inline double Profile::earliest(double from, double least, double time, double until) const {
    double start = from;
    for (std::size_t at = step(from);; ++at) {
        const bool last = at + 1 == steps_.size();
        if (steps_[at].amount < least) {
            if (last || steps_[at + 1].time >= until) return never;
            start = steps_[at + 1].time;
        } else if (last || steps_[at + 1].time >= start + time) {
            return start;
        }
    }
}

}  // namespace twinloop
