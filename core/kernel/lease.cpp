#include "kernel/lease.hpp"

#include <algorithm>
#include <set>

namespace twinloop {

const LeaseKind& Lease::kind(Kind kind) const { return *const_cast<Lease*>(this)->find(kind); }

// ---- Integrals ----------------------------------------------------------------------------------

double Lease::progress(const Resource& on, const LeaseKind& mine, double now) const {
    const KindShare& clocks = on.clocks(mine.kind);
    return mine.progress + slope_ * (on.shared_clock(clocks, now) - mine.shared_mark) +
           constant_ * (on.own_clock(clocks, now) - mine.own_mark);
}

double Lease::levels(const Resource& on, double now) const {
    return levels_ + slope_ * (on.levels(now) - levels_mark_) + constant_ * (now - since_);
}

Sum Lease::prices(const Resource& on, double now) const {
    Sum reading = prices_;
    reading.add(slope_ * on.level_prices(now).since(level_prices_mark_) +
                constant_ * on.prices(now).since(prices_mark_));
    return reading;
}

double Lease::done(const Resource& on, double now) const {
    double sum = done_;
    if (running_ == 0) return sum;
    for (const LeaseKind& each : kinds_)
        sum += each.limits.value() * (on.own_clock(on.clocks(each.kind), now) - each.own_mark) +
               each.weights.value() * (progress(on, each, now) - each.progress);
    return sum;
}

void Lease::advance(const Resource& on, double now) {
    if (since_ == now && running_ > 0) return;
    if (running_ > 0) {
        for (LeaseKind& each : kinds_) {
            const KindShare& clocks = on.clocks(each.kind);
            const double own = on.own_clock(clocks, now);
            const double shared = on.shared_clock(clocks, now);
            const double gain = std::max(
                slope_ * (shared - each.shared_mark) + constant_ * (own - each.own_mark), 0.0);
            done_ += each.limits.value() * (own - each.own_mark) + each.weights.value() * gain;
            each.progress += gain;
            each.own_mark = own;
            each.shared_mark = shared;
        }
        levels_ = levels(on, now);
        if (on.is_priced()) prices_ = prices(on, now);
    }
    mark_host(on, now);
}

void Lease::mark_host(const Resource& on, double now) {
    since_ = now;
    levels_mark_ = on.levels(now);
    prices_mark_ = on.is_priced() ? on.prices(now) : Sum{};
    level_prices_mark_ = on.is_priced() ? on.level_prices(now) : Sum{};
}

// ---- Activities ---------------------------------------------------------------------------------

void Lease::join(ActivityPool& pool, Resource& on, Activity& activity, double now) {
    on.advance_to(now);
    advance(on, now);
    on.count(activity.kind);
    LeaseKind& mine = open_kind(on, activity.kind, now);
    ++mine.running;
    ++running_;
    if (activity.limit < never) {
        demand_.add(activity.limit);
    } else {
        ++unlimited_;
    }
    if (activity.limit < never && activity.threshold() <= level_) {
        hold_by_limit(pool, on, activity, mine, now);
    } else {
        hold_by_level(pool, activity, mine);
    }
}

LeaseKind& Lease::open_kind(const Resource& on, Kind kind, double now) {
    LeaseKind* mine = find(kind);
    if (mine && mine->running > 0) return *mine;
    // A single kind that rests keeps its memory for the next one.
    if (!mine) mine = running_ == 0 && !kinds_.empty() ? &kinds_.front() : &kinds_.emplace_back();
    const KindShare& clocks = on.clocks(kind);
    mine->kind = kind;
    mine->own_mark = on.own_clock(clocks, now);
    mine->shared_mark = on.shared_clock(clocks, now);
    return *mine;
}

void Lease::rest(LeaseKind& mine) {
    if (kinds_.size() > 1) {
        kinds_.erase(kinds_.begin() + (&mine - kinds_.data()));
        return;
    }
    mine.progress = 0.0;
    mine.ends.clear();
}

// The end of a kind that is not present any more is no longer listed.
void Lease::leave(ActivityPool& pool, Resource& on, Activity& activity, double now) {
    on.advance_to(now);
    advance(on, now);
    LeaseKind* mine = find(activity.kind);
    const Hold hold = activity.hold;
    release(pool, on, activity, *mine, now);
    thresholds_.forget(pool, activity, hold);
    if (activity.limit < never) {
        demand_.subtract(activity.limit);
    } else {
        --unlimited_;
    }
    on.discount(activity.kind);
    --running_;
    if (--mine->running == 0) rest(*mine);
    if (running_ > 0) return;
    demand_.clear();
    thresholds_.clear();
    levels_ = slope_ = constant_ = 0.0;
    prices_.clear();
    level_ = never;
}

void Lease::hold_by_limit(ActivityPool& pool, Resource& on, Activity& activity, LeaseKind& mine,
                          double now) {
    on.add_own_end(pool, activity, now);
    mine.limits.add(activity.limit);
    ++mine.by_limit;
    thresholds_.add_limited(activity);
}

void Lease::hold_by_level(ActivityPool& pool, Activity& activity, LeaseKind& mine) {
    activity.reading = mine.progress;
    activity.key = activity.reading + activity.left / activity.weight;
    activity.joined = levels_;
    activity.hold = Hold::level;
    mine.ends.push(activity.key, activity.tag);
    mine.weights.add(activity.weight);
    ++mine.by_level;
    thresholds_.add_at_level(activity);
    if (pool.has_charges()) pool.charge(ActivityPool::slot_of(activity.tag)).mark = prices_;
}

// Removes the activity from its constraint, but not its threshold.
void Lease::release(ActivityPool& pool, Resource& on, Activity& activity, LeaseKind& mine,
                    double now) {
    if (activity.hold == Hold::limit) {
        on.remove_own_end(pool, activity, now);
        mine.limits.subtract(activity.limit);
        if (--mine.by_limit == 0) mine.limits.clear();
        return;
    }
    // The lease has advanced to this time.
    if (pool.has_charges())
        pool.charge(ActivityPool::slot_of(activity.tag)) = {charged_to(pool, on, activity, now),
                                                            {}};
    activity.consumed += (levels_ - activity.joined) * activity.weight;
    activity.left =
        std::max(activity.left - (mine.progress - activity.reading) * activity.weight, 0.0);
    activity.hold = Hold::nothing;
    mine.ends.forget({activity.key, activity.tag}, CurrentEnd{pool, Hold::level});
    mine.weights.subtract(activity.weight);
    if (--mine.by_level == 0) mine.weights.clear();
}

double Lease::remaining(const Resource& on, const Activity& activity, double now) const {
    const double reading = progress(on, kind(activity.kind), now);
    return std::max(activity.left - (reading - activity.reading) * activity.weight, 0.0);
}

double Lease::consumed_by(const Resource& on, const Activity& activity, double now) const {
    return activity.consumed + (levels(on, now) - activity.joined) * activity.weight;
}

double Lease::charged_to(const ActivityPool& pool, const Resource& on, const Activity& activity,
                         double now) const {
    const Charge& charge = pool.charge(ActivityPool::slot_of(activity.tag));
    return charge.total + prices(on, now).since(charge.mark) * activity.weight;
}

// ---- The inner level ----------------------------------------------------------------------------

// Limits of the limited activities, weights of the activities at the inner level.
Consumer Lease::totals() const {
    Consumer sum{0.0, 0.0};
    for (const LeaseKind& each : kinds_) {
        sum.limit += each.limits.value();
        sum.weight += each.weights.value();
    }
    return sum;
}

double Lease::balance(const Consumer& sum, double rate) {
    if (sum.weight > 0.0) return (rate - sum.limit) / sum.weight;
    return sum.limit <= rate ? never : -1.0;
}

void Lease::solve(ActivityPool& pool, Resource& on, Bound bound, double now) {
    advance(on, now);
    const double rate = bound == Bound::activities ? never
                        : bound == Bound::size     ? size
                                                   : weight * on.level;
    Consumer sum = totals();
    level_ = bound == Bound::activities ? never : balance(sum, rate);
    if (can_switch()) {
        const auto change = [&](Activity& activity) {
            LeaseKind& mine = *find(activity.kind);
            const Hold before = activity.hold;
            release(pool, on, activity, mine, now);
            if (before == Hold::limit) {
                hold_by_level(pool, activity, mine);
            } else {
                hold_by_limit(pool, on, activity, mine, now);
            }
            sum = totals();
        };
        level_ = thresholds_.switch_sides(pool, level_, NoOthers{}, change, [&] {
            return bound == Bound::activities ? never : balance(sum, rate);
        });
    }
    slope_ = bound == Bound::level && sum.weight > 0.0 ? weight / sum.weight : 0.0;
    constant_ = sum.weight == 0.0 ? 0.0 : bound == Bound::size ? level_ : -sum.limit / sum.weight;
}

double Lease::level(double host_level) const {
    const Consumer sum = totals();
    if (sum.weight == 0.0) return never;
    return std::max(slope_ > 0.0 ? slope_ * host_level + constant_ : constant_, 0.0);
}

Lease::Switches Lease::switches(const ActivityPool& pool) {
    const Consumer sum = totals();
    const double above = thresholds_.lowest_at_level(pool, never);
    const double below = thresholds_.highest_limited(pool, -1.0);
    return {above < never ? (sum.weight * above + sum.limit) / weight : never,
            below >= 0.0 ? (sum.weight * below + sum.limit) / weight : -1.0};
}

std::vector<Slot> Lease::joined(const ActivityPool& pool) const {
    std::set<std::uint64_t> tags;  // an activity may be in a heap twice
    for (const auto& entry : thresholds_.limited())
        if (CurrentThreshold{pool, Hold::limit}(entry)) tags.insert(entry.tag);
    for (const LeaseKind& each : kinds_)
        for (const auto& entry : each.ends.entries())
            if (CurrentEnd{pool, Hold::level}(entry)) tags.insert(entry.tag);
    std::vector<Slot> slots;
    slots.reserve(tags.size());
    for (const std::uint64_t tag : tags) slots.push_back(ActivityPool::slot_of(tag));
    return slots;
}

}  // namespace twinloop
