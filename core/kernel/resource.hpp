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

    // Level and rate of the resource after settling. Computed from scratch, since switching
    // activities here would change later rounding.
    struct Preview {
        double level;
        double rate;
    };
    [[nodiscard]] Preview preview(const ActivityPool& pool) const;

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
    void release(ActivityPool& pool, Activity& activity, KindShare& mine, double now,
                 bool crossing);
    [[nodiscard]] double remaining(const Activity& activity, const KindShare& mine,
                                   double now) const;
    void count(const Activity& activity, KindShare& mine);
    void discount(const Activity& activity, KindShare& mine);
    [[nodiscard]] double balance() const;
    void find_level(ActivityPool& pool, double now);
    void switch_constraints(ActivityPool& pool, double now);
    void anchor(double now) {
        if (now > since_) advance(now);
    }
    void advance(double now);
    void rest(KindShare& share);

    std::vector<KindShare> kinds_;       // by kind; of those present, or one that rests
    std::vector<KindPresence> present_;  // scratch
    Sum demand_;                         // of the finite limits; only with an efficiency model
    std::uint32_t unlimited_ = 0;        // activities without a limit; likewise
    KeyHeap limit_thresholds_;           // minus limit/weight of the limited activities
    KeyHeap level_thresholds_;           // limit/weight of the activities at the level
    Integral levels_;                    // of the level: consumption of a unit weight
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

}  // namespace twinloop
