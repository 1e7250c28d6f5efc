#include "kernel/resource.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

#include "kernel/checks.hpp"

namespace twinloop {
namespace {

struct CurrentThreshold {
    const ActivityPool& pool;
    Hold hold;
    bool operator()(const KeyHeap::Entry& entry) const {
        const Activity& activity = pool[ActivityPool::slot_of(entry.tag)];
        return activity.tag == entry.tag && activity.hold == hold;
    }
};

}  // namespace

KindShare& Resource::find_kind(Kind kind) {
    const auto place = std::ranges::lower_bound(kinds_, kind, {}, &KindShare::kind);
    if (place != kinds_.end() && place->kind == kind) return *place;
    // A single share that rests keeps its memory for the next kind.
    const bool reuse = kinds_.size() == 1 && kinds_.front().running == 0;
    KindShare& found = reuse ? kinds_.front() : *kinds_.emplace(place);
    found.kind = kind;
    return found;
}

void Resource::count(const Activity& activity, KindShare& mine) {
    ++mine.running;
    ++running_;
    presence_changed_ = true;
    if (!efficiency) return;
    if (activity.limit < never) {
        demand_.add(activity.limit);
    } else {
        ++unlimited_;
    }
}

void Resource::discount(const Activity& activity, KindShare& mine) {
    --running_;
    presence_changed_ = true;
    if (efficiency) {
        if (activity.limit < never) {
            demand_.subtract(activity.limit);
        } else {
            --unlimited_;
        }
    }
    if (--mine.running > 0) return;
    rest(mine);
    // Kinds that are not present are forgotten: every update visits the others.
    if (kinds_.size() > 1) kinds_.erase(kinds_.begin() + (&mine - kinds_.data()));
}

// The last activity of a kind has left: reset, so that clocks stay small and sums stay exact.
void Resource::rest(KindShare& share) {
    share.limits.clear();
    share.weights.clear();
    share.own_ends.clear();
    share.shared_ends.clear();
    share.shared = {};
    share.lag = 0.0;
    share.efficiency = 1.0;
    if (running_ == 0) {
        demand_.clear();
        limit_thresholds_.clear();
        level_thresholds_.clear();
        levels_.total = 0.0;
        prices_.total.clear();
        level_prices_.total.clear();
    }
}

// Updates all integrals until now, even without a change of rates: results then do not depend on
// how often the resource is read at one time.
void Resource::advance(double now) {
    const double elapsed = now - since_;
    since_ = now;
    levels_.advance(elapsed);
    consumed_.advance(elapsed);
    done_.advance(elapsed);
    if (cost_model_) {
        cost_.advance(elapsed);
        prices_.advance(elapsed);
        level_prices_.advance(elapsed);
    }
    for (KindShare& each : kinds_) {
        each.shared.advance(elapsed);
        each.lag += (each.efficiency - 1.0) * elapsed;
    }
}

void Resource::join(ActivityPool& pool, Activity& activity, double now) {
    KindShare& mine = share(activity.kind);
    anchor(now);
    count(activity, mine);
    if (activity.limit < never && activity.threshold() <= level) {
        hold_by_limit(pool, activity, mine, now);
    } else {
        hold_by_level(pool, activity, mine);
    }
}

void Resource::leave(ActivityPool& pool, Activity& activity, double now) {
    KindShare& mine = share(activity.kind);
    anchor(now);
    release(pool, activity, mine, now, false);
    discount(activity, mine);
}

void Resource::hold_by_limit(ActivityPool& pool, Activity& activity, KindShare& mine, double now) {
    activity.reading = now + mine.lag;
    activity.key = activity.reading + activity.left / activity.limit;
    activity.joined = now;
    activity.hold = Hold::limit;
    mine.own_ends.push(activity.key, activity.tag);
    mine.limits.add(activity.limit);
    ++mine.by_limit;
    limit_thresholds_.push(-activity.threshold(), activity.tag);
    if (priced_) pool.charge(ActivityPool::slot_of(activity.tag)).mark = prices_.total;
}

void Resource::hold_by_level(ActivityPool& pool, Activity& activity, KindShare& mine) {
    activity.reading = mine.shared.total;
    activity.key = activity.reading + activity.left / activity.weight;
    activity.joined = levels_.total;
    activity.hold = Hold::level;
    mine.shared_ends.push(activity.key, activity.tag);
    mine.weights.add(activity.weight);
    ++mine.by_level;
    if (activity.limit < never) level_thresholds_.push(activity.threshold(), activity.tag);
    if (priced_) pool.charge(ActivityPool::slot_of(activity.tag)).mark = level_prices_.total;
}

// Removes the activity from its constraint. An activity that switches was the top of its threshold
// heap and has already been popped.
void Resource::release(ActivityPool& pool, Activity& activity, KindShare& mine, double now,
                       bool crossing) {
    if (priced_)
        pool.charge(ActivityPool::slot_of(activity.tag)) = {charged_to(pool, activity, now), {}};
    activity.consumed = consumed_by(activity, now);
    activity.left = remaining(activity, mine, now);
    const KeyHeap::Entry end{activity.key, activity.tag};
    const Hold hold = activity.hold;
    activity.hold = Hold::nothing;
    if (hold == Hold::limit) {
        mine.own_ends.forget(end, CurrentEnd{pool, hold});
        mine.limits.subtract(activity.limit);
        if (--mine.by_limit == 0) mine.limits.clear();
        if (!crossing)
            limit_thresholds_.forget({-activity.threshold(), activity.tag},
                                     CurrentThreshold{pool, hold});
    } else {
        mine.shared_ends.forget(end, CurrentEnd{pool, hold});
        mine.weights.subtract(activity.weight);
        if (--mine.by_level == 0) mine.weights.clear();
        if (!crossing && activity.limit < never)
            level_thresholds_.forget({activity.threshold(), activity.tag},
                                     CurrentThreshold{pool, hold});
    }
}

// The level at which the remaining capacity is used up: infinite if all activities are limited and
// fit, negative if the limits alone exceed the capacity.
double Resource::balance() const {
    double limits = 0.0;
    double weights = 0.0;
    std::uint32_t by_level = 0;
    for (const KindShare& each : kinds_) {
        limits += each.limits.value();
        weights += each.weights.value();
        by_level += each.by_level;
    }
    if (by_level > 0) return (capacity - limits) / weights;
    return limits <= capacity ? never : -1.0;
}

void Resource::find_level(ActivityPool& pool, double now) {
    level = balance();
    if (!limit_thresholds_.empty() || !level_thresholds_.empty()) switch_constraints(pool, now);
}

void Resource::switch_constraints(ActivityPool& pool, double now) {
    // Switching an activity raises the level, but never above its own threshold. So each loop
    // visits the switching activities once, and none switches back.
    while (const auto* top = limit_thresholds_.top(CurrentThreshold{pool, Hold::limit})) {
        if (-top->key() <= level) break;
        Activity& activity = pool[ActivityPool::slot_of(top->tag)];
        KindShare& mine = share(activity.kind);
        limit_thresholds_.pop();
        release(pool, activity, mine, now, true);
        hold_by_level(pool, activity, mine);
        level = balance();
    }
    while (const auto* top = level_thresholds_.top(CurrentThreshold{pool, Hold::level})) {
        if (top->key() > level) break;
        Activity& activity = pool[ActivityPool::slot_of(top->tag)];
        KindShare& mine = share(activity.kind);
        level_thresholds_.pop();
        release(pool, activity, mine, now, true);
        hold_by_limit(pool, activity, mine, now);
        level = balance();
    }
    if (level < 0.0) level = 0.0;  // capacity 0 minus a rounding error
    // A limited activity of large weight takes all but a rounding error, which is what the others
    // get: not less, or the level would contradict its rate.
    if (!limit_thresholds_.empty()) level = std::max(level, -limit_thresholds_.front().key());
}

void Resource::refresh_efficiencies() {
    if (!efficiency || !presence_changed_ || running_ == 0) return;
    present_.clear();
    for (const KindShare& each : kinds_)
        if (each.running > 0) present_.push_back({each.kind, each.running, 1.0});
    efficiency->evaluate({capacity, unlimited_ > 0 ? never : demand_.value(), running_}, present_);
    for (const KindPresence& each : present_) check_efficiency(each.kind, each.efficiency);
    auto answer = present_.begin();
    for (KindShare& each : kinds_)
        if (each.running > 0) each.efficiency = answer++->efficiency;
    presence_changed_ = false;
}

double Resource::efficiency_of(Kind kind) const {
    const auto found = std::ranges::lower_bound(kinds_, kind, {}, &KindShare::kind);
    return found != kinds_.end() && found->kind == kind ? found->efficiency : 1.0;
}

double Resource::settle(ActivityPool& pool, double now) {
    anchor(now);
    if (efficiency) refresh_efficiencies();
    find_level(pool, now);

    const double flow = level < never ? level : 0.0;
    double drawn = 0.0;
    double progress = 0.0;
    double next = never;
    for (KindShare& each : kinds_) {
        double mine = 0.0;
        if (each.by_limit > 0) {
            mine = each.limits.value();
            const auto* top = each.own_ends.top(CurrentEnd{pool, Hold::limit});
            // At efficiency 1 the key is a time.
            const double left = top->key() - each.lag - now;
            const double end = left <= 0.0              ? now
                               : each.efficiency == 1.0 ? top->key() - each.lag
                               : each.efficiency > 0.0  ? now + left / each.efficiency
                                                        : never;
            if (end < next) {
                next = end;
                next_end_ = top->tag;
            }
        }
        each.shared.rate = flow * each.efficiency;
        if (each.by_level > 0) {
            mine += flow * each.weights.value();
            const auto* top = each.shared_ends.top(CurrentEnd{pool, Hold::level});
            if (pool.is_large())
                for (const auto& next_one : each.shared_ends.runners_up())
                    pool.expect(ActivityPool::slot_of(next_one.tag));
            const double left = top->key() - each.shared.total;
            const double end = left <= 0.0              ? now
                               : each.shared.rate > 0.0 ? now + left / each.shared.rate
                                                        : never;
            if (end < next) {
                next = end;
                next_end_ = top->tag;
            }
        }
        drawn += mine;
        progress += mine * each.efficiency;
    }
    if (next < never && pool.is_large()) pool.expect(ActivityPool::slot_of(next_end_));
    if (cost_model_) {
        const CostRate cost = cost_rate(*cost_model_, drawn, capacity);
        cost_.rate = cost.total;
        prices_.rate = cost.price;
        level_prices_.rate = cost.price * flow;
    }
    levels_.rate = flow;
    consumed_.rate = drawn;
    done_.rate = progress;
    return next;
}

// An activity that joined before the first cost model has the mark 0, where the price integrals
// start.
void Resource::set_cost_model(std::shared_ptr<const CostModel> model, double now) {
    anchor(now);
    cost_model_ = std::move(model);
    cost_.rate = prices_.rate = level_prices_.rate = 0.0;
    if (cost_model_) priced_ = true;
}

void Resource::enter_group(std::uint32_t index, std::uint32_t place) {
    group = index;
    link = place;
    cost_.rate = 0.0;
}

void Resource::leave_group(double now, double consumed, double done, double cost) {
    group = link = none;
    since_ = now;
    consumed_.total += consumed;
    done_.total += done;
    cost_.total += cost;
}

Slot Resource::due(ActivityPool& pool, double now) {
    anchor(now);
    for (KindShare& each : kinds_) {
        // Rounding may leave a clock slightly below the reading that is due.
        if (each.by_limit > 0) {
            const auto* top = each.own_ends.top(CurrentEnd{pool, Hold::limit});
            if (top->key() <= now + each.lag || top->tag == next_end_)
                return ActivityPool::slot_of(top->tag);
        }
        if (each.by_level > 0) {
            const auto* top = each.shared_ends.top(CurrentEnd{pool, Hold::level});
            if (top->tag == next_end_) each.shared.total = std::max(each.shared.total, top->key());
            if (top->key() <= each.shared.total) return ActivityPool::slot_of(top->tag);
        }
    }
    return none;
}

std::vector<Slot> Resource::joined(const ActivityPool& pool) const {
    std::set<std::uint64_t> tags;  // an activity may be in a heap twice
    for (const KindShare& each : kinds_) {
        for (const auto& entry : each.own_ends.entries())
            if (CurrentEnd{pool, Hold::limit}(entry)) tags.insert(entry.tag);
        for (const auto& entry : each.shared_ends.entries())
            if (CurrentEnd{pool, Hold::level}(entry)) tags.insert(entry.tag);
    }
    std::vector<Slot> slots;
    slots.reserve(tags.size());
    for (const std::uint64_t tag : tags) slots.push_back(ActivityPool::slot_of(tag));
    return slots;
}

double Resource::remaining(const Activity& activity, double now) const {
    return remaining(activity, share(activity.kind), now);
}

double Resource::remaining(const Activity& activity, const KindShare& mine, double now) const {
    const double elapsed = now - since_;
    const double progress =
        activity.hold == Hold::limit
            ? (now + mine.lag + (mine.efficiency - 1.0) * elapsed - activity.reading) *
                  activity.limit
            : (mine.shared.after(elapsed) - activity.reading) * activity.weight;
    return std::max(activity.left - progress, 0.0);
}

double Resource::consumed_by(const Activity& activity, double now) const {
    return activity.consumed +
           (activity.hold == Hold::limit
                ? (now - activity.joined) * activity.limit
                : (levels_.after(now - since_) - activity.joined) * activity.weight);
}

double Resource::charged_to(const ActivityPool& pool, const Activity& activity, double now) const {
    const Charge& charge = pool.charge(ActivityPool::slot_of(activity.tag));
    const double elapsed = now - since_;
    return charge.total + (activity.hold == Hold::limit
                               ? prices_.since(charge.mark, elapsed) * activity.limit
                               : level_prices_.since(charge.mark, elapsed) * activity.weight);
}

Resource::Preview Resource::preview(const ActivityPool& pool) const {
    if (!dirty) return {level, consumed_.rate};
    std::vector<Slot> waiting = joined(pool);
    std::ranges::sort(waiting, {}, [&pool](Slot slot) { return pool[slot].threshold(); });
    Sum weights;
    for (const Slot slot : waiting) weights.add(pool[slot].weight);
    Sum drawn;
    double shared = 0.0;
    for (const Slot slot : waiting) {
        shared = std::max(shared, std::max(capacity - drawn.value(), 0.0) / weights.value());
        if (pool[slot].threshold() > shared) return {shared, capacity};
        drawn.add(pool[slot].limit);
        weights.subtract(pool[slot].weight);
    }
    return {never, drawn.value()};
}

}  // namespace twinloop
