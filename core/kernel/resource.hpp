// A single resource: weighted max-min sharing among activities that use no other resource.
//
//   rate = min(limit, weight x level)
//
// Limited activities advance at a rate that does not depend on the others; activities at the level
// advance with a virtual clock per kind, whose reading at their end is fixed when they join. A
// change updates only the activities that switch between the two; the clocks determine the rest.
// Consumption and charges follow from integrals of the level and of the price in the same way.
#pragma once

#include <memory>
#include <vector>

#include "kernel/activity.hpp"
#include "kernel/cost.hpp"
#include "kernel/efficiency.hpp"
#include "kernel/key_heap.hpp"
#include "kernel/measure.hpp"

namespace twinloop {

struct KindShare {
    Kind kind = 0;
    std::uint32_t running = 0;
    std::uint32_t by_limit = 0;
    std::uint32_t by_level = 0;
    double efficiency = 1.0;
    double lag = 0.0;     // of the own clock behind the time: gives the integral of the efficiency
    Integral shared;      // of level x efficiency: progress of a unit weight
    Sum limits;           // of the limited activities
    Sum weights;          // of the activities at the level
    KeyHeap own_ends;     // readings of the own clock at which activities end
    KeyHeap shared_ends;  // readings of `shared` at which activities end
};

// What takes part in the sharing of a capacity: an activity, or a lease as a whole.
struct Consumer {
    double limit;
    double weight;
    [[nodiscard]] double threshold() const { return limit / weight; }
};

// Other consumers of a capacity, beside activities: none. See Leases for those of a host.
struct NoOthers {
    // The limits of the limited ones, the weights of those at the level.
    [[nodiscard]] static Consumer sums() { return {0.0, 0.0}; }
    [[nodiscard]] static bool empty() { return true; }
    // Switches the limited one with the highest threshold, if that is above the level and not below
    // `highest`; false if there is none. Likewise the one at the level with the lowest.
    [[nodiscard]] static bool lower(double /*level*/, double /*highest*/) { return false; }
    [[nodiscard]] static bool raise(double /*level*/, double /*lowest*/) { return false; }
    // The level, or the highest threshold of a limited one if that is above it.
    [[nodiscard]] static double at_least_limited(double level) { return level; }
    // Called when the level is found; returns what they consume, and the work they do, per second.
    struct Rates {
        double drawn = 0.0;
        double progress = 0.0;
    };
    [[nodiscard]] static Rates settle() { return {}; }
};

// Level and rate of a resource after settling.
struct Shares {
    double level;
    double rate;
};
// Max-min sharing from scratch.
[[nodiscard]] Shares fill(std::vector<Consumer> consumers, double capacity);

// Whether the entry of a threshold is valid.
struct CurrentThreshold {
    const ActivityPool& pool;
    Hold hold;
    bool operator()(const KeyHeap::Entry& entry) const {
        const Activity& activity = pool[ActivityPool::slot_of(entry.tag)];
        return activity.tag == entry.tag && activity.hold == hold;
    }
};

// The thresholds limit/weight of activities that share a capacity, by what holds them.
class Thresholds {
  public:
    void add_limited(const Activity& activity) {
        by_limit_.push(-activity.threshold(), activity.tag);
    }
    void add_at_level(const Activity& activity) {
        if (activity.limit < never) by_level_.push(activity.threshold(), activity.tag);
    }
    // After its constraint was removed.
    void forget(const ActivityPool& pool, const Activity& activity, Hold hold) {
        if (hold == Hold::limit) {
            by_limit_.forget({-activity.threshold(), activity.tag}, CurrentThreshold{pool, hold});
        } else if (activity.limit < never) {
            by_level_.forget({activity.threshold(), activity.tag}, CurrentThreshold{pool, hold});
        }
    }
    [[nodiscard]] bool empty() const { return by_limit_.empty() && by_level_.empty(); }
    void clear() {
        by_limit_.clear();
        by_level_.clear();
    }
    // The highest of the limited activities, the lowest at the level; `otherwise` if there is none.
    [[nodiscard]] double highest_limited(const ActivityPool& pool, double otherwise) {
        const auto* top = by_limit_.top(CurrentThreshold{pool, Hold::limit});
        return top ? -top->key() : otherwise;
    }
    [[nodiscard]] double lowest_at_level(const ActivityPool& pool, double otherwise) {
        const auto* top = by_level_.top(CurrentThreshold{pool, Hold::level});
        return top ? top->key() : otherwise;
    }
    [[nodiscard]] const std::vector<KeyHeap::Entry>& limited() const { return by_limit_.entries(); }

    // Switches the consumers on the wrong side of the level; `change` switches an activity, and
    // `balance` gives the level after it. Switching a consumer raises the level, but never above
    // its own threshold. So each loop visits the switching consumers once, and none switches back.
    template <class Others, class Change, class Balance>
    [[nodiscard]] double switch_sides(ActivityPool& pool, double level, Others&& others,
                                      Change&& change, Balance&& balance) {
        for (;; level = balance()) {
            const auto* top = by_limit_.top(CurrentThreshold{pool, Hold::limit});
            if (others.lower(level, top ? -top->key() : -1.0)) continue;
            if (!top || -top->key() <= level) break;
            Activity& activity = pool[ActivityPool::slot_of(top->tag)];
            by_limit_.pop();
            change(activity);
        }
        for (;; level = balance()) {
            const auto* top = by_level_.top(CurrentThreshold{pool, Hold::level});
            if (others.raise(level, top ? top->key() : never)) continue;
            if (!top || top->key() > level) break;
            Activity& activity = pool[ActivityPool::slot_of(top->tag)];
            by_level_.pop();
            change(activity);
        }
        if (level < 0.0) level = 0.0;  // capacity 0 minus a rounding error
        // A limited consumer of large weight takes all but a rounding error, which is what the
        // others get: not less, or the level would contradict its rate.
        if (!by_limit_.empty()) level = std::max(level, -by_limit_.front().key());
        return others.at_least_limited(level);
    }

  private:
    KeyHeap by_limit_;  // minus limit/weight
    KeyHeap by_level_;
};

class Resource {
  public:
    Resource(double capacity, std::shared_ptr<const Efficiency> efficiency, EventId end_event,
             double now)
        : capacity(capacity), efficiency(std::move(efficiency)), end_event(end_event), since_(now) {
    }

    // Before the first activity.
    void set_start(double now) { since_ = now; }

    // Counts an activity that joins or leaves, alone or in a group.
    void enter(const Activity& activity) { count(activity, share(activity.kind)); }
    void quit(const Activity& activity) { discount(activity, share(activity.kind)); }

    // An activity that uses only this resource joins or leaves.
    void join(ActivityPool& pool, Activity& activity, double now);
    void leave(ActivityPool& pool, Activity& activity, double now);

    // Updates level and clocks after a change; returns the time of the next end.
    [[nodiscard]] double settle(ActivityPool& pool, double now);
    template <class Others>
    [[nodiscard]] double settle(ActivityPool& pool, double now, Others&& others);
    void advance_to(double now) {
        if (now > since_) advance(now);
    }
    // For the leases on this resource, see lease.hpp. A lease takes part in the sharing with its
    // demand; each activity in it is counted, and ends by the own clock while its limit holds it.
    void add_lease_demand(double limit) {
        if (!efficiency) return;
        add_demand(limit);
        presence_changed_ = true;
    }
    void subtract_lease_demand(double limit) {
        if (!efficiency) return;
        subtract_demand(limit);
        presence_changed_ = true;
    }
    void count(Kind kind) { count(share(kind)); }
    void discount(Kind kind) { discount(share(kind)); }
    void add_own_end(ActivityPool& pool, Activity& activity, double now) {
        add_own_end(pool, activity, share(activity.kind), now);
    }
    void remove_own_end(ActivityPool& pool, Activity& activity, double now) {
        remove_own_end(pool, activity, share(activity.kind), now);
    }
    // The activity that ends next by the clocks of this resource.
    [[nodiscard]] Slot next_end() const { return ActivityPool::slot_of(next_end_); }
    void forget_next_end() { next_end_ = 0; }
    // The readings of the integrals.
    [[nodiscard]] const KindShare& clocks(Kind kind) const { return share(kind); }
    [[nodiscard]] double own_clock(const KindShare& mine, double now) const {
        return now + mine.lag + (mine.efficiency - 1.0) * (now - since_);
    }
    [[nodiscard]] double shared_clock(const KindShare& mine, double now) const {
        return mine.shared.after(now - since_);
    }
    // The times at which the clocks reach a reading, if nothing changes; they have been advanced.
    [[nodiscard]] static double own_end(const KindShare& mine, double key, double now) {
        const double left = key - mine.lag - now;
        // At efficiency 1 the key is a time.
        return left <= 0.0              ? now
               : mine.efficiency == 1.0 ? key - mine.lag
               : mine.efficiency > 0.0  ? now + left / mine.efficiency
                                        : never;
    }
    [[nodiscard]] static double shared_end(const KindShare& mine, double key, double now) {
        const double left = key - mine.shared.total;
        return left <= 0.0 ? now : mine.shared.rate > 0.0 ? now + left / mine.shared.rate : never;
    }
    [[nodiscard]] double levels(double now) const { return levels_.after(now - since_); }
    [[nodiscard]] Sum prices(double now) const { return prices_.at(now - since_); }
    [[nodiscard]] Sum level_prices(double now) const { return level_prices_.at(now - since_); }
    [[nodiscard]] bool is_priced() const { return priced_; }
    // A group of other resources keeps the integrals of this one, which has no activities of its
    // own, until it hands them over.
    void enter_group(std::uint32_t index, std::uint32_t place);
    void leave_group(double now, double consumed, double done, double cost);

    // The next activity whose end is due, or `none`. It has not left yet.
    [[nodiscard]] Slot due(ActivityPool& pool, double now);

    // All joined activities, in the order of joining.
    [[nodiscard]] std::vector<Slot> joined(const ActivityPool& pool) const;

    [[nodiscard]] double remaining(const Activity& activity, double now) const;
    [[nodiscard]] double consumed_by(const Activity& activity, double now) const;
    [[nodiscard]] double charged_to(const ActivityPool& pool, const Activity& activity,
                                    double now) const;

    // Computed from scratch if it is not settled, since switching activities here would change
    // later rounding.
    [[nodiscard]] Shares preview(const ActivityPool& pool) const;

    // Evaluates the efficiency model again if its arguments have changed.
    void refresh_efficiencies();
    [[nodiscard]] double efficiency_of(Kind kind) const;

    [[nodiscard]] std::uint32_t running() const { return running_; }
    [[nodiscard]] double rate() const { return consumed_.rate; }
    [[nodiscard]] double consumed(double now) const { return consumed_.after(now - since_); }
    [[nodiscard]] double done(double now) const { return done_.after(now - since_); }
    [[nodiscard]] double cost(double now) const { return cost_.after(now - since_); }
    [[nodiscard]] const std::shared_ptr<const CostModel>& cost_model() const { return cost_model_; }

    void set_cost_model(std::shared_ptr<const CostModel> model, double now);
    void set_capacity(double value) {
        capacity = value;
        presence_changed_ = true;
    }

    double capacity;
    double level = never;
    std::shared_ptr<const Efficiency> efficiency;
    EventId end_event;
    std::uint32_t group = none;
    std::uint32_t link = none;     // its index in the group
    std::uint32_t profile = none;  // its capacity over time, if any
    double shown_rate = 0.0;       // last rate reported to observers
    std::uint32_t leases = none;   // the index of its leases, if it has had any
    bool dirty = false;

  private:
    [[nodiscard]] KindShare& share(Kind kind) {
        // Most resources have one kind only.
        return !kinds_.empty() && kinds_.front().kind == kind ? kinds_.front() : find_kind(kind);
    }
    [[nodiscard]] const KindShare& share(Kind kind) const {
        return const_cast<Resource*>(this)->share(kind);  // of a present kind: nothing is added
    }
    KindShare& find_kind(Kind kind);
    void hold_by_limit(ActivityPool& pool, Activity& activity, KindShare& mine, double now);
    void hold_by_level(ActivityPool& pool, Activity& activity, KindShare& mine);
    void add_own_end(ActivityPool& pool, Activity& activity, KindShare& mine, double now);
    void remove_own_end(ActivityPool& pool, Activity& activity, KindShare& mine, double now);
    // Removes the activity from its constraint, but not its threshold.
    void release(ActivityPool& pool, Activity& activity, KindShare& mine, double now);
    void switch_constraint(ActivityPool& pool, Activity& activity, double now);
    [[nodiscard]] double remaining(const Activity& activity, const KindShare& mine,
                                   double now) const;
    void count(const Activity& activity, KindShare& mine) {
        count(mine);
        if (efficiency) add_demand(activity.limit);
    }
    void count(KindShare& mine) {
        ++mine.running;
        ++running_;
        presence_changed_ = true;
    }
    void discount(const Activity& activity, KindShare& mine) {
        if (efficiency) subtract_demand(activity.limit);
        discount(mine);
    }
    void discount(KindShare& mine) {
        --running_;
        presence_changed_ = true;
        if (--mine.running == 0) drop(mine);
    }
    void add_demand(double limit);
    void subtract_demand(double limit);
    void drop(KindShare& mine);
    [[nodiscard]] double balance(const Consumer& others) const;
    template <class Others>
    void switch_sides(ActivityPool& pool, double now, Others&& others);
    void advance(double now);
    void rest(KindShare& share);

    std::vector<KindShare> kinds_;       // by kind; of those present, or one that rests
    std::vector<KindPresence> present_;  // scratch
    Sum demand_;                         // of the finite limits; only with an efficiency model
    std::uint32_t unlimited_ = 0;        // activities without a limit; likewise
    Thresholds thresholds_;
    Integral levels_;  // of the level: consumption of a unit weight
    Integral consumed_;
    Integral done_;
    std::shared_ptr<const CostModel> cost_model_;
    Integral cost_;
    // A price has no upper bound, as the rate in use may be small.
    PreciseIntegral prices_;        // cost of a unit rate
    PreciseIntegral level_prices_;  // of price x level: cost of a unit weight
    double since_;                  // time up to which the integrals are updated
    std::uint32_t running_ = 0;
    std::uint64_t next_end_ = 0;  // tag of the activity that ends next
    bool presence_changed_ = false;
    bool priced_ = false;  // it has, or had, a cost model
};

inline void Resource::add_own_end(ActivityPool& pool, Activity& activity, KindShare& mine,
                                  double now) {
    activity.reading = now + mine.lag;
    activity.key = activity.reading + activity.left / activity.limit;
    activity.joined = now;
    activity.hold = Hold::limit;
    mine.own_ends.push(activity.key, activity.tag);
    ++mine.by_limit;
    if (priced_) pool.charge(ActivityPool::slot_of(activity.tag)).mark = prices_.total;
}

inline void Resource::remove_own_end(ActivityPool& pool, Activity& activity, KindShare& mine,
                                     double now) {
    if (priced_)
        pool.charge(ActivityPool::slot_of(activity.tag)) = {charged_to(pool, activity, now), {}};
    activity.consumed = consumed_by(activity, now);
    activity.left = remaining(activity, mine, now);
    activity.hold = Hold::nothing;
    mine.own_ends.forget({activity.key, activity.tag}, CurrentEnd{pool, Hold::limit});
    --mine.by_limit;
}

// The level at which the remaining capacity is used up: infinite if all consumers are limited and
// fit, negative if the limits alone exceed the capacity.
inline double Resource::balance(const Consumer& others) const {
    double limits = others.limit;
    double weights = others.weight;
    std::uint32_t by_level = others.weight > 0.0 ? 1 : 0;
    for (const KindShare& each : kinds_) {
        limits += each.limits.value();
        weights += each.weights.value();
        by_level += each.by_level;
    }
    if (by_level > 0) return (capacity - limits) / weights;
    return limits <= capacity ? never : -1.0;
}

template <class Others>
void Resource::switch_sides(ActivityPool& pool, double now, Others&& others) {
    level = thresholds_.switch_sides(
        pool, level, others, [&](Activity& activity) { switch_constraint(pool, activity, now); },
        [&] { return balance(others.sums()); });
}

template <class Others>
double Resource::settle(ActivityPool& pool, double now, Others&& others) {
    advance_to(now);
    if (efficiency) refresh_efficiencies();
    level = balance(others.sums());
    if (!thresholds_.empty() || !others.empty()) switch_sides(pool, now, others);
    auto [drawn, progress] = others.settle();

    const double flow = level < never ? level : 0.0;
    double next = never;
    for (KindShare& each : kinds_) {
        double mine = 0.0;
        if (each.by_limit > 0) {
            mine = each.limits.value();
            const auto* top = each.own_ends.top(CurrentEnd{pool, Hold::limit});
            const double end = own_end(each, top->key(), now);
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
            const double end = shared_end(each, top->key(), now);
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

}  // namespace twinloop
