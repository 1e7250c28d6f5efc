// The leases of all hosts: what joins them, and the settling of a host with its leases.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "kernel/activity.hpp"
#include "kernel/indexed_heap.hpp"
#include "kernel/lease.hpp"
#include "kernel/resource.hpp"

namespace twinloop {

class Leases {
  public:
    Leases(ActivityPool& pool, std::vector<Resource>& resources)
        : pool_(pool), resources_(resources) {}
    // A copy that refers to copies of the activities and resources.
    Leases(const Leases& other, ActivityPool& pool, std::vector<Resource>& resources)
        : pool_(pool), resources_(resources), indices_(other.indices_), leases_(other.leases_),
          hosts_(other.hosts_) {}
    Leases(const Leases&) = delete;
    Leases(Leases&&) = delete;
    Leases& operator=(const Leases&) = delete;
    Leases& operator=(Leases&&) = delete;
    ~Leases() = default;

    [[nodiscard]] bool empty() const { return leases_.empty(); }
    // Whether the resource is a lease, and the lease behind it.
    [[nodiscard]] bool has(ResourceId id) const {
        return id < indices_.size() && indices_[id] != none;
    }
    [[nodiscard]] Lease& of(ResourceId id) { return leases_[indices_[id]]; }
    [[nodiscard]] const Lease& of(ResourceId id) const { return leases_[indices_[id]]; }
    [[nodiscard]] std::vector<ResourceId> on(ResourceId host) const;
    // Counts an activity of the lease, which usually joins it next.
    void book(ResourceId id) {
        if (pool_.is_large()) expect(indices_[id]);
        ++of(id).users;
    }

    // Opens the resource `id` as a lease, again if it was one before. Weight 0: always its size.
    void open(ResourceId id, ResourceId host, double size, double weight, double now);
    void close(ResourceId id);
    void resize(ResourceId id, double size, double now);
    void set_weight(ResourceId id, double weight, double now);
    void suspend(ResourceId id, double now);
    void resume(ResourceId id, double now);
    void move(ResourceId id, ResourceId host, double now);

    // An activity on a lease begins to run, or stops; returns the host.
    ResourceId join(ResourceId id, Activity& activity, Slot slot, double now);
    ResourceId leave(ResourceId id, Activity& activity, Slot slot, double now);

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
    [[nodiscard]] double settled_rate(ResourceId id) const;
    [[nodiscard]] double rate(const Activity& activity) const;

    [[nodiscard]] double consumed(ResourceId id, double now) const;
    [[nodiscard]] double done(ResourceId id, double now) const;
    [[nodiscard]] double cost(ResourceId id, double now) const;
    [[nodiscard]] double remaining(const Activity& activity, double now) const;
    [[nodiscard]] double consumed_by(const Activity& activity, double now) const;
    [[nodiscard]] double charged_to(const Activity& activity, double now) const;

  private:
    // The next end at the inner level of a lease. At the level of the host it is a reading of the
    // shared clock that increases with the own clock, if the lease has limited activities too.
    struct InnerEnd {
        std::uint64_t tag = 0;  // of the activity that ends
        double key = 0.0;       // the reading, when the own clock reads `own_mark`
        double increase = 0.0;  // per unit of the own clock
        double own_mark = 0.0;
        [[nodiscard]] double at(double own) const { return key + increase * (own - own_mark); }
    };
    // The next ends at the inner levels of the leases of one host, by kind.
    struct KindEnds {
        Kind kind = 0;
        IndexedHeap own;     // of leases held by their size, in the own clock
        IndexedHeap shared;  // of leases at the level, in the shared clock: at least these readings
        std::vector<InnerEnd> ends;  // by member
        // Where the host has an efficiency model, the rate of the kind: constant + slope x level.
        Sum constant;
        Sum slope;
        std::uint32_t parts = 0;

        void set(std::uint32_t member, const InnerEnd& end) {
            if (member >= ends.size()) ends.resize(member + std::size_t{1});
            ends[member] = end;
        }
    };
    // Heaps contain leases by their index among the members.
    struct Host {
        std::vector<std::uint32_t> members;
        std::vector<std::uint32_t> unsettled;
        std::vector<KindEnds> kinds;
        // The leases as consumers: those limited, and those at the level of the host.
        Sum limits;
        Sum weights;
        std::uint32_t by_limit = 0;
        std::uint32_t by_level = 0;
        // Levels of the host up to which the lease, and the activities in it, stay on their sides.
        IndexedHeap above;                // of leases at the level, or lower
        IndexedHeap below;                // minus that level, or lower
        std::uint32_t next_lease = none;  // the lease whose end is next
        Kind next_kind = 0;
        bool collected = false;  // the leases with ends that are due, since the last settling
        std::vector<std::pair<std::uint32_t, Kind>> due_now;  // leases with ends that are due
    };
    class Consumers;  // the leases of a host in its settling

    [[nodiscard]] Host& host_of(const Lease& lease) {
        return hosts_[resources_[lease.host].leases];
    }
    [[nodiscard]] static KindEnds& ends_of(Host& host, Kind kind);
    [[nodiscard]] std::uint32_t index_of(const Lease& lease) const {
        return static_cast<std::uint32_t>(&lease - leases_.data());
    }
    void enter_host(Lease& lease, ResourceId host, double now);
    void rename(Host& here, std::uint32_t from, std::uint32_t to);
    void change(Lease& lease, double size, double weight, double now);
    void park(Lease& lease, double now);
    void unpark(Lease& lease, double now);
    void join_single(Lease& lease, Activity& activity, Slot slot, double now);
    void leave_single(Lease& lease, double now);
    void join_inner(Lease& lease, Activity& activity, double now);
    void leave_inner(Lease& lease, Activity& activity, double now);
    void unsettle(Lease& lease);

    void update_share(Host& here, Lease& lease, double now);
    void close_share(Host& here, Lease& lease, double now);
    static void hold(Host& here, const Resource& on, Lease& lease, Hold hold, double now);
    static void release(Host& here, const Resource& on, Lease& lease, double now);
    [[nodiscard]] static double share_consumed(const Resource& on, const Lease& lease, double now);
    [[nodiscard]] static double share_charged(const Resource& on, const Lease& lease, double now);
    void solve(Host& here, Lease& lease, double now);
    static void list_switches(Host& here, const Lease& lease, double above, double below);
    void list_end(Host& here, const Lease& lease, LeaseKind& mine);
    static void unlist_end(Host& here, const Lease& lease, LeaseKind& mine);
    static void list_part(Host& here, const Lease& lease, LeaseKind& mine);
    static void unlist_part(Host& here, LeaseKind& mine);
    [[nodiscard]] double next_end(Host& here, Resource& on, double next, double now);
    struct End {
        double time;
        std::uint32_t member;
    };
    [[nodiscard]] static End next_shared_end(KindEnds& ends, const KindShare& clocks, double own,
                                             double now, End next);
    // Prefetches a lease, without what only limits and prices need.
    void expect(std::uint32_t index) const {
        const auto* memory = reinterpret_cast<const char*>(&leases_[index]);
        for (std::size_t line = 0; line < 4; ++line) prefetch(memory + line * 64);
    }
    [[nodiscard]] static double progress_rate(const Host& here, const Resource& on);
    void collect_due(Host& here, ResourceId id, double now);
    void take_due(Host& here, const KindEnds& ends, Lease& lease, double now);

    ActivityPool& pool_;
    std::vector<Resource>& resources_;
    std::vector<std::uint32_t> indices_;  // of leases, by resource; compact, as it is read often
    std::vector<Lease> leases_;
    std::vector<Host> hosts_;
};

}  // namespace twinloop
