#include "control/policies/batch_profile.hpp"

#include <algorithm>

#include "control/space.hpp"

namespace twinloop {

void Profile::reset(double now, double amount) {
    steps_.clear();
    first_ = 0;
    steps_.push_back({now, amount});
}

void Profile::append(double time, double amount) {
    if (time > steps_.back().time) steps_.push_back({time, steps_.back().amount});
    steps_.back().amount += amount;
}

void Profile::add(double begin, double end, double amount) {
    const std::size_t first = split(begin);
    const std::size_t last = split(end);
    for (std::size_t at = first; at < last; ++at) steps_[at].amount += amount;
}

void Profile::advance(double now) {
    while (first_ + 1 < steps_.size() && steps_[first_ + 1].time <= now) ++first_;
    if (first_ < 64 || first_ < steps_.size() / 2) return;
    steps_.erase(steps_.begin(), steps_.begin() + static_cast<std::ptrdiff_t>(first_));
    first_ = 0;
}

std::size_t Profile::split(double time) {
    if (time == never) return steps_.size();
    const auto begin = steps_.begin() + static_cast<std::ptrdiff_t>(first_);
    const auto found = std::lower_bound(begin, steps_.end(), time,
                                        [](const Step& each, double t) { return each.time < t; });
    const auto at = static_cast<std::size_t>(found - steps_.begin());
    if (found != steps_.end() && found->time == time) return at;
    // The first step began in the past, before which no amount is needed.
    const double amount = steps_[at > first_ ? at - 1 : first_].amount;
    steps_.insert(found, {time, amount});
    return at;
}

double Profile::lowest(double begin, double end) const {
    std::size_t at = step(begin);
    double least = steps_[at].amount;
    for (++at; at < steps_.size() && steps_[at].time < end; ++at)
        least = std::min(least, steps_[at].amount);
    return least;
}

double Profile::next_change(double after) const {
    const std::size_t at = step(after) + 1;
    return at < steps_.size() ? steps_[at].time : never;
}

// Each amount is free in stretches between steps with less. A stretch counts from its beginning, if
// that is before `until`.
Limits Profile::limits(double now, double until, double most) const {
    struct Stretch {
        double amount = 0.0;
        double since = 0.0;
    };
    thread_local std::vector<Stretch> open;  // by amount
    open.clear();
    Limits limits;
    for (std::size_t at = step(now); at < steps_.size(); ++at) {
        const double time = std::max(now, steps_[at].time);
        Stretch stretch{std::min(steps_[at].amount, most), time};
        while (!open.empty() && open.back().amount > stretch.amount) {
            stretch.since = open.back().since;
            limits.allow(open.back().amount + slack, stretch.since, time);
            open.pop_back();
        }
        // A stretch of the same amount goes on.
        if (!open.empty() && open.back().amount == stretch.amount) continue;
        if (stretch.since < until) open.push_back(stretch);
        else if (open.empty()) break;
    }
    for (const Stretch& each : open) limits.allow(each.amount + slack, never);
    return limits;
}

}  // namespace twinloop
