// The leases of all hosts: what joins them, and the settling of a host with its leases.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "kernel/activity.hpp"
#include "kernel/lease.hpp"
#include "kernel/resource.hpp"

namespace twinloop {

class Leases {
  public:
    Leases(ActivityPool& pool, std::vector<Resource>& resources)
        : pool_(pool), resources_(resources) {}
    // A copy that refers to copies of the activities and resources.
    Leases(const Leases& other, ActivityPool& pool, std::vector<Resource>& resources)
        : pool_(pool), resources_(resources), leases_(other.leases_), hosts_(other.hosts_) {}
    Leases(const Leases&) = delete;
    Leases(Leases&&) = delete;
    Leases& operator=(const Leases&) = delete;
    Leases& operator=(Leases&&) = delete;
    ~Leases() = default;

    [[nodiscard]] bool empty() const { return leases_.empty(); }
    // The lease behind a resource that is one.
    [[nodiscard]] Lease& of(ResourceId id) { return leases_[resources_[id].lease]; }
    [[nodiscard]] const Lease& of(ResourceId id) const { return leases_[resources_[id].lease]; }
    [[nodiscard]] std::vector<ResourceId> on(ResourceId host) const;

    // Opens the resource `id` as a lease, again if it was one before. Weight 0: always its size.
    void open(ResourceId id, ResourceId host, double size, double weight, double now);
    void close(ResourceId id);
    void resize(ResourceId id, double size, double now);
    void set_weight(ResourceId id, double weight, double now);
    void suspend(ResourceId id, double now);
    void resume(ResourceId id, double now);
    void move(ResourceId id, ResourceId host, double now);

    // An activity on a lease begins to run, or stops.
    void join(ResourceId id, Activity& activity, Slot slot, double now);
    void leave(ResourceId id, Activity& activity, Slot slot, double now);

    // Settles a host with its leases; returns the time of the next end.
    [[nodiscard]] double settle(ResourceId host, double now);
    // The next activity at an inner level whose end is due, or `none`.
    [[nodiscard]] Slot due(ResourceId host, double now);

    // Level and rate of a host, and of a lease, after settling.
    [[nodiscard]] Shares preview_host(ResourceId host) const;
    [[nodiscard]] Shares preview(ResourceId id) const;
    [[nodiscard]] std::uint32_t running(ResourceId id) const {
        return of(id).single != none ? 1 : of(id).running();
    }
    [[nodiscard]] double settled_rate(std::uint32_t index) const;
    [[nodiscard]] double rate(const Activity& activity) const;

    [[nodiscard]] double consumed(ResourceId id, double now) const;
    [[nodiscard]] double done(ResourceId id, double now) const;
    [[nodiscard]] double cost(ResourceId id, double now) const;
    [[nodiscard]] double remaining(const Activity& activity, double now) const;
    [[nodiscard]] double consumed_by(const Activity& activity, double now) const;
    [[nodiscard]] double charged_to(const Activity& activity, double now) const;

  private:
    // The next end of a lease whose inner level depends on both clocks of the host.
    struct MixedEnd {
        double key;       // reading of the shared clock at the end, if the own clock stood still
        double slope;     // its increase with the own clock
        double own_mark;  // reading of the own clock at which it is `key`
        std::uint32_t lease;
    };
    // The next ends at the inner levels of the leases of one host, by kind.
    struct KindEnds {
        Kind kind = 0;
        KeyHeap own;     // of leases held by their size, in the own clock
        KeyHeap shared;  // of leases without limited activities, in the shared clock
        std::vector<MixedEnd> mixed;
        // Where the host has an efficiency model, the rate of the kind: constant + slope x level.
        Sum constant;
        Sum slope;
        std::uint32_t parts = 0;
    };
    struct Host {
        std::vector<std::uint32_t> members;
        std::vector<std::uint32_t> unsettled;
        std::vector<KindEnds> kinds;
        KeyHeap above;  // levels of the host above which an activity of a lease switches
        KeyHeap below;  // minus the levels below which one does
        std::uint32_t next_lease = none;  // the lease whose end is next
        Kind next_kind = 0;
        double next_mixed = never;                            // time of the next mixed end
        std::vector<std::pair<std::uint32_t, Kind>> due_now;  // leases with ends that are due
    };

    [[nodiscard]] Host& host_of(const Lease& lease) {
        return hosts_[resources_[lease.host].leases];
    }
    [[nodiscard]] static KindEnds& ends_of(Host& host, Kind kind);
    [[nodiscard]] std::uint32_t index_of(const Lease& lease) const {
        return static_cast<std::uint32_t>(&lease - leases_.data());
    }
    void enter_host(Lease& lease, ResourceId host, double now);
    void change(Lease& lease, double size, double weight, double now);
    void park(Lease& lease, double now);
    void unpark(Lease& lease, double now);
    void join_single(Lease& lease, Activity& activity, Slot slot, double now);
    void leave_single(Lease& lease, double now);
    void join_inner(Lease& lease, Activity& activity, double now);
    void leave_inner(Lease& lease, Activity& activity, double now);
    void close_representative(Lease& lease, double now);
    void unsettle(Lease& lease);

    void update_representative(Lease& lease, double now);
    void collect_switches(Host& here, double level);
    void solve(Host& here, Lease& lease, double now);
    void list_switches(Host& here, Lease& lease, double above, double below);
    void list_end(Host& here, Lease& lease, LeaseKind& mine);
    void unlist_end(Host& here, Lease& lease, LeaseKind& mine);
    static void list_part(Host& here, const Lease& lease, LeaseKind& mine);
    static void unlist_part(Host& here, LeaseKind& mine);
    [[nodiscard]] double next_end(Host& here, Resource& on, double next, double now);
    [[nodiscard]] static std::pair<double, std::uint32_t> next_mixed_end(const KindEnds& ends,
                                                                         const KindShare& clocks,
                                                                         double own, double now);
    [[nodiscard]] double progress_rate(const Host& here, const Resource& on) const;
    [[nodiscard]] bool collect_due(Host& here, Resource& on, double now);
    void take_due(Host& here, Resource& on, std::uint32_t index, Kind kind, double now);

    ActivityPool& pool_;
    std::vector<Resource>& resources_;
    std::vector<Lease> leases_;
    std::vector<Host> hosts_;
};

}  // namespace twinloop
