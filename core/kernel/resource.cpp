#include "kernel/resource.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

#include "kernel/checks.hpp"

namespace twinloop {

Shares fill(std::vector<Consumer> consumers, double capacity) {
    std::ranges::sort(consumers, {}, &Consumer::threshold);
    Sum weights;
    for (const Consumer& each : consumers) weights.add(each.weight);
    Sum drawn;
    double shared = 0.0;
    for (const Consumer& each : consumers) {
        shared = std::max(shared, std::max(capacity - drawn.value(), 0.0) / weights.value());
        if (each.threshold() > shared) return {shared, capacity};
        drawn.add(each.limit);
        weights.subtract(each.weight);
    }
    return {never, drawn.value()};
}

KindShare& Resource::find_kind(Kind kind) {
    const auto place = std::ranges::lower_bound(kinds_, kind, {}, &KindShare::kind);
    if (place != kinds_.end() && place->kind == kind) return *place;
    // A single share that rests keeps its memory for the next kind.
    const bool reuse = kinds_.size() == 1 && kinds_.front().running == 0;
    KindShare& found = reuse ? kinds_.front() : *kinds_.emplace(place);
    found.kind = kind;
    return found;
}

void Resource::add_demand(double limit) {
    if (limit < never) {
        demand_.add(limit);
    } else {
        ++unlimited_;
    }
}

void Resource::subtract_demand(double limit) {
    if (limit < never) {
        demand_.subtract(limit);
    } else {
        --unlimited_;
    }
}

void Resource::drop(KindShare& mine) {
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
        thresholds_.clear();
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
    advance_to(now);
    count(activity, mine);
    if (activity.limit < never && activity.threshold() <= level) {
        hold_by_limit(pool, activity, mine, now);
    } else {
        hold_by_level(pool, activity, mine);
    }
}

void Resource::leave(ActivityPool& pool, Activity& activity, double now) {
    KindShare& mine = share(activity.kind);
    advance_to(now);
    const Hold hold = activity.hold;
    release(pool, activity, mine, now);
    thresholds_.forget(pool, activity, hold);
    discount(activity, mine);
}

void Resource::hold_by_limit(ActivityPool& pool, Activity& activity, KindShare& mine, double now) {
    add_own_end(pool, activity, mine, now);
    mine.limits.add(activity.limit);
    thresholds_.add_limited(activity);
}

void Resource::hold_by_level(ActivityPool& pool, Activity& activity, KindShare& mine) {
    activity.reading = mine.shared.total;
    activity.key = activity.reading + activity.left / activity.weight;
    activity.joined = levels_.total;
    activity.hold = Hold::level;
    mine.shared_ends.push(activity.key, activity.tag);
    mine.weights.add(activity.weight);
    ++mine.by_level;
    thresholds_.add_at_level(activity);
    if (priced_) pool.charge(ActivityPool::slot_of(activity.tag)).mark = level_prices_.total;
}

void Resource::release(ActivityPool& pool, Activity& activity, KindShare& mine, double now) {
    if (activity.hold == Hold::limit) {
        remove_own_end(pool, activity, mine, now);
        mine.limits.subtract(activity.limit);
        if (mine.by_limit == 0) mine.limits.clear();
        return;
    }
    if (priced_)
        pool.charge(ActivityPool::slot_of(activity.tag)) = {charged_to(pool, activity, now), {}};
    activity.consumed = consumed_by(activity, now);
    activity.left = remaining(activity, mine, now);
    activity.hold = Hold::nothing;
    mine.shared_ends.forget({activity.key, activity.tag}, CurrentEnd{pool, Hold::level});
    mine.weights.subtract(activity.weight);
    if (--mine.by_level == 0) mine.weights.clear();
}

void Resource::switch_constraint(ActivityPool& pool, Activity& activity, double now) {
    KindShare& mine = share(activity.kind);
    const Hold before = activity.hold;
    release(pool, activity, mine, now);
    if (before == Hold::limit) {
        hold_by_level(pool, activity, mine);
    } else {
        hold_by_limit(pool, activity, mine, now);
    }
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

double Resource::settle(ActivityPool& pool, double now) { return settle(pool, now, NoOthers{}); }

// An activity that joined before the first cost model has the mark 0, where the price integrals
// start.
void Resource::set_cost_model(std::shared_ptr<const CostModel> model, double now) {
    advance_to(now);
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
    advance_to(now);
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

Shares Resource::preview(const ActivityPool& pool) const {
    if (!dirty) return {level, consumed_.rate};
    std::vector<Consumer> consumers;
    for (const Slot slot : joined(pool)) consumers.push_back({pool[slot].limit, pool[slot].weight});
    return fill(std::move(consumers), capacity);
}

}  // namespace twinloop
