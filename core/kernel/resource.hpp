// A single resource: weighted max-min sharing among activities that use no other resource.
//
//   rate = min(limit, weight x level)
//
// Limited activities advance at a rate that does not depend on the others; activities at the level
// advance with a virtual clock per kind, whose reading at their end is fixed when they join. A
// change updates only the activities that switch between the two; the clocks determine the rest.
#pragma once

#include <memory>
#include <vector>

#include "kernel/activity.hpp"
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

    // Counts an activity that joins or leaves, alone or in a group.
    void enter(Kind kind) { count(share(kind)); }
    void quit(Kind kind) { discount(share(kind)); }

    // An activity that uses only this resource joins or leaves.
    void join(ActivityPool& pool, Slot slot, double now);
    void leave(ActivityPool& pool, Slot slot, double now);

    // Updates level and clocks after a change; returns the time of the next end.
    [[nodiscard]] double settle(ActivityPool& pool, double now);
    // Takes over the integrals of the resource from its former group.
    void leave_group(double now, double consumed, double done);

    // The next activity whose end is due, or `none`. It has not left yet.
    [[nodiscard]] Slot due(ActivityPool& pool, double now);

    // All joined activities, in the order of joining.
    [[nodiscard]] std::vector<Slot> joined(const ActivityPool& pool) const;

    [[nodiscard]] double remaining(const Activity& activity, double now) const;
    [[nodiscard]] double consumed_by(const Activity& activity, double now) const;

    // Level and rate of the resource after settling. Computed from scratch, since switching
    // activities here would change later rounding.
    struct Prospect {
        double level;
        double rate;
    };
    [[nodiscard]] Prospect prospect(const ActivityPool& pool) const;

    // Evaluates the efficiency model again if the counts by kind have changed.
    void refresh_efficiencies();
    [[nodiscard]] double efficiency_of(Kind kind) const;

    [[nodiscard]] std::uint32_t running() const { return running_; }
    [[nodiscard]] double rate() const { return consumed_.rate; }
    [[nodiscard]] double consumed(double now) const { return consumed_.after(now - since_); }
    [[nodiscard]] double done(double now) const { return done_.after(now - since_); }

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
        return const_cast<Resource*>(this)->share(kind);
    }
    KindShare& find_kind(Kind kind);
    void hold_by_limit(Activity& activity, KindShare& mine, double now);
    void hold_by_level(Activity& activity, KindShare& mine);
    void let_go(const ActivityPool& pool, Activity& activity, KindShare& mine, double now,
                bool crossing);
    [[nodiscard]] double remaining(const Activity& activity, const KindShare& mine,
                                   double now) const;
    void count(KindShare& mine);
    void discount(KindShare& mine);
    [[nodiscard]] double balance() const;
    void find_level(ActivityPool& pool, double now);
    void anchor(double now) {
        if (now > since_) advance(now);
    }
    void advance(double now);
    void rest(KindShare& share);

    std::vector<KindShare> kinds_;
    std::vector<KindPresence> present_;  // scratch
    KeyHeap limit_thresholds_;           // minus limit/weight of the limited activities
    KeyHeap level_thresholds_;           // limit/weight of the activities at the level
    Integral levels_;                    // of the level: consumption of a unit weight
    Integral consumed_;
    Integral done_;
    double since_;  // time up to which the integrals are updated
    std::uint32_t running_ = 0;
    std::uint64_t next_end_ = 0;  // tag of the activity that ends next
    bool presence_changed_ = false;
};

}  // namespace twinloop
