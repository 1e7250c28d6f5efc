// A lease: a share of a host resource, which its own activities share in turn.
//
//   rate of the lease = min(size, sum of the limits of its activities, weight x level of the host)
//   rate of an activity in it = min(limit, its weight x inner level)
//
// On the host the lease takes part as one consumer. While the level of the host determines its
// rate, the inner level is slope x level + constant, so every integral of the lease is the same
// combination of two integrals of the host: a change of the level visits no activity in it, unless
// the activity switches between its limit and the inner level (core/README.md).
#pragma once

#include <cstdint>
#include <vector>

#include "kernel/activity.hpp"
#include "kernel/resource.hpp"

namespace twinloop {

// The clock of the host in which the next end at the inner level is listed.
enum class EndClock : std::uint8_t { nothing, own, shared };

struct LeaseKind {
    Kind kind = 0;
    EndClock clock = EndClock::nothing;
    bool has_part = false;
    std::uint32_t running = 0;
    std::uint32_t by_limit = 0;
    std::uint32_t by_level = 0;
    double own_mark = 0.0;  // readings of the host's clocks at the last update
    double shared_mark = 0.0;
    double progress = 0.0;  // of a unit weight at the inner level, at the last update
    Sum limits;             // of the limited activities
    Sum weights;            // of the activities at the inner level
    KeyHeap ends;           // readings of `progress` at which activities end
    Consumer part{0, 0};    // of its rate: constant, and per unit of the host's level, as listed
};

// A lease as one consumer of its host, while it has activities other than a single one.
struct HostShare {
    Hold hold = Hold::nothing;
    Consumer consumer{0.0, 0.0};
    double joined = 0.0;  // time, or integral of the level, when its constraint last changed
    Sum price_mark;       // reading of its price integral at that time; 0 without one
};

// Its members are in the order of their use: four lines of memory without limits inside, two of
// them for a single activity.
class alignas(64) Lease {
  public:
    // What determines the rate of the lease.
    enum class Bound : std::uint8_t { activities, size, level };

    // An activity joins or leaves; the host counts it, and has advanced to `now`.
    void join(ActivityPool& pool, Resource& on, Activity& activity, double now);
    void leave(ActivityPool& pool, Resource& on, Activity& activity, double now);
    // Switches activities and finds the inner level for the rate that the host gives.
    void solve(ActivityPool& pool, Resource& on, Bound bound, double now);
    void advance(const Resource& on, double now);

    // The most that its activities can use; at most its size.
    [[nodiscard]] double usable() const { return fits() ? demand_.value() : size; }
    // Whether all its activities can run at their limits.
    [[nodiscard]] bool fits() const { return unlimited_ == 0 && demand_.value() <= size; }
    [[nodiscard]] bool is_active() const { return !suspended && size > 0.0; }

    // The inner level at a level of the host.
    [[nodiscard]] double level(double host_level) const;
    // The levels of the host at which the next activity switches; infinite, or -1, if none does.
    struct Switches {
        double above;
        double below;
    };
    [[nodiscard]] Switches switches(const ActivityPool& pool);
    [[nodiscard]] bool can_switch() const { return !thresholds_.empty(); }

    // Of an activity at the inner level.
    [[nodiscard]] double remaining(const Resource& on, const Activity& activity, double now) const;
    [[nodiscard]] double consumed_by(const Resource& on, const Activity& activity,
                                     double now) const;
    [[nodiscard]] double charged_to(const ActivityPool& pool, const Resource& on,
                                    const Activity& activity, double now) const;
    // Work done by its activities together, without single ones; at the last update, or now.
    [[nodiscard]] double done() const { return done_; }
    [[nodiscard]] double done(const Resource& on, double now) const;

    // Its joined activities, in the order of joining.
    [[nodiscard]] std::vector<Slot> joined(const ActivityPool& pool) const;
    [[nodiscard]] std::vector<LeaseKind>& kinds() { return kinds_; }
    [[nodiscard]] LeaseKind* find(Kind kind) {
        for (LeaseKind& each : kinds_)
            if (each.kind == kind) return &each;
        return nullptr;
    }
    [[nodiscard]] std::uint32_t running() const { return running_; }
    [[nodiscard]] double slope() const { return slope_; }
    [[nodiscard]] double constant() const { return constant_; }
    [[nodiscard]] bool updated_at(double now) const { return since_ == now; }

  private:
    [[nodiscard]] const LeaseKind& kind(Kind kind) const;
    void hold_by_limit(ActivityPool& pool, Resource& on, Activity& activity, LeaseKind& mine,
                       double now);
    void hold_by_level(ActivityPool& pool, Activity& activity, LeaseKind& mine);
    void release(ActivityPool& pool, Resource& on, Activity& activity, LeaseKind& mine, double now);
    [[nodiscard]] LeaseKind& open_kind(const Resource& on, Kind kind, double now);
    void rest(LeaseKind& mine);
    [[nodiscard]] static double balance(const Consumer& sum, double rate);
    [[nodiscard]] Consumer totals() const;
    [[nodiscard]] double progress(const Resource& on, const LeaseKind& mine, double now) const;
    [[nodiscard]] double levels(const Resource& on, double now) const;
    [[nodiscard]] Sum prices(const Resource& on, double now) const;
    void mark_host(const Resource& on, double now);

    std::uint32_t running_ = 0;

  public:
    ResourceId host = none;
    std::uint32_t member = none;  // its index among the leases of the host
    std::uint32_t users = 0;      // activities that exist, also those that wait or are suspended
    Slot single = none;           // see `single_own`
    ResourceId id = none;
    bool suspended = false;
    bool unsettled = false;
    bool weight_is_size = false;
    double size = 0.0;
    double weight = 1.0;
    // Until it joined the host as a consumer, or its single activity did.
    double consumed = 0.0;
    double cost = 0.0;
    double done_alone = 0.0;  // by single activities
    // A single activity uses the host directly, with the size as a further limit and the weight of
    // the lease; these are its own values, and its counters when it joined.
    Consumer single_own{0, 0};
    double single_consumed = 0.0;
    double single_left = 0.0;
    double single_cost = 0.0;
    HostShare share;

  private:
    // The inner level is slope x level of the host + constant, while activities are at it.
    double slope_ = 0.0;
    double constant_ = 0.0;
    double level_ = never;          // when it was last solved
    double since_ = 0.0;            // time of the last update
    std::vector<LeaseKind> kinds_;  // of those present, or one that rests
    // Integral of the inner level, and the reading of the host's up to which it is computed.
    double levels_ = 0.0;
    double levels_mark_ = 0.0;
    double done_ = 0.0;
    Sum demand_;  // of the finite limits
    std::uint32_t unlimited_ = 0;
    Thresholds thresholds_;
    // Likewise the integral of price x inner level.
    Sum prices_;
    Sum prices_mark_;
    Sum level_prices_mark_;

  public:
    std::vector<Slot> parked;  // running activities while the lease is not active
};

}  // namespace twinloop
