#include "kernel/resource.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

#include "kernel/checks.hpp"

namespace twinloop {

KindShare& Resource::share(Kind kind) {
    for (KindShare& each : kinds_)
        if (each.kind == kind) return each;
    kinds_.emplace_back();
    kinds_.back().kind = kind;
    kinds_.back().own = Clock(0.0, 0.0, 1.0);
    return kinds_.back();
}

const KindShare& Resource::share(Kind kind) const {
    for (const KindShare& each : kinds_)
        if (each.kind == kind) return each;
    throw std::logic_error("no activity of this kind has been here");
}

void Resource::enter(Kind kind) {
    ++share(kind).running;
    ++running_;
    presence_changed_ = true;
}

void Resource::quit(Kind kind, double now) {
    KindShare& quitted = share(kind);
    --running_;
    presence_changed_ = true;
    if (--quitted.running == 0) rest(quitted, now);
}

// Nobody of this kind is left: start afresh, so that clocks stay small and sums stay exact.
void Resource::rest(KindShare& share, double now) {
    share.limits.clear();
    share.weights.clear();
    share.own_ends.clear();
    share.shared_ends.clear();
    share.shared = Clock(0.0, now, 0.0);
    if (running_ == 0) {
        limit_thresholds_.clear();
        level_thresholds_.clear();
        levels_ = Clock(0.0, now, 0.0);
    }
}

void Resource::join(ActivityPool& pool, Slot slot, double now) {
    enter(pool[slot].kind);
    if (pool[slot].limit < never && pool[slot].threshold() <= level) {
        hold_by_limit(pool, slot, now);
    } else {
        hold_by_level(pool, slot, now);
    }
}

void Resource::leave(ActivityPool& pool, Slot slot, double now) {
    let_go(pool, slot, now, false);
    quit(pool[slot].kind, now);
}

void Resource::hold_by_limit(ActivityPool& pool, Slot slot, double now) {
    const std::uint64_t tag = pool.retag(slot);
    Activity& activity = pool[slot];
    KindShare& mine = share(activity.kind);
    activity.key = mine.own.at(now) + activity.key / activity.limit;
    activity.joined = now;
    activity.hold = Hold::limit;
    mine.own_ends.push(activity.key, tag);
    mine.limits.add(activity.limit);
    ++mine.by_limit;
    limit_thresholds_.push(-activity.threshold(), tag);
}

void Resource::hold_by_level(ActivityPool& pool, Slot slot, double now) {
    const std::uint64_t tag = pool.retag(slot);
    Activity& activity = pool[slot];
    KindShare& mine = share(activity.kind);
    activity.key = mine.shared.at(now) + activity.key / activity.weight;
    activity.joined = levels_.at(now);
    activity.hold = Hold::level;
    mine.shared_ends.push(activity.key, tag);
    mine.weights.add(activity.weight);
    ++mine.by_level;
    if (activity.limit < never) level_thresholds_.push(activity.threshold(), tag);
}

// Takes the activity out of its hold; its key becomes the remaining work again. When it crosses,
// it was the top of its threshold heap and has been popped there already.
void Resource::let_go(ActivityPool& pool, Slot slot, double now, bool crossing) {
    Activity& activity = pool[slot];
    KindShare& mine = share(activity.kind);
    const double left = remaining(activity, now);
    activity.consumed = consumed_by(activity, now);
    activity.key = left;
    const std::uint64_t tag = std::exchange(activity.tag, 0);
    const auto live = [&pool](std::uint64_t tag) { return pool.current(tag); };
    if (activity.hold == Hold::limit) {
        mine.own_ends.forget(tag, live);
        mine.limits.subtract(activity.limit);
        if (--mine.by_limit == 0) mine.limits.clear();
        if (!crossing) limit_thresholds_.forget(tag, live);
    } else {
        mine.shared_ends.forget(tag, live);
        mine.weights.subtract(activity.weight);
        if (--mine.by_level == 0) mine.weights.clear();
        if (!crossing && activity.limit < never) level_thresholds_.forget(tag, live);
    }
    activity.hold = Hold::nothing;
}

// The level at which those held by it use up what the others leave: infinite if nobody is held by
// it and all fit, negative if limits alone exceed the capacity.
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
    const auto live = [&pool](std::uint64_t tag) { return pool.current(tag); };
    level = balance();
    // Releasing one raises the level, but never above its own threshold; capturing one raises it
    // as well. So each loop runs once through those that cross, and none crosses back.
    while (const auto* top = limit_thresholds_.top(live)) {
        if (-top->key <= level) break;
        const Slot slot = ActivityPool::slot_of(top->tag);
        limit_thresholds_.pop();
        let_go(pool, slot, now, true);
        hold_by_level(pool, slot, now);
        level = balance();
    }
    while (const auto* top = level_thresholds_.top(live)) {
        if (top->key > level) break;
        const Slot slot = ActivityPool::slot_of(top->tag);
        level_thresholds_.pop();
        let_go(pool, slot, now, true);
        hold_by_limit(pool, slot, now);
        level = balance();
    }
    if (level < 0.0) level = 0.0;  // capacity 0 less a rounding error
}

void Resource::refresh_efficiencies() {
    if (!efficiency || !presence_changed_) return;
    std::vector<KindPresence> present;
    for (const KindShare& each : kinds_)
        if (each.running > 0) present.push_back({each.kind, each.running, 1.0});
    efficiency->evaluate(present);
    auto answer = present.begin();
    for (KindShare& each : kinds_) {
        if (each.running == 0) continue;
        if (!std::isfinite(answer->efficiency) || answer->efficiency < 0.0)
            throw std::invalid_argument("efficiency of kind " + std::to_string(each.kind) +
                                        " must be finite and not negative, got " +
                                        text(answer->efficiency));
        each.efficiency = answer++->efficiency;
    }
    presence_changed_ = false;
}

double Resource::efficiency_of(Kind kind) const { return share(kind).efficiency; }

double Resource::settle(ActivityPool& pool, double now) {
    refresh_efficiencies();
    find_level(pool, now);

    const auto live = [&pool](std::uint64_t tag) { return pool.current(tag); };
    const double flow = level < never ? level : 0.0;
    double drawn = 0.0;
    double progress = 0.0;
    double next = never;
    for (KindShare& each : kinds_) {
        if (each.running == 0) continue;
        const double mine = each.limits.value() + (each.by_level ? flow * each.weights.value() : 0.0);
        drawn += mine;
        progress += mine * each.efficiency;
        each.own.set_rate(now, each.efficiency);
        each.shared.set_rate(now, flow * each.efficiency);
        if (const auto* top = each.own_ends.top(live)) {
            const double end = each.own.when(top->key, now);
            if (end < next) {
                next = end;
                next_end_ = top->tag;
            }
        }
        if (const auto* top = each.shared_ends.top(live)) {
            const double end = each.shared.when(top->key, now);
            if (end < next) {
                next = end;
                next_end_ = top->tag;
            }
        }
    }
    if (next < never) pool.prefetch(ActivityPool::slot_of(next_end_));
    levels_.set_rate(now, flow);
    consumed.set_rate(now, drawn);
    done.set_rate(now, progress);
    return next;
}

Slot Resource::due(ActivityPool& pool, double now) {
    const auto live = [&pool](std::uint64_t tag) { return pool.current(tag); };
    for (KindShare& each : kinds_) {
        if (const auto* top = each.own_ends.top(live)) {
            if (top->tag == next_end_) each.own.reach(top->key, now);
            if (top->key <= each.own.at(now)) return ActivityPool::slot_of(top->tag);
        }
        if (const auto* top = each.shared_ends.top(live)) {
            if (top->tag == next_end_) each.shared.reach(top->key, now);
            if (top->key <= each.shared.at(now)) return ActivityPool::slot_of(top->tag);
        }
    }
    return none;
}

std::vector<Slot> Resource::joined(const ActivityPool& pool) const {
    std::vector<std::uint64_t> tags;
    for (const KindShare& each : kinds_)
        for (const KeyHeap* heap : {&each.own_ends, &each.shared_ends})
            for (const auto& entry : heap->entries())
                if (pool.current(entry.tag)) tags.push_back(entry.tag);
    std::ranges::sort(tags);
    std::vector<Slot> slots;
    slots.reserve(tags.size());
    for (const std::uint64_t tag : tags) slots.push_back(ActivityPool::slot_of(tag));
    return slots;
}

double Resource::remaining(const Activity& activity, double now) const {
    const KindShare& mine = share(activity.kind);
    const double left = activity.hold == Hold::limit
                            ? (activity.key - mine.own.at(now)) * activity.limit
                            : (activity.key - mine.shared.at(now)) * activity.weight;
    return std::max(left, 0.0);
}

double Resource::consumed_by(const Activity& activity, double now) const {
    return activity.consumed + (activity.hold == Hold::limit
                                    ? (now - activity.joined) * activity.limit
                                    : (levels_.at(now) - activity.joined) * activity.weight);
}

double Resource::rate_of(const Activity& activity) const {
    return activity.hold == Hold::limit ? activity.limit : level * activity.weight;
}

}  // namespace twinloop
